// audit.c - the reset-replay audit: does restoring a recorded state and replaying the recorded
// actions lead where the recording went? Compared in tolerance units after each macro action of
// the task's horizon; the paper's gate asks P95 <= 0.25 at every horizon and a maximum <= 1.
#include <inttypes.h>
#include <math.h>

#include "core/mem.h"
#include "core/stats.h"
#include "data/anchors.h"

typedef struct replay {
    const episodes* e;
    const int64_t* row;
    env** envs;
    double* error;  // (horizon, anchors)
    int anchors;
} replay;

static void replay_anchor(void* arg, int item, int worker) {
    replay* r = arg;
    const env_spec* spec = r->e->spec;
    env* world = r->envs[worker];
    const int64_t row = r->row[item];
    env_recall(world, r->e->state + row * spec->state->dim);
    for (int i = 1; i <= task_span(&spec->task); i++) {
        spec->sim->step(world, r->e->action + (row + i - 1) * spec->task.action_dim);
        if (i % spec->task.controls) continue;
        double state[ENV_MAX_STATE];
        float c[FIRM_MAX_CONFIG], recorded[FIRM_MAX_CONFIG];
        spec->sim->state_get(world, state);
        env_config(spec, state, c);
        env_config(spec, r->e->state + (row + i) * spec->state->dim, recorded);
        double error =
            world->fault == FIRM_OK ? task_tolerance_units(&spec->task, c, recorded) : INFINITY;
        r->error[(i / spec->task.controls - 1) * r->anchors + item] = error;
    }
}

// A simulation that breaks down is no figure of the audit but a fault of the data.
static firm_status check_runs(const replay* r, firm_error* err) {
    const int last = r->e->spec->task.horizon - 1;
    for (int i = 0; i < r->anchors; i++)
        if (!isfinite(r->error[last * r->anchors + i]))
            return FAIL(err, FIRM_E_VALUE,
                        "the %s simulation broke down when row %" PRId64
                        " was restored and replayed; these data cannot be used, collect them again",
                        r->e->spec->task.name, r->row[i]);
    return FIRM_OK;
}

void audit_judge(double* error, audit_result* out) {
    const int anchors = out->anchors;
    out->pass = 1;
    for (int h = 0; h < out->horizons; h++) {
        double* here = error + (size_t)h * (size_t)anchors;
        out->p95[h] = stats_quantile(here, anchors, 0.95);  // sorts
        if (here[anchors - 1] > out->max) out->max = here[anchors - 1];
        if (!(out->p95[h] <= 0.25)) out->pass = 0;
        if (h == out->horizons - 1) {
            out->h5_mean = stats_mean(here, anchors);
            out->h5_p95 = out->p95[h];
        }
    }
    if (!(out->max <= 1.0)) out->pass = 0;
}

firm_status branches_audit(const episodes* e, int anchors, uint64_t seed, uint64_t split_seed,
                           pool* p, audit_result* out, firm_error* err) {
    *out = (audit_result){.horizons = e->spec->task.horizon};
    data_split split;
    TRY(data_split_make(e, split_seed, &split, err));
    int64_t* rows = NULL;
    firm_status status = anchors_draw(e, &split, seed, &anchors, &rows, err);
    data_split_free(&split);
    TRY(status);

    replay r = {.e = e, .row = rows, .anchors = anchors};
    out->anchors = anchors;
    r.error = mem_calloc((size_t)anchors, (size_t)out->horizons * sizeof *r.error);
    status = r.error ? env_create_many(e->spec, pool_threads(p), &r.envs, err)
                     : FAIL(err, FIRM_E_MEMORY, "no memory for %d anchors", anchors);
    if (status == FIRM_OK) {
        pool_for(p, anchors, replay_anchor, &r);
        status = check_runs(&r, err);
    }
    if (status == FIRM_OK) audit_judge(r.error, out);
    env_free_many(r.envs, pool_threads(p));
    mem_free(r.error);
    mem_free(rows);
    return status;
}
