// sims.c - see sims.h.
#include "sims.h"

#include <dlfcn.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"

enum { MOST = 65536, TRIES = 100 };

struct sims {
    const env_spec* spec;
    int count;
    pool* threads;
    env** envs;        // (count)
    env* artist;       // draws states that no simulator is in; made when first needed
    double* goal;      // (count, state dim)
    firm_status* bad;  // (count) of the call in progress
    firm_error* why;   // (count)
    int can_draw;
    // of the call in progress
    const uint8_t* mask;
    const uint64_t* seed;
    const float* action;
    const sims_view* view;
};

// ---- tasks --------------------------------------------------------------------------------------

firm_status sims_task(const char* task, const char* library, const env_spec** out,
                      firm_error* err) {
    *out = NULL;
    if (!library) return env_open_task(task, out, err);
    void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return FAIL(err, FIRM_E_UNAVAILABLE, "the simulator of '%.64s' cannot be loaded: %.300s",
                    task, dlerror());
    sims_find_fn find = (sims_find_fn)(uintptr_t)dlsym(handle, SIMS_FIND);
    *out = find ? find(task) : NULL;
    if (*out) return FIRM_OK;  // the library stays: its tables are in use
    dlclose(handle);
    return FAIL(err, FIRM_E_USAGE, "%.300s has no task '%.64s'; install the package again", library,
                task);
}

// ---- life ---------------------------------------------------------------------------------------

static int dim(const sims* s) {
    return s->spec->state->dim;
}

static firm_status build(sims* s, int count, int threads, firm_error* err) {
    const size_t n = (size_t)count;
    s->goal = mem_calloc(n * (size_t)dim(s), sizeof *s->goal);
    s->bad = mem_calloc(n, sizeof *s->bad);
    s->why = mem_calloc(n, sizeof *s->why);
    if (!s->goal || !s->bad || !s->why)
        return FAIL(err, FIRM_E_MEMORY, "no memory for %d simulators", count);
    TRY(env_create_many(s->spec, count, &s->envs, err));
    s->count = count;
    // one simulator is stepped by its caller
    return count > 1 ? pool_create(threads, &s->threads, err) : FIRM_OK;
}

firm_status sims_create(const env_spec* spec, int count, int threads, sims** out, firm_error* err) {
    *out = NULL;
    if (count < 1 || count > MOST)
        return FAIL(err, FIRM_E_USAGE, "%d simulators asked for; give 1 to %d", count, MOST);
    if (threads < 0)
        return FAIL(err, FIRM_E_USAGE, "%d threads asked for; give 0 for all cores", threads);
    sims* s = mem_calloc(1, sizeof *s);
    if (!s) return FAIL(err, FIRM_E_MEMORY, "no memory for %d simulators", count);
    s->spec = spec;
    firm_status st = build(s, count, threads, err);
    if (st != FIRM_OK) {
        sims_free(s);
        return st;
    }
    *out = s;
    return FIRM_OK;
}

void sims_free(sims* s) {
    if (!s) return;
    env_free_many(s->envs, s->count);
    env_free(s->artist);
    pool_free(s->threads);
    mem_free(s->goal);
    mem_free(s->bad);
    mem_free(s->why);
    mem_free(s);
}

int sims_count(const sims* s) {
    return s->count;
}

size_t sims_frame_bytes(const sims* s) {
    return (size_t)s->spec->task.image * (size_t)s->spec->task.image * 3;
}

// ---- running ------------------------------------------------------------------------------------

// Runs a piece for every simulator of the mask; the first failure in order is returned.
static firm_status all(sims* s, const uint8_t* mask, pool_fn piece, firm_error* err) {
    s->mask = mask;
    memset(s->bad, 0, (size_t)s->count * sizeof *s->bad);
    pool_for(s->threads, s->count, piece, s);
    for (int i = 0; i < s->count; i++)
        if (s->bad[i] != FIRM_OK) {
            *err = s->why[i];
            return s->bad[i];
        }
    return FIRM_OK;
}

static int left_out(const sims* s, int i) {
    return s->mask && !s->mask[i];
}

static void faulty(sims* s, int i, const char* doing) {
    const env* e = s->envs[i];
    if (e->fault == FIRM_OK || s->bad[i] != FIRM_OK) return;
    s->bad[i] = FAIL(&s->why[i], e->fault, "simulator %d of %s: %s failed: %s; reset it", i,
                     s->spec->task.name, doing, firm_status_str(e->fault));
}

static void tell_goal(sims* s, int i) {
    if (s->spec->sim->goal_set) s->spec->sim->goal_set(s->envs[i], s->goal + i * dim(s));
}

static void reset_piece(void* arg, int i, int worker) {
    (void)worker;
    sims* s = arg;
    if (left_out(s, i)) return;
    env* e = s->envs[i];
    const env_simulator* sim = s->spec->sim;
    double start[ENV_MAX_STATE], *goal = s->goal + i * dim(s);
    rng r = rng_start(s->seed[i], RNG_STREAM(RNG_COLLECT, 0));
    rng other = rng_start(s->seed[i], RNG_STREAM(RNG_TRIAL, 0));
    // the start is the same whatever goals are drawn: an environment is reset to its first draw
    sim->reset(e, &r);
    sim->state_get(e, start);
    int tries = 0;
    do {
        sim->reset(e, &other);
        sim->state_get(e, goal);
    } while (env_success(s->spec, start, goal) && ++tries < TRIES);
    r = rng_start(s->seed[i], RNG_STREAM(RNG_COLLECT, 0));
    sim->reset(e, &r);
    tell_goal(s, i);
    faulty(s, i, "the reset");
}

firm_status sims_reset(sims* s, const uint8_t* mask, const uint64_t* seed, firm_error* err) {
    s->seed = seed;
    return all(s, mask, reset_piece, err);
}

static firm_status check_state(const sims* s, const char* what, const double* state,
                               firm_error* err) {
    for (int k = 0; k < dim(s); k++)
        if (!isfinite(state[k]))
            return FAIL(err, FIRM_E_VALUE, "number %d of the %s of %s is not finite", k, what,
                        s->spec->task.name);
    if (env_fits(s->spec, state)) return FIRM_OK;
    return FAIL(err, FIRM_E_VALUE, "%s cannot be in such a %s; its numbers are out of range",
                s->spec->task.name, what);
}

firm_status sims_set(sims* s, int i, const double* state, const double* goal, firm_error* err) {
    if (i < 0 || i >= s->count)
        return FAIL(err, FIRM_E_USAGE, "there is no simulator %d; they are 0 to %d", i,
                    s->count - 1);
    if (state) TRY(check_state(s, "state", state, err));
    if (goal) TRY(check_state(s, "goal", goal, err));
    if (state) s->spec->sim->state_set(s->envs[i], state);
    if (goal) memcpy(s->goal + i * dim(s), goal, (size_t)dim(s) * sizeof *goal);
    tell_goal(s, i);
    s->bad[i] = FIRM_OK;
    faulty(s, i, "setting its state");
    if (s->bad[i] != FIRM_OK) *err = s->why[i];
    return s->bad[i];
}

static void step_piece(void* arg, int i, int worker) {
    (void)worker;
    sims* s = arg;
    if (left_out(s, i)) return;
    s->spec->sim->step(s->envs[i], s->action + i * s->spec->task.action_dim);
    faulty(s, i, "the step");
}

firm_status sims_step(sims* s, const uint8_t* mask, const float* action, firm_error* err) {
    const int width = s->spec->task.action_dim;
    for (int i = 0; i < s->count; i++)
        for (int k = 0; k < width && (!mask || mask[i]); k++)
            if (!isfinite(action[i * width + k]))
                return FAIL(err, FIRM_E_VALUE,
                            "number %d of the action of simulator %d is not "
                            "finite; no simulator was stepped",
                            k, i);
    s->action = action;
    return all(s, mask, step_piece, err);
}

// ---- looking ------------------------------------------------------------------------------------

static void look_piece(void* arg, int i, int worker) {
    (void)worker;
    sims* s = arg;
    if (left_out(s, i)) return;
    const sims_view* v = s->view;
    const task_typed* task = &s->spec->task;
    double state[ENV_MAX_STATE];
    const double* goal = s->goal + i * dim(s);
    float c[FIRM_MAX_CONFIG], g[FIRM_MAX_CONFIG];
    const env* e = s->envs[i];
    s->spec->sim->state_get(e, state);
    if (v->state) memcpy(v->state + i * dim(s), state, (size_t)dim(s) * sizeof *state);
    if (v->goal) memcpy(v->goal + i * dim(s), goal, (size_t)dim(s) * sizeof *goal);
    if (v->config || v->distance) env_config(s->spec, state, c);
    if (v->config)
        memcpy(v->config + i * task->config_dim, c, (size_t)task->config_dim * sizeof *c);
    if (v->distance) {
        env_config(s->spec, goal, g);
        task_measure(task, c, g, v->distance + i * task->distances);
    }
    if (v->success) v->success[i] = (uint8_t)env_success(s->spec, state, goal);
    if (v->frames) s->spec->sim->render(e, v->frames + (size_t)i * sims_frame_bytes(s));
}

firm_status sims_look(sims* s, const uint8_t* mask, const sims_view* out, firm_error* err) {
    if (out->frames && !s->can_draw) {
        TRY(env_render_ready(s->envs, s->count, err));
        s->can_draw = 1;
    }
    s->view = out;
    return all(s, mask, look_piece, err);
}

firm_status sims_picture(sims* s, const double* state, uint8_t* rgb, firm_error* err) {
    TRY(check_state(s, "state", state, err));
    if (!s->artist) {
        TRY(env_create(s->spec, &s->artist, err));
        firm_status st = env_render_ready(&s->artist, 1, err);
        if (st != FIRM_OK) {
            env_free(s->artist);
            s->artist = NULL;
            return st;
        }
    }
    firm_status st = env_picture(s->artist, state, rgb);
    if (st != FIRM_OK)
        return FAIL(err, st, "the state of %s cannot be drawn: %s", s->spec->task.name,
                    firm_status_str(st));
    return FIRM_OK;
}
