// linear.c - y = x w + b over all leading dimensions at once.
#include "nn/cpu/cpu.h"

static void forward(const nn_call* c) {
    int k = nn_in(c, 1)->dim[0], n = nn_in(c, 1)->dim[1];
    int64_t m = (int64_t)c->rows * nn_in(c, 0)->size / k;
    if (c->in[2]) nn_loops_get()->fill_rows(m, n, c->in[2], c->out);
    nn_gemm(0, 0, m, n, k, c->in[0], k, c->in[1], n, c->in[2] ? 1.0f : 0.0f, c->out, n);
}

static void backward(const nn_call* c) {
    int k = nn_in(c, 1)->dim[0], n = nn_in(c, 1)->dim[1];
    int64_t m = (int64_t)c->rows * nn_in(c, 0)->size / k;
    if (c->din[0])
        nn_gemm(0, 1, m, k, n, c->dout, n, c->in[1], n, c->accumulate[0] ? 1.0f : 0.0f, c->din[0],
                k);
    if (c->din[1]) nn_gemm(1, 0, k, n, m, c->in[0], k, c->dout, n, 1.0f, c->din[1], n);
    if (c->din[2]) nn_loops_get()->sum_rows(m, n, c->dout, c->din[2]);
}

const nn_kernel nn_cpu_linear = {forward, backward, NULL, NULL};
