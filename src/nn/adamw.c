// adamw.c - decoupled weight decay (Loshchilov and Hutter, 2019), global-norm clipping, schedules.
// Chunks of fixed size go over the pool and sums are formed in chunk order: same bits for any
// thread count.
#include "nn/adamw.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "nn/cpu/loops.h"

struct nn_adamw {
    nn_adamw_options opt;
    nn_gradient grad;
    float* moments;  // (2, count)
    float* scale;    // (trained) rate factors
    double* square;  // (chunks) partial sums of the norm
    int64_t steps;
    // the update in progress
    nn_store* store;
    float grad_scale, rate, correction1, correction2;
};

nn_adamw_options nn_adamw_default(void) {
    return (nn_adamw_options){.rate = 3e-4f,
                              .beta1 = 0.9f,
                              .beta2 = 0.999f,
                              .eps = 1e-8f,
                              .decay = 1e-4f,
                              .clip = 1.0f,
                              .schedule = NN_COSINE,
                              .updates = 1000};
}

firm_status nn_adamw_create(const nn_gradient* g, const nn_adamw_options* opt, const float* scale,
                            nn_adamw** out, firm_error* err) {
    *out = NULL;
    nn_adamw* a = mem_calloc(1, sizeof *a);
    if (!a) return FAIL(err, FIRM_E_MEMORY, "no memory for the optimiser");
    int trained = g->entries;
    a->opt = *opt;
    a->grad = *g;
    a->moments = mem_calloc(2 * a->grad.count + 1, sizeof *a->moments);
    a->scale = mem_calloc((size_t)trained + 1, sizeof *a->scale);
    a->square = mem_calloc((size_t)nn_chunks(a->grad.count) + 1, sizeof *a->square);
    if (!a->moments || !a->scale || !a->square) {
        nn_adamw_free(a);
        return FAIL(err, FIRM_E_MEMORY, "no memory for the optimiser");
    }
    for (int i = 0; i < trained; i++) a->scale[i] = scale ? scale[i] : 1.0f;
    *out = a;
    return FIRM_OK;
}

void nn_adamw_free(nn_adamw* a) {
    if (!a) return;
    mem_free(a->moments);
    mem_free(a->scale);
    mem_free(a->square);
    mem_free(a);
}

float nn_adamw_rate(const nn_adamw* a, int64_t step) {
    return nn_schedule_rate(&a->opt, step);
}

static void square_chunk(void* arg, int chunk, int worker) {
    (void)worker;
    nn_adamw* a = arg;
    size_t from = (size_t)chunk * NN_CHUNK,
           n = a->grad.count - from < NN_CHUNK ? a->grad.count - from : NN_CHUNK;
    a->square[chunk] = nn_loops_get()->square_sum((int64_t)n, a->grad.value + from);
}

// `count` numbers of a parameter, at `from` of it
static void update_part(nn_adamw* a, int item, size_t from, size_t count) {
    const nn_trained* t = &a->grad.trained[item];
    const nn_entry* entry = &a->store->entry[t->entry];
    float rate = a->rate * a->scale[item];
    int decays = entry->rank >= 2 || a->opt.decay_all;
    float decay = decays ? 1.0f - rate * a->opt.decay : 1.0f;
    size_t at = t->offset + from;
    nn_loops_get()->adamw((int64_t)count, a->store->value + entry->offset + from,
                          a->grad.value + at, a->moments + at, a->moments + a->grad.count + at,
                          a->grad_scale, a->opt.beta1, a->opt.beta2, rate * a->correction1,
                          a->correction2, a->opt.eps, decay);
}

static void update_chunk(void* arg, int chunk, int worker) {
    (void)worker;
    nn_adamw* a = arg;
    size_t from, count;
    for (int i = 0; i < a->grad.entries; i++)
        if (nn_part_in_chunk(&a->grad.trained[i], chunk, &from, &count))
            update_part(a, i, from, count);
}

double nn_adamw_step(nn_adamw* a, nn_store* store, pool* p) {
    int chunks = nn_chunks(a->grad.count);
    pool_for(p, chunks, square_chunk, a);
    double square = 0;
    for (int i = 0; i < chunks; i++) square += a->square[i];
    double norm = sqrt(square);
    a->grad_scale =
        a->opt.clip > 0 && norm > (double)a->opt.clip ? (float)((double)a->opt.clip / norm) : 1.0f;
    a->rate = nn_adamw_rate(a, a->steps);
    a->steps++;
    a->correction1 = (float)(1.0 / (1.0 - pow(a->opt.beta1, (double)a->steps)));
    a->correction2 = (float)(1.0 / (1.0 - pow(a->opt.beta2, (double)a->steps)));
    a->store = store;
    pool_for(p, chunks, update_chunk, a);
    return norm;
}

float* nn_adamw_moments(nn_adamw* a, size_t* count) {
    *count = 2 * a->grad.count;
    return a->moments;
}

int64_t* nn_adamw_steps(nn_adamw* a) {
    return &a->steps;
}
