// gemm.h - matrix products on one thread, in row-major order.
#ifndef NN_CPU_GEMM_H
#define NN_CPU_GEMM_H

#include <stddef.h>
#include <stdint.h>

// c (m, n) = op(a) (m, k) op(b) (k, n), added to c where `add` is set, with a bias where there is
// one. A turned operand is stored the other way round: a (k, m), b (n, k). A packed b was written
// by nn_gemm_pack. Sums run in an order that depends on k and runs
// alone.
typedef struct nn_product {
    int64_t m, k;
    int n;
    int turn_a, turn_b, packed, add;
    const float *a, *b;
    int64_t lda, ldb;
    // The inner dimension may come in `runs` runs of k numbers, which lie so far apart; 0: one run.
    // Not with a packed b.
    int64_t runs, a_run, b_run;
    const float* bias;  // (n) or NULL; not together with add
    float* c;
    int64_t ldc;
} nn_product;

// Takes no memory but the stack's.
void nn_gemm(const nn_product* p);

// Packing pays where b is multiplied more than once.
size_t nn_gemm_packed(int64_t k, int n);  // floats that a packed (k, n) takes
void nn_gemm_pack(int64_t k, int n, const float* b, int64_t ldb, int turned, float* to);

#endif
