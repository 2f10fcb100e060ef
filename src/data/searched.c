// searched.c - a planner's contract search, on a simulator that lets no candidate go unseen:
// all states of an iteration's candidates are held until they have been ranked. One per thread.
#include "data/searched.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "core/stats.h"
#include "data/episodes_internal.h"

enum { SEARCHES = 2 };

typedef struct ranked {
    float cost;
    int candidate;
} ranked;

typedef struct search_worker {
    struct search_work* work;
    env* world;
    void* search;
    double* state;     // (candidates, span + 1, state_dim)
    const float* raw;  // (candidates, span, action_dim), the planner's
    ranked* rank;      // (candidates)
    // the search in hand
    int number, iteration;
    const double *start, *end;  // states of its moment and its goal
    float goal[FIRM_MAX_CONFIG];
} search_worker;

typedef struct search_work {
    const trial_set* moments;
    searched_options opt;
    const env_spec* spec;
    const data_searcher* by;
    int span, states;  // controls and states of a candidate
    int controls;      // numbers in a candidate: span x action_dim
    int elites;
    int from;  // the moment that the pool's item 0 stands for
    search_worker* worker;
    int workers;
    episodes* starts;
    branches* out;
    uint8_t *reached, *missing;  // (searches)
} search_work;

static void close_workers(search_work* w) {
    for (int i = 0; w->worker && i < w->workers; i++) {
        search_worker* k = &w->worker[i];
        w->by->free(k->search);
        env_free(k->world);
        mem_free(k->state);
        mem_free(k->rank);
    }
    mem_free(w->worker);
}

// ---- one search ---------------------------------------------------------------------------------

// Runs candidate c and notes its states; 0: the simulation broke down.
static int simulate(search_worker* k, int c, float* path) {
    const search_work* w = k->work;
    const env_spec* spec = w->spec;
    double* state = k->state + (size_t)(c * w->states * spec->state->dim);
    const float* raw = k->raw + (size_t)(c * w->controls);
    memcpy(state, k->start, (size_t)spec->state->dim * sizeof *state);
    env_recall(k->world, k->start);
    for (int t = 0; t < w->span; t++) {
        spec->sim->step(k->world, raw + t * spec->task.action_dim);
        state += spec->state->dim;
        spec->sim->state_get(k->world, state);
        if (k->world->fault != FIRM_OK || !env_fits(spec, state)) return 0;
        if ((t + 1) % spec->task.controls == 0)
            env_config(spec, state, path + t / spec->task.controls * spec->task.config_dim);
    }
    return 1;
}

static int by_cost(const void* a, const void* b) {
    const ranked *x = a, *y = b;
    int order = stats_order((double)x->cost, (double)y->cost);
    if (order) return order;
    return (x->candidate > y->candidate) - (x->candidate < y->candidate);
}

int searched_rank(int j, int keep, int elites, int finite) {
    int best = keep - keep / 2 < elites ? keep - keep / 2 : elites;
    if (j < best || finite <= elites) return j % best * elites / best;
    return elites + (j - best) * (finite - elites) / (keep - best);
}

static void keep_some(const search_worker* k, int finite) {
    const search_work* w = k->work;
    const size_t dim = (size_t)(w->states * w->spec->state->dim), n = (size_t)w->controls;
    size_t to = (size_t)(k->number * w->out->per_anchor + k->iteration * w->opt.keep);
    for (int j = 0; j < w->opt.keep; j++, to++) {
        size_t c = (size_t)k->rank[searched_rank(j, w->opt.keep, w->elites, finite)].candidate;
        memcpy(w->out->state + to * dim, k->state + c * dim, dim * sizeof *k->state);
        memcpy(w->out->action + to * n, k->raw + c * n, n * sizeof *k->raw);
    }
}

// Ranks an iteration's candidates as the search does and keeps some of them.
static void look(search_worker* k, int n, const float* path) {
    const search_work* w = k->work;
    const env_spec* spec = w->spec;
    float c0[FIRM_MAX_CONFIG];
    int finite = 0;
    env_config(spec, k->start, c0);
    for (int c = 0; c < n; c++) {
        const float* at = path + c * spec->task.horizon * spec->task.config_dim;
        k->rank[c] = (ranked){w->by->cost(k->search, c0, at, k->goal), c};
        finite += k->rank[c].cost < INFINITY;
    }
    qsort(k->rank, (size_t)n, sizeof *k->rank, by_cost);
    w->missing[k->number] |= (uint8_t)(finite < w->elites);
    if (finite >= w->elites) keep_some(k, finite);
    int end = (k->rank[0].candidate * w->states + w->span) * spec->state->dim;
    w->reached[k->number] = (uint8_t)(env_success(spec, k->state + end, k->end) != 0);
    k->iteration++;
}

// A data_search_setup's simulate.
static int rollout(void* arg, int n, const float* raw, float* path) {
    search_worker* k = arg;
    const int numbers = k->work->spec->task.horizon * k->work->spec->task.config_dim;
    int broken = 0;
    k->raw = raw;
    for (int c = 0; c < n; c++) {
        if (simulate(k, c, path + c * numbers)) continue;
        for (int i = 0; i < numbers; i++) path[c * numbers + i] = NAN;
        broken++;
    }
    if (n > 1) look(k, n, path);
    return broken;
}

static firm_status open_worker(search_work* w, search_worker* k, firm_error* err) {
    const size_t n = (size_t)w->opt.candidates;
    *k = (search_worker){.work = w};
    TRY(env_create(w->spec, &k->world, err));
    k->state = mem_alloc(n * (size_t)(w->states * w->spec->state->dim) * sizeof *k->state);
    k->rank = mem_alloc(n * sizeof *k->rank);
    if (!k->state || !k->rank)
        return FAIL(err, FIRM_E_MEMORY, "no memory for a search of %d candidates",
                    w->opt.candidates);
    data_search_setup setup = {.spec = w->spec,
                               .mean = w->moments->action_mean,
                               .std = w->moments->action_std,
                               .candidates = w->opt.candidates,
                               .iterations = w->opt.iterations,
                               .elites = w->elites,
                               .simulate = rollout,
                               .arg = k};
    return w->by->open(&setup, &k->search, err);
}

// Fills the branches of a search; 0: too little could be simulated.
static int search(search_work* w, search_worker* k, int number) {
    float c0[FIRM_MAX_CONFIG];
    k->number = number;
    k->iteration = 0;
    k->start = w->starts->state + w->out->row[number] * w->spec->state->dim;
    k->end = k->start + w->spec->state->dim;  // the goal's row comes next
    env_config(w->spec, k->start, c0);
    env_config(w->spec, k->end, k->goal);
    w->missing[number] = 0;
    w->by->solve(k->search, w->opt.seed + (uint64_t)number, c0, k->goal);
    return !w->missing[number];
}

// A branch of the search that did not end at its goal; -1: they all did.
static int failed_branch(const search_work* w, int number) {
    const env_spec* spec = w->spec;
    const int per = w->out->per_anchor;
    const double* goal = w->starts->state + (w->out->row[number] + 1) * spec->state->dim;
    rng r = rng_start(w->opt.seed, RNG_STREAM(RNG_ANCHOR, number));
    int first = (int)rng_below(&r, (uint32_t)per);
    for (int i = 0; i < per; i++) {
        int branch = number * per + (first + i) % per;
        int64_t end = (int64_t)branch * w->states + w->span;
        if (!env_success(spec, w->out->state + end * spec->state->dim, goal)) return branch;
    }
    return -1;
}

// The last frames of a branch are the history of the next search, with the same goal.
static void start_after(search_work* w, int branch, int number) {
    const int64_t dim = w->spec->state->dim, a = w->spec->task.action_dim;
    const int64_t to = (int64_t)number * TRIAL_ROWS;
    const int64_t from = (int64_t)(branch + 1) * w->states - FIRM_HISTORY;
    const int64_t act = (int64_t)(branch + 1) * w->span - (FIRM_HISTORY - 1);
    double* state = w->starts->state + to * dim;
    memcpy(state, w->out->state + from * dim, (size_t)(FIRM_HISTORY * dim) * sizeof *state);
    memcpy(state + FIRM_HISTORY * dim, state - dim, (size_t)dim * sizeof *state);
    memcpy(w->starts->action + to * a, w->out->action + act * a,
           (size_t)((FIRM_HISTORY - 1) * a) * sizeof(float));
}

static void search_twice(void* arg, int item, int worker) {
    search_work* w = arg;
    search_worker* k = &w->worker[worker];
    int first = SEARCHES * (item + w->from);
    int branch = search(w, k, first) ? failed_branch(w, first) : -1;
    w->missing[first + 1] = 1;
    if (branch < 0) return;
    start_after(w, branch, first + 1);
    search(w, k, first + 1);
}

// ---- all of them --------------------------------------------------------------------------------

// Rows of the first searches are the moments'; those of the second ones are filled in later.
static firm_status alloc_starts(search_work* w, firm_error* err) {
    const episodes* rows = w->moments->rows;
    const int count = SEARCHES * w->moments->count;
    const size_t state = (size_t)(TRIAL_ROWS * w->spec->state->dim);
    const size_t action = (size_t)(TRIAL_ROWS * w->spec->task.action_dim);
    TRY(episodes_alloc(w->spec, count, (int64_t)count * TRIAL_ROWS, &w->starts, err));
    for (int i = 0; i < count; i++) {
        size_t from = (size_t)(i / SEARCHES);
        w->starts->offset[i] = (int64_t)i * TRIAL_ROWS;
        w->starts->length[i] = TRIAL_ROWS;
        if (i % SEARCHES) continue;
        memcpy(w->starts->state + (size_t)i * state, rows->state + from * state,
               state * sizeof *rows->state);
        memcpy(w->starts->action + (size_t)i * action, rows->action + from * action,
               action * sizeof *rows->action);
    }
    return FIRM_OK;
}

static firm_status alloc_branches(search_work* w, firm_error* err) {
    const size_t n = (size_t)(SEARCHES * w->moments->count);
    const size_t per = (size_t)(w->opt.iterations * w->opt.keep);
    branches* b = w->out = mem_calloc(1, sizeof *b);
    if (b) {
        *b = (branches){.spec = w->spec,
                        .anchors = (int)n,
                        .per_anchor = (int)per,
                        .planned = 1,
                        .data_hash = w->moments->rows->hash,
                        .seed = w->opt.seed};
        b->row = mem_alloc(n * sizeof *b->row);
        b->state =
            mem_alloc(n * per * (size_t)(w->states * w->spec->state->dim) * sizeof *b->state);
        b->action = mem_alloc(n * per * (size_t)w->controls * sizeof *b->action);
    }
    w->reached = mem_calloc(n, 1);
    w->missing = mem_calloc(n, 1);
    if (!b || !b->row || !b->state || !b->action || !w->reached || !w->missing)
        return FAIL(err, FIRM_E_MEMORY,
                    "no memory for %zu branches of each of %zu searches; give fewer moments", per,
                    n);
    for (size_t i = 0; i < n; i++) b->row[i] = (int64_t)i * TRIAL_ROWS + FIRM_HISTORY - 1;
    return FIRM_OK;
}

static firm_status open_all(search_work* w, firm_error* err) {
    TRY(alloc_starts(w, err));
    TRY(alloc_branches(w, err));
    w->worker = mem_calloc((size_t)w->workers, sizeof *w->worker);
    if (!w->worker) return FAIL(err, FIRM_E_MEMORY, "no memory for %d threads", w->workers);
    for (int i = 0; i < w->workers; i++) TRY(open_worker(w, &w->worker[i], err));
    return FIRM_OK;
}

static void run_all(search_work* w, pool* p) {
    const int count = w->moments->count;
    progress bar;
    progress_begin(&bar, "searches", count);
    for (w->from = 0; w->from < count; w->from += w->workers) {
        int n = count - w->from < w->workers ? count - w->from : w->workers;
        pool_for(p, n, search_twice, w);
        progress_step(&bar, w->from + n, "");
    }
    progress_end(&bar);
}

// Searches that are missing are taken out of the branches.
static int drop_missing(search_work* w) {
    branches* b = w->out;
    const size_t state = (size_t)(b->per_anchor * w->states * w->spec->state->dim);
    const size_t action = (size_t)(b->per_anchor * w->controls);
    int kept = 0, reached = 0;
    for (int i = 0; i < b->anchors; i++) {
        if (w->missing[i]) continue;
        reached += w->reached[i];
        b->row[kept] = b->row[i];
        memmove(b->state + (size_t)kept * state, b->state + (size_t)i * state,
                state * sizeof *b->state);
        memmove(b->action + (size_t)kept * action, b->action + (size_t)i * action,
                action * sizeof *b->action);
        kept++;
    }
    b->anchors = kept;
    return reached;
}

static firm_status check(const searched_options* opt, firm_error* err) {
    if (opt->candidates < 8 || opt->iterations < 1 || opt->keep < 2 || opt->keep > opt->candidates)
        return FAIL(err, FIRM_E_VALUE,
                    "%d candidates, %d iterations, %d kept of each: give at least 8, 1 and 2, and "
                    "keep no more than there are",
                    opt->candidates, opt->iterations, opt->keep);
    return FIRM_OK;
}

void searched_free(searched* s) {
    episodes_free(s->starts);
    branches_free(s->from);
    *s = (searched){0};
}

firm_status searched_make(const trial_set* moments, const searched_options* opt,
                          const data_searcher* by, pool* p, searched* out, firm_error* err) {
    const env_spec* spec = moments->rows->spec;
    search_work w = {.moments = moments,
                     .opt = *opt,
                     .spec = spec,
                     .by = by,
                     .span = task_span(&spec->task),
                     .states = task_span(&spec->task) + 1,
                     .controls = task_span(&spec->task) * spec->task.action_dim,
                     .elites = opt->candidates / 6 > 2 ? opt->candidates / 6 : 2,
                     .workers = pool_threads(p)};
    *out = (searched){0};
    TRY(check(opt, err));
    firm_status st = open_all(&w, err);
    if (st == FIRM_OK) run_all(&w, p);
    *out = (searched){.starts = w.starts, .from = w.out};
    if (st == FIRM_OK) out->reached = drop_missing(&w);
    close_workers(&w);
    mem_free(w.reached);
    mem_free(w.missing);
    if (st != FIRM_OK) searched_free(out);
    return st;
}

// ---- into a pack --------------------------------------------------------------------------------

firm_status searched_add(const searched* made, pack* p, firm_error* err) {
    const episodes* rows = made->starts;
    scenes from = {.e = rows, .b = {made->from}};
    records more = {0};
    TRY(records_of_branches(&from, 0, &more, err));
    // what is seen after the first control would be as many frames as there are branches
    for (int i = 0; i < more.count; i++) more.after[i] = -1;
    firm_status st = pack_append(p, PACK_S, &more, rows->state, rows->rows, err);
    records_free(&more);
    return st;
}
