// branches.c - collects common-reset interventions: anchors of training episodes, and from each the
// same restored state under other actions. Writing and reading them is in branches_file.c.
#include "data/branches.h"

#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "data/anchors.h"

enum { STATES = BRANCH_CONTROLS + 1, BRANCHES_PER_ROUND = 1024 };

// ---- anchors ------------------------------------------------------------------------------------

firm_status anchors_draw(const episodes* e, const data_split* split, uint64_t seed, int* count,
                         int64_t** rows, firm_error* err) {
    const int needed = ANCHOR_BEFORE + BRANCH_CONTROLS + 1;
    *rows = NULL;
    int* long_enough = mem_calloc((size_t)split->train_count, sizeof *long_enough);
    if (!long_enough) return FAIL(err, FIRM_E_MEMORY, "no memory to draw anchors");
    int n = 0;
    for (int i = 0; i < split->train_count; i++)
        if (e->length[split->train[i]] >= needed) long_enough[n++] = split->train[i];

    firm_status status = FIRM_OK;
    int wanted = *count ? *count : e->spec->interventions.anchors;
    if (wanted < 0)
        status = FAIL(err, FIRM_E_USAGE, "%d anchors asked for; give a positive count", wanted);
    else if (n == 0 || (*count && wanted > n))
        status = FAIL(
            err, FIRM_E_VALUE,
            "%d anchors asked for, but only %d training episodes have %d rows or more; collect "
            "more episodes or ask for fewer anchors",
            wanted, n, needed);
    if (status == FIRM_OK && wanted > n) {
        log_warn("only %d of %d anchors: the data set has no more training episodes of %d rows", n,
                 wanted, needed);
        wanted = n;
    }
    int64_t* drawn = status == FIRM_OK ? mem_calloc((size_t)wanted, sizeof *drawn) : NULL;
    if (status == FIRM_OK && !drawn)
        status = FAIL(err, FIRM_E_MEMORY, "no memory for %d anchors", wanted);
    if (status == FIRM_OK) {
        rng r = rng_start(seed, RNG_STREAM(RNG_ANCHOR, 0));
        rng_shuffle(&r, long_enough, n);
        for (int i = 0; i < wanted; i++) {
            int episode = long_enough[i];
            rng t = rng_start(seed, RNG_STREAM(RNG_ANCHOR, i + 1));
            drawn[i] = e->offset[episode] + ANCHOR_BEFORE +
                       rng_below(&t, (uint32_t)(e->length[episode] - needed + 1));
        }
        *rows = drawn;
        *count = wanted;
    }
    mem_free(long_enough);
    return status;
}

// ---- branches -----------------------------------------------------------------------------------

typedef struct run {
    const episodes* e;
    branches* b;
    env** envs;
    float mean[FIRM_MAX_ACTION], std[FIRM_MAX_ACTION];
    int first;       // branch of the round's item 0
    uint8_t* fault;  // (anchors * per_anchor)
} run;

static void propose(const run* r, int item, float* action) {
    const env_spec* spec = r->b->spec;
    const int dim = spec->action_dim, branch = item % r->b->per_anchor;
    if (branch == 0 && spec->interventions.replay) {
        const int64_t row = r->b->row[item / r->b->per_anchor];
        memcpy(action, r->e->action + row * dim, sizeof *action * (size_t)(BRANCH_CONTROLS * dim));
        return;
    }
    rng g = rng_start(r->b->seed, RNG_STREAM(RNG_BRANCH, item));
    for (int i = 0; i < BRANCH_CONTROLS; i++)
        for (int k = 0; k < dim; k++) {
            float a = spec->interventions.proposal == ENV_PROPOSAL_UNIFORM
                          ? (float)rng_uniform(&g, spec->action_low, spec->action_high)
                          : r->mean[k] + r->std[k] * rng_gauss(&g);
            if (a < spec->action_low) a = spec->action_low;
            if (a > spec->action_high) a = spec->action_high;
            action[i * dim + k] = a;
        }
}

static void run_branch(void* arg, int index, int worker) {
    run* r = arg;
    const int item = r->first + index;
    const env_spec* spec = r->b->spec;
    env* world = r->envs[worker];
    double* state = r->b->state + (size_t)item * STATES * (size_t)spec->state_dim;
    float* action = r->b->action + (size_t)item * BRANCH_CONTROLS * (size_t)spec->action_dim;

    propose(r, item, action);
    const int64_t row = r->b->row[item / r->b->per_anchor];
    env_recall(world, r->e->state + row * spec->state_dim);
    spec->state_get(world, state);
    for (int i = 0; i < BRANCH_CONTROLS; i++) {
        spec->step(world, action + i * spec->action_dim);
        spec->state_get(world, state + (i + 1) * spec->state_dim);
    }
    r->fault[item] = world->fault != FIRM_OK;
}

static firm_status run_all(run* r, pool* p, firm_error* err) {
    branches* b = r->b;
    const int items = b->anchors * b->per_anchor, threads = pool_threads(p);
    firm_status status = env_create_many(b->spec, threads, &r->envs, err);
    r->fault = mem_calloc((size_t)items, 1);
    if (status == FIRM_OK && !r->fault) status = FAIL(err, FIRM_E_MEMORY, "no memory for branches");
    if (status == FIRM_OK) {
        progress bar;
        progress_begin(&bar, "intervene", items);
        for (r->first = 0; r->first < items; r->first += BRANCHES_PER_ROUND) {
            int left = items - r->first;
            int n = left < BRANCHES_PER_ROUND ? left : BRANCHES_PER_ROUND;
            pool_for(p, n, run_branch, r);
            progress_step(&bar, r->first + n, "");
        }
        progress_end(&bar);
    }
    for (int i = 0; i < items && status == FIRM_OK; i++)
        if (r->fault[i])
            status =
                FAIL(err, FIRM_E_VALUE,
                     "the %s simulation broke down in branch %d of anchor %d; try another seed",
                     b->spec->name, i % b->per_anchor, i / b->per_anchor);
    mem_free(r->fault);
    env_free_many(r->envs, threads);
    return status;
}

firm_status branches_collect(const episodes* e, const intervene_options* opt, pool* p,
                             branches** out, firm_error* err) {
    const env_spec* spec = e->spec;
    *out = NULL;
    int per_anchor = opt->per_anchor ? opt->per_anchor : spec->interventions.per_anchor;
    if (per_anchor < 1 || per_anchor > 65536)
        return FAIL(err, FIRM_E_USAGE, "%d branches per anchor asked for; give 1 to 65536",
                    per_anchor);

    data_split split;
    TRY(data_split_make(e, opt->split_seed, &split, err));
    run r = {.e = e};
    data_action_stats(e, spec->interventions.proposal == ENV_PROPOSAL_TABLE ? NULL : &split, r.mean,
                      r.std);
    branches* b = mem_calloc(1, sizeof *b);
    firm_status status = b ? FIRM_OK : FAIL(err, FIRM_E_MEMORY, "no memory for branches");
    if (status == FIRM_OK) {
        *b = (branches){.spec = spec,
                        .anchors = opt->anchors,
                        .per_anchor = per_anchor,
                        .data_hash = e->hash,
                        .seed = opt->seed};
        status = anchors_draw(e, &split, opt->seed, &b->anchors, &b->row, err);
    }
    data_split_free(&split);
    if (status == FIRM_OK) {
        size_t items = (size_t)b->anchors * (size_t)per_anchor;
        b->state = mem_calloc(items, sizeof *b->state * STATES * (size_t)spec->state_dim);
        b->action =
            mem_calloc(items, sizeof *b->action * BRANCH_CONTROLS * (size_t)spec->action_dim);
        if (items > INT32_MAX || !b->state || !b->action)
            status = FAIL(err, FIRM_E_MEMORY, "no memory for %d x %d branches; ask for fewer",
                          b->anchors, per_anchor);
    }
    if (status == FIRM_OK) {
        r.b = b;
        status = run_all(&r, p, err);
    }
    if (status != FIRM_OK) {
        branches_free(b);
        return status;
    }
    *out = b;
    return FIRM_OK;
}

void branches_free(branches* b) {
    if (!b) return;
    mem_free(b->row);
    mem_free(b->state);
    mem_free(b->action);
    mem_free(b);
}
