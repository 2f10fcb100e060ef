// conv.c - convolution and transposed convolution, channels last, zero padding, reference.
//
// Both are the same list of (small pixel, kernel cell, large pixel) triples: the large pixel is at
// s * small + cell - p. The convolution gathers from the large image into the small one, the
// transposed convolution scatters from the small image into the large one.
#include "nn/ref/ref.h"

// Where kernel cell `cell` of small position `i` lies in a large side of `size`; -1 in the padding.
static int large_at(const nn_node* n, int i, int cell, int size) {
    int at = i * n->stride + cell - n->pad;
    return at >= 0 && at < size ? at : -1;
}

// CONV2D: y[oy, ox, n] = b[n]
//     + sum over ky, kx, c of x[oy s + ky - p, ox s + kx - p, c] w[(ky k + kx) C + c, n]
void nn_ref_conv2d_forward(const nn_call* c) {
    const nn_tensor *tx = nn_in(c, 0), *ty = nn_out(c);
    int H = tx->dim[0], W = tx->dim[1], C = tx->dim[2];
    int OH = ty->dim[0], OW = ty->dim[1], N = ty->dim[2], k = c->node->kernel;
    const double *w = c->in[1], *b = c->in[2];
    for (int r = 0; r < c->rows; r++) {
        const double* x = (const double*)c->in[0] + (size_t)r * tx->size;
        double* y = (double*)c->out + (size_t)r * ty->size;
        for (int oy = 0; oy < OH; oy++) {
            for (int ox = 0; ox < OW; ox++) {
                double* at = y + (size_t)(oy * OW + ox) * N;
                for (int n = 0; n < N; n++) at[n] = b ? b[n] : 0;
                for (int cell = 0; cell < k * k; cell++) {
                    int iy = large_at(c->node, oy, cell / k, H),
                        ix = large_at(c->node, ox, cell % k, W);
                    if (iy < 0 || ix < 0) continue;
                    for (int ch = 0; ch < C; ch++) {
                        double v = x[(size_t)(iy * W + ix) * C + ch];
                        for (int n = 0; n < N; n++) at[n] += v * w[(size_t)(cell * C + ch) * N + n];
                    }
                }
            }
        }
    }
}

void nn_ref_conv2d_backward(const nn_call* c) {
    const nn_tensor *tx = nn_in(c, 0), *ty = nn_out(c);
    int H = tx->dim[0], W = tx->dim[1], C = tx->dim[2];
    int OH = ty->dim[0], OW = ty->dim[1], N = ty->dim[2], k = c->node->kernel;
    const double* w = c->in[1];
    double *dx_all = nn_ref_grad(c, 0), *dw = nn_ref_grad(c, 1);
    double* db = c->in[2] ? nn_ref_grad(c, 2) : NULL;
    for (int r = 0; r < c->rows; r++) {
        const double* x = (const double*)c->in[0] + (size_t)r * tx->size;
        const double* dy = (const double*)c->dout + (size_t)r * ty->size;
        double* dx = dx_all ? dx_all + (size_t)r * tx->size : NULL;
        for (int oy = 0; oy < OH; oy++) {
            for (int ox = 0; ox < OW; ox++) {
                const double* g = dy + (size_t)(oy * OW + ox) * N;
                for (int n = 0; db && n < N; n++) db[n] += g[n];
                for (int cell = 0; cell < k * k; cell++) {
                    int iy = large_at(c->node, oy, cell / k, H),
                        ix = large_at(c->node, ox, cell % k, W);
                    if (iy < 0 || ix < 0) continue;
                    for (int ch = 0; ch < C; ch++) {
                        size_t at = (size_t)(iy * W + ix) * C + ch;
                        for (int n = 0; n < N; n++) {
                            size_t weight = (size_t)(cell * C + ch) * N + n;
                            if (dx) dx[at] += g[n] * w[weight];
                            if (dw) dw[weight] += g[n] * x[at];
                        }
                    }
                }
            }
        }
    }
}

// CONVT2D: y starts at b[n], then for every iy, ix, c, ky, kx:
//     y[iy s + ky - p, ix s + kx - p, n] += x[iy, ix, c] w[c, (ky k + kx) N + n]
void nn_ref_convt2d_forward(const nn_call* c) {
    const nn_tensor *tx = nn_in(c, 0), *ty = nn_out(c);
    int H = tx->dim[0], W = tx->dim[1], C = tx->dim[2];
    int OH = ty->dim[0], OW = ty->dim[1], N = ty->dim[2], k = c->node->kernel;
    const double *w = c->in[1], *b = c->in[2];
    for (int r = 0; r < c->rows; r++) {
        const double* x = (const double*)c->in[0] + (size_t)r * tx->size;
        double* y = (double*)c->out + (size_t)r * ty->size;
        for (int i = 0; i < ty->size; i++) y[i] = b ? b[i % N] : 0;
        for (int iy = 0; iy < H; iy++) {
            for (int ix = 0; ix < W; ix++) {
                for (int cell = 0; cell < k * k; cell++) {
                    int oy = large_at(c->node, iy, cell / k, OH),
                        ox = large_at(c->node, ix, cell % k, OW);
                    if (oy < 0 || ox < 0) continue;
                    for (int ch = 0; ch < C; ch++) {
                        double v = x[(size_t)(iy * W + ix) * C + ch];
                        for (int n = 0; n < N; n++) {
                            y[(size_t)(oy * OW + ox) * N + n] +=
                                v * w[((size_t)ch * k * k + cell) * N + n];
                        }
                    }
                }
            }
        }
    }
}

void nn_ref_convt2d_backward(const nn_call* c) {
    const nn_tensor *tx = nn_in(c, 0), *ty = nn_out(c);
    int H = tx->dim[0], W = tx->dim[1], C = tx->dim[2];
    int OH = ty->dim[0], OW = ty->dim[1], N = ty->dim[2], k = c->node->kernel;
    const double* w = c->in[1];
    double *dx_all = nn_ref_grad(c, 0), *dw = nn_ref_grad(c, 1);
    double* db = c->in[2] ? nn_ref_grad(c, 2) : NULL;
    for (int r = 0; r < c->rows; r++) {
        const double* x = (const double*)c->in[0] + (size_t)r * tx->size;
        const double* dy = (const double*)c->dout + (size_t)r * ty->size;
        double* dx = dx_all ? dx_all + (size_t)r * tx->size : NULL;
        for (int i = 0; db && i < ty->size; i++) db[i % N] += dy[i];
        for (int iy = 0; iy < H; iy++) {
            for (int ix = 0; ix < W; ix++) {
                for (int cell = 0; cell < k * k; cell++) {
                    int oy = large_at(c->node, iy, cell / k, OH),
                        ox = large_at(c->node, ix, cell % k, OW);
                    if (oy < 0 || ox < 0) continue;
                    const double* g = dy + (size_t)(oy * OW + ox) * N;
                    for (int ch = 0; ch < C; ch++) {
                        size_t at = (size_t)(iy * W + ix) * C + ch;
                        for (int n = 0; n < N; n++) {
                            size_t weight = ((size_t)ch * k * k + cell) * N + n;
                            if (dx) dx[at] += g[n] * w[weight];
                            if (dw) dw[weight] += g[n] * x[at];
                        }
                    }
                }
            }
        }
    }
}
