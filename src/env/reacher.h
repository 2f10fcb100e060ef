// reacher.h - Reacher's numbers that need no simulator. Shared by the task (reacher.c) and its
// simulator (mujoco/reacher_world.c).
#ifndef ENV_REACHER_H
#define ENV_REACHER_H

#include "env/env.h"

enum { REACHER_STATE = 4, REACHER_ENV_BYTES = 256 };  // shoulder, wrist, their velocities
#define REACHER_TOLERANCE 0.05                        // rad, each joint
#define REACHER_LINK 0.12                             // m, shoulder to wrist and wrist to finger
#define REACHER_HEIGHT 0.01                           // m, of the finger over the floor
#define REACHER_CAMERA 0.75                           // m, straight above the shoulder

// What a collector notes beside the state.
enum {
    REACHER_EXTRA_TARGET,                             // x, y of the (invisible) target, m
    REACHER_EXTRA_FINGER = REACHER_EXTRA_TARGET + 2,  // x, y
    REACHER_EXTRA_REWARD = REACHER_EXTRA_FINGER + 2,  // NaN at the start
    REACHER_EXTRA_SCORE,
    REACHER_EXTRAS
};

extern const env_spec reacher_spec;
int reacher_state_fits(const double* state);

// the simulator (mujoco/reacher_world.c), only in builds with MuJoCo
firm_status reacher_open(env* e, firm_error* err);
void reacher_close(env* e);
void reacher_reset(env* e, rng* r);
void reacher_step(env* e, const float* action);
void reacher_state_get(const env* e, double* state);
void reacher_state_set(env* e, const double* state);
void reacher_goal_set(env* e, const double* goal_state);
firm_status reacher_render_ready(env* e, firm_error* err);
void reacher_render(const env* e, uint8_t* rgb);
void reacher_extra_get(const env* e, double* extra);
firm_status reacher_save(const env* e, void* bytes);
void reacher_restore(env* e, const void* bytes);
enum { REACHER_SAVED = REACHER_STATE + 2 + 2 + 1 + 2 + 3 + 2 };  // numbers of an exact save

#endif
