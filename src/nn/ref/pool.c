// pool.c - reading a feature map by place, reference: coordinates beside the features of a cell,
// and sums over the cells weighted by a softmax.
#include <math.h>
#include <string.h>

#include "nn/ref/ref.h"

// ---- COORDS: (H, W, C) -> (H, W, C + 2), the last two are x and y of the cell's middle ----

void nn_ref_coords_forward(const nn_call* c) {
    int H = nn_in(c, 0)->dim[0], W = nn_in(c, 0)->dim[1], C = nn_in(c, 0)->dim[2];
    const double* x = c->in[0];
    double* y = c->out;
    for (int r = 0; r < c->rows; r++)
        for (int i = 0; i < H; i++)
            for (int j = 0; j < W; j++, x += C, y += C + 2) {
                memcpy(y, x, (size_t)C * sizeof *y);
                y[C] = (2.0 * j + 1) / W - 1;
                y[C + 1] = (2.0 * i + 1) / H - 1;
            }
}

void nn_ref_coords_backward(const nn_call* c) {
    int C = nn_in(c, 0)->dim[2], cells = c->rows * nn_in(c, 0)->size / C;
    const double* dy = c->dout;
    double* dx = nn_ref_grad(c, 0);
    for (int i = 0; dx && i < cells; i++)
        for (int j = 0; j < C; j++) dx[i * C + j] += dy[i * (C + 2) + j];
}

// ---- SOFTPOOL: logits (T, K), values (T, C) -> (K, C), sums over t with softmax weights ----

// w[t] = exp(l[t, k]) / sum over t
static void weights(const double* l, int T, int K, int k, double* w) {
    double most = -INFINITY, sum = 0;
    for (int t = 0; t < T; t++) most = fmax(most, l[t * K + k]);
    for (int t = 0; t < T; t++) sum += w[t] = exp(l[t * K + k] - most);
    for (int t = 0; t < T; t++) w[t] /= sum;
}

size_t nn_ref_softpool_scratch(const nn_graph* g, const nn_node* n, int rows) {
    (void)rows;
    return 2 * (size_t)g->tensor[n->in[0]].dim[0] * sizeof(double);
}

void nn_ref_softpool_forward(const nn_call* c) {
    int T = nn_in(c, 0)->dim[0], K = nn_in(c, 0)->dim[1], C = nn_in(c, 1)->dim[1];
    double *y = c->out, *w = c->scratch;
    for (int r = 0; r < c->rows; r++) {
        const double* l = (const double*)c->in[0] + (size_t)r * T * K;
        const double* v = (const double*)c->in[1] + (size_t)r * T * C;
        for (int k = 0; k < K; k++, y += C) {
            weights(l, T, K, k, w);
            for (int j = 0; j < C; j++) {
                y[j] = 0;
                for (int t = 0; t < T; t++) y[j] += w[t] * v[t * C + j];
            }
        }
    }
}

void nn_ref_softpool_backward(const nn_call* c) {
    int T = nn_in(c, 0)->dim[0], K = nn_in(c, 0)->dim[1], C = nn_in(c, 1)->dim[1];
    double *dl = nn_ref_grad(c, 0), *dv = nn_ref_grad(c, 1);
    double *w = c->scratch, *dw = w + T;
    const double* dy = c->dout;
    for (int r = 0; r < c->rows; r++) {
        const double* l = (const double*)c->in[0] + (size_t)r * T * K;
        const double* v = (const double*)c->in[1] + (size_t)r * T * C;
        for (int k = 0; k < K; k++, dy += C) {
            double mean = 0;
            weights(l, T, K, k, w);
            for (int t = 0; t < T; t++) {
                dw[t] = 0;
                for (int j = 0; j < C; j++) dw[t] += dy[j] * v[t * C + j];
                mean += w[t] * dw[t];
                for (int j = 0; dv && j < C; j++) dv[((size_t)r * T + t) * C + j] += w[t] * dy[j];
            }
            for (int t = 0; dl && t < T; t++)
                dl[((size_t)r * T + t) * K + k] += w[t] * (dw[t] - mean);
        }
    }
}
