// cube.c - OGBench's Cube: a robot arm moves one cube; a goal is where the cube lies. What the task
// means: names, tolerances, conversions, columns of the public files. The simulator is
// mujoco/cube_world.c.
//
// A state ends with the end effector's pose and the contact force as the running simulator last saw
// them. They cannot be had from coordinates alone, chi needs them, and setting a state ignores
// them.
#include "env/cube.h"

#include <math.h>
#include <string.h>

// Positions as configuration: the workspace's middle becomes 0, its half-width 1, the same on all
// axes so that squared differences are squared distances.
static const double middle[3] = {0.425, 0.0, 0.185};  // m
#define HALF_WIDTH 0.35                               // m

static double clip01(double v) {
    return v < 0.0 ? 0.0 : v > 1.0 ? 1.0 : v;
}

static double opening(const double* state) {  // 0 open, 1 closed
    return clip01(state[CUBE_GRIPPER] / CUBE_GRIPPER_RANGE);
}

static double block_yaw(const double* state) {
    const double* q = state + CUBE_BLOCK + 3;
    return atan2(2 * (q[0] * q[3] + q[1] * q[2]), 1 - 2 * (q[2] * q[2] + q[3] * q[3]));
}

// Joints within a turn of their limits, the cube near the table and its quaternion a rotation.
int cube_state_fits(const double* state) {
    for (int i = 0; i < CUBE_QPOS + CUBE_QVEL; i++)
        if (!isfinite(state[i]) || fabs(state[i]) > (i < CUBE_QPOS ? 10.0 : 1e4)) return 0;
    const double* q = state + CUBE_BLOCK + 3;
    double norm = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    return fabs(norm - 1.0) < 1e-3;
}

// ---- columns of the public file -----------------------------------------------------------------

#define COLUMN(name, expression, count)                                       \
    static void name(const double* state, const double* extra, double* out) { \
        (void)state, (void)extra;                                             \
        const double* from = expression;                                      \
        for (int i = 0; i < (count); i++) out[i] = from[i];                   \
    }
COLUMN(column_qpos, state, CUBE_QPOS)
COLUMN(column_qvel, state + CUBE_AT_QVEL, CUBE_QVEL)
COLUMN(column_joint_pos, state, CUBE_JOINTS)
COLUMN(column_joint_vel, state + CUBE_AT_QVEL, CUBE_JOINTS)
COLUMN(column_gripper_vel, state + CUBE_AT_QVEL + CUBE_GRIPPER, 1)
COLUMN(column_block_pos, state + CUBE_BLOCK, 3)
COLUMN(column_block_quat, state + CUBE_BLOCK + 3, 4)
COLUMN(column_control, extra + CUBE_EXTRA_CONTROL, CUBE_CTRL)
COLUMN(column_time, extra + CUBE_EXTRA_TIME, 1)
COLUMN(column_success, extra + CUBE_EXTRA_SUCCESS, 1)
COLUMN(column_reward, extra + CUBE_EXTRA_REWARD, 1)
COLUMN(column_target_pos, extra + CUBE_EXTRA_TARGET, 3)
COLUMN(column_target_yaw, extra + CUBE_EXTRA_TARGET_YAW, 1)

static void column_opening(const double* state, const double* extra, double* out) {
    (void)extra;
    out[0] = opening(state);
}

static void column_block_yaw(const double* state, const double* extra, double* out) {
    (void)extra;
    out[0] = block_yaw(state);
}

static void column_observation(const double* state, const double* extra, double* out) {
    (void)extra;
    const double yaw = state[CUBE_AT_YAW], block = block_yaw(state);
    memcpy(out, state, CUBE_JOINTS * sizeof *out);
    memcpy(out + 6, state + CUBE_AT_QVEL, CUBE_JOINTS * sizeof *out);
    for (int i = 0; i < 3; i++) {
        const double centre = i == 0 ? 0.425 : 0.0;
        out[12 + i] = (state[CUBE_AT_EFFECTOR + i] - centre) * 10.0;
        out[19 + i] = (state[CUBE_BLOCK + i] - centre) * 10.0;
    }
    out[15] = cos(yaw);
    out[16] = sin(yaw);
    out[17] = 3.0 * opening(state);
    out[18] = state[CUBE_AT_CONTACT];
    memcpy(out + 22, state + CUBE_BLOCK + 3, 4 * sizeof *out);
    out[26] = cos(block);
    out[27] = sin(block);
}

// with those of the state (state_column, state_more) all fields of the public file
static const env_column columns[] = {
    {"proprio_joint_pos", 6, 64, column_joint_pos, 0, NULL},
    {"proprio_joint_vel", 6, 64, column_joint_vel, 0, NULL},
    {"proprio_gripper_opening", 1, 64, column_opening, 0, NULL},
    {"proprio_gripper_vel", 1, 64, column_gripper_vel, 0, NULL},
    {"privileged_block_0_pos", 3, 64, column_block_pos, 0, NULL},
    {"privileged_block_0_quat", 4, 64, column_block_quat, 0, NULL},
    {"privileged_block_0_yaw", 1, 64, column_block_yaw, 0, NULL},
    {"privileged_target_task", 1, 0, NULL, 0, "cube"},
    {"privileged_target_block", 1, 64, NULL, 0, NULL},  // there is one cube, number 0
    {"privileged_target_block_pos", 3, 64, column_target_pos, 0, NULL},
    {"privileged_target_block_yaw", 1, 64, column_target_yaw, 0, NULL},
    // where the reference leaves in an episode's first row what the episode before had last
    {"prev_qpos", CUBE_QPOS, 64, column_qpos, 1, NULL},
    {"prev_qvel", CUBE_QVEL, 64, column_qvel, 1, NULL},
    {"observation", 28, 64, column_observation, 0, NULL},
    {"target", 28, 64, NULL, 0, NULL},  // a goal's observation, in evaluation only
    {"control", CUBE_CTRL, 64, column_control, 0, NULL},
    {"time", 1, 64, column_time, 0, NULL},
    {"success", 1, 64, column_success, 0, NULL},
    {"reward", 1, 64, column_reward, 0, NULL},
};

// ---- typed conversions --------------------------------------------------------------------------

static void config(const env_spec* spec, const double* state, float* c) {
    (void)spec;
    for (int i = 0; i < 3; i++) c[i] = (float)((state[CUBE_BLOCK + i] - middle[i]) / HALF_WIDTH);
}

// 25 numbers: joint angles and velocities, end effector, gripper, contact, the block's orientation
// as two columns of its rotation matrix, which do not care about the quaternion's sign
static void chi(const env_spec* spec, const double* state, const double* before,
                const double* macro_before, float* out) {
    (void)spec, (void)before, (void)macro_before;
    for (int i = 0; i < CUBE_JOINTS; i++) {
        out[i] = (float)state[i];
        out[6 + i] = (float)state[CUBE_AT_QVEL + i];
    }
    for (int i = 0; i < 3; i++)
        out[12 + i] = (float)((state[CUBE_AT_EFFECTOR + i] - middle[i]) / HALF_WIDTH);
    out[15] = (float)sin(state[CUBE_AT_YAW]);
    out[16] = (float)cos(state[CUBE_AT_YAW]);
    out[17] = (float)opening(state);
    out[18] = (float)state[CUBE_AT_CONTACT];
    const double *q = state + CUBE_BLOCK + 3, w = q[0], x = q[1], y = q[2], z = q[3];
    const double n = w * w + x * x + y * y + z * z, s = n > 0.0 ? 2.0 / n : 0.0;
    const double rotation[6] = {1 - s * (y * y + z * z), s * (x * y + w * z),
                                s * (x * z - w * y),     s * (x * y - w * z),
                                1 - s * (x * x + z * z), s * (y * z + w * x)};
    for (int i = 0; i < 6; i++) out[19 + i] = (float)rotation[i];
}

// lifted: clearly above where it rests on the table
static int rare(const env_spec* spec, const double* state, const double* before) {
    (void)spec, (void)before;
    return state[CUBE_BLOCK + 2] > CUBE_LIFTED;
}

// A situation: where the gripper is as seen from the cube, where the cube should go, and how far
// the gripper is closed. The arm follows relative commands, so where on the table all this happens
// matters little.
#define NEAR 0.02f   // m
#define OPENED 0.2f  // share of the gripper's range
#define GRIPPER(i) \
    { (float)HALF_WIDTH, {TASK_CHI, 12 + i}, {TASK_CONFIG, i}, NEAR }
#define WANTED(i) \
    { (float)(HALF_WIDTH / CUBE_TOLERANCE), {TASK_GOAL, i}, {TASK_CONFIG, i}, 1 }

// The cube's centre in camera front_pixels: 45 degrees, looking along its -z. The compiler makes
// the axes perpendicular and of length one.
#define LENGTH 0.99983398621  // of the camera's y axis (-0.628, 0.001, 0.778) without its second
#define FOCAL (0.5 * ENV_IMAGE * 2.4142135623730951)  // 1 / tan(22.5 degrees)
#define CENTRE (0.5 * ENV_IMAGE - 0.5)
#define AT_X (0.425 - 1.053)  // the workspace's middle as seen from the camera, m
#define AT_Y (0.0 + 0.014)
#define AT_Z (0.185 - 0.639)
#define DEPTH_X (-0.778 / LENGTH)  // depth and height in the picture per m
#define DEPTH_Z (-0.628 / LENGTH)
#define HIGH_X (-0.628 / LENGTH)
#define HIGH_Z (0.778 / LENGTH)
#define DEPTH (DEPTH_X * AT_X + DEPTH_Z * AT_Z)
#define HIGH (HIGH_X * AT_X + HIGH_Z * AT_Z)
#define W(v) ((float)(v))
#define PER(v) ((float)(HALF_WIDTH * (v)))

static int success(const env_spec* spec, const double* state, const double* goal) {
    (void)spec;
    double sum = 0.0;
    for (int i = CUBE_BLOCK; i < CUBE_BLOCK + 3; i++)
        sum += (state[i] - goal[i]) * (state[i] - goal[i]);
    return sqrt(sum) <= CUBE_TOLERANCE;
}

// ---- the parts of the task ----------------------------------------------------------------------

static int fits(const env_spec* spec, const double* state) {
    (void)spec;
    return cube_state_fits(state);
}

static const env_state states = {.dim = CUBE_STATE,
                                 .drawn = CUBE_AT_EFFECTOR,
                                 .fits = fits,
                                 .config = config,
                                 .chi = chi,
                                 .rare = rare,
                                 .success = success};

static const env_simulator simulator = {
    .physics = "MuJoCo 3.11.0, ogbench 1.2.1 cube-single",
    .renderer = "native 1",
    .bytes = CUBE_ENV_BYTES,
#ifdef FIRM_MUJOCO
    .open = cube_open,
    .close = cube_close,
    .reset = cube_reset,
    .step = cube_step,
    .state_get = cube_state_get,
    .state_set = cube_state_set,
    .recall = cube_recall,
    .goal_set = cube_goal_set,
    .render_ready = cube_render_ready,
    .render = cube_render,
    .save_bytes = CUBE_SAVED * sizeof(double),
    .save = cube_save,
    .restore = cube_restore,
#else
    .open = env_open_without_mujoco,
#endif
};

#ifdef FIRM_MUJOCO
#define POLICY(name, title, act) \
    { name, title, 200, cube_reset, act, NULL }
#else
#define POLICY(name, title, act) \
    { name, title, 200, NULL, NULL, NULL }
#endif
static const env_policy policies[] = {
    POLICY("plan", "planned paths through the phases of a pick, then of a put", cube_plan_act),
    POLICY("markov", "nine phases told from what is seen, noise on every action", cube_markov_act),
};

static const env_collection collection = {
    .episodes = 10000,
    .validation = 1000,
    .policies = sizeof policies / sizeof policies[0],
    .policy = policies,
    .interventions = {ENV_PROPOSAL_GAUSSIAN, .replay = 1, .anchors = 128, .per_anchor = 16},
};

static const env_sign signs[] = {{"privileged_block_0_pos", 0}, {NULL, 0}};

static const env_layout layout = {
    .signs = signs,
    .state_column = "qpos",
    .state_bits = 64,
    .state_more = {{"qvel", CUBE_QVEL},
                   {"proprio_effector_pos", 3},
                   {"proprio_effector_yaw", 1},
                   {"proprio_gripper_contact", 1}},
    .extra_dim = CUBE_EXTRAS,
#ifdef FIRM_MUJOCO
    .extra_get = cube_extra_get,
#endif
    .columns = sizeof columns / sizeof columns[0],
    .column = columns,
};

static const env_study study = {
    .demo = {.episodes = 12, .offset = 25, .tries = 0},
    .far = 100,
    .ablations = 2,
    .plus = "cube-plus",
};

const env_spec cube_spec = {
    .task = {.name = "cube",
             .image = ENV_IMAGE,
             .period_ms = 50,
             .controls = ENV_CONTROLS,
             .horizon = ENV_HORIZON,
             .action_dim = CUBE_ACTION,
             .action_low = -1.0f,
             .action_high = 1.0f,
             .config_dim = 3,
             .chi_dim = 25,
             .config_name = {"block_x", "block_y", "block_z"},
             .distances = 1,
             .distance =
                 {{"block", "m", (float)CUBE_TOLERANCE, {.count = 3, .scale = (float)HALF_WIDTH}}},
             .cost = TASK_COST_SUM,
             .points = 1,
             .point = {{.name = "block",
                        .x = {PER(CENTRE * DEPTH_X), PER(FOCAL), PER(CENTRE* DEPTH_Z),
                              W(CENTRE* DEPTH + FOCAL * AT_Y)},
                        .y = {PER(CENTRE * DEPTH_X - FOCAL * HIGH_X), 0,
                              PER(CENTRE* DEPTH_Z - FOCAL * HIGH_Z),
                              W(CENTRE* DEPTH - FOCAL * HIGH)},
                        .w = {PER(DEPTH_X), 0, PER(DEPTH_Z), W(DEPTH)}}},
             .situation_dim = 7,
             .situation = {GRIPPER(0),
                           GRIPPER(1),
                           GRIPPER(2),
                           WANTED(0),
                           WANTED(1),
                           WANTED(2),
                           {1, {TASK_CHI, 17}, {TASK_ZERO, 0}, OPENED}}},
    .title = "pick up a cube with a robot arm and put it where the goal image shows it",
    .state = &states,
    .sim = &simulator,
    .collection = &collection,
    .layout = &layout,
    .study = &study,
};
