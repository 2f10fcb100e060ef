// support.c - where the training data lie: a few thousand configurations, each the farthest from
// those picked before it, and the distance within which nearly every training configuration has
// one. A planner that looks far ahead leaves the data easily, and a model predicts nonsense there
// (through a wall, say); with this it can tell.
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/stats.h"
#include "train/internal.h"

enum { POOL = 65536, CHECKS = 16384 };  // rows to pick from, and to measure the cover with

static float square_distance(const float* a, const float* b, int dim) {
    float sum = 0;
    for (int i = 0; i < dim; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

// what the support is chosen from: pairs of frames, and records where those are few
typedef struct source {
    const pairs* p;
    const records* r;
    int64_t rows;
} source;

static source source_of(const train_set* s) {
    static const pairs none;
    source from = {.p = &none, .r = &s->data.set[PACK_F]};
    for (int i = 0; i < s->data.lists; i++)
        if (s->data.list[i].source == PACK_F) from.p = &s->data.list[i].p;
    // all rows of the training episodes, or the pool's and those of the records
    from.rows = from.p->count;
    if (s->frame_pool || !from.rows)
        from.rows += (int64_t)from.r->count * task_points(&s->env->task);
    return from;
}

typedef struct sample {
    float *c, *near;  // configurations, and the squared distance of each to the picked ones
    int* times;       // how often each was drawn
    int* place;       // of each row among them; -1: not drawn
    int count;
} sample;

static void sample_close(sample* d) {
    mem_free(d->c);
    mem_free(d->near);
    mem_free(d->times);
    mem_free(d->place);
}

// Draws `count` rows by the key of their number. One that is drawn again is counted, not kept
// twice: it would never be picked again, and small data sets have few rows.
static void draw(const source* from, int dim, int update, int count, sample* d) {
    d->count = 0;
    for (int64_t i = 0; i < from->rows; i++) d->place[i] = -1;
    for (int i = 0; i < count; i++) {
        int64_t at = train_pick(0, 0xFFFE, update, i, from->rows), pooled = from->p->count;
        if (d->place[at] >= 0) {
            d->times[d->place[at]]++;
            continue;
        }
        d->place[at] = d->count;
        d->times[d->count] = 1;
        d->near[d->count] = INFINITY;
        memcpy(d->c + d->count++ * dim,
               at < pooled ? from->p->config + 2 * at * dim : from->r->config + (at - pooled) * dim,
               (size_t)dim * sizeof *d->c);
    }
}

// How far all but one in a thousand drawn configurations are from the picked ones.
static float cover(sample* d) {
    int at = CHECKS;
    for (int i = d->count - 1; i >= 0; i--) {  // each as often as it was drawn; at stays ahead of i
        float value = d->near[i];
        for (int k = 0; k < d->times[i]; k++) d->near[--at] = value;
    }
    stats_sort_floats(d->near, CHECKS);
    return sqrtf(d->near[CHECKS - 1 - CHECKS / 1000]);
}

firm_status support_fill(const train_set* s, firm_model* m, int count, firm_error* err) {
    int dim = s->env->task.config_dim;
    model_drop_support(m);
    if (count == 0) return FIRM_OK;
    source from = source_of(s);
    sample d = {.c = mem_alloc((size_t)(POOL * dim) * sizeof *d.c),
                .near = mem_alloc((size_t)POOL * sizeof *d.near),
                .times = mem_alloc((size_t)POOL * sizeof *d.times),
                .place = mem_alloc((size_t)from.rows * sizeof *d.place)};
    m->support = mem_calloc((size_t)(count * dim), sizeof *m->support);
    if (!d.c || !d.near || !d.times || !d.place || !m->support) {
        sample_close(&d);
        return FAIL(err, FIRM_E_MEMORY, "no memory for the support of the training data");
    }
    draw(&from, dim, 0, POOL, &d);
    int next = 0;
    for (int k = 0; k < count; k++) {
        float* picked = m->support + k * dim;
        memcpy(picked, d.c + next * dim, (size_t)dim * sizeof *picked);
        for (int i = 0; i < d.count; i++) {
            float far = square_distance(d.c + i * dim, picked, dim);
            if (far < d.near[i]) d.near[i] = far;
        }
        for (int i = next = 0; i < d.count; i++)
            if (d.near[i] > d.near[next]) next = i;
    }
    draw(&from, dim, 1, CHECKS, &d);
    for (int i = 0; i < d.count; i++)
        for (int k = 0; k < count; k++) {
            float far = square_distance(d.c + i * dim, m->support + k * dim, dim);
            if (far < d.near[i]) d.near[i] = far;
        }
    float radius = cover(&d);
    m->support_count = count;
    m->support_radius = radius > 1e-4f ? radius : 1e-4f;
    sample_close(&d);
    return FIRM_OK;
}
