// loss.c - one error per sample; batch reductions and their seeds are the exec's business.
#include <math.h>

#include "nn/cpu/cpu.h"

static void mse_forward(const nn_call* c) {
    int n = nn_in(c, 0)->size;
    for (int i = 0; i < c->rows; i++) {
        const float *x = (const float*)c->in[0] + (int64_t)i * n,
                    *t = (const float*)c->in[1] + (int64_t)i * n;
        double sum = 0;
        for (int j = 0; j < n; j++) sum += (double)(x[j] - t[j]) * (double)(x[j] - t[j]);
        ((float*)c->out)[i] = (float)(sum / n);
    }
}

static void mse_backward(const nn_call* c) {
    int n = nn_in(c, 0)->size;
    for (int i = 0; i < c->rows; i++) {
        const float *x = (const float*)c->in[0] + (int64_t)i * n,
                    *t = (const float*)c->in[1] + (int64_t)i * n;
        float scale = 2.0f * ((const float*)c->dout)[i] / (float)n;
        for (int side = 0; side < 2; side++) {
            if (!c->din[side]) continue;
            float *d = (float*)c->din[side] + (int64_t)i * n, s = side ? -scale : scale;
            for (int j = 0; j < n; j++)
                d[j] = (c->accumulate[side] ? d[j] : 0.0f) + s * (x[j] - t[j]);
        }
    }
}

// log(1 + e^x) without overflow
static float softplus(float x) {
    return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
}

static void bce_forward(const nn_call* c) {
    int n = nn_in(c, 0)->size;
    for (int i = 0; i < c->rows; i++) {
        const float *x = (const float*)c->in[0] + (int64_t)i * n,
                    *t = (const float*)c->in[1] + (int64_t)i * n;
        double sum = 0;
        for (int j = 0; j < n; j++)
            sum +=
                (double)(c->node->alpha * t[j] * softplus(-x[j]) + (1.0f - t[j]) * softplus(x[j]));
        ((float*)c->out)[i] = (float)(sum / n);
    }
}

static void bce_backward(const nn_call* c) {
    int n = nn_in(c, 0)->size;
    for (int i = 0; i < c->rows; i++) {
        const float *x = (const float*)c->in[0] + (int64_t)i * n,
                    *t = (const float*)c->in[1] + (int64_t)i * n;
        float scale = ((const float*)c->dout)[i] / (float)n;
        float* dx = c->din[0] ? (float*)c->din[0] + (int64_t)i * n : NULL;
        float* dt = c->din[1] ? (float*)c->din[1] + (int64_t)i * n : NULL;
        for (int j = 0; j < n; j++) {
            float p = 1.0f / (1.0f + expf(-x[j]));
            if (dx) {
                float d = scale * ((1.0f - t[j]) * p - c->node->alpha * t[j] * (1.0f - p));
                dx[j] = (c->accumulate[0] ? dx[j] : 0.0f) + d;
            }
            if (dt) {
                float d = scale * (c->node->alpha * softplus(-x[j]) - softplus(x[j]));
                dt[j] = (c->accumulate[1] ? dt[j] : 0.0f) + d;
            }
        }
    }
}

static void nll_forward(const nn_call* c) {
    int n = nn_in(c, 0)->size;
    for (int i = 0; i < c->rows; i++) {
        const float* m = (const float*)c->in[0] + (int64_t)i * n;
        const float* v = (const float*)c->in[1] + (int64_t)i * n;
        const float* t = (const float*)c->in[2] + (int64_t)i * n;
        double sum = 0;
        for (int j = 0; j < n; j++)
            sum += 0.5 * (double)(v[j] + (t[j] - m[j]) * (t[j] - m[j]) * expf(-v[j]));
        ((float*)c->out)[i] = (float)(sum / n);
    }
}

static void nll_backward(const nn_call* c) {
    int n = nn_in(c, 0)->size;
    for (int i = 0; i < c->rows; i++) {
        const float* m = (const float*)c->in[0] + (int64_t)i * n;
        const float* v = (const float*)c->in[1] + (int64_t)i * n;
        const float* t = (const float*)c->in[2] + (int64_t)i * n;
        float scale = ((const float*)c->dout)[i] / (float)n;
        float* d[3];
        for (int k = 0; k < 3; k++) d[k] = c->din[k] ? (float*)c->din[k] + (int64_t)i * n : NULL;
        for (int j = 0; j < n; j++) {
            float e = expf(-v[j]), r = t[j] - m[j];
            float grad[3] = {-scale * r * e, 0.5f * scale * (1.0f - r * r * e), scale * r * e};
            for (int k = 0; k < 3; k++)
                if (d[k]) d[k][j] = (c->accumulate[k] ? d[k][j] : 0.0f) + grad[k];
        }
    }
}

static float worst_pair(const float* x, const float* t, int pairs, int* which) {
    float worst = -1.0f;
    *which = 0;
    for (int j = 0; j < 2 * pairs; j += 2) {
        float a = x[j] - t[j], b = x[j + 1] - t[j + 1], q = a * a + b * b;
        if (q > worst) {
            worst = q;
            *which = j;
        }
    }
    return worst;
}

static void chord_forward(const nn_call* c) {
    int width = nn_in(c, 0)->dim[1], which;
    float eps = c->node->eps;
    for (int64_t r = 0; r < (int64_t)c->rows * nn_out(c)->size; r++) {
        float q = worst_pair((const float*)c->in[0] + r * width, (const float*)c->in[1] + r * width,
                             c->node->pairs, &which);
        ((float*)c->out)[r] = eps > 0 ? sqrtf(q + eps * eps) - eps : q;
    }
}

static void chord_backward(const nn_call* c) {
    int width = nn_in(c, 0)->dim[1], which;
    float eps = c->node->eps;
    for (int64_t r = 0; r < (int64_t)c->rows * nn_out(c)->size; r++) {
        const float *x = (const float*)c->in[0] + r * width,
                    *t = (const float*)c->in[1] + r * width;
        float q = worst_pair(x, t, c->node->pairs, &which), dq = ((const float*)c->dout)[r];
        if (eps > 0) dq /= 2.0f * sqrtf(q + eps * eps);
        for (int side = 0; side < 2; side++) {
            if (!c->din[side]) continue;
            float *d = (float*)c->din[side] + r * width, s = side ? -2.0f * dq : 2.0f * dq;
            for (int j = 0; j < width; j++) {
                float g = j == which || j == which + 1 ? s * (x[j] - t[j]) : 0.0f;
                d[j] = c->accumulate[side] ? d[j] + g : g;
            }
        }
    }
}

const nn_kernel nn_cpu_mse = {mse_forward, mse_backward, NULL, NULL};
const nn_kernel nn_cpu_bce = {bce_forward, bce_backward, NULL, NULL};
const nn_kernel nn_cpu_nll = {nll_forward, nll_backward, NULL, NULL};
const nn_kernel nn_cpu_chord = {chord_forward, chord_backward, NULL, NULL};
