// pusht_demo.c - Push-T's demonstrator: brings the block from any start to the drawn goal pose, the
// way a person would: smooth, not quite steady, at a person's speed. For data collection only; it
// reads the true state and searches through the true physics, which a controller never may.
//
// Search: model predictive path integral control (MPPI). CANDIDATES smooth action sequences around
// the plan in hand are simulated HORIZON controls ahead; the plan becomes their mean, weighted by
// exp(-cost / temperature), or the best of them where that mean is worse. Planning runs at triple
// speed: the block is quasi-static, so an action and its three thirds one after the other push it
// along the same path, and a third of the simulation suffices.
#ifdef FIRM_CHIPMUNK
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "env/pusht.h"

// Tuned on samples of 40 to 500 episodes so that starts are solved and the statistics of the public
// set are met (mean 125 rows, action deviation 0.21, agent speed deviation 75 px/s). Without BEST
// the search hovers a few pixels short of the goal: going round the block pays only at the end of
// the horizon.
enum {
    CANDIDATES = 76,
    WIDE = 20,     // of these, drawn around standing still instead of around the plan
    KNOTS = 5,     // corners of a candidate's noise over the horizon
    HORIZON = 16,  // planned actions looked ahead
    PARTS = 3      // executed controls per planned action
};
#define SPREAD 0.28f        // deviation of the candidates' noise, in planned actions
#define IDLE_FREE 5         // replans without moving the block that are fine, going round it
#define IDLE_GAIN 0.15f     // growth of the spread per further one ...
#define IDLE_MOST 10        // ... up to this many
#define LIMIT 1.7f          // planned actions stay within, per axis
#define TEMPERATURE 0.3     // px of cost
#define BEST 3.0            // weight of the closest moment, beside the mean over the horizon
#define NEAR_GAIN 20.0      // px of cost gained between far from the goal and at it ...
#define NEAR_WIDTH 10.0     // ... over about this many px
#define APPROACH 0.1        // px of cost per px that the agent is farther from the block than ...
#define APPROACH_FREE 80.0  // ... this many px
#define WALL 3.0            // px of cost per px that the block is nearer to a wall than ...
#define WALL_ZONE 30.0      // ... this many px
#define PRESS 5.0           // px of cost per px of overlap beyond ...
#define PRESS_FREE 1.0      // ... this many px: a block that cannot give way is not pushed
#define EFFORT 3.0          // px of cost per squared planned action
#define WOBBLE 0.06f        // deviation of the noise on executed actions
#define CARE 0.4f           // of that noise is left at the goal: a careful hand ...
#define CARE_RANGE 60.0     // ... within this many px
#define STEADY 0.8f         // its correlation from control to control
#define DONE_POSITION 8.0   // px; the task itself asks for 20 px ...
#define DONE_ANGLE 0.1      // rad; ... and 0.35 rad

struct pusht_demo {
    pusht_world world;
    float plan[HORIZON][2];
    float noise[CANDIDATES][HORIZON][2];
    double cost[CANDIDATES];
    double block[3];  // pose when it was last seen moving
    int idle;         // replans since
    float wobble[2];
    float action[2];  // the planned action in execution, cut into parts
    int left;         // controls it still lasts
};

pusht_demo* pusht_demo_create(void) {
    return mem_calloc(1, sizeof(pusht_demo));
}

void pusht_demo_free(pusht_demo* d) {
    if (!d) return;
    pusht_world_close(&d->world);
    mem_free(d);
}

void pusht_demo_begin(pusht_demo* d) {
    memset(d->plan, 0, sizeof d->plan);
    memset(d->wobble, 0, sizeof d->wobble);
    d->left = d->idle = 0;
}

// ---- cost ---------------------------------------------------------------------------------------

// Mean distance of three corners of the T (bar's ends, stem's end) from where the goal has them.
static double block_distance(const double* s) {
    static const double point[3][2] = {{-60, 15}, {60, 15}, {0, 120}};
    const double c = cos(s[PUSHT_ANGLE]), n = sin(s[PUSHT_ANGLE]);
    const double gc = cos(PUSHT_GOAL_ANGLE), gn = sin(PUSHT_GOAL_ANGLE);
    double sum = 0.0;
    for (int i = 0; i < 3; i++) {
        double x = point[i][0], y = point[i][1];
        double dx = s[PUSHT_BX] + c * x - n * y - (PUSHT_GOAL_X + gc * x - gn * y);
        double dy = s[PUSHT_BY] + n * x + c * y - (PUSHT_GOAL_Y + gn * x + gc * y);
        sum += sqrt(dx * dx + dy * dy);
    }
    return sum / 3.0;
}

// How far the block reaches into the zone along the walls, px. Jammed between agent and wall it
// goes anywhere, which nobody could replay or predict.
static double wall_depth(const double* s) {
    return fmax(WALL_ZONE - pusht_wall_gap(s), 0.0);
}

// From the agent to the block's centre of gravity.
static double agent_distance(const double* s) {
    double dx = s[PUSHT_BX] - PUSHT_COG * sin(s[PUSHT_ANGLE]) - s[PUSHT_AX];
    double dy = s[PUSHT_BY] + PUSHT_COG * cos(s[PUSHT_ANGLE]) - s[PUSHT_AY];
    return sqrt(dx * dx + dy * dy);
}

int pusht_demo_done(const double* s) {
    double turn = fabs(remainder(s[PUSHT_ANGLE] - PUSHT_GOAL_ANGLE, 2 * PUSHT_PI));
    return hypot(s[PUSHT_BX] - PUSHT_GOAL_X, s[PUSHT_BY] - PUSHT_GOAL_Y) < DONE_POSITION &&
           turn < DONE_ANGLE;
}

// ---- search -------------------------------------------------------------------------------------

static float clip(float a) {
    return a < -LIMIT ? -LIMIT : a > LIMIT ? LIMIT : a;
}

// Piecewise-linear between independent corners.
static void draw_noise(rng* r, float spread, float (*noise)[2]) {
    float corner[KNOTS][2];
    for (int k = 0; k < KNOTS; k++)
        for (int i = 0; i < 2; i++) corner[k][i] = spread * rng_gauss(r);
    for (int t = 0; t < HORIZON; t++) {
        float at = (float)t * (float)(KNOTS - 1) / (float)(HORIZON - 1);
        int k = (int)at < KNOTS - 2 ? (int)at : KNOTS - 2;
        for (int i = 0; i < 2; i++)
            noise[t][i] = corner[k][i] + (at - (float)k) * (corner[k + 1][i] - corner[k][i]);
    }
}

static double try_candidate(pusht_demo* d, const double* state, float (*u)[2]) {
    double s[PUSHT_STATE], cost = 0.0, best = INFINITY;
    pusht_world_recall(&d->world, state);
    for (int t = 0; t < HORIZON; t++) {
        pusht_world_step(&d->world, u[t][0], u[t][1]);
        pusht_world_get(&d->world, s);
        double far = block_distance(s);
        far += NEAR_GAIN * (1.0 - exp(-far / NEAR_WIDTH));
        best = fmin(best, far);
        cost += far + WALL * wall_depth(s) + PRESS * fmax(d->world.depth - PRESS_FREE, 0.0) +
                APPROACH * fmax(agent_distance(s) - APPROACH_FREE, 0.0) +
                EFFORT * (double)(u[t][0] * u[t][0] + u[t][1] * u[t][1]);
    }
    return cost / HORIZON + BEST * best;
}

// Impatience: an agent that has not moved the block for a while tries bolder ways.
static float spread_now(pusht_demo* d, const double* s) {
    double moved = fabs(s[PUSHT_BX] - d->block[0]) + fabs(s[PUSHT_BY] - d->block[1]) +
                   30.0 * fabs(remainder(s[PUSHT_ANGLE] - d->block[2], 2 * PUSHT_PI));
    d->idle++;
    if (moved > 1.0) {
        memcpy(d->block, s + PUSHT_BX, sizeof d->block);
        d->idle = 0;
    }
    int over = d->idle - IDLE_FREE;
    over = over < 0 ? 0 : over > IDLE_MOST ? IDLE_MOST : over;
    return SPREAD * (1.0f + IDLE_GAIN * (float)over);
}

static void replan(pusht_demo* d, const double* state, rng* r) {
    // the agent moves as slowly as actions are executed
    double start[PUSHT_STATE], total = 0.0;
    int best = 0;
    const float spread = spread_now(d, state);
    memcpy(start, state, sizeof start);
    start[PUSHT_VX] *= PARTS;
    start[PUSHT_VY] *= PARTS;
    for (int i = 0; i < CANDIDATES; i++) {
        float(*u)[2] = d->noise[i];
        if (i == 0)
            memset(u, 0, sizeof d->noise[i]);
        else
            draw_noise(r, spread, u);
        for (int t = 0; t < HORIZON; t++)
            for (int k = 0; k < 2; k++)
                u[t][k] = clip(u[t][k] + (i < CANDIDATES - WIDE ? d->plan[t][k] : 0.0f));
        d->cost[i] = try_candidate(d, start, u);
        if (d->cost[i] < d->cost[best]) best = i;
    }
    float mean[HORIZON][2] = {{0}};
    for (int i = 0; i < CANDIDATES; i++) {
        double weight = exp(-(d->cost[i] - d->cost[best]) / TEMPERATURE);
        total += weight;
        for (int t = 0; t < HORIZON; t++)
            for (int k = 0; k < 2; k++) mean[t][k] += (float)weight * d->noise[i][t][k];
    }
    for (int t = 0; t < HORIZON; t++)
        for (int k = 0; k < 2; k++) mean[t][k] /= (float)total;
    // the mean of a way round the left and one round the right leads straight into the block
    int sound = try_candidate(d, start, mean) <= d->cost[best] + TEMPERATURE;
    memcpy(d->plan, sound ? mean : d->noise[best], sizeof d->plan);
}

void pusht_demo_act(pusht_demo* d, const double* state, rng* r, float* action) {
    if (d->left == 0) {
        replan(d, state, r);
        for (int k = 0; k < 2; k++) d->action[k] = d->plan[0][k] / PARTS;
        memmove(d->plan[0], d->plan[1], sizeof d->plan[0] * (HORIZON - 1));
        d->left = PARTS;
    }
    d->left--;
    const float near = (float)fmin(block_distance(state) / CARE_RANGE, 1.0);
    const float size = WOBBLE * (CARE + (1.0f - CARE) * near),
                fresh = sqrtf(1.0f - STEADY * STEADY);
    for (int k = 0; k < 2; k++) {
        d->wobble[k] = STEADY * d->wobble[k] + fresh * rng_gauss(r);
        action[k] = d->action[k] + size * d->wobble[k];
    }
}
#else
typedef int pusht_demo_needs_chipmunk;
#endif
