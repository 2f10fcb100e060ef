// cube_world.c - OGBench's Cube: a UR5e arm with a gripper, one cube, 20 controls a second.
//
// Follows swm/OGBCube-v0 (env_type "single") call for call, quirks included: after a step the end
// effector's pose and the picture are those of one physics step (2 ms) before the coordinates,
// because the reference never runs the kinematics again. Its task-mode reset is not followed:
// setting a state starts from a clean simulation, so the same state always continues the same way.
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "env/mujoco/cube.h"

const double cube_arm_box[2][3] = {{0.25, -0.35, 0.20}, {0.60, 0.35, 0.35}};
static const double object_box[2][2] = {{0.30, -0.30}, {0.55, 0.30}};  // of cube and target, xy
#define LYING 0.02  // m: height of a cube's centre on the floor
static const double home[CUBE_JOINTS] = {-mjPI / 2, -mjPI / 2, mjPI / 2, -mjPI / 2, -mjPI / 2, 0};
static const double start_effector[3] = {0.425, 0.0, 0.275};  // middle of the arm box

_Static_assert(sizeof(cube) <= CUBE_ENV_BYTES, "CUBE_ENV_BYTES is too small");

// ---- life ---------------------------------------------------------------------------------------

static void forward(void* arg) {
    cube* e = arg;
    mj_forward(e->model, e->data);
}

// What the reference would read from the simulation now.
static void see(cube* e) {
    const mjData* d = e->data;
    memcpy(e->pinch, d->site_xpos + 3 * e->pinch_site, sizeof e->pinch);
    e->yaw = matrix_yaw(d->site_xmat + 9 * e->pinch_site);
    const double* force = d->cfrc_ext + 6 * e->pad_body;
    double sum = 0.0;
    for (int i = 0; i < 6; i++) sum += force[i] * force[i];
    e->contact = cube_clip(sqrt(sum) / 50, 0.0, 1.0);
}

static void site_pose(const mjData* d, int site, cube_pose* out) {
    mju_mat2Quat(out->q, d->site_xmat + 9 * site);
    memcpy(out->p, d->site_xpos + 3 * site, sizeof out->p);
}

static firm_status measure_tool(cube* e, int flange_site, firm_error* err) {
    char text[256];
    if (physics_call(forward, e, text) != FIRM_OK)
        return FAIL(err, FIRM_E_FORMAT, "Cube's scene cannot be simulated: %s", text);
    cube_pose pinch, flange;
    site_pose(e->data, e->pinch_site, &pinch);
    site_pose(e->data, flange_site, &flange);
    pose_inverse(&pinch, &pinch);
    pose_mul(&pinch, &flange, &e->pinch_to_flange);
    see(e);
    return FIRM_OK;
}

static firm_status fill(cube* e, firm_error* err) {
    int flange;
    TRY(physics_acquire(&cube_scene, &e->model, err));
    TRY(physics_acquire(&cube_arm, &e->arm, err));
    TRY(physics_data(e->model, &e->data, err));
    TRY(physics_data(e->arm, &e->arm_data, err));
    TRY(physics_id(e->model, mjOBJ_SITE, "ur5e/robotiq/pinch", &e->pinch_site, err));
    TRY(physics_id(e->model, mjOBJ_SITE, "ur5e/attachment_site", &flange, err));
    TRY(physics_id(e->model, mjOBJ_BODY, "ur5e/robotiq/right_pad", &e->pad_body, err));
    TRY(physics_id(e->arm, mjOBJ_SITE, "attachment_site", &e->arm_site, err));
    e->oracle = mem_calloc(1, sizeof *e->oracle);
    if (!e->oracle) return FAIL(err, FIRM_E_MEMORY, "no memory for a cube environment");
    e->fresh = 1;
    e->reward = NAN;
    return measure_tool(e, flange, err);
}

firm_status cube_open(env* base, firm_error* err) {
    firm_status status = fill((cube*)base, err);
    if (status != FIRM_OK) cube_close(base);
    return status;
}

void cube_close(env* base) {
    cube* e = (cube*)base;
    mjscene_free(e->picture);
    mj_deleteData(e->drawn);
    mj_deleteData(e->data);
    mj_deleteData(e->arm_data);
    if (e->arm) physics_release(&cube_arm);
    if (e->model) physics_release(&cube_scene);
    mem_free(e->oracle);
}

// ---- dynamics -----------------------------------------------------------------------------------

static int reached(const cube* e) {
    const double *at = e->data->qpos + CUBE_BLOCK, *to = e->data->mocap_pos;
    double sum = 0.0;
    for (int i = 0; i < 3; i++) sum += (at[i] - to[i]) * (at[i] - to[i]);
    return sqrt(sum) <= CUBE_TOLERANCE;
}

typedef struct step_call {
    cube* e;
    const float* action;
} step_call;

static void advance(void* arg) {
    step_call* c = arg;
    cube* e = c->e;
    cube_control(e, c->action);
    for (int i = 0; i < CUBE_SUBSTEPS; i++) mj_step(e->model, e->data);
    mj_rnePostConstraint(e->model, e->data);  // contact forces
}

void cube_step(env* base, const float* action) {
    cube* e = (cube*)base;
    if (base->fault != FIRM_OK) return;
    for (int i = 0; i < CUBE_ACTION; i++)
        if (!isfinite(action[i])) {
            base->fault = FIRM_E_VALUE;  // everything stays what it was
            return;
        }
    step_call c = {e, action};
    if (physics_call(advance, &c, NULL) != FIRM_OK || physics_broken(e->model, e->data)) {
        base->fault = FIRM_E_VALUE;
        return;
    }
    see(e);
    e->success = reached(e);
    e->reward = e->success;
}

void cube_state_get(const env* base, double* state) {
    const cube* e = (const cube*)base;
    memcpy(state, e->data->qpos, CUBE_QPOS * sizeof *state);
    memcpy(state + CUBE_AT_QVEL, e->data->qvel, CUBE_QVEL * sizeof *state);
    memcpy(state + CUBE_AT_EFFECTOR, e->pinch, sizeof e->pinch);
    state[CUBE_AT_YAW] = e->yaw;
    state[CUBE_AT_CONTACT] = e->contact;
}

// Clean simulation: time 0, motors at rest, no warm start, the target where the model has it.
static void clear(cube* e) {
    mj_resetData(e->model, e->data);
    e->base.fault = FIRM_OK;
    e->success = 0;
    e->reward = NAN;
    e->fresh = 1;
}

void cube_state_set(env* base, const double* state) {
    cube* e = (cube*)base;
    clear(e);
    int fits = cube_state_fits(state);
    if (fits) {
        memcpy(e->data->qpos, state, CUBE_QPOS * sizeof *state);
        memcpy(e->data->qvel, state + CUBE_AT_QVEL, CUBE_QVEL * sizeof *state);
    }
    if (physics_call(forward, e, NULL) != FIRM_OK || physics_broken(e->model, e->data)) fits = 0;
    see(e);
    if (!fits) base->fault = FIRM_E_VALUE;
}

// The next control is relative to where the effector was seen when the moment was recorded, 2 ms
// earlier; the setter alone would see it where it is.
void cube_recall(env* base, const double* state) {
    cube* e = (cube*)base;
    cube_state_set(base, state);
    for (int i = CUBE_AT_EFFECTOR; i < CUBE_STATE; i++)
        if (!isfinite(state[i])) base->fault = FIRM_E_VALUE;
    if (base->fault != FIRM_OK) return;
    memcpy(e->pinch, state + CUBE_AT_EFFECTOR, sizeof e->pinch);
    e->yaw = state[CUBE_AT_YAW];
    e->contact = state[CUBE_AT_CONTACT];
}

void cube_goal_set(env* base, const double* goal) {
    cube* e = (cube*)base;
    memcpy(e->data->mocap_pos, goal + CUBE_BLOCK, 3 * sizeof *goal);
    memcpy(e->data->mocap_quat, goal + CUBE_BLOCK + 3, 4 * sizeof *goal);
}

// ---- exact save: all that the next step depends on ----------------------------------------------

firm_status cube_save(const env* base, void* bytes) {
    const cube* e = (const cube*)base;
    const mjData* d = e->data;
    double* to = bytes;
    if (base->fault != FIRM_OK) return base->fault;
    cube_state_get(base, to);
    to += CUBE_STATE;
    memcpy(to, d->qacc_warmstart, CUBE_QVEL * sizeof *to);
    to += CUBE_QVEL;
    memcpy(to, d->ctrl, CUBE_CTRL * sizeof *to);
    to += CUBE_CTRL;
    *to++ = d->time;
    memcpy(to, d->mocap_pos, 3 * sizeof *to);
    memcpy(to + 3, d->mocap_quat, 4 * sizeof *to);
    to += 7;
    *to++ = e->success;
    *to = e->reward;
    return FIRM_OK;
}

void cube_restore(env* base, const void* bytes) {
    cube* e = (cube*)base;
    mjData* d = e->data;
    const double* from = bytes;
    clear(e);
    memcpy(d->qpos, from, CUBE_QPOS * sizeof *from);
    memcpy(d->qvel, from + CUBE_AT_QVEL, CUBE_QVEL * sizeof *from);
    memcpy(e->pinch, from + CUBE_AT_EFFECTOR, sizeof e->pinch);
    e->yaw = from[CUBE_AT_YAW];
    e->contact = from[CUBE_AT_CONTACT];
    from += CUBE_STATE;
    memcpy(d->qacc_warmstart, from, CUBE_QVEL * sizeof *from);
    from += CUBE_QVEL;
    memcpy(d->ctrl, from, CUBE_CTRL * sizeof *from);
    from += CUBE_CTRL;
    d->time = *from++;
    memcpy(d->mocap_pos, from, 3 * sizeof *from);
    memcpy(d->mocap_quat, from + 3, 4 * sizeof *from);
    from += 7;
    e->success = *from++ != 0;
    e->reward = *from;
}

// ---- collection ---------------------------------------------------------------------------------

static void place(cube_pose* p, rng* r) {
    for (int i = 0; i < 2; i++) p->p[i] = rng_uniform(r, object_box[0][i], object_box[1][i]);
    p->p[2] = LYING;
    quat_about_z(rng_uniform(r, 0.0, 2 * mjPI), p->q);
}

typedef struct start_call {
    cube* e;
    cube_pose flange, block, target;
} start_call;

static void start(void* arg) {
    start_call* c = arg;
    cube* e = c->e;
    mjData* d = e->data;
    mj_forward(e->model, d);
    cube_ik(e->arm, e->arm_data, e->arm_site, &c->flange, home, d->qpos);
    mj_forward(e->model, d);
    memcpy(d->qpos + CUBE_BLOCK, c->block.p, sizeof c->block.p);
    memcpy(d->qpos + CUBE_BLOCK + 3, c->block.q, sizeof c->block.q);
    memcpy(d->mocap_pos, c->target.p, sizeof c->target.p);
    memcpy(d->mocap_quat, c->target.q, sizeof c->target.q);
    mj_forward(e->model, d);
}

void cube_reset(env* base, rng* r) {
    cube* e = (cube*)base;
    start_call c = {.e = e};
    clear(e);
    cube_target_pose(start_effector, rng_uniform(r, -mjPI, mjPI), &c.flange);
    pose_mul(&c.flange, &e->pinch_to_flange, &c.flange);
    place(&c.block, r);
    place(&c.target, r);
    if (physics_call(start, &c, NULL) != FIRM_OK || physics_broken(e->model, e->data))
        base->fault = FIRM_E_VALUE;
    see(e);
}

void cube_look(const cube* e, cube_view* out) {
    const mjData* d = e->data;
    memcpy(out->effector, e->pinch, sizeof out->effector);
    out->effector_yaw = e->yaw;
    out->opening = cube_clip(d->qpos[CUBE_GRIPPER] / CUBE_GRIPPER_RANGE, 0.0, 1.0);
    out->contact = e->contact;
    memcpy(out->block, d->qpos + CUBE_BLOCK, sizeof out->block);
    out->block_yaw = quat_yaw(d->qpos + CUBE_BLOCK + 3);
    memcpy(out->target, d->mocap_pos, sizeof out->target);
    out->target_yaw = quat_yaw(d->mocap_quat);
    out->time = d->time;
}

void cube_extra_get(const env* base, double* extra) {
    const cube* e = (const cube*)base;
    const mjData* d = e->data;
    memcpy(extra + CUBE_EXTRA_CONTROL, d->ctrl, CUBE_CTRL * sizeof *extra);
    extra[CUBE_EXTRA_TIME] = d->time;
    memcpy(extra + CUBE_EXTRA_TARGET, d->mocap_pos, 3 * sizeof *extra);
    extra[CUBE_EXTRA_TARGET_YAW] = quat_yaw(d->mocap_quat);
    extra[CUBE_EXTRA_SUCCESS] = e->success;
    extra[CUBE_EXTRA_REWARD] = e->reward;
}

// ---- picture ------------------------------------------------------------------------------------

firm_status cube_render_ready(env* base, firm_error* err) {
    cube* e = (cube*)base;
    if (!e->drawn) TRY(physics_data(e->model, &e->drawn, err));
    return e->picture ? FIRM_OK
                      : mjscene_create(e->model, "front_pixels", ENV_IMAGE, &e->picture, err);
}

// The poses of one physics step before the coordinates, as the reference's frames show them. MuJoCo
// moves coordinates by the new velocity, so going back by it is exact, and a recorded state gives
// the same picture as the running simulation.
void cube_render(const env* base, uint8_t* rgb) {
    const cube* e = (const cube*)base;
    CHECK(e->picture, "cube: render before env_render_ready");
    memcpy(e->drawn->qpos, e->data->qpos, CUBE_QPOS * sizeof *e->drawn->qpos);
    mj_integratePos(e->model, e->drawn->qpos, e->data->qvel, -CUBE_SUBSTEP);
    mj_kinematics(e->model, e->drawn);
    mjscene_render(e->picture, e->model, e->drawn, rgb);
}
