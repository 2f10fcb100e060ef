// cube.h - Cube's numbers that need no simulator: the layout of a state and of what a collector
// notes. Shared by the task (cube.c) and its simulator (mujoco/cube_world.c).
#ifndef ENV_CUBE_H
#define ENV_CUBE_H

#include "env/env.h"

enum {
    CUBE_ACTION = 5,   // effector x, y, z, yaw, gripper
    CUBE_JOINTS = 6,   // of the arm; the first coordinates and velocities
    CUBE_GRIPPER = 6,  // index of the gripper's driving joint
    CUBE_BLOCK = 14,   // index of the cube's position, then its quaternion (w, x, y, z)
    CUBE_QPOS = 21,
    CUBE_QVEL = 20,
    CUBE_CTRL = 7
};
enum { CUBE_ENV_BYTES = 512 };  // room for the simulation's struct
#define CUBE_GRIPPER_RANGE 0.8  // rad: coordinate of the closed gripper
#define CUBE_TOLERANCE 0.04     // m, inclusive
#define CUBE_LIFTED 0.03        // m; the centre of a cube on the table is at 0.02

// A state: what the setter accepts, then what only the running simulator knows.
enum {
    CUBE_AT_QVEL = CUBE_QPOS,
    CUBE_AT_EFFECTOR = CUBE_QPOS + CUBE_QVEL,  // pinch position, m
    CUBE_AT_YAW = CUBE_AT_EFFECTOR + 3,        // pinch yaw, rad
    CUBE_AT_CONTACT,                           // force on the right pad / 50, at most 1
    CUBE_STATE
};

// What a collector notes beside the state.
enum {
    CUBE_EXTRA_CONTROL,
    CUBE_EXTRA_TIME = CUBE_EXTRA_CONTROL + CUBE_CTRL,
    CUBE_EXTRA_TARGET,  // position, m
    CUBE_EXTRA_TARGET_YAW = CUBE_EXTRA_TARGET + 3,
    CUBE_EXTRA_SUCCESS,
    CUBE_EXTRA_REWARD,  // NaN at the start
    CUBE_EXTRAS
};

extern const env_spec cube_spec;
int cube_state_fits(const double* state);

// the simulator (mujoco/cube_world.c, cube_plan.c, cube_markov.c), only in builds with MuJoCo
firm_status cube_open(env* e, firm_error* err);
void cube_close(env* e);
void cube_reset(env* e, rng* r);
void cube_step(env* e, const float* action);
void cube_state_get(const env* e, double* state);
void cube_state_set(env* e, const double* state);
void cube_recall(env* e, const double* state);
void cube_goal_set(env* e, const double* goal_state);
firm_status cube_render_ready(env* e, firm_error* err);
void cube_render(const env* e, uint8_t* rgb);
void cube_plan_act(env* e, rng* r, float* action);
void cube_markov_act(env* e, rng* r, float* action);
void cube_extra_get(const env* e, double* extra);
firm_status cube_save(const env* e, void* bytes);
void cube_restore(env* e, const void* bytes);
enum { CUBE_SAVED = CUBE_STATE + CUBE_QVEL + CUBE_CTRL + 1 + 7 + 2 };  // numbers of an exact save

#endif
