// searched.c - one simulator per thread and a search of its own: all states of a candidate are kept
// until its iteration has been ranked.
#include "eval/searched.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "plan/cost.h"

enum { POINTS = RECORD_POINTS - 1, STATES = BRANCH_CONTROLS + 1 };

typedef struct ranked {
    float cost;
    int candidate;
} ranked;

typedef struct search_worker {
    env* world;
    float* action;         // (candidates, 25, action_dim), standardised
    double* state;         // (candidates, 26, state_dim)
    float *mean, *spread;  // (25, action_dim)
    ranked* rank;          // (candidates)
} search_worker;

typedef struct search_work {
    const trial_set* moments;
    searched_options opt;
    const env_spec* spec;
    int controls;  // numbers in a candidate: 25 x action_dim
    int from;      // the moment that the pool's item 0 stands for
    search_worker* worker;
    int workers;
    branches* out;
    uint8_t *reached, *broken;  // (moments)
} search_work;

static void close_workers(search_work* w) {
    for (int i = 0; w->worker && i < w->workers; i++) {
        search_worker* k = &w->worker[i];
        env_free(k->world);
        mem_free(k->action);
        mem_free(k->state);
        mem_free(k->mean);
        mem_free(k->spread);
        mem_free(k->rank);
    }
    mem_free(w->worker);
}

static firm_status open_worker(const search_work* w, search_worker* k, firm_error* err) {
    const size_t n = (size_t)w->opt.candidates, c = (size_t)w->controls;
    TRY(env_create(w->spec, &k->world, err));
    k->action = mem_alloc(n * c * sizeof *k->action);
    k->state = mem_alloc(n * STATES * (size_t)w->spec->state_dim * sizeof *k->state);
    k->mean = mem_alloc(c * sizeof *k->mean);
    k->spread = mem_alloc(c * sizeof *k->spread);
    k->rank = mem_alloc(n * sizeof *k->rank);
    return k->action && k->state && k->mean && k->spread && k->rank
               ? FIRM_OK
               : FAIL(err, FIRM_E_MEMORY, "no memory for a search of %d candidates",
                      w->opt.candidates);
}

// ---- one search ---------------------------------------------------------------------------------

static float raw_action(const search_work* w, const float* u, int i) {
    int a = i % w->spec->action_dim;
    return u[i] * w->moments->action_std[a] + w->moments->action_mean[a];
}

// Candidate 0 is the mean, as in the contract.
static void draw(const search_work* w, search_worker* k, rng* r) {
    for (int c = 0; c < w->opt.candidates; c++)
        for (int i = 0; i < w->controls; i++)
            k->action[c * w->controls + i] = k->mean[i] + (c ? k->spread[i] * rng_gauss(r) : 0.0f);
}

// Runs a candidate; its cost, +inf if the simulation broke down.
static float simulate(const search_work* w, search_worker* k, int c, const double* start,
                      const float* goal) {
    const env_spec* spec = w->spec;
    const plan_cost cost = {.spec = spec, .mode = FIRM_MODE_CONTRACT};
    const float* u = k->action + (size_t)c * (size_t)w->controls;
    double* state = k->state + (size_t)(c * STATES * spec->state_dim);
    float c0[FIRM_MAX_CONFIG], path[POINTS * FIRM_MAX_CONFIG], raw[FIRM_MAX_ACTION];
    memcpy(state, start, (size_t)spec->state_dim * sizeof *state);
    spec->config(start, c0);
    env_recall(k->world, start);
    for (int t = 0; t < BRANCH_CONTROLS; t++) {
        for (int i = 0; i < spec->action_dim; i++)
            raw[i] = raw_action(w, u, t * spec->action_dim + i);
        spec->step(k->world, raw);
        state += spec->state_dim;
        spec->state_get(k->world, state);
        if (k->world->fault != FIRM_OK || !spec->fits(state)) return INFINITY;
        if ((t + 1) % RECORD_MACRO == 0)
            spec->config(state, path + (t / RECORD_MACRO) * spec->config_dim);
    }
    return plan_cost_path(&cost, c0, path, POINTS, goal, NULL);
}

static int by_cost(const void* a, const void* b) {
    const ranked *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
    return (x->candidate > y->candidate) - (x->candidate < y->candidate);
}

// Returns how many candidates could be simulated; these are ranked first.
static int run_candidates(const search_work* w, search_worker* k, const double* start,
                          const float* goal) {
    int finite = 0;
    for (int c = 0; c < w->opt.candidates; c++) {
        k->rank[c] = (ranked){simulate(w, k, c, start, goal), c};
        if (!(k->rank[c].cost < INFINITY)) k->rank[c].cost = INFINITY;
        finite += k->rank[c].cost < INFINITY;
    }
    qsort(k->rank, (size_t)w->opt.candidates, sizeof *k->rank, by_cost);
    return finite;
}

static void refit(const search_work* w, search_worker* k, int elites) {
    for (int i = 0; i < w->controls; i++) {
        double sum = 0, squares = 0;
        for (int e = 0; e < elites; e++) {
            double u = k->action[k->rank[e].candidate * w->controls + i];
            sum += u;
            squares += u * u;
        }
        double mean = sum / elites, variance = (squares - sum * mean) / (elites - 1);
        k->mean[i] = (float)mean;
        k->spread[i] = variance > 0 ? (float)sqrt(variance) : 0;
    }
}

// Rank of the j-th that is kept: evenly over the elites, then evenly over the rest.
static int kept_rank(int j, int keep, int elites, int finite) {
    int best = keep - keep / 2;
    if (j < best || finite <= elites) return j % best * elites / best;
    return elites + (j - best) * (finite - elites) / (keep - best);
}

static void keep_some(const search_work* w, search_worker* k, int item, int iteration, int elites,
                      int finite) {
    const size_t dim = (size_t)(STATES * w->spec->state_dim), n = (size_t)w->controls;
    for (int j = 0; j < w->opt.keep; j++) {
        int c = k->rank[kept_rank(j, w->opt.keep, elites, finite)].candidate;
        size_t to =
            (size_t)item * (size_t)w->out->per_anchor + (size_t)(iteration * w->opt.keep + j);
        memcpy(w->out->state + to * dim, k->state + (size_t)c * dim, dim * sizeof *k->state);
        for (int i = 0; i < w->controls; i++)
            w->out->action[to * n + (size_t)i] = raw_action(w, k->action + (size_t)c * n, i);
    }
}

static void search_one(void* arg, int item, int worker) {
    search_work* w = arg;
    search_worker* k = &w->worker[worker];
    const env_spec* spec = w->spec;
    item += w->from;
    const double* start = w->moments->rows->state + w->out->row[item] * spec->state_dim;
    const double* end = start + spec->state_dim;  // the goal's row comes next
    float goal[FIRM_MAX_CONFIG];
    rng r = rng_start(w->opt.seed, RNG_STREAM(RNG_BRANCH, item));
    spec->config(end, goal);
    for (int i = 0; i < w->controls; i++) {
        k->mean[i] = 0;
        k->spread[i] = 1;
    }
    for (int n = 0; n < w->opt.iterations; n++) {
        draw(w, k, &r);
        int finite = run_candidates(w, k, start, goal);
        int elites = w->opt.candidates / 6 > 2 ? w->opt.candidates / 6 : 2;
        if (finite < elites) {
            w->broken[item] = 1;
            return;
        }
        keep_some(w, k, item, n, elites, finite);
        refit(w, k, elites);
    }
    const double* last =
        k->state + (size_t)((k->rank[0].candidate * STATES + BRANCH_CONTROLS) * spec->state_dim);
    w->reached[item] = (uint8_t)(spec->success(last, end) != 0);
}

// ---- all of them --------------------------------------------------------------------------------

static firm_status alloc_branches(search_work* w, firm_error* err) {
    const size_t n = (size_t)w->moments->count, per = (size_t)(w->opt.iterations * w->opt.keep);
    branches* b = w->out = mem_calloc(1, sizeof *b);
    if (b) {
        *b = (branches){.spec = w->spec,
                        .anchors = w->moments->count,
                        .per_anchor = (int)per,
                        .planned = 1,
                        .data_hash = w->moments->rows->hash,
                        .seed = w->opt.seed};
        b->row = mem_alloc(n * sizeof *b->row);
        b->state = mem_alloc(n * per * (size_t)(STATES * w->spec->state_dim) * sizeof *b->state);
        b->action = mem_alloc(n * per * (size_t)w->controls * sizeof *b->action);
    }
    w->reached = mem_calloc(n, 1);
    w->broken = mem_calloc(n, 1);
    if (!b || !b->row || !b->state || !b->action || !w->reached || !w->broken)
        return FAIL(err, FIRM_E_MEMORY,
                    "no memory for %zu branches from each of %zu moments; give fewer moments", per,
                    n);
    for (int i = 0; i < w->moments->count; i++)
        b->row[i] = (int64_t)i * TRIAL_ROWS + FIRM_HISTORY - 1;
    return FIRM_OK;
}

static void run_all(search_work* w, pool* p, int count) {
    progress bar;
    progress_begin(&bar, "searches", count);
    for (w->from = 0; w->from < count; w->from += w->workers) {
        int n = count - w->from < w->workers ? count - w->from : w->workers;
        pool_for(p, n, search_one, w);
        progress_step(&bar, w->from + n, "");
    }
    progress_end(&bar);
}

static void drop_broken(search_work* w, int* reached) {
    branches* b = w->out;
    const size_t state = (size_t)(b->per_anchor * STATES * w->spec->state_dim);
    const size_t action = (size_t)(b->per_anchor * w->controls);
    int kept = 0;
    *reached = 0;
    for (int i = 0; i < w->moments->count; i++) {
        if (w->broken[i]) continue;
        *reached += w->reached[i];
        b->row[kept] = b->row[i];
        memmove(b->state + (size_t)kept * state, b->state + (size_t)i * state,
                state * sizeof *b->state);
        memmove(b->action + (size_t)kept * action, b->action + (size_t)i * action,
                action * sizeof *b->action);
        kept++;
    }
    b->anchors = kept;
}

static firm_status check(const searched_options* opt, firm_error* err) {
    if (opt->candidates < 8 || opt->iterations < 1 || opt->keep < 2 || opt->keep > opt->candidates)
        return FAIL(err, FIRM_E_VALUE,
                    "%d candidates, %d iterations, %d kept of each: give at least 8, 1 and 2, and "
                    "keep no more than there are",
                    opt->candidates, opt->iterations, opt->keep);
    return FIRM_OK;
}

firm_status searched_make(const trial_set* moments, const searched_options* opt, pool* p,
                          branches** out, int* reached, firm_error* err) {
    const env_spec* spec = moments->rows->spec;
    search_work w = {.moments = moments,
                     .opt = *opt,
                     .spec = spec,
                     .controls = BRANCH_CONTROLS * spec->action_dim,
                     .workers = pool_threads(p)};
    *out = NULL;
    TRY(check(opt, err));
    firm_status st = alloc_branches(&w, err);
    if (st == FIRM_OK) {
        w.worker = mem_calloc((size_t)w.workers, sizeof *w.worker);
        if (!w.worker) st = FAIL(err, FIRM_E_MEMORY, "no memory for %d threads", w.workers);
    }
    for (int i = 0; i < w.workers && st == FIRM_OK; i++) st = open_worker(&w, &w.worker[i], err);
    if (st == FIRM_OK) {
        run_all(&w, p, moments->count);
        drop_broken(&w, reached);
    }
    close_workers(&w);
    mem_free(w.reached);
    mem_free(w.broken);
    if (st != FIRM_OK) {
        branches_free(w.out);
        return st;
    }
    *out = w.out;
    return FIRM_OK;
}

// ---- into a pack --------------------------------------------------------------------------------

firm_status searched_add(const trial_set* moments, const branches* searched, pack* p,
                         firm_error* err) {
    const episodes* rows = moments->rows;
    scenes from = {.e = rows, .b = {searched}};
    records more = {0};
    TRY(records_of_branches(&from, 0, &more, err));
    // what is seen after the first control would be as many frames as there are branches
    for (int i = 0; i < more.count; i++) more.after[i] = -1;
    firm_status st = pack_append(p, PACK_S, &more, rows->state, rows->rows, err);
    records_free(&more);
    return st;
}
