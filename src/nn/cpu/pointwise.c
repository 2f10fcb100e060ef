// pointwise.c - element by element: GELU, sums, products, unit pairs, clamping.
#include <math.h>
#include <string.h>

#include "nn/cpu/cpu.h"

static int64_t total(const nn_call* c) {
    return (int64_t)c->rows * nn_out(c)->size;
}

static void gelu_forward(const nn_call* c) {
    nn_loops_get()->gelu(total(c), c->in[0], c->out);
}
static void gelu_backward(const nn_call* c) {
    nn_loops_get()->gelu_back(total(c), c->in[0], c->dout, c->din[0], c->accumulate[0]);
}

static void erfgelu_forward(const nn_call* c) {
    nn_loops_get()->erfgelu(total(c), c->in[0], c->out);
}
static void erfgelu_backward(const nn_call* c) {
    nn_loops_get()->erfgelu_back(total(c), c->in[0], c->dout, c->din[0], c->accumulate[0]);
}

static void silu_forward(const nn_call* c) {
    nn_loops_get()->silu(total(c), c->in[0], c->out);
}
static void silu_backward(const nn_call* c) {
    nn_loops_get()->silu_back(total(c), c->in[0], c->dout, c->din[0], c->accumulate[0]);
}

static void add_forward(const nn_call* c) {
    nn_loops_get()->axpby(total(c), c->node->alpha, c->in[0], c->node->beta, c->in[1], c->out);
}
static void add_backward(const nn_call* c) {
    if (c->din[0])
        nn_loops_get()->scaled(total(c), c->node->alpha, c->dout, c->din[0], c->accumulate[0]);
    if (c->din[1])
        nn_loops_get()->scaled(total(c), c->node->beta, c->dout, c->din[1], c->accumulate[1]);
}

static void addp_forward(const nn_call* c) {
    int width = nn_addp_period(c->graph, c->node);
    const float* x = c->in[0];
    float* y = c->out;
    for (int64_t i = 0; i < total(c); i += width)
        nn_loops_get()->axpby(width, 1, x + i, 1, c->in[1], y + i);
}
static void addp_backward(const nn_call* c) {
    int width = nn_addp_period(c->graph, c->node);
    if (c->din[0]) nn_loops_get()->scaled(total(c), 1, c->dout, c->din[0], c->accumulate[0]);
    if (c->din[1]) nn_loops_get()->sum_rows(total(c) / width, width, c->dout, c->din[1]);
}

static void mul_forward(const nn_call* c) {
    nn_loops_get()->product(total(c), c->in[0], c->in[1], c->out, 0);
}
static void mul_backward(const nn_call* c) {
    if (c->din[0])
        nn_loops_get()->product(total(c), c->dout, c->in[1], c->din[0], c->accumulate[0]);
    if (c->din[1])
        nn_loops_get()->product(total(c), c->dout, c->in[0], c->din[1], c->accumulate[1]);
}

static void clamp_forward(const nn_call* c) {
    const float* x = c->in[0];
    float* y = c->out;
    for (int64_t i = 0; i < total(c); i++)
        y[i] = x[i] < c->node->alpha ? c->node->alpha : x[i] > c->node->beta ? c->node->beta : x[i];
}
static void clamp_backward(const nn_call* c) {
    const float *x = c->in[0], *dy = c->dout;
    float* dx = c->din[0];
    for (int64_t i = 0; i < total(c); i++) {
        float d = x[i] < c->node->alpha || x[i] > c->node->beta ? 0.0f : dy[i];
        dx[i] = c->accumulate[0] ? dx[i] + d : d;
    }
}

static void pairnorm_forward(const nn_call* c) {
    const nn_tensor* t = nn_out(c);
    int width = t->dim[t->rank - 1];
    memcpy(c->out, c->in[0], (size_t)total(c) * sizeof(float));
    for (int64_t i = 0; i < total(c); i += width) {
        float* row = (float*)c->out + i;
        for (int p = 0; p < 2 * c->node->pairs; p += 2) {
            float length = fmaxf(sqrtf(row[p] * row[p] + row[p + 1] * row[p + 1]), 1e-6f);
            row[p] /= length;
            row[p + 1] /= length;
        }
    }
}
static void pairnorm_backward(const nn_call* c) {
    const nn_tensor* t = nn_out(c);
    int width = t->dim[t->rank - 1];
    for (int64_t i = 0; i < total(c); i += width) {
        const float *x = (const float*)c->in[0] + i, *dy = (const float*)c->dout + i;
        float* dx = (float*)c->din[0] + i;
        for (int j = 0; j < width; j++) {
            float d = dy[j];
            if (j < 2 * c->node->pairs) {
                int s = j & ~1;
                float length = fmaxf(sqrtf(x[s] * x[s] + x[s + 1] * x[s + 1]), 1e-6f);
                float dot = (x[s] * dy[s] + x[s + 1] * dy[s + 1]) / (length * length);
                d = length > 1e-6f ? (dy[j] - x[j] * dot) / length : dy[j] / length;
            }
            dx[j] = c->accumulate[0] ? dx[j] + d : d;
        }
    }
}

static void relative_forward(const nn_call* c) {
    const nn_tensor* t = nn_out(c);
    int width = t->dim[t->rank - 1];
    for (int64_t i = 0; i < total(c); i += width) {
        const float *x = (const float*)c->in[0] + i, *y = (const float*)c->in[1] + i;
        float* z = (float*)c->out + i;
        int j = 0;
        for (; j < 2 * c->node->pairs; j += 2) {
            z[j] = x[j] * y[j + 1] - x[j + 1] * y[j];
            z[j + 1] = x[j + 1] * y[j + 1] + x[j] * y[j];
        }
        for (; j < width; j++) z[j] = x[j] - y[j];
    }
}
static void relative_backward(const nn_call* c) {
    const nn_tensor* t = nn_out(c);
    int width = t->dim[t->rank - 1];
    for (int64_t i = 0; i < total(c); i += width) {
        const float *x = (const float*)c->in[0] + i, *y = (const float*)c->in[1] + i;
        const float* dz = (const float*)c->dout + i;
        for (int side = 0; side < 2; side++) {
            if (!c->din[side]) continue;
            float* d = (float*)c->din[side] + i;
            for (int j = 0; j < width; j++) {
                float g = side ? -dz[j] : dz[j];
                if (j < 2 * c->node->pairs) {
                    int s = j & ~1;
                    float gs = dz[s], gc = dz[s + 1];
                    const float* o = side ? x + s : y + s;  // the other pair
                    if (side)
                        g = j == s ? gc * o[0] - gs * o[1] : gs * o[0] + gc * o[1];
                    else
                        g = j == s ? gs * o[1] + gc * o[0] : gc * o[1] - gs * o[0];
                }
                d[j] = c->accumulate[side] ? d[j] + g : g;
            }
        }
    }
}

const nn_kernel nn_cpu_gelu = {gelu_forward, gelu_backward, NULL, NULL};
const nn_kernel nn_cpu_erfgelu = {erfgelu_forward, erfgelu_backward, NULL, NULL};
const nn_kernel nn_cpu_silu = {silu_forward, silu_backward, NULL, NULL};
const nn_kernel nn_cpu_add = {add_forward, add_backward, NULL, NULL};
const nn_kernel nn_cpu_addp = {addp_forward, addp_backward, NULL, NULL};
const nn_kernel nn_cpu_mul = {mul_forward, mul_backward, NULL, NULL};
const nn_kernel nn_cpu_clamp = {clamp_forward, clamp_backward, NULL, NULL};
const nn_kernel nn_cpu_pairnorm = {pairnorm_forward, pairnorm_backward, NULL, NULL};
const nn_kernel nn_cpu_relative = {relative_forward, relative_backward, NULL, NULL};
