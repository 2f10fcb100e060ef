// recall.c - nearest recorded moments by exhaustive search: a few thousand sequences of ten numbers
// are little beside the predictions of a single plan.
#include "plan/recall.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"

struct plan_recall {
    const task_typed* task;
    int count, most, length, dim;
    float* key;       // (count, horizon, dim) situation if the goal was where k macro actions led
    float* u;         // (count, length) standardised
    float* plan;      // (most, length) those found
    float* distance;  // (most) ascending
    int* found;       // (most)
};

firm_status plan_recall_create(const firm_model* m, const plan_actions* actions, int most,
                               plan_recall** out, firm_error* err) {
    const task_typed* task = &m->task;
    *out = NULL;
    if (!m->recorded || task->situation_dim == 0)
        return FAIL(err, FIRM_E_VALUE,
                    "plan.reach_recorded needs recorded sequences, and the model has none; train "
                    "it with train.recorded, or set plan.reach_recorded=0");
    plan_recall* r = mem_calloc(1, sizeof *r);
    if (!r) return FAIL(err, FIRM_E_MEMORY, "no memory for recorded sequences");
    *r = (plan_recall){.task = task,
                       .count = m->recorded_count,
                       .most = most < m->recorded_count ? most : m->recorded_count,
                       .length = task_span(task) * task->action_dim,
                       .dim = task->situation_dim};
    size_t n = (size_t)r->count, length = (size_t)r->length, dim = (size_t)r->dim;
    size_t horizon = (size_t)task->horizon;
    r->key = mem_alloc(n * horizon * dim * sizeof *r->key);
    r->u = mem_alloc(n * length * sizeof *r->u);
    r->plan = mem_alloc((size_t)r->most * length * sizeof *r->plan);
    r->distance = mem_alloc((size_t)r->most * sizeof *r->distance);
    r->found = mem_alloc((size_t)r->most * sizeof *r->found);
    if (!r->key || !r->u || !r->plan || !r->distance || !r->found) {
        plan_recall_free(r);
        return FAIL(err, FIRM_E_MEMORY, "no memory for recorded sequences");
    }
    for (size_t i = 0; i < n * length; i++) {
        size_t k = i % (size_t)task->action_dim;
        r->u[i] = (m->recorded[i] - actions->mean[k]) / actions->deviation[k];
    }
    for (size_t i = 0; i < n; i++) {
        const float* path = m->recorded_path + i * (horizon + 1) * (size_t)task->config_dim;
        for (size_t k = 0; k < horizon; k++)
            task_situation(task, path, m->recorded_chi + i * (size_t)task->chi_dim,
                           path + (k + 1) * (size_t)task->config_dim,
                           r->key + (i * horizon + k) * dim);
    }
    *out = r;
    return FIRM_OK;
}

void plan_recall_free(plan_recall* r) {
    if (!r) return;
    mem_free(r->key);
    mem_free(r->u);
    mem_free(r->plan);
    mem_free(r->distance);
    mem_free(r->found);
    mem_free(r);
}

size_t plan_recall_bytes(const plan_recall* r) {
    size_t each = (size_t)(r->task->horizon * r->dim + r->length);
    return sizeof *r + ((size_t)r->count * each + (size_t)r->most * (size_t)(r->length + 2)) * 4;
}

// squared, of the best of the sequence's places
static float distance_to(const plan_recall* r, int sequence, const float* key) {
    const float* of = r->key + (size_t)sequence * (size_t)(r->task->horizon * r->dim);
    float best = INFINITY;
    for (int k = 0; k < r->task->horizon; k++, of += r->dim) {
        float sum = 0;
        for (int j = 0; j < r->dim; j++) sum += (of[j] - key[j]) * (of[j] - key[j]);
        if (sum < best) best = sum;
    }
    return best;
}

int plan_recall_find(plan_recall* r, const float* c, const float* chi, const float* goal,
                     const float** plan) {
    float key[TASK_MAX_SITUATION];
    int n = 0;
    task_situation(r->task, c, chi, goal, key);
    for (int i = 0; i < r->count; i++) {
        float d = distance_to(r, i, key);
        if (!(n < r->most || d < r->distance[n - 1])) continue;
        int at = n < r->most ? n++ : n - 1;
        for (; at > 0 && r->distance[at - 1] > d; at--) {
            r->distance[at] = r->distance[at - 1];
            r->found[at] = r->found[at - 1];
        }
        r->distance[at] = d;
        r->found[at] = i;
    }
    for (int i = 0; i < n; i++)
        memcpy(r->plan + (size_t)i * (size_t)r->length,
               r->u + (size_t)r->found[i] * (size_t)r->length, (size_t)r->length * sizeof *r->plan);
    *plan = r->plan;
    return n;
}
