// branches.c - collects common-reset interventions: anchors of training episodes (anchors.c), and
// from each the same restored state under other actions. Writing and reading them is in
// branches_file.c.
#include "data/branches.h"

#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "data/anchors.h"
#include "data/mixed.h"

enum { BRANCHES_PER_ROUND = 1024 };

// ---- branches -----------------------------------------------------------------------------------

typedef struct run {
    const episodes* e;
    branches* b;
    env** envs;
    float mean[FIRM_MAX_ACTION], std[FIRM_MAX_ACTION];
    int first;       // branch of the round's item 0
    uint8_t* fault;  // (anchors * per_anchor)
} run;

static void draw_action(const run* r, rng* g, float* action) {
    const env_spec* spec = r->b->spec;
    for (int k = 0; k < spec->task.action_dim; k++) {
        float a = spec->collection->interventions.proposal == ENV_PROPOSAL_UNIFORM
                      ? (float)rng_uniform(g, spec->task.action_low, spec->task.action_high)
                      : r->mean[k] + r->std[k] * rng_gauss(g);
        if (a < spec->task.action_low) a = spec->task.action_low;
        if (a > spec->task.action_high) a = spec->task.action_high;
        action[k] = a;
    }
}

// Manoeuvres take turns over the branches; where branch 0 is a replay, that is number 0.
static int manoeuvre_of(const run* r, int branch) {
    const env_spec* spec = r->b->spec;
    return (branch - (spec->collection->interventions.replay ? 1 : 0)) %
           spec->collection->structured->manoeuvres;
}

static void run_branch(void* arg, int index, int worker) {
    run* r = arg;
    const int item = r->first + index, branch = item % r->b->per_anchor;
    const env_spec* spec = r->b->spec;
    const int replay = branch == 0 && spec->collection->interventions.replay,
              span = task_span(&spec->task);
    const int64_t row = r->b->row[item / r->b->per_anchor];
    env* world = r->envs[worker];
    double* state = r->b->state + (size_t)item * (size_t)((span + 1) * spec->state->dim);
    float* action = r->b->action + (size_t)item * (size_t)(span * spec->task.action_dim);
    _Alignas(16) char manoeuvre[ENV_MANOEUVRE_BYTES];
    rng g = rng_start(r->b->seed, RNG_STREAM(RNG_BRANCH, item));

    env_recall(world, r->e->state + row * spec->state->dim);
    spec->sim->state_get(world, state);
    if (r->b->anchor_class && !replay)
        spec->collection->structured->begin(manoeuvre_of(r, branch), state, &g, manoeuvre);
    if (r->b->mixed && !replay)
        mixed_actions(spec, branch % MIXED_KINDS, r->mean, r->std,
                      r->e->action + row * spec->task.action_dim, span, &g, action);
    for (int i = 0; i < span; i++) {
        if (replay)
            memcpy(action, r->e->action + (row + i) * spec->task.action_dim,
                   sizeof *action * (size_t)spec->task.action_dim);
        else if (r->b->anchor_class)
            spec->collection->structured->act(manoeuvre, state, &g, action);
        else if (!r->b->mixed && !r->b->planned)
            draw_action(r, &g, action);
        spec->sim->step(world, action);
        action += spec->task.action_dim;
        state += spec->state->dim;
        spec->sim->state_get(world, state);
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
                     b->spec->task.name, i % b->per_anchor, i / b->per_anchor);
    mem_free(r->fault);
    env_free_many(r->envs, threads);
    return status;
}

// Asks for the actions before anything is simulated, one after the other.
static firm_status ask_all(branches* b, const intervene_options* opt, firm_error* err) {
    const int first = b->spec->collection->interventions.replay ? 1 : 0;
    const size_t size = (size_t)(task_span(&b->spec->task) * b->spec->task.action_dim);
    progress bar;
    progress_begin(&bar, "propose", b->anchors);
    firm_status status = FIRM_OK;
    for (int a = 0; a < b->anchors && status == FIRM_OK; a++) {
        for (int k = first; k < b->per_anchor && status == FIRM_OK; k++)
            status = opt->propose(
                opt->ctx, b->row[a], k - first,
                b->action + ((size_t)a * (size_t)b->per_anchor + (size_t)k) * size, err);
        progress_step(&bar, a + 1, "");
    }
    progress_end(&bar);
    return status;
}

firm_status branches_collect(const episodes* e, const intervene_options* opt, pool* p,
                             branches** out, firm_error* err) {
    const env_spec* spec = e->spec;
    *out = NULL;
    if (opt->structured && !spec->collection->structured)
        return FAIL(err, FIRM_E_USAGE,
                    "the task '%s' has no structured interventions; leave out --structured",
                    spec->task.name);
    if (!!opt->structured + !!opt->mixed + !!opt->propose > 1)
        return FAIL(err, FIRM_E_USAGE,
                    "--structured, --mixed and --planned are three sets; ask for one");
    int per_anchor = opt->per_anchor   ? opt->per_anchor
                     : opt->structured ? spec->collection->structured->per_anchor
                                       : spec->collection->interventions.per_anchor;
    if (per_anchor < 1 || per_anchor > 65536)
        return FAIL(err, FIRM_E_USAGE, "%d branches per anchor asked for; give 1 to 65536",
                    per_anchor);

    data_split split;
    TRY(data_split_make(e, opt->split_seed, &split, err));
    run r = {.e = e};
    data_action_stats(
        e, spec->collection->interventions.proposal == ENV_PROPOSAL_TABLE ? NULL : &split, r.mean,
        r.std);
    branches* b = mem_calloc(1, sizeof *b);
    firm_status status = b ? FIRM_OK : FAIL(err, FIRM_E_MEMORY, "no memory for branches");
    if (status == FIRM_OK) {
        *b = (branches){.spec = spec,
                        .anchors = opt->anchors,
                        .per_anchor = per_anchor,
                        .mixed = opt->mixed,
                        .planned = opt->propose != NULL,
                        .data_hash = e->hash,
                        .seed = opt->seed};
        status = opt->structured ? anchors_draw_balanced(e, &split, opt->seed, &b->anchors, &b->row,
                                                         &b->anchor_class, err)
                                 : anchors_draw(e, &split, opt->seed, &b->anchors, &b->row, err);
    }
    data_split_free(&split);
    if (status == FIRM_OK) {
        size_t items = (size_t)b->anchors * (size_t)per_anchor;
        size_t span = (size_t)task_span(&spec->task);
        b->state = mem_calloc(items, sizeof *b->state * (span + 1) * (size_t)spec->state->dim);
        b->action = mem_calloc(items, sizeof *b->action * span * (size_t)spec->task.action_dim);
        if (items > INT32_MAX || !b->state || !b->action)
            status = FAIL(err, FIRM_E_MEMORY, "no memory for %d x %d branches; ask for fewer",
                          b->anchors, per_anchor);
    }
    if (status == FIRM_OK && opt->propose) status = ask_all(b, opt, err);
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
    mem_free(b->anchor_class);
    mem_free(b->state);
    mem_free(b->action);
    mem_free(b);
}
