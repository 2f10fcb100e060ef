// gates.c - held-out checks in task-tolerance units: a model that misses them will not plan, and it
// is better to say so at once than after an evaluation.
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/stats.h"
#include "train/internal.h"

// sorts the errors
static void summarise(double* units, int n, double* mean, double* p95) {
    *mean = stats_mean(units, n);
    *p95 = stats_quantile(units, n, 0.95);
}

typedef struct rollout_sink {
    const env_spec* env;
    const records* of;
    nn_id path;
    double* units;  // (horizon, records)
} rollout_sink;

static void take_paths(void* sink, const nn_exec* e, int first, int count) {
    const rollout_sink* to = sink;
    int dim = to->env->task.config_dim, steps = to->env->task.horizon;
    const float* path = nn_exec_output(e, to->path);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < steps; k++) {
            const float* truth = to->of->config + ((first + i) * (steps + 1) + k + 1) * dim;
            to->units[(size_t)k * (size_t)to->of->count + (size_t)(first + i)] =
                (double)task_tolerance_units(&to->env->task, path + (i * steps + k) * dim, truth);
        }
}

firm_status gate_rollout(const train_set* s, const firm_model* m, const records* of,
                         const history_cache* cache, pool* p, rollout_error* out, firm_error* err) {
    int n = of->count, steps = m->task.horizon;
    double* units = mem_alloc((size_t)n * (size_t)steps * sizeof *units);
    if (!units) return FAIL(err, FIRM_E_MEMORY, "no memory for the rollout gate");
    rollout_graph g = {0};
    nn_exec* e = NULL;
    nn_exec_options opt = {.batch = 256, .shard = 64, .lanes = 1, .queue = s->device.queue};
    firm_status st = rollout_graph_build(m, NULL, NULL, &g, err);
    if (st == FIRM_OK) st = nn_exec_create(g.g, s->device.backend, &opt, p, &e, err);
    if (st == FIRM_OK) {
        rollout_batch b = {.set = s, .model = m, .graph = &g, .from = of, .cache = cache};
        rollout_sink to = {s->env, of, g.path, units};
        st = nn_exec_stream(e, n, rollout_fill, &b, take_paths, &to);
        if (st != FIRM_OK) st = train_failed(e, st, "validation", err);
    }
    for (int k = 0; k < steps && st == FIRM_OK; k++)
        summarise(units + (size_t)k * (size_t)n, n, &out->mean[k], &out->p95[k]);
    nn_exec_free(e);
    nn_graph_free(g.g);
    mem_free(units);
    return st;
}

typedef struct ground_batch {
    const train_set* set;
    const pairs* from;
    nn_id image;
} ground_batch;

static firm_status ground_fill(void* ctx, const nn_feed* feed) {
    const ground_batch* b = ctx;
    for (int i = 0; i < feed->count; i++)
        TRY(train_frame(
            b->set, feed->worker, b->from->scene[2 * (feed->first + i)],
            nn_feed_bytes(feed, b->image) + (size_t)i * task_frame_bytes(&b->set->env->task)));
    return FIRM_OK;
}

typedef struct ground_sink {
    nn_id grounded;
    size_t dim;
    float* config;  // (pairs, dim)
} ground_sink;

static void take_grounded(void* sink, const nn_exec* e, int first, int count) {
    const ground_sink* to = sink;
    memcpy(to->config + (size_t)first * to->dim, nn_exec_output(e, to->grounded),
           (size_t)count * to->dim * sizeof *to->config);
}

static firm_status ground_all(const train_set* s, const firm_model* m, const pairs* held, pool* p,
                              float* config, firm_error* err) {
    nn_graph* g;
    nn_exec* e = NULL;
    TRY(nn_graph_create(m->store, &g, err));
    ground_batch b = {s, held, nn_image(g, "image", m->task.image)};
    ground_sink to = {.dim = (size_t)s->env->task.config_dim, .config = config};
    to.grounded = model_ground(g, m, model_tokens(g, m, b.image, NN_NONE));
    nn_output(g, to.grounded);
    nn_exec_options opt = {.batch = 128, .shard = 4, .lanes = 1, .queue = s->device.queue};
    firm_status st = nn_exec_create(g, s->device.backend, &opt, p, &e, err);
    if (st == FIRM_OK) {
        st = nn_exec_stream(e, held->count, ground_fill, &b, take_grounded, &to);
        if (st != FIRM_OK) st = train_failed(e, st, "validation", err);
    }
    nn_exec_free(e);
    nn_graph_free(g);
    return st;
}

firm_status gate_ground(const train_set* s, const firm_model* m, pool* p, ground_error* out,
                        firm_error* err) {
    const pairs* held = train_pairs(s, PACK_HELD, 1);
    int n = held->count, dim = s->env->task.config_dim;
    float* config = mem_alloc((size_t)(n * dim) * sizeof *config);
    double* units = mem_alloc((size_t)n * sizeof *units);
    *out = (ground_error){0};
    firm_status st = config && units ? ground_all(s, m, held, p, config, err)
                                     : FAIL(err, FIRM_E_MEMORY, "no memory for the gate");
    int seen = 0;
    for (int i = 0; i < n && st == FIRM_OK; i++) {
        float distance[TASK_MAX_DISTANCE];
        const float *c = config + i * dim, *truth = held->config + 2 * i * dim;
        if (!task_is_visible(&s->env->task, truth)) continue;
        task_measure(&s->env->task, c, truth, distance);
        units[seen++] = (double)task_tolerance_units(&s->env->task, c, truth);
        for (int d = 0; d < s->env->task.distances; d++) {
            out->mean[d] += (double)distance[d];
            out->max[d] = fmax(out->max[d], (double)distance[d]);
        }
    }
    if (st == FIRM_OK && seen == 0)
        st = FAIL(err, FIRM_E_VALUE, "no held-out frame of %s shows all that moves",
                  s->env->task.name);
    if (st == FIRM_OK) {
        for (int d = 0; d < s->env->task.distances; d++) out->mean[d] /= seen;
        summarise(units, seen, &out->mean_units, &out->p95_units);
    }
    mem_free(units);
    mem_free(config);
    return st;
}
