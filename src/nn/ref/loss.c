// loss.c - one number per sample, the mean over its elements, reference. Targets get a gradient too
// when one is wanted (a target may itself be computed).
#include <math.h>

#include "nn/ref/ref.h"

// log(1 + e^x) without overflow
static double softplus(double x) {
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

// ---- MSE: mean of (x - t)^2 ----

void nn_ref_mse_forward(const nn_call* c) {
    int n = nn_in(c, 0)->size;
    const double *x = c->in[0], *t = c->in[1];
    double* y = c->out;
    for (int r = 0; r < c->rows; r++) {
        double sum = 0;
        for (size_t i = (size_t)r * n; i < (size_t)(r + 1) * n; i++)
            sum += (x[i] - t[i]) * (x[i] - t[i]);
        y[r] = sum / n;
    }
}

void nn_ref_mse_backward(const nn_call* c) {
    int n = nn_in(c, 0)->size;
    const double *x = c->in[0], *t = c->in[1], *dy = c->dout;
    double *dx = nn_ref_grad(c, 0), *dt = nn_ref_grad(c, 1);
    for (size_t i = 0; i < (size_t)c->rows * n; i++) {
        double g = 2 * (x[i] - t[i]) * dy[i / n] / n;
        if (dx) dx[i] += g;
        if (dt) dt[i] -= g;
    }
}

// ---- BCE with logits x and targets t in 0..1: mean of alpha t softplus(-x) + (1 - t) softplus(x)
// ----

void nn_ref_bce_forward(const nn_call* c) {
    int n = nn_in(c, 0)->size;
    const double *x = c->in[0], *t = c->in[1];
    double* y = c->out;
    for (int r = 0; r < c->rows; r++) {
        double sum = 0;
        for (size_t i = (size_t)r * n; i < (size_t)(r + 1) * n; i++) {
            sum += c->node->alpha * t[i] * softplus(-x[i]) + (1 - t[i]) * softplus(x[i]);
        }
        y[r] = sum / n;
    }
}

void nn_ref_bce_backward(const nn_call* c) {
    int n = nn_in(c, 0)->size;
    const double *x = c->in[0], *t = c->in[1], *dy = c->dout;
    double *dx = nn_ref_grad(c, 0), *dt = nn_ref_grad(c, 1);
    for (size_t i = 0; i < (size_t)c->rows * n; i++) {
        double g = dy[i / n] / n;
        if (dx) dx[i] += g * ((1 - t[i]) * sigmoid(x[i]) - c->node->alpha * t[i] * sigmoid(-x[i]));
        if (dt) dt[i] += g * (c->node->alpha * softplus(-x[i]) - softplus(x[i]));
    }
}

// ---- NLL of a normal, up to a constant: mean of (lv + (t - m)^2 e^-lv) / 2 ----

void nn_ref_nll_forward(const nn_call* c) {
    int n = nn_in(c, 0)->size;
    const double *m = c->in[0], *lv = c->in[1], *t = c->in[2];
    double* y = c->out;
    for (int r = 0; r < c->rows; r++) {
        double sum = 0;
        for (size_t i = (size_t)r * n; i < (size_t)(r + 1) * n; i++) {
            sum += (lv[i] + (t[i] - m[i]) * (t[i] - m[i]) * exp(-lv[i])) / 2;
        }
        y[r] = sum / n;
    }
}

void nn_ref_nll_backward(const nn_call* c) {
    int n = nn_in(c, 0)->size;
    const double *m = c->in[0], *lv = c->in[1], *t = c->in[2], *dy = c->dout;
    double *dm = nn_ref_grad(c, 0), *dlv = nn_ref_grad(c, 1), *dt = nn_ref_grad(c, 2);
    for (size_t i = 0; i < (size_t)c->rows * n; i++) {
        double g = dy[i / n] / n, miss = t[i] - m[i], precision = exp(-lv[i]);
        if (dm) dm[i] -= g * miss * precision;
        if (dt) dt[i] += g * miss * precision;
        if (dlv) dlv[i] += g * (1 - miss * miss * precision) / 2;
    }
}
