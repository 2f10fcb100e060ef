// tworoom.c - TwoRoom: a dot walks through a door between two rooms. State: the agent's position.
//
// Follows the reference package's swm/TwoRoom-v1 step for step: all arithmetic in float32, the wall
// tested at the end point only. Episodes are collected as in the public file: the target lies in
// the other room, at least 25 steps away. The picture is in render/tworoom.c.
#include "env/tworoom.h"

#include <math.h>

#define SPEED 5.0f         // px per control and axis
#define DOOR_MARGIN 1.75f  // an end point this far beyond the door's ends still passes
#define PUSH_BACK 0.5f     // a blocked agent stops this far from contact
#define NOISE 2.0f         // deviation of the expert's action noise
#define DOOR_NEAR 10.5f    // the expert heads for the target once this close to the door
#define MIN_STEPS 25.0f    // shortest way to the target, in controls
#define START_LOW 14.0    // starts and targets are uniform in this square; wider than the reachable
#define START_HIGH 209.0  //   21 .. 203, as in the reference

// x range in which the agent's disc overlaps the wall
#define WALL_LEFT (TWOROOM_WALL_X - TWOROOM_WALL_HALF - TWOROOM_RADIUS)   // 100
#define WALL_RIGHT (TWOROOM_WALL_X + TWOROOM_WALL_HALF + TWOROOM_RADIUS)  // 124

typedef struct tworoom {
    env base;
    float x, y;                // agent
    float target_x, target_y;  // used by the expert and for the end of an episode only
} tworoom;

static float distance(float x, float y, float x2, float y2) {
    float dx = x - x2, dy = y - y2;
    return sqrtf(dx * dx + dy * dy);
}

static float clampf(float v, float low, float high) {
    return v < low ? low : v > high ? high : v;
}

// ---- dynamics ----

static void step(env* base, const float* action) {
    tworoom* e = (tworoom*)base;
    if (!isfinite(action[0]) || !isfinite(action[1])) {
        base->fault = FIRM_E_VALUE;  // the position stays what it was
        return;
    }
    const float low = TWOROOM_BORDER + TWOROOM_RADIUS;               // 21
    const float high = ENV_IMAGE - TWOROOM_BORDER - TWOROOM_RADIUS;  // 203
    float x = clampf(e->x + SPEED * clampf(action[0], -1.0f, 1.0f), low, high);
    float y = clampf(e->y + SPEED * clampf(action[1], -1.0f, 1.0f), low, high);

    // only the end point counts, and the side is where the step began: leaving the doorway sideways
    // throws the agent back to its side's edge
    int in_door = y >= TWOROOM_DOOR_Y - TWOROOM_DOOR_HALF - DOOR_MARGIN &&
                  y <= TWOROOM_DOOR_Y + TWOROOM_DOOR_HALF + DOOR_MARGIN;
    if (e->x < TWOROOM_WALL_X) {
        if (x > WALL_LEFT && !in_door) x = WALL_LEFT - PUSH_BACK;
    } else {
        if (x < WALL_RIGHT && !in_door) x = WALL_RIGHT + PUSH_BACK;
    }
    e->x = x;
    e->y = y;
}

static int terminated(const env* base) {
    const tworoom* e = (const tworoom*)base;
    return distance(e->x, e->y, e->target_x, e->target_y) < TWOROOM_TOLERANCE;
}

static void state_get(const env* base, double* state) {
    const tworoom* e = (const tworoom*)base;
    state[0] = e->x;
    state[1] = e->y;
}

// in the picture; false for what is no number
static int fits(const env_spec* spec, const double* state) {
    (void)spec;
    return state[0] >= 0 && state[0] <= ENV_IMAGE && state[1] >= 0 && state[1] <= ENV_IMAGE;
}

// the reference's setter: the agent's position and nothing else, unchecked against walls
static void state_set(env* base, const double* state) {
    tworoom* e = (tworoom*)base;
    base->fault = FIRM_OK;
    e->x = (float)state[0];
    e->y = (float)state[1];
    if (!isfinite(e->x) || !isfinite(e->y)) {
        base->fault = FIRM_E_VALUE;
        e->x = e->y = TWOROOM_WALL_X;  // somewhere drawable
    }
}

// ---- collection ----

static int in_wall(float x) {
    return x >= WALL_LEFT && x <= WALL_RIGHT;
}

static void draw_position(rng* r, float* x, float* y) {
    *x = (float)rng_uniform(r, START_LOW, START_HIGH);
    *y = (float)rng_uniform(r, START_LOW, START_HIGH);
}

static void reset(env* base, rng* r) {
    tworoom* e = (tworoom*)base;
    base->fault = FIRM_OK;
    do draw_position(r, &e->x, &e->y);
    while (in_wall(e->x));
    // the other room, not inside the wall, and far enough by way of the door; far corners always
    // qualify (187 px from the door), so this ends
    float to_door = distance(e->x, e->y, TWOROOM_WALL_X, TWOROOM_DOOR_Y);
    for (;;) {
        draw_position(r, &e->target_x, &e->target_y);
        if ((e->x < TWOROOM_WALL_X) == (e->target_x < TWOROOM_WALL_X)) continue;
        if (in_wall(e->target_x)) continue;
        float from_door = distance(e->target_x, e->target_y, TWOROOM_WALL_X, TWOROOM_DOOR_Y);
        if ((to_door + from_door) / SPEED >= MIN_STEPS) break;
    }
}

static void expert(env* base, rng* r, float* action) {
    const tworoom* e = (const tworoom*)base;
    float way_x = e->target_x, way_y = e->target_y;
    int other_room = (e->x > TWOROOM_WALL_X) != (e->target_x > TWOROOM_WALL_X);
    if (other_room && distance(e->x, e->y, TWOROOM_WALL_X, TWOROOM_DOOR_Y) > DOOR_NEAR) {
        way_x = TWOROOM_WALL_X;
        way_y = TWOROOM_DOOR_Y;
    }
    float dx = way_x - e->x, dy = way_y - e->y;
    float norm = sqrtf(dx * dx + dy * dy);
    if (norm > 1e-8f) {
        dx /= norm;
        dy /= norm;
    } else {
        dx = dy = 0.0f;
    }
    action[0] = clampf(dx + NOISE * rng_gauss(r), -1.0f, 1.0f);
    action[1] = clampf(dy + NOISE * rng_gauss(r), -1.0f, 1.0f);
}

static void extra_get(const env* base, double* extra) {
    const tworoom* e = (const tworoom*)base;
    extra[0] = e->target_x;
    extra[1] = e->target_y;
}

// ---- columns of the public file; `extra` is the target ----

static void column_agent(const double* state, const double* extra, double* out) {
    (void)extra;
    out[0] = state[0];
    out[1] = state[1];
}

static void column_target(const double* state, const double* extra, double* out) {
    (void)state;
    out[0] = extra[0];
    out[1] = extra[1];
}

// agent, target, then three door slots of which one is in use
static void column_observation(const double* state, const double* extra, double* out) {
    column_agent(state, extra, out);
    column_target(state, extra, out + 2);
    out[4] = TWOROOM_WALL_X;
    out[5] = TWOROOM_DOOR_Y;
    for (int i = 6; i < 10; i++) out[i] = 0.0;
}

static void column_distance(const double* state, const double* extra, double* out) {
    out[0] = distance((float)state[0], (float)state[1], (float)extra[0], (float)extra[1]);
}

static const env_column columns[] = {
    {"proprio", 2, 32, column_agent, 0, NULL},
    {"pos_target", 2, 32, column_target, 0, NULL},
    {"observation", 10, 32, column_observation, 0, NULL},
    {"distance_to_target", 1, 64, column_distance, 0, NULL},
};

// ---- typed conversions ----

static void config(const env_spec* spec, const double* state, float* c) {
    (void)spec;
    c[0] = (float)(state[0] / 112.0 - 1.0);
    c[1] = (float)(state[1] / 112.0 - 1.0);
}

// displacement of c over the last control
static void chi(const env_spec* spec, const double* state, const double* before,
                const double* macro_before, float* out) {
    (void)spec, (void)macro_before;
    out[0] = (float)((state[0] - before[0]) / 112.0);
    out[1] = (float)((state[1] - before[1]) / 112.0);
}

static int success(const env_spec* spec, const double* state, const double* goal) {
    (void)spec;
    return distance((float)state[0], (float)state[1], (float)goal[0], (float)goal[1]) <
           TWOROOM_TOLERANCE;
}

static void render(const env* base, uint8_t* rgb) {
    const tworoom* e = (const tworoom*)base;
    tworoom_draw(e->x, e->y, rgb);
}

// ---- the parts of the task ----

static const env_state states = {
    .dim = 2, .fits = fits, .config = config, .chi = chi, .success = success};

static const env_simulator simulator = {
    .physics = "tworoom kinematics 1, float32",
    .renderer = "tworoom native 1",
    .bytes = sizeof(tworoom),
    .reset = reset,
    .step = step,
    .state_get = state_get,
    .state_set = state_set,
    .render = render,
};

static const env_policy policies[] = {
    {"expert", "by way of the door to a target in the other room, noise on every action", 100,
     reset, expert, terminated},
};

static const env_collection collection = {
    .episodes = 10000,
    .validation = 1000,
    .policies = sizeof policies / sizeof policies[0],
    .policy = policies,
    .interventions = {ENV_PROPOSAL_GAUSSIAN, .replay = 1, .anchors = 128, .per_anchor = 32},
};

static const env_sign signs[] = {
    {"pos_target", 2}, {"distance_to_target", 0}, {"goal_state", 2}, {"pos_agent", 2}, {NULL, 0}};

static const env_layout layout = {
    .signs = signs,
    .state_column = "pos_agent",
    .state_also = {"state", "proprio"},
    .state_bits = 32,
    .extra_dim = 2,
    .extra_get = extra_get,
    .columns = sizeof columns / sizeof columns[0],
    .column = columns,
};

static const env_study study = {
    .demo = {.episodes = 200, .offset = 90, .tries = 16},
    .far = 90,
};

const env_spec tworoom_spec = {
    .task = {.name = "tworoom",
             .image = ENV_IMAGE,
             .controls = ENV_CONTROLS,
             .horizon = ENV_HORIZON,
             .action_dim = 2,
             .action_low = -1.0f,
             .action_high = 1.0f,
             .action_clamped = 1,
             .config_dim = 2,
             .chi_dim = 2,
             .config_name = {"agent_x", "agent_y"},
             .distances = 1,
             .distance = {{"agent", "px", TWOROOM_TOLERANCE, {.count = 2, .scale = 112.0f}}},
             .cost = TASK_COST_SUM,
             .points = 1,
             .point = {{.name = "agent", .x = {112, 0, 112}, .y = {0, 112, 112}, .w = {0, 0, 1}}}},
    .title = "walk a dot through the door between two rooms to where the goal image shows it",
    .state = &states,
    .sim = &simulator,
    .collection = &collection,
    .layout = &layout,
    .study = &study,
};
