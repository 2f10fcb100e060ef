// mjcf_world.c - running a model that a task file names: resets, controls, states, pictures.
#include <math.h>
#include <string.h>

#include "env/mujoco/mjcf.h"
#include "env/mujoco/physics.h"
#include "env/render/mjscene.h"
#include "env/smooth.h"

typedef struct mjcf_env {
    env_smooth smooth;  // begins with the env
    const mjcf* world;
    mjData* data;
    mjscene* picture;
} mjcf_env;

// ---- life ---------------------------------------------------------------------------------------

static void close_env(env* base) {
    mjcf_env* e = (mjcf_env*)base;
    mjscene_free(e->picture);
    mj_deleteData(e->data);
}

static firm_status open_env(env* base, firm_error* err) {
    mjcf_env* e = (mjcf_env*)base;
    e->world = ((const file_task*)base->spec)->world;
    return physics_data(e->world->model, &e->data, err);
}

// ---- dynamics -----------------------------------------------------------------------------------

static void see(void* arg) {
    mjcf_env* e = arg;
    mj_kinematics(e->world->model, e->data);
}

static void advance(void* arg) {
    mjcf_env* e = arg;
    const mjModel* m = e->world->model;
    // what the solver remembers of the last step is no part of a state
    memset(e->data->qacc_warmstart, 0, (size_t)m->nv * sizeof *e->data->qacc_warmstart);
    for (int i = 0; i < e->world->substeps; i++) mj_step(m, e->data);
    mj_kinematics(m, e->data);  // places belong to the coordinates afterwards
}

static void settle(mjcf_env* e, void (*fn)(void*)) {
    if (physics_call(fn, e, NULL) != FIRM_OK || physics_broken(e->world->model, e->data))
        e->smooth.base.fault = FIRM_E_VALUE;
}

static void step(env* base, const float* action) {
    mjcf_env* e = (mjcf_env*)base;
    const mjcf* w = e->world;
    if (base->fault != FIRM_OK) return;
    for (int i = 0; i < w->actuators; i++) {
        if (!isfinite(action[i])) {
            base->fault = FIRM_E_VALUE;  // everything stays what it was
            return;
        }
        double share = 0.5 * (fmin(fmax((double)action[i], -1.0), 1.0) + 1.0);
        e->data->ctrl[w->actuator[i]] = w->low[i] + share * (w->high[i] - w->low[i]);
    }
    settle(e, advance);
}

static const mjtNum* seen_from(const mjData* d, const mjcf_seen* s) {
    const mjtNum* const array[] = {d->xpos,      d->xmat,      d->site_xpos,
                                   d->site_xmat, d->geom_xpos, d->geom_xmat};
    return array[s->of] + s->at;
}

static void state_get(const env* base, double* state) {
    const mjcf_env* e = (const mjcf_env*)base;
    const mjcf* w = e->world;
    memcpy(state, e->data->qpos, (size_t)w->nq * sizeof *state);
    memcpy(state + w->nq, e->data->qvel, (size_t)w->nv * sizeof *state);
    memcpy(state + w->nq + w->nv, e->data->act, (size_t)w->na * sizeof *state);
    for (int i = 0; i < w->seen; i++)
        state[w->nq + w->nv + w->na + i] = *seen_from(e->data, &w->look[i]);
}

// A clean simulation (time 0, motors at rest) at the given state.
static void state_set(env* base, const double* state) {
    mjcf_env* e = (mjcf_env*)base;
    const mjcf* w = e->world;
    base->fault = FIRM_OK;
    mj_resetData(w->model, e->data);
    for (int i = 0; i < w->nq + w->nv + w->na; i++)
        if (!(fabs(state[i]) < 1e6)) {
            base->fault = FIRM_E_VALUE;
            return;
        }
    memcpy(e->data->qpos, state, (size_t)w->nq * sizeof *state);
    memcpy(e->data->qvel, state + w->nq, (size_t)w->nv * sizeof *state);
    memcpy(e->data->act, state + w->nq + w->nv, (size_t)w->na * sizeof *state);
    settle(e, see);
}

static void reset(env* base, rng* r) {
    mjcf_env* e = (mjcf_env*)base;
    const mjcf* w = e->world;
    base->fault = FIRM_OK;
    mj_resetData(w->model, e->data);
    if (w->keyframe >= 0) {
        const mjModel* m = w->model;
        mju_copy(e->data->qpos, m->key_qpos + w->keyframe * w->nq, w->nq);
        mju_copy(e->data->qvel, m->key_qvel + w->keyframe * w->nv, w->nv);
        mju_copy(e->data->act, m->key_act + w->keyframe * w->na, w->na);
    }
    for (int i = 0; i < w->starts; i++)
        e->data->qpos[w->start[i].qpos] = rng_uniform(r, w->start[i].low, w->start[i].high);
    settle(e, see);
}

// ---- picture ------------------------------------------------------------------------------------

static firm_status render_ready(env* base, firm_error* err) {
    mjcf_env* e = (mjcf_env*)base;
    const mjcf* w = e->world;
    return e->picture ? FIRM_OK : mjscene_create(w->model, w->camera, w->image, &e->picture, err);
}

static void render(const env* base, uint8_t* rgb) {
    const mjcf_env* e = (const mjcf_env*)base;
    CHECK(e->picture, "mjcf: render before env_render_ready");
    mjscene_render(e->picture, e->world->model, e->data, rgb);
}

const env_simulator mjcf_simulator = {
    .renderer = "native 1",
    .bytes = sizeof(mjcf_env),
    .open = open_env,
    .close = close_env,
    .reset = reset,
    .step = step,
    .state_get = state_get,
    .state_set = state_set,
    .render_ready = render_ready,
    .render = render,
};
