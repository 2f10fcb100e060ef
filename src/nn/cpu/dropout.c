// dropout.c - dropout, four elements per drawn block (ref/dropout.c says which).
#include <string.h>

#include "nn/cpu/cpu.h"

void nn_cpu_dropped(const nn_call* c, uint64_t first, int64_t count, float* factor) {
    float keep = 1 / (1 - c->node->alpha);
    nn_key key = nn_key_of(c, RNG_DROPOUT);
    uint32_t word[4];
    for (int64_t i = 0; i < count; i++) {
        uint64_t element = first + (uint64_t)i;
        if (i == 0 || element % 4 == 0)
            rng_block(key.seed, key.stream, key.first + element / 4, word);
        factor[i] = nn_kept(word[element % 4], c->node->alpha) ? keep : 0;
    }
}

enum { RUN = 256 };  // elements drawn at a time

// to (+)= from times the elements' factors
static void drop(const nn_call* c, const float* from, float* to, int add) {
    int64_t n = (int64_t)c->rows * nn_out(c)->size;
    uint64_t start = (uint64_t)c->first * (uint64_t)nn_out(c)->size;
    float factor[RUN];
    for (int64_t at = 0; at < n; at += RUN) {
        int64_t run = n - at < RUN ? n - at : RUN;
        nn_cpu_dropped(c, start + (uint64_t)at, run, factor);
        nn_loops_get()->product(run, from + at, factor, to + at, add);
    }
}

static void forward(const nn_call* c) {
    if (c->train)
        drop(c, c->in[0], c->out, 0);
    else
        memcpy(c->out, c->in[0], (size_t)c->rows * (size_t)nn_out(c)->size * sizeof(float));
}

static void backward(const nn_call* c) {
    drop(c, c->dout, c->din[0], c->accumulate[0]);
}

const nn_kernel nn_cpu_dropout = {forward, backward, NULL, NULL};
