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
                          .b = c->packed ? c->packed : c->in[1],
                          .ldb = n,
                          .packed = c->packed != NULL,
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
                              .b = c->packed ? c->packed : c->in[1],
                              .ldb = n,
                              .turn_b = 1,
                              .packed = c->packed != NULL,
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

size_t nn_cpu_packed(const nn_tensor* w, int back) {
    return nn_gemm_packed(w->dim[back], w->dim[!back]);
}

void nn_cpu_pack(const nn_tensor* w, const float* value, const nn_pack_job* job, float* to) {
    const int depth = w->dim[job->back];
    const float* from = value + (job->back ? (int64_t)job->col * w->dim[1] : job->col);
    nn_gemm_pack(depth, job->cols, from, w->dim[1], job->back,
                 to + (size_t)depth * (size_t)job->col);
}

void nn_cpu_weight_tile(const nn_weight_tile* t) {
    nn_gemm(&(nn_product){.m = t->rows,
                          .k = t->samples,
                          .n = t->cols,
                          .a = t->x,
                          .lda = t->x_step,
                          .turn_a = 1,
                          .b = t->dy,
                          .ldb = t->dy_step,
                          .runs = t->runs,
                          .a_run = t->x_run,
                          .b_run = t->dy_run,
                          .add = t->add,
                          .c = t->dw,
                          .ldc = t->dw_step});
}

const nn_kernel nn_cpu_linear = {forward, backward, NULL, NULL};
