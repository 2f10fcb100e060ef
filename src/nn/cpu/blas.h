// blas.h - OpenBLAS behind a door. It keeps a buffer of address space for every product that runs
// at the same time, and tries for ever where it cannot have one; so buffers are asked for here,
// beforehand and one by one, and a product that would need one more waits or is done without.
#ifndef NN_CPU_BLAS_H
#define NN_CPU_BLAS_H

#include <stdint.h>

#include "core/status.h"

// Buffers for `threads` more threads that multiply, up to one for each core or thread of one
// caller. Without memory for them nothing changes.
firm_status nn_blas_reserve(int threads, firm_error* err);
void nn_blas_release(int threads);

// cblas_sgemm in row-major order with alpha 1, on one thread. 0: there is no memory for it, and
// nothing was done.
int nn_blas_product(int ta, int tb, int m, int n, int k, const float* a, int lda, const float* b,
                    int ldb, float beta, float* c, int ldc);

#endif
