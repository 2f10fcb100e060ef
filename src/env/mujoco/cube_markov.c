// cube_markov.c - the Markov oracle, the reference package's current default: nine phases, each
// told from what is seen now, with noise on every action. Beside the plan oracle (cube_plan.c) a
// second way to collect Cube data; privileged, and never part of a controller.
#include <math.h>
#include <string.h>

#include "env/mujoco/cube.h"

#define NOISE 0.1     // largest noise level of an episode
#define SHORTEST 0.4  // m: shorter ways are stretched to this
#define POSITION_GAIN 5
#define YAW_GAIN 3
#define OVER 0.18        // m over the block, and over the target
#define HIGH 0.16        // m: above it the way is free
enum { LONGEST = 200 };  // calls

static double distance(const double* a, const double* b, int n) {
    double sum = 0.0;
    for (int i = 0; i < n; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum);
}

void cube_markov_begin(cube_oracle* o, rng* r) {
    o->done = 0;
    o->calls = 0;
    for (int i = 0; i < 3; i++)
        o->final[i] = rng_uniform(r, cube_arm_box[0][i], cube_arm_box[1][i]);
    o->final_yaw = rng_uniform(r, -mjPI, mjPI);
}

void cube_markov_action(cube_oracle* o, const cube_view* v, double action[CUBE_ACTION]) {
    const double block_yaw = cube_nearest_yaw(v->effector_yaw, v->block_yaw);
    const double target_yaw = cube_nearest_yaw(v->effector_yaw, v->target_yaw);
    const int closed = v->contact > 0.5, open = v->contact<0.1, high = v->effector[2]> HIGH;
    const int over_block = distance(v->block, v->effector, 2) <= 0.04;
    const int at_block = distance(v->block, v->effector, 3) <= 0.02;
    const int over_target = distance(v->target, v->block, 2) <= 0.04;
    const int at_target = distance(v->target, v->block, 3) <= 0.02;

    double to[3], turn, grip;
    if (!at_target &&
        !(over_block && at_block && closed)) {  // 1 over the block, 2 down to it, 3 grasp
        memcpy(to, v->block, sizeof to);
        if (!over_block) to[2] += OVER;
        turn = block_yaw - v->effector_yaw;
        grip = over_block && at_block ? 1 : -1;
    } else if (!at_target) {
        const double lift[3] = {v->block[0], v->block[1], 2 * OVER};
        memcpy(to, !high && !over_target ? lift : v->target,
               sizeof to);                        // 4 lift, 6 down to the target
        if (high && !over_target) to[2] += OVER;  // 5 over the target
        turn = target_yaw - block_yaw;
        grip = 1;
    } else if (!open) {  // 7 release
        memcpy(to, v->target, sizeof to);
        turn = target_yaw - block_yaw;
        grip = -1;
    } else {
        const double lift[3] = {v->block[0], v->block[1], 2 * HIGH};
        memcpy(to, high ? o->final : lift, sizeof to);  // 8 up, 9 away
        turn = o->final_yaw - v->effector_yaw;
        grip = -1;
    }
    if (at_target && distance(o->final, v->effector, 3) <= 0.04) o->done = 1;

    double way = distance(to, v->effector, 3);
    for (int i = 0; i < 3; i++) {
        double d = to[i] - v->effector[i];
        if (way < SHORTEST) d = d / (way + 1e-6) * SHORTEST;
        action[i] = cube_clip(d * POSITION_GAIN, -1.0, 1.0);
    }
    action[3] = cube_clip(turn * YAW_GAIN, -1.0, 1.0);
    action[4] = grip;
    if (++o->calls == LONGEST) o->done = 1;
}

void cube_markov_act(env* base, rng* r, float* action) {
    cube* e = (cube*)base;
    cube_oracle* o = e->oracle;
    cube_view v;
    double a[CUBE_ACTION];
    cube_look(e, &v);
    if (e->fresh) {
        o->noise = rng_uniform(r, 0.0, NOISE);
        cube_markov_begin(o, r);
    }
    e->fresh = 0;
    cube_markov_action(o, &v, a);
    const double spread[CUBE_ACTION] = {o->noise, o->noise, o->noise, 3 * o->noise, 10 * o->noise};
    for (int k = 0; k < CUBE_ACTION; k++)
        action[k] = (float)cube_clip(a[k] + (double)rng_gauss(r) * spread[k], -1.0, 1.0);
    if (o->done) cube_markov_begin(o, r);
}
