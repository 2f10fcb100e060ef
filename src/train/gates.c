// gates.c - held-out checks in task-tolerance units: a model that misses them will not plan, and it
// is better to say so at once than after an evaluation.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "train/frontend.h"

static int by_value(const void* a, const void* b) {
    double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

firm_status gate_rollout(const train_set* s, const firm_model* m, const moments* of,
                         const history_cache* cache, pool* p, rollout_error* out, firm_error* err) {
    enum { BATCH = 256 };
    int dim = s->env->config_dim, n = of->count;
    double* units = mem_alloc((size_t)n * STEPS * sizeof *units);
    if (!units) return FAIL(err, FIRM_E_MEMORY, "no memory for the rollout gate");
    rollout_graph g = {0};
    nn_exec* e = NULL;
    nn_exec_options opt = {.batch = BATCH, .shard = 64, .lanes = 1, .queue = s->device.queue};
    firm_status st = rollout_graph_build(m, NULL, 0, &g, err);
    if (st == FIRM_OK) st = nn_exec_create(g.g, s->device.backend, &opt, p, &e, err);
    for (int at = 0; at < n && st == FIRM_OK; at += BATCH) {
        int count = n - at < BATCH ? n - at : BATCH;
        rollout_batch b = {
            .set = s, .model = m, .graph = &g, .from = of, .cache = cache, .first = at};
        st = nn_exec_forward(e, count, rollout_fill, &b);
        const float* path = st == FIRM_OK ? nn_exec_output(e, g.path) : NULL;
        for (int i = 0; i < count && path; i++)
            for (int k = 0; k < STEPS; k++) {
                float truth[FIRM_MAX_CONFIG];
                moment_config(s, &of->item[at + i], (k + 1) * MODEL_CONTROLS, truth);
                units[(size_t)k * (size_t)n + (size_t)(at + i)] =
                    (double)env_tolerance_units(s->env, path + (i * STEPS + k) * dim, truth);
            }
    }
    for (int k = 0; k < STEPS && st == FIRM_OK; k++) {
        double* column = units + (size_t)k * (size_t)n;
        double sum = 0;
        for (int i = 0; i < n; i++) sum += column[i];
        qsort(column, (size_t)n, sizeof *column, by_value);
        out->mean[k] = sum / n;
        out->p95[k] = column[(int)(0.95 * (n - 1))];
    }
    nn_exec_free(e);
    nn_graph_free(g.g);
    mem_free(units);
    return st;
}

firm_status gate_ground(const train_set* s, const firm_model* m, int count, pool* p,
                        ground_error* out, firm_error* err) {
    frontend_graph g = {0};
    nn_exec* e = NULL;
    if (count > s->held.count) count = s->held.count;
    nn_exec_options opt = {.batch = count, .shard = 4, .lanes = 1, .queue = s->device.queue};
    firm_status st = ground_graph(m, 0, 0, &g, err);
    if (st == FIRM_OK) st = nn_exec_create(g.g, s->device.backend, &opt, p, &e, err);
    frontend_batch b = {.set = s, .model = m, .graph = &g, .lag = 1, .held = 1};
    if (st == FIRM_OK) st = nn_exec_forward(e, count, pair_fill, &b);
    *out = (ground_error){0};
    for (int i = 0; i < count && st == FIRM_OK; i++) {
        float truth[FIRM_MAX_CONFIG], distance[ENV_MAX_DISTANCE];
        const float* c = nn_exec_output(e, g.grounded) + i * s->env->config_dim;
        moment_config(s, &s->held.item[i], 0, truth);
        s->env->measure(c, truth, distance);
        out->mean_units += (double)env_tolerance_units(s->env, c, truth) / count;
        out->mean += (double)distance[0] / count;
        out->max = fmax(out->max, (double)distance[0]);
    }
    nn_exec_free(e);
    nn_graph_free(g.g);
    return st;
}
