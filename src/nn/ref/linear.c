// linear.c - y = x w + b over the last dimension, reference.
// x (M, K), w (K, N), b (N) or none, y (M, N); M counts samples times all leading dimensions.
#include "nn/ref/ref.h"

void nn_ref_linear_forward(const nn_call* c) {
    int K = nn_in(c, 1)->dim[0], N = nn_in(c, 1)->dim[1];
    int M = c->rows * (nn_in(c, 0)->size / K);
    const double *x = c->in[0], *w = c->in[1], *b = c->in[2];
    double* y = c->out;
    for (int m = 0; m < M; m++) {
        for (int n = 0; n < N; n++) {
            double sum = b ? b[n] : 0;
            for (int k = 0; k < K; k++) sum += x[(size_t)m * K + k] * w[(size_t)k * N + n];
            y[(size_t)m * N + n] = sum;
        }
    }
}

// dx = dy w^T, dw += x^T dy, db += column sums of dy
void nn_ref_linear_backward(const nn_call* c) {
    int K = nn_in(c, 1)->dim[0], N = nn_in(c, 1)->dim[1];
    int M = c->rows * (nn_in(c, 0)->size / K);
    const double *x = c->in[0], *w = c->in[1], *dy = c->dout;
    double *dx = nn_ref_grad(c, 0), *dw = nn_ref_grad(c, 1);
    double* db = c->in[2] ? nn_ref_grad(c, 2) : NULL;
    for (int m = 0; m < M; m++) {
        for (int n = 0; n < N; n++) {
            double g = dy[(size_t)m * N + n];
            if (db) db[n] += g;
            for (int k = 0; k < K; k++) {
                if (dx) dx[(size_t)m * K + k] += g * w[(size_t)k * N + n];
                if (dw) dw[(size_t)k * N + n] += g * x[(size_t)m * K + k];
            }
        }
    }
}
