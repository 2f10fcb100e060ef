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

// ---- CHORD: the largest squared pair distance q of each row; sqrt(q + eps^2) - eps if eps > 0
// ----

static double worst_pair(const double* x, const double* t, int pairs, int* which) {
    double worst = -1;
    for (int j = 0; j < 2 * pairs; j += 2) {
        double a = x[j] - t[j], b = x[j + 1] - t[j + 1], q = a * a + b * b;
        if (q > worst) {
            worst = q;
            *which = j;
        }
    }
    return worst;
}

void nn_ref_chord_forward(const nn_call* c) {
    int C = nn_ref_last(nn_in(c, 0)), which = 0;
    size_t rows = (size_t)c->rows * nn_out(c)->size;
    const double *x = c->in[0], *t = c->in[1], eps = c->node->eps;
    double* y = c->out;
    for (size_t r = 0; r < rows; r++) {
        double q = worst_pair(x + r * C, t + r * C, c->node->pairs, &which);
        y[r] = eps > 0 ? sqrt(q + eps * eps) - eps : q;
    }
}

void nn_ref_chord_backward(const nn_call* c) {
    int C = nn_ref_last(nn_in(c, 0)), which = 0;
    size_t rows = (size_t)c->rows * nn_out(c)->size;
    const double *x = c->in[0], *t = c->in[1], *dy = c->dout, eps = c->node->eps;
    double *dx = nn_ref_grad(c, 0), *dt = nn_ref_grad(c, 1);
    for (size_t r = 0; r < rows; r++) {
        double q = worst_pair(x + r * C, t + r * C, c->node->pairs, &which);
        double dq = eps > 0 ? dy[r] / (2 * sqrt(q + eps * eps)) : dy[r];
        for (size_t i = r * C + which; i < r * C + which + 2; i++) {
            if (dx) dx[i] += 2 * dq * (x[i] - t[i]);
            if (dt) dt[i] -= 2 * dq * (x[i] - t[i]);
        }
    }
}
