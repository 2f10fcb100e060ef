// linear.c - y = x w + b over all leading dimensions at once.
#include "nn/cpu/cpu.h"
#include "nn/cpu/gemm.h"

static void forward(const nn_call* c) {
    int k = nn_in(c, 1)->dim[0], n = nn_in(c, 1)->dim[1];
    nn_gemm(&(nn_product){.m = (int64_t)c->rows * nn_in(c, 0)->size / k,
                          .k = k,
                          .n = n,
                          .a = c->in[0],
                          .lda = k,
                          .b = c->in[1],
                          .ldb = n,
                          .bias = c->in[2],
                          .c = c->out,
                          .ldc = n});
}

static void backward(const nn_call* c) {
    int k = nn_in(c, 1)->dim[0], n = nn_in(c, 1)->dim[1];
    int64_t m = (int64_t)c->rows * nn_in(c, 0)->size / k;
    if (c->din[0])
        nn_gemm(&(nn_product){.m = m,
                              .k = n,
                              .n = k,
                              .a = c->dout,
                              .lda = n,
                              .b = c->in[1],
                              .ldb = n,
                              .turn_b = 1,
                              .add = c->accumulate[0],
                              .c = c->din[0],
                              .ldc = k});
    if (c->din[1])
        nn_gemm(&(nn_product){.m = k,
                              .k = m,
                              .n = n,
                              .a = c->in[0],
                              .lda = k,
                              .turn_a = 1,
                              .b = c->dout,
                              .ldb = n,
                              .add = 1,
                              .c = c->din[1],
                              .ldc = n});
    if (c->din[2]) nn_loops_get()->sum_rows(m, n, c->dout, c->din[2]);
}

const nn_kernel nn_cpu_linear = {forward, backward, NULL, NULL};
