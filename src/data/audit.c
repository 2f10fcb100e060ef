// audit.c - the reset-replay audit: does restoring a recorded state and replaying the recorded
// actions lead where the recording went? Compared in tolerance units after 5, 10, 15, 20 and 25
// controls; the paper's gate asks P95 <= 0.25 at every horizon and a maximum <= 1.
#include <inttypes.h>
#include <math.h>

#include "core/mem.h"
#include "core/stats.h"
#include "data/anchors.h"

enum { HORIZONS = AUDIT_HORIZONS, CONTROLS_PER_MACRO = BRANCH_CONTROLS / HORIZONS };

typedef struct replay {
    const episodes* e;
    const int64_t* row;
    env** envs;
    double* error;  // (HORIZONS, anchors)
    int anchors;
} replay;

static void replay_anchor(void* arg, int item, int worker) {
    replay* r = arg;
    const env_spec* spec = r->e->spec;
    env* world = r->envs[worker];
    const int64_t row = r->row[item];
    env_recall(world, r->e->state + row * spec->state->dim);
    for (int i = 1; i <= BRANCH_CONTROLS; i++) {
        spec->sim->step(world, r->e->action + (row + i - 1) * spec->task.action_dim);
        if (i % CONTROLS_PER_MACRO) continue;
        double state[ENV_MAX_STATE];
        float c[FIRM_MAX_CONFIG], recorded[FIRM_MAX_CONFIG];
        spec->sim->state_get(world, state);
        env_config(spec, state, c);
        env_config(spec, r->e->state + (row + i) * spec->state->dim, recorded);
        double error =
            world->fault == FIRM_OK ? task_tolerance_units(&spec->task, c, recorded) : INFINITY;
        r->error[(i / CONTROLS_PER_MACRO - 1) * r->anchors + item] = error;
    }
}

// A simulation that breaks down is no figure of the audit but a fault of the data.
static firm_status check_runs(const replay* r, firm_error* err) {
    for (int i = 0; i < r->anchors; i++)
        if (!isfinite(r->error[(HORIZONS - 1) * r->anchors + i]))
            return FAIL(err, FIRM_E_VALUE,
                        "the %s simulation broke down when row %" PRId64
                        " was restored and replayed; these data cannot be used, collect them again",
                        r->e->spec->task.name, r->row[i]);
    return FIRM_OK;
}

void audit_judge(double* error, int anchors, audit_result* out) {
    out->pass = 1;
    out->anchors = anchors;
    for (int h = 0; h < HORIZONS; h++) {
        double* here = error + (size_t)h * (size_t)anchors;
        out->p95[h] = stats_quantile(here, anchors, 0.95);  // sorts
        if (here[anchors - 1] > out->max) out->max = here[anchors - 1];
        if (!(out->p95[h] <= 0.25)) out->pass = 0;
        if (h == HORIZONS - 1) {
            out->h5_mean = stats_mean(here, anchors);
            out->h5_p95 = out->p95[h];
        }
    }
    if (!(out->max <= 1.0)) out->pass = 0;
}

firm_status branches_audit(const episodes* e, int anchors, uint64_t seed, uint64_t split_seed,
                           pool* p, audit_result* out, firm_error* err) {
    const env_study* paper = e->spec->study;
    *out = (audit_result){0};
    if (paper)
        *out = (audit_result){.paper_mean = paper->audit.mean,
                              .paper_p95 = paper->audit.p95,
                              .paper_max = paper->audit.max,
                              .paper_anchors = paper->audit.anchors};
    data_split split;
    TRY(data_split_make(e, split_seed, &split, err));
    int64_t* rows = NULL;
    firm_status status = anchors_draw(e, &split, seed, &anchors, &rows, err);
    data_split_free(&split);
    TRY(status);

    replay r = {.e = e, .row = rows, .anchors = anchors};
    r.error = mem_calloc((size_t)anchors, HORIZONS * sizeof *r.error);
    status = r.error ? env_create_many(e->spec, pool_threads(p), &r.envs, err)
                     : FAIL(err, FIRM_E_MEMORY, "no memory for %d anchors", anchors);
    if (status == FIRM_OK) {
        pool_for(p, anchors, replay_anchor, &r);
        status = check_runs(&r, err);
    }
    if (status == FIRM_OK) audit_judge(r.error, anchors, out);
    env_free_many(r.envs, pool_threads(p));
    mem_free(r.error);
    mem_free(rows);
    return status;
}
