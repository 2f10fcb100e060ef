// attempts.c - a pilot and two simulators per thread: one lives through the attempt, one draws
// the recorded moment before it.
#include "data/attempts.h"

#include <math.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "data/episodes_internal.h"

typedef struct attempt_worker {
    data_pilot pilot;
    env *world, *painter;
    uint8_t* rgb;  // (image, image, 3)
} attempt_worker;

typedef struct attempt_work {
    const episodes* moments;  // rows of the trial set
    uint64_t seed;
    int from;  // the attempt that the pool's item 0 stands for
    episodes* out;
    attempt_worker* worker;
    int workers;
    uint8_t *reached, *broken;  // (attempts)
    firm_status* status;        // (attempts)
} attempt_work;

static void close_workers(attempt_work* w) {
    for (int i = 0; w->worker && i < w->workers; i++) {
        env_free(w->worker[i].world);
        env_free(w->worker[i].painter);
        mem_free(w->worker[i].rgb);
    }
    mem_free(w->worker);
}

static firm_status open_worker(attempt_work* w, const data_pilot* pilot, attempt_worker* k,
                               firm_error* err) {
    k->pilot = *pilot;
    TRY(env_create(w->out->spec, &k->world, err));
    TRY(env_create(w->out->spec, &k->painter, err));
    env* both[] = {k->world, k->painter};
    TRY(env_render_ready(both, 2, err));
    k->rgb = mem_alloc(task_frame_bytes(&w->out->spec->task));
    return k->rgb ? FIRM_OK : FAIL(err, FIRM_E_MEMORY, "no memory for a frame");
}

// ---- one attempt --------------------------------------------------------------------------------

// Shows the pilot the recorded moment and the goal, and copies the moment's rows.
static firm_status show_moment(const attempt_work* w, attempt_worker* k, int64_t first,
                               double* state, float* action) {
    const env_spec* spec = w->out->spec;
    const size_t dim = (size_t)spec->state->dim, a = (size_t)spec->task.action_dim;
    const double* from = w->moments->state + first * (int64_t)dim;
    const float* past = w->moments->action + first * (int64_t)a;
    memcpy(state, from, FIRM_HISTORY * dim * sizeof *state);
    memcpy(action, past, (FIRM_HISTORY - 1) * a * sizeof *action);
    for (size_t i = 0; i < FIRM_HISTORY; i++) {
        TRY(env_picture(k->painter, from + i * dim, k->rgb));
        TRY(k->pilot.push(k->pilot.ctx, k->rgb, i ? past + (i - 1) * a : NULL));
    }
    TRY(env_picture(k->painter, from + FIRM_HISTORY * dim, k->rgb));
    return k->pilot.goal(k->pilot.ctx, k->rgb);
}

// One control of the plan in hand. Only frames that the next plan is made from are looked at.
static firm_status next_control(attempt_work* w, attempt_worker* k, int number, double* state,
                                float* action) {
    const env_spec* spec = w->out->spec;
    firm_step step;
    TRY(k->pilot.act(k->pilot.ctx, &step));
    memcpy(action, step.action, (size_t)spec->task.action_dim * sizeof *action);
    spec->sim->step(k->world, action);
    spec->sim->state_get(k->world, state);
    if (k->world->fault != FIRM_OK) return FIRM_OK;
    const int span = task_span(&spec->task);
    if (number % span < span - FIRM_HISTORY) return FIRM_OK;
    spec->sim->render(k->world, k->rgb);
    return k->pilot.push(k->pilot.ctx, k->rgb, action);
}

static int finite_row(const env_spec* spec, const double* state, const float* action) {
    int fine = 1;
    for (int i = 0; i < spec->state->dim; i++) fine = fine && isfinite(state[i]);
    for (int i = 0; i < spec->task.action_dim; i++) fine = fine && isfinite(action[i]);
    return fine && env_fits(spec, state);
}

static void attempt_one(void* arg, int item, int worker) {
    attempt_work* w = arg;
    attempt_worker* k = &w->worker[worker];
    const env_spec* spec = w->out->spec;
    const int64_t dim = spec->state->dim, a = spec->task.action_dim;
    item += w->from;
    const int64_t first = (int64_t)item * TRIAL_ROWS, row = w->out->offset[item];
    double* state = w->out->state + row * dim;
    float* action = w->out->action + row * a;
    const double* goal = w->moments->state + (first + FIRM_HISTORY) * dim;
    k->pilot.reset(k->pilot.ctx, w->seed + (uint64_t)item);
    w->status[item] = show_moment(w, k, first, state, action);
    spec->sim->state_set(k->world, state + (FIRM_HISTORY - 1) * dim);
    for (int i = 0; i < ATTEMPT_PLANS * task_span(&spec->task) && w->status[item] == FIRM_OK; i++) {
        double* after = state + (FIRM_HISTORY + i) * dim;
        float* control = action + (FIRM_HISTORY - 1 + i) * a;
        w->status[item] = next_control(w, k, i, after, control);
        if (k->world->fault != FIRM_OK || !finite_row(spec, after, control)) {
            w->broken[item] = 1;
            return;
        }
        w->reached[item] |= (uint8_t)(env_success(spec, after, goal) != 0);
    }
}

// ---- all of them --------------------------------------------------------------------------------

static firm_status alloc_rows(attempt_work* w, const trial_set* moments, firm_error* err) {
    const env_spec* spec = moments->rows->spec;
    const int rows = attempt_rows(&spec->task);
    size_t n = (size_t)moments->count;
    TRY(episodes_alloc(spec, moments->count, (int64_t)moments->count * rows, &w->out, err));
    for (int i = 0; i < moments->count; i++) {
        w->out->offset[i] = (int64_t)i * rows;
        w->out->length[i] = rows;
    }
    w->reached = mem_calloc(n, 1);
    w->broken = mem_calloc(n, 1);
    w->status = mem_calloc(n, sizeof *w->status);
    return w->reached && w->broken && w->status
               ? FIRM_OK
               : FAIL(err, FIRM_E_MEMORY, "no memory for %d attempts", moments->count);
}

static firm_status run_all(attempt_work* w, pool* p, int count, firm_error* err) {
    enum { AT_ONCE = 256 };
    progress bar;
    progress_begin(&bar, "attempts", count);
    // one block after the other, for the progress bar
    for (w->from = 0; w->from < count; w->from += AT_ONCE) {
        int n = count - w->from < AT_ONCE ? count - w->from : AT_ONCE;
        pool_for(p, n, attempt_one, w);
        for (int i = w->from; i < w->from + n; i++)
            if (w->status[i] != FIRM_OK)
                return FAIL(err, w->status[i], "attempt %d could not be planned or drawn", i);
        progress_step(&bar, w->from + n, "");
    }
    progress_end(&bar);
    return FIRM_OK;
}

// Attempts whose simulation broke down are taken out of the list of episodes.
static void drop_broken(attempt_work* w, int* reached) {
    int kept = 0;
    *reached = 0;
    for (int i = 0; i < w->out->count; i++) {
        if (w->broken[i]) continue;
        *reached += w->reached[i];
        w->out->offset[kept] = w->out->offset[i];
        w->out->length[kept++] = w->out->length[i];
    }
    w->out->count = kept;
}

firm_status attempts_make(const data_pilot* pilot, const trial_set* moments, uint64_t seed, pool* p,
                          episodes** out, int* reached, firm_error* err) {
    attempt_work w = {.moments = moments->rows, .seed = seed, .workers = pool_threads(p)};
    *out = NULL;
    firm_status st = alloc_rows(&w, moments, err);
    if (st == FIRM_OK) {
        w.worker = mem_calloc((size_t)w.workers, sizeof *w.worker);
        if (!w.worker) st = FAIL(err, FIRM_E_MEMORY, "no memory for %d threads", w.workers);
    }
    for (int i = 0; i < w.workers && st == FIRM_OK; i++)
        st = open_worker(&w, &pilot[i], &w.worker[i], err);
    if (st == FIRM_OK) st = run_all(&w, p, moments->count, err);
    close_workers(&w);
    if (st == FIRM_OK) drop_broken(&w, reached);
    mem_free(w.reached);
    mem_free(w.broken);
    mem_free(w.status);
    if (st != FIRM_OK) {
        episodes_free(w.out);
        return st;
    }
    *out = w.out;
    return FIRM_OK;
}

// ---- into a pack --------------------------------------------------------------------------------

firm_status attempts_add(const episodes* attempts, uint64_t seed, pack* p, firm_error* err) {
    const int count = attempts->count * ATTEMPT_RECORDS, span = task_span(&attempts->spec->task);
    int64_t* row = mem_alloc((size_t)(count ? count : 1) * sizeof *row);
    if (!row) return FAIL(err, FIRM_E_MEMORY, "no memory for %d records", count);
    rng r = rng_start(seed, RNG_STREAM(RNG_SEGMENT, 7));
    for (int i = 0; i < attempts->count; i++) {
        int64_t start = attempts->offset[i] + FIRM_HISTORY - 1;
        row[ATTEMPT_RECORDS * i] = start;
        row[ATTEMPT_RECORDS * i + 1] =
            start + (span > 1 ? 1 + rng_below(&r, (uint32_t)(span - 1)) : 0);
        row[ATTEMPT_RECORDS * i + 2] = start + span;
    }
    scenes from = {.e = attempts};
    records more = {0};
    firm_status st = records_of_rows(&from, row, count, &more, err);
    if (st == FIRM_OK) st = pack_append(p, PACK_S, &more, attempts->state, attempts->rows, err);
    records_free(&more);
    mem_free(row);
    return st;
}
