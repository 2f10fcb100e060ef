// reacher_world.c - Reacher's simulation: dm_control's two-link arm, two steps of 20 ms per
// control.
//
// Follows swm/ReacherDMControl-v0. The target of the underlying reward is invisible and not part of
// the physics, so it lives here and not in the model, which all environments share.
#include <math.h>
#include <string.h>

#include "env/mujoco/physics.h"
#include "env/reacher.h"
#include "env/render/mjscene.h"

enum { REPEAT = 2 };
#define TARGET_SIZE 0.015  // m
#define FINGER_SIZE 0.01
#define TARGET_NEAR 0.05  // m from the shoulder
#define TARGET_FAR 0.20

typedef struct reacher {
    env base;
    const mjModel* model;
    mjData* data;
    int finger, wrist;
    double target[2];
    double goal[2];
    int has_goal;
    double reward, score;  // reward: NaN before the first step
    mjscene* picture;
} reacher;
_Static_assert(sizeof(reacher) <= REACHER_ENV_BYTES, "REACHER_ENV_BYTES is too small");

// ---- life ---------------------------------------------------------------------------------------

static firm_status dress(mjModel* m, firm_error* err) {
    int material, geom;
    if (m->nq != 2 || m->nv != 2 || m->nu != 2)
        return FAIL(err, FIRM_E_FORMAT,
                    "reacher.xml has %d coordinates instead of 2; run `make mujoco` again",
                    (int)m->nq);
    TRY(physics_id(m, mjOBJ_MATERIAL, "target", &material, err));
    TRY(physics_id(m, mjOBJ_GEOM, "target", &geom, err));
    m->mat_rgba[4 * material + 3] = 0.0f;  // not drawn
    m->geom_size[3 * geom] = TARGET_SIZE;
    m->opt.disableflags |= mjDSBL_AUTORESET;  // a breakdown must be seen
    return FIRM_OK;
}

static firm_status build(mjModel** out, firm_error* err) {
    TRY(physics_load("reacher/reacher.xml", out, err));
    firm_status status = dress(*out, err);
    if (status != FIRM_OK) {
        mj_deleteModel(*out);
        *out = NULL;
    }
    return status;
}

static physics_shared scene = {.build = build};

static firm_status fill(reacher* e, firm_error* err) {
    TRY(physics_acquire(&scene, &e->model, err));
    TRY(physics_data(e->model, &e->data, err));
    TRY(physics_id(e->model, mjOBJ_GEOM, "finger", &e->finger, err));
    TRY(physics_id(e->model, mjOBJ_JOINT, "wrist", &e->wrist, err));
    e->reward = NAN;
    return FIRM_OK;
}

firm_status reacher_open(env* base, firm_error* err) {
    firm_status status = fill((reacher*)base, err);
    if (status != FIRM_OK) reacher_close(base);
    return status;
}

void reacher_close(env* base) {
    reacher* e = (reacher*)base;
    mjscene_free(e->picture);
    mj_deleteData(e->data);
    if (e->model) physics_release(&scene);
}

// ---- dynamics -----------------------------------------------------------------------------------

typedef struct step_call {
    reacher* e;
    const float* action;
    double reward;
} step_call;

static int at_goal(const reacher* e) {
    return e->has_goal && env_success(&reacher_spec, e->data->qpos, e->goal);
}

static void advance(void* arg) {
    step_call* c = arg;
    const mjModel* m = c->e->model;
    mjData* d = c->e->data;
    for (int i = 0; i < REPEAT; i++) {
        // the reference's identity from [-1, 1] to [-1, 1], with its rounding; MuJoCo clamps
        for (int k = 0; k < 2; k++) d->ctrl[k] = -1.0 + 1.0 * ((double)c->action[k] - -1.0);
        // dm_control's order: second half of a step, then the first half of the next, so that
        // positions belong to the coordinates afterwards
        mj_step2(m, d);
        mj_step1(m, d);
        const double* finger = d->geom_xpos + 3 * c->e->finger;
        double dx = c->e->target[0] - finger[0], dy = c->e->target[1] - finger[1];
        c->reward += sqrt(dx * dx + dy * dy) <= TARGET_SIZE + FINGER_SIZE;
        if (at_goal(c->e)) break;  // reached in passing counts, and ends the control
    }
}

void reacher_step(env* base, const float* action) {
    reacher* e = (reacher*)base;
    if (base->fault != FIRM_OK) return;
    if (!isfinite(action[0]) || !isfinite(action[1])) {
        base->fault = FIRM_E_VALUE;  // everything stays what it was
        return;
    }
    step_call c = {.e = e, .action = action};
    if (physics_call(advance, &c, NULL) != FIRM_OK || physics_broken(e->model, e->data)) {
        base->fault = FIRM_E_VALUE;
        return;
    }
    e->reward = c.reward;
    e->score += c.reward / 1000;
}

void reacher_state_get(const env* base, double* state) {
    const mjData* d = ((const reacher*)base)->data;
    for (int i = 0; i < 2; i++) {
        state[i] = d->qpos[i];
        state[2 + i] = d->qvel[i];
    }
}

static void forward(void* arg) {
    reacher* e = arg;
    mj_forward(e->model, e->data);
}

static void clear(reacher* e) {
    mj_resetData(e->model, e->data);
    e->base.fault = FIRM_OK;
    e->reward = NAN;
    e->score = 0.0;
    e->has_goal = 0;
}

// A clean simulation (time 0, motors at rest, no warm start) at the given coordinates.
void reacher_state_set(env* base, const double* state) {
    reacher* e = (reacher*)base;
    clear(e);
    int fits = reacher_state_fits(state);
    for (int i = 0; i < 2 && fits; i++) {
        e->data->qpos[i] = state[i];
        e->data->qvel[i] = state[2 + i];
    }
    if (physics_call(forward, e, NULL) != FIRM_OK || physics_broken(e->model, e->data)) fits = 0;
    if (!fits) base->fault = FIRM_E_VALUE;
}

void reacher_goal_set(env* base, const double* goal) {
    reacher* e = (reacher*)base;
    e->has_goal = 1;
    e->goal[0] = goal[0];
    e->goal[1] = goal[1];
}

// ---- exact save: all that the next step depends on ----------------------------------------------

firm_status reacher_save(const env* base, void* bytes) {
    const reacher* e = (const reacher*)base;
    if (base->fault != FIRM_OK) return base->fault;
    double* to = bytes;
    reacher_state_get(base, to);
    to += REACHER_STATE;
    memcpy(to, e->data->qacc_warmstart, 2 * sizeof *to);
    memcpy(to + 2, e->data->ctrl, 2 * sizeof *to);
    to[4] = e->data->time;
    memcpy(to + 5, e->goal, 2 * sizeof *to);
    to[7] = e->has_goal;
    to[8] = e->reward;
    to[9] = e->score;
    memcpy(to + 10, e->target, 2 * sizeof *to);
    return FIRM_OK;
}

void reacher_restore(env* base, const void* bytes) {
    reacher* e = (reacher*)base;
    const double* from = bytes;
    clear(e);
    memcpy(e->data->qpos, from, 2 * sizeof *from);
    memcpy(e->data->qvel, from + 2, 2 * sizeof *from);
    from += REACHER_STATE;
    memcpy(e->data->ctrl, from + 2, 2 * sizeof *from);
    e->data->time = from[4];
    if (physics_call(forward, e, NULL) != FIRM_OK) base->fault = FIRM_E_VALUE;
    memcpy(e->data->qacc_warmstart, from, 2 * sizeof *from);  // forward has written its own
    memcpy(e->goal, from + 5, 2 * sizeof *from);
    e->has_goal = from[7] != 0;
    e->reward = from[8];
    e->score = from[9];
    memcpy(e->target, from + 10, 2 * sizeof *from);
}

// ---- collection ---------------------------------------------------------------------------------

void reacher_reset(env* base, rng* r) {
    reacher* e = (reacher*)base;
    clear(e);
    const double* range = e->model->jnt_range + 2 * e->wrist;
    e->data->qpos[0] = rng_uniform(r, -mjPI, mjPI);
    e->data->qpos[1] = rng_uniform(r, range[0], range[1]);
    double angle = rng_uniform(r, 0.0, 2 * mjPI), radius = rng_uniform(r, TARGET_NEAR, TARGET_FAR);
    e->target[0] = radius * sin(angle);
    e->target[1] = radius * cos(angle);
    if (physics_call(forward, e, NULL) != FIRM_OK || physics_broken(e->model, e->data))
        base->fault = FIRM_E_VALUE;
}

void reacher_extra_get(const env* base, double* extra) {
    const reacher* e = (const reacher*)base;
    memcpy(extra + REACHER_EXTRA_TARGET, e->target, sizeof e->target);
    memcpy(extra + REACHER_EXTRA_FINGER, e->data->geom_xpos + 3 * e->finger, 2 * sizeof *extra);
    extra[REACHER_EXTRA_REWARD] = e->reward;
    extra[REACHER_EXTRA_SCORE] = e->score;
}

// ---- picture ------------------------------------------------------------------------------------

firm_status reacher_render_ready(env* base, firm_error* err) {
    reacher* e = (reacher*)base;
    return e->picture ? FIRM_OK : mjscene_create(e->model, "fixed", ENV_IMAGE, &e->picture, err);
}

void reacher_render(const env* base, uint8_t* rgb) {
    const reacher* e = (const reacher*)base;
    CHECK(e->picture, "reacher: render before env_render_ready");
    mjscene_render(e->picture, e->model, e->data, rgb);
}
