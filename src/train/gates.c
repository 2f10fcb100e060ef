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

// the reason of a failed run: the device's, or the samples'
static firm_status run_failed(const nn_exec* e, firm_status st, firm_error* err) {
    const char* why = nn_exec_fault(e);
    return FAIL(err, st, "%s", why ? why : "a validation frame cannot be read");
}

typedef struct rollout_sink {
    const train_set* set;
    const moments* of;
    nn_id path;
    double* units;  // (STEPS, moments)
} rollout_sink;

static void take_paths(void* sink, const nn_exec* e, int first, int count) {
    const rollout_sink* to = sink;
    const env_spec* env = to->set->env;
    const float* path = nn_exec_output(e, to->path);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < STEPS; k++) {
            float truth[FIRM_MAX_CONFIG];
            moment_config(to->set, &to->of->item[first + i], (k + 1) * MODEL_CONTROLS, truth);
            to->units[(size_t)k * (size_t)to->of->count + (size_t)(first + i)] =
                (double)env_tolerance_units(env, path + (i * STEPS + k) * env->config_dim, truth);
        }
}

firm_status gate_rollout(const train_set* s, const firm_model* m, const moments* of,
                         const history_cache* cache, pool* p, rollout_error* out, firm_error* err) {
    int n = of->count;
    double* units = mem_alloc((size_t)n * STEPS * sizeof *units);
    if (!units) return FAIL(err, FIRM_E_MEMORY, "no memory for the rollout gate");
    rollout_graph g = {0};
    nn_exec* e = NULL;
    nn_exec_options opt = {.batch = 256, .shard = 64, .lanes = 1, .queue = s->device.queue};
    firm_status st = rollout_graph_build(m, NULL, 0, &g, err);
    if (st == FIRM_OK) st = nn_exec_create(g.g, s->device.backend, &opt, p, &e, err);
    if (st == FIRM_OK) {
        rollout_batch b = {.set = s, .model = m, .graph = &g, .from = of, .cache = cache};
        rollout_sink to = {s, of, g.path, units};
        st = nn_exec_stream(e, n, rollout_fill, &b, take_paths, &to);
        if (st != FIRM_OK) st = run_failed(e, st, err);
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

typedef struct ground_sink {
    const train_set* set;
    nn_id grounded;
    int total;
    ground_error* error;
} ground_sink;

static void take_grounded(void* sink, const nn_exec* e, int first, int count) {
    const ground_sink* to = sink;
    const env_spec* env = to->set->env;
    for (int i = 0; i < count; i++) {
        float truth[FIRM_MAX_CONFIG], distance[ENV_MAX_DISTANCE];
        const float* c = nn_exec_output(e, to->grounded) + i * env->config_dim;
        moment_config(to->set, &to->set->held.item[first + i], 0, truth);
        env->measure(c, truth, distance);
        to->error->mean_units += (double)env_tolerance_units(env, c, truth) / to->total;
        to->error->mean += (double)distance[0] / to->total;
        to->error->max = fmax(to->error->max, (double)distance[0]);
    }
}

firm_status gate_ground(const train_set* s, const firm_model* m, int count, pool* p,
                        ground_error* out, firm_error* err) {
    frontend_graph g = {0};
    nn_exec* e = NULL;
    if (count > s->held.count) count = s->held.count;
    nn_exec_options opt = {.batch = 128, .shard = 4, .lanes = 1, .queue = s->device.queue};
    firm_status st = ground_graph(m, 0, 0, &g, err);
    if (st == FIRM_OK) st = nn_exec_create(g.g, s->device.backend, &opt, p, &e, err);
    *out = (ground_error){0};
    if (st == FIRM_OK) {
        frontend_batch b = {.set = s, .model = m, .graph = &g, .lag = 1, .held = 1};
        ground_sink to = {s, g.grounded, count, out};
        st = nn_exec_stream(e, count, pair_fill, &b, take_grounded, &to);
        if (st != FIRM_OK) st = run_failed(e, st, err);
    }
    nn_exec_free(e);
    nn_graph_free(g.g);
    return st;
}
