// reacher.c - Reacher: two links turn in a plane; a goal is a pair of joint angles. What the task
// means: names, tolerances, conversions, columns of the public files. The simulator is
// mujoco/reacher_world.c.
//
// Angles are compared as they stand: the shoulder turns freely, and a goal a full turn away counts
// as far. The configuration holds sines and cosines, which cannot tell; episodes are short enough.
#include "env/reacher.h"

#include <math.h>

#define HALF_TURN 3.14159265358979323846

// The wrist's limit is soft, 2.8 rad; it cannot be pushed half a turn. A control adds less than 10
// rad/s.
int reacher_state_fits(const double* s) {
    for (int i = 0; i < REACHER_STATE; i++)
        if (!isfinite(s[i])) return 0;
    return fabs(s[0]) < 1e4 && fabs(s[1]) < HALF_TURN && fabs(s[2]) < 1e3 && fabs(s[3]) < 1e3;
}

// ---- columns of the public file; see REACHER_EXTRA ----------------------------------------------

static void column_observation(const double* state, const double* extra, double* out) {
    for (int i = 0; i < 2; i++) {
        out[i] = state[i];
        out[2 + i] = extra[REACHER_EXTRA_TARGET + i] - extra[REACHER_EXTRA_FINGER + i];
        out[4 + i] = state[2 + i];
    }
}

static void column_target(const double* state, const double* extra, double* out) {
    (void)state;
    for (int i = 0; i < 2; i++) out[i] = extra[REACHER_EXTRA_TARGET + i];
}

static void column_finger(const double* state, const double* extra, double* out) {
    (void)state;
    for (int i = 0; i < 2; i++) out[i] = extra[REACHER_EXTRA_FINGER + i];
}

static void column_reward(const double* state, const double* extra, double* out) {
    (void)state;
    out[0] = extra[REACHER_EXTRA_REWARD];
}

static void column_score(const double* state, const double* extra, double* out) {
    (void)state;
    out[0] = extra[REACHER_EXTRA_SCORE];
}

// the reference leaves it undefined
static void column_success(const double* state, const double* extra, double* out) {
    (void)state, (void)extra;
    out[0] = NAN;
}

static const env_column columns[] = {
    {"observation", 6, 32, column_observation, 0, NULL},
    {"target_pos", 2, 64, column_target, 0, NULL},
    {"finger_pos", 2, 64, column_finger, 0, NULL},
    {"reward", 1, 64, column_reward, 0, NULL},
    {"score", 1, 64, column_score, 0, NULL},
    {"success", 1, 64, column_success, 0, NULL},
};

// ---- typed conversions --------------------------------------------------------------------------

static void config(const env_spec* spec, const double* state, float* c) {
    (void)spec;
    for (int i = 0; i < 2; i++) {
        c[2 * i] = (float)sin(state[i]);
        c[2 * i + 1] = (float)cos(state[i]);
    }
}

static void chi(const env_spec* spec, const double* state, const double* before,
                const double* macro_before, float* out) {
    (void)spec, (void)before, (void)macro_before;
    out[0] = (float)state[2];
    out[1] = (float)state[3];
}

static int success(const env_spec* spec, const double* state, const double* goal) {
    (void)spec;
    return fabs(state[0] - goal[0]) < REACHER_TOLERANCE &&
           fabs(state[1] - goal[1]) < REACHER_TOLERANCE;
}

// The finger is the sum of both links, seen by the camera over the shoulder: 45 degrees, x right,
// y up.
#define FOCAL (0.5f * ENV_IMAGE * 2.41421356f)  // 1 / tan(22.5 degrees)
#define REACH ((float)REACHER_LINK * FOCAL / (float)(REACHER_CAMERA - REACHER_HEIGHT))
#define CENTRE (0.5f * ENV_IMAGE - 0.5f)

// ---- collection ---------------------------------------------------------------------------------

static void uniform(env* e, rng* r, float* action) {
    (void)e;
    for (int i = 0; i < 2; i++) action[i] = (float)rng_uniform(r, -1.0, 1.0);
}

// ---- the parts of the task ----------------------------------------------------------------------

static int fits(const env_spec* spec, const double* state) {
    (void)spec;
    return reacher_state_fits(state);
}

static const env_state states = {
    .dim = REACHER_STATE, .fits = fits, .config = config, .chi = chi, .success = success};

static const env_simulator simulator = {
    .physics = "MuJoCo 3.11.0, dm_control 1.0.44 reacher",
    .renderer = "native 1",
    .bytes = REACHER_ENV_BYTES,
#ifdef FIRM_MUJOCO
    .open = reacher_open,
    .close = reacher_close,
    .reset = reacher_reset,
    .step = reacher_step,
    .state_get = reacher_state_get,
    .state_set = reacher_state_set,
    .goal_set = reacher_goal_set,
    .render_ready = reacher_render_ready,
    .render = reacher_render,
    .save_bytes = REACHER_SAVED * sizeof(double),
    .save = reacher_save,
    .restore = reacher_restore,
#else
    .open = env_open_without_mujoco,
#endif
};

static const env_policy policies[] = {{.name = "uniform",
                                       .title = "uniform in the bounds of actions",
                                       .episode_cap = 200,
#ifdef FIRM_MUJOCO
                                       .reset = reacher_reset,
#endif
                                       .act = uniform}};

static const env_collection collection = {
    .episodes = 10000,
    .validation = 1000,
    .policies = sizeof policies / sizeof policies[0],
    .policy = policies,
    .interventions = {ENV_PROPOSAL_UNIFORM, .replay = 0, .anchors = 512, .per_anchor = 16},
};

static const env_sign signs[] = {{"qpos", 2}, {NULL, 0}};

static const env_layout layout = {
    .signs = signs,
    .state_column = "qpos",
    .state_bits = 64,
    .state_more = {{"qvel", 2}},
    .extra_dim = REACHER_EXTRAS,
#ifdef FIRM_MUJOCO
    .extra_get = reacher_extra_get,
#endif
    .columns = sizeof columns / sizeof columns[0],
    .column = columns,
};

static const env_study study = {
    .demo = {.episodes = 50, .offset = 50, .tries = 8},
    .far = 100,
    .ablations = 4,
};

const env_spec reacher_spec = {
    .task = {.name = "reacher",
             .image = ENV_IMAGE,
             .period_ms = 40,
             .controls = ENV_CONTROLS,
             .horizon = ENV_HORIZON,
             .action_dim = 2,
             .action_low = -1.0f,
             .action_high = 1.0f,
             .action_clamped = 1,
             .config_dim = 4,
             .pairs = 2,
             .chi_dim = 2,
             .config_name = {"joint1_sin", "joint1_cos", "joint2_sin", "joint2_cos"},
             .distances = 2,
             .distance = {{"joint1", "rad", (float)REACHER_TOLERANCE, {.angle = 1}},
                          {"joint2", "rad", (float)REACHER_TOLERANCE, {.angle = 1, .first = 2}}},
             .cost = TASK_COST_SUM,
             .points = 1,
             .point = {{.name = "finger",
                        .chain = 1,
                        .x = {0, REACH, 0, REACH, CENTRE},
                        .y = {-REACH, 0, -REACH, 0, CENTRE},
                        .w = {0, 0, 0, 0, 1}}}},
    .title = "turn two joints until the arm lies as in the goal image",
    .state = &states,
    .sim = &simulator,
    .collection = &collection,
    .layout = &layout,
    .study = &study,
};
