// support.c - where the training data lie: a few thousand configurations, each the farthest from
// those picked before it, and the distance within which nearly every training configuration has
// one. A planner that looks far ahead leaves the data easily, and a model predicts nonsense there
// (through a wall, say); with this it can tell.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "train/internal.h"

enum { POOL = 65536, CHECKS = 16384 };  // rows to pick from, and to measure the cover with

static float square_distance(const float* a, const float* b, int dim) {
    float sum = 0;
    for (int i = 0; i < dim; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

static int by_value(const void* a, const void* b) {
    float x = *(const float*)a, y = *(const float*)b;
    return (x > y) - (x < y);
}

// `count` training configurations, by the key of their number
static void draw(const train_set* s, int update, int count, float* c) {
    static const pairs none;
    const pairs* p = &none;
    const records* r = &s->data.set[PACK_F];
    int dim = s->env->config_dim;
    for (int i = 0; i < s->data.lists; i++)
        if (s->data.list[i].source == PACK_F) p = &s->data.list[i].p;
    // all rows of the training episodes, or the pool's and those of the records
    int64_t pooled = p->count, n = pooled;
    if (s->frame_pool || !pooled) n += (int64_t)r->count * RECORD_POINTS;
    for (int i = 0; i < count; i++) {
        int64_t at = train_pick(0, 0xFFFE, update, i, n);
        const float* from =
            at < pooled ? p->config + 2 * at * dim : r->config + (at - pooled) * dim;
        memcpy(c + i * dim, from, (size_t)dim * sizeof *c);
    }
}

firm_status support_fill(const train_set* s, firm_model* m, int count, firm_error* err) {
    int dim = s->env->config_dim;
    model_drop_support(m);
    if (count == 0) return FIRM_OK;
    float* from = mem_alloc((size_t)(POOL * dim) * sizeof *from);
    float* near = mem_alloc((size_t)POOL * sizeof *near);  // squared distance to the picked ones
    m->support = mem_calloc((size_t)(count * dim), sizeof *m->support);
    if (!from || !near || !m->support) {
        mem_free(from);
        mem_free(near);
        return FAIL(err, FIRM_E_MEMORY, "no memory for the support of the training data");
    }
    draw(s, 0, POOL, from);
    for (int i = 0; i < POOL; i++) near[i] = INFINITY;
    int next = 0;
    for (int k = 0; k < count; k++) {
        float* picked = m->support + k * dim;
        memcpy(picked, from + next * dim, (size_t)dim * sizeof *picked);
        for (int i = 0; i < POOL; i++) {
            float d = square_distance(from + i * dim, picked, dim);
            if (d < near[i]) near[i] = d;
        }
        for (int i = next = 0; i < POOL; i++)
            if (near[i] > near[next]) next = i;
    }
    // how far other training configurations are from the picked ones: all but one in a thousand
    draw(s, 1, CHECKS, from);
    for (int i = 0; i < CHECKS; i++) {
        near[i] = INFINITY;
        for (int k = 0; k < count; k++) {
            float d = square_distance(from + i * dim, m->support + k * dim, dim);
            if (d < near[i]) near[i] = d;
        }
    }
    qsort(near, CHECKS, sizeof *near, by_value);
    float radius = sqrtf(near[CHECKS - 1 - CHECKS / 1000]);
    m->support_count = count;
    m->support_radius = radius > 1e-4f ? radius : 1e-4f;
    mem_free(from);
    mem_free(near);
    return FIRM_OK;
}
