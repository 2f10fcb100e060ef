// peak.c - the yardstick of `firm bench plan`: large products on the same threads, in the same run.
#include "plan/peak.h"

#include "core/clock.h"
#include "core/mem.h"
#include "nn/cpu/gemm.h"

enum { LARGEST = 960 };

typedef struct products {
    int size, repeats;
    float* matrix;  // (threads, 3, LARGEST, LARGEST)
} products;

static void multiply(void* arg, int item, int worker) {
    (void)item;
    products* p = arg;
    size_t area = (size_t)LARGEST * LARGEST;
    float *a = p->matrix + (size_t)worker * 3 * area, *b = a + area, *c = b + area;
    for (int i = 0; i < p->repeats; i++)
        nn_gemm(&(nn_product){.m = p->size,
                              .n = p->size,
                              .k = p->size,
                              .a = a,
                              .lda = p->size,
                              .b = b,
                              .ldb = p->size,
                              .c = c,
                              .ldc = p->size});
}

firm_status plan_measure_peak(pool* threads, double* gflops, firm_error* err) {
    // sizes at which one product takes from 1 to 20 ms at 100 GFLOP/s; small ones repeated
    static const struct {
        int size, repeats;
    } kind[] = {{384, 8}, {576, 2}, {768, 1}, {LARGEST, 1}};
    int n = pool_threads(threads), shares = 2;
    size_t floats = (size_t)n * 3 * LARGEST * LARGEST;
    products work = {.matrix = mem_alloc(floats * sizeof(float))};
    if (!work.matrix)
        return FAIL(err, FIRM_E_MEMORY, "no memory for the peak measurement on %d threads", n);
    for (size_t i = 0; i < floats; i++) work.matrix[i] = 1.0f / (float)(1 + i % 7);
    *gflops = 0.0;
    for (size_t k = 0; k < sizeof kind / sizeof *kind; k++)
        for (int repeat = 0; repeat < 2; repeat++) {
            work.size = kind[k].size;
            work.repeats = kind[k].repeats;
            int64_t begun = clock_ns();
            pool_for(threads, shares * n, multiply, &work);
            double size = work.size, done = 2.0 * size * size * size * work.repeats * shares * n;
            double rate = done / (double)(clock_ns() - begun);
            if (rate > *gflops) *gflops = rate;
        }
    mem_free(work.matrix);
    return FIRM_OK;
}
