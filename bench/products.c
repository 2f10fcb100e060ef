// products.c - our matrix products beside oneDNN's and BLIS's, on every shape of both training
// passes of the four tasks, one thread. Build and run:
//
//     apt-get install libdnnl-dev libblis-dev && ninja -C build bench_products
//     OMP_NUM_THREADS=1 BLIS_NUM_THREADS=1 build/bench_products
//
// Weights of our linear layers are packed beforehand, as training does once per update for all
// shards and steps; gradients of weights pack as they go.
// Convolutions are ours whole, padding and packing included; the libraries only get the product
// of the same size, with its patches already written out. Times are the thread's own, medians of
// rounds in which all take turns with the register-only loop (core/fma.h).
#define _GNU_SOURCE
#include <cblas.h>
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/fma.h"
#include "nn/cpu/conv_pass.h"
#include "nn/cpu/gemm.h"

enum { ROUNDS = 9, WAYS = 4 };
static const char* const way_name[WAYS] = {"fma", "ours", "oneDNN", "BLIS"};

typedef struct shape {
    const char* where;
    int turn_a, turn_b;
    int m, n, k, add;
    nn_conv_shape conv;  // kernel 0: a plain product
    int pass;            // 0 gather, 1 spread, 2 weights
} shape;

#define LINEAR(where, m, in, out)                         \
    {where " forward", 0, 0, m, out, in, 0, {0}, 0},      \
        {where " inputs", 0, 1, m, in, out, 0, {0}, 0}, { \
        where " weights", 1, 0, in, out, m, 1, {0}, 0     \
    }
#define CONV(where, side, in, grid, out, stride)                  \
    {where " forward",                                            \
     0,                                                           \
     0,                                                           \
     grid * grid,                                                 \
     out,                                                         \
     9 * in,                                                      \
     0,                                                           \
     {side, side, in, grid, grid, out, 3, stride, 1, 0},          \
     0},                                                          \
        {where " inputs",                                         \
         0,                                                       \
         1,                                                       \
         grid * grid,                                             \
         9 * in,                                                  \
         out,                                                     \
         0,                                                       \
         {side, side, in, grid, grid, out, 3, stride, 1, 0},      \
         1},                                                      \
    {                                                             \
        where " weights", 1, 0, 9 * in, out, grid *grid, 1,       \
            {side, side, in, grid, grid, out, 3, stride, 1, 0}, 2 \
    }

static const shape shapes[] = {
    LINEAR("transition up", 128, 384, 768),
    LINEAR("transition down", 128, 768, 384),
    LINEAR("transition in", 128, 140, 384),
    LINEAR("transition fiber", 128, 384, 128),
    LINEAR("spatial up (Push-T)", 128, 384, 1152),
    LINEAR("spatial down (Push-T)", 128, 1152, 384),
    LINEAR("spatial extra (Push-T)", 128, 48, 1152),
    LINEAR("chi hidden", 128, 128, 128),
    LINEAR("fiber hidden", 128, 132, 512),
    LINEAR("tokenizer stage 1", 12544, 48, 32),
    LINEAR("grounder hidden (TwoRoom, Cube)", 4, 3136, 512),
    LINEAR("grounder residual (Reacher)", 4, 1024, 480),
    CONV("tokenizer stage 2", 56, 32, 28, 64, 2),
    CONV("tokenizer stage 3", 28, 64, 14, 96, 2),
    CONV("tokenizer stage 4 (TwoRoom, Cube)", 14, 96, 7, 64, 2),
    CONV("tokenizer stage 4 (Push-T)", 14, 96, 14, 64, 1),
    CONV("tokenizer stage 4 (Reacher)", 14, 96, 14, 128, 1),
    CONV("grounder look (Push-T)", 14, 96, 14, 96, 1),
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct buffers {
    float *a, *b, *c, *packed;
    void* scratch;
} buffers;

static float* filled(size_t n) {
    float* x = aligned_alloc(64, (n * sizeof *x + 127) / 64 * 64);
    for (size_t i = 0; x && i < n; i++) x[i] = (float)(i % 17) * 0.1f - 0.8f;
    return x;
}

static void ours(const shape* s, const buffers* o) {
    const nn_conv_shape* q = &s->conv;
    if (!q->kernel) {
        nn_gemm(&(nn_product){.m = s->m,
                              .n = s->n,
                              .k = s->k,
                              .turn_a = s->turn_a,
                              .turn_b = s->turn_b,
                              .add = s->add,
                              .a = o->a,
                              .lda = s->turn_a ? s->m : s->k,
                              .b = s->add ? o->b : o->packed,
                              .packed = !s->add,
                              .ldb = s->turn_b ? s->k : s->n,
                              .c = o->c,
                              .ldc = s->n});
    } else if (s->pass == 0) {
        nn_conv_pack_gather(q, o->b, o->scratch);
        nn_conv_gather(q, o->a, NULL, NN_CONV_SET, o->c, o->scratch);
    } else if (s->pass == 1) {
        nn_conv_pack_spread(q, o->b, o->scratch);
        nn_conv_spread(q, o->a, NULL, NN_CONV_SET, o->c, o->scratch);
    } else {
        nn_conv_weights(q, o->a, o->b, o->c, o->scratch);
    }
}

static void run(int way, const shape* s, const buffers* o) {
    int lda = s->turn_a ? s->m : s->k, ldb = s->turn_b ? s->k : s->n;
    float beta = s->add ? 1.0f : 0.0f;
    if (way == 1) ours(s, o);
    if (way == 2)
        dnnl_sgemm(s->turn_a ? 'T' : 'N', s->turn_b ? 'T' : 'N', s->m, s->n, s->k, 1.0f, o->a, lda,
                   o->b, ldb, beta, o->c, s->n);
    if (way == 3)
        cblas_sgemm(CblasRowMajor, s->turn_a ? CblasTrans : CblasNoTrans,
                    s->turn_b ? CblasTrans : CblasNoTrans, s->m, s->n, s->k, 1.0f, o->a, lda, o->b,
                    ldb, beta, o->c, s->n);
}

static int by_size(const void* a, const void* b) {
    double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

static void measure(const shape* s, double median[WAYS]) {
    double work = 2.0 * s->m * s->n * s->k, rate[WAYS][ROUNDS];
    int repeats = (int)(1e8 / work) + 1;
    size_t most = (size_t)s->m * (size_t)s->k;  // the image is smaller than its patches
    buffers o = {filled(most), filled((size_t)s->n * (size_t)s->k + most),
                 filled((size_t)s->m * (size_t)s->n), NULL,
                 s->conv.kernel ? filled(nn_conv_scratch(&s->conv) / sizeof(float)) : NULL};
    o.packed = filled(nn_gemm_packed(s->k, s->n));
    if (!s->conv.kernel && !s->add)
        nn_gemm_pack(s->k, s->n, o.b, s->turn_b ? s->k : s->n, s->turn_b, o.packed);
    for (int way = 1; way < WAYS; way++) run(way, s, &o);
    for (int r = 0; r < ROUNDS; r++)
        for (int way = 0; way < WAYS; way++) {
            run(way, s, &o);  // its operands are in cache, not another way's
            double begun = now();
            for (int i = 0; way && i < repeats; i++) run(way, s, &o);
            rate[way][r] = way ? work * repeats / (now() - begun) * 1e-9 : fma_measure(NULL, 1);
        }
    for (int way = 0; way < WAYS; way++) {
        qsort(rate[way], ROUNDS, sizeof(double), by_size);
        median[way] = rate[way][ROUNDS / 2];
    }
    free(o.a);
    free(o.b);
    free(o.c);
    free(o.packed);
    free(o.scratch);
}

int main(void) {
    double inverse[WAYS] = {0};
    printf("| product | m x n x k |");
    for (int way = 0; way < WAYS; way++) printf(" %s |", way_name[way]);
    printf("\n|---|---|---|---|---|---|\n");
    int count = sizeof shapes / sizeof *shapes;
    for (int i = 0; i < count; i++) {
        const shape* s = &shapes[i];
        double median[WAYS];
        measure(s, median);
        printf("| %s | %d x %d x %d | %.0f |", s->where, s->m, s->n, s->k, median[0]);
        for (int way = 1; way < WAYS; way++) {
            printf(" %.0f (%.2f) |", median[way], median[way] / median[0]);
            inverse[way] += median[0] / median[way];
        }
        printf("\n");
        fflush(stdout);
    }
    printf("| harmonic mean of the shares | | |");
    for (int way = 1; way < WAYS; way++) printf(" %.2f |", count / inverse[way]);
    printf("\n");
    return 0;
}
