// pointwise.c - ops that look at one element at a time (PAIRNORM: at two), reference.
#include <math.h>

#include "nn/ref/ref.h"

static size_t count_of(const nn_call* c) {
    return (size_t)c->rows * nn_in(c, 0)->size;
}

// ---- GELU: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) ----

static const double GELU_SCALE = 0.7978845608028654, GELU_CUBIC = 0.044715;

void nn_ref_gelu_forward(const nn_call* c) {
    const double* x = c->in[0];
    double* y = c->out;
    for (size_t i = 0; i < count_of(c); i++) {
        y[i] = 0.5 * x[i] * (1 + tanh(GELU_SCALE * (x[i] + GELU_CUBIC * x[i] * x[i] * x[i])));
    }
}

void nn_ref_gelu_backward(const nn_call* c) {
    const double *x = c->in[0], *dy = c->dout;
    double* dx = nn_ref_grad(c, 0);
    for (size_t i = 0; dx && i < count_of(c); i++) {
        double t = tanh(GELU_SCALE * (x[i] + GELU_CUBIC * x[i] * x[i] * x[i]));
        double inner = GELU_SCALE * (1 + 3 * GELU_CUBIC * x[i] * x[i]);
        dx[i] += dy[i] * (0.5 * (1 + t) + 0.5 * x[i] * (1 - t * t) * inner);
    }
}

// ---- ERFGELU: x Phi(x), Phi the distribution of a standard normal ----

static double normal_below(double x) {
    return 0.5 * erfc(-x * 0.70710678118654752);
}

void nn_ref_erfgelu_forward(const nn_call* c) {
    const double* x = c->in[0];
    double* y = c->out;
    for (size_t i = 0; i < count_of(c); i++) y[i] = x[i] * normal_below(x[i]);
}

void nn_ref_erfgelu_backward(const nn_call* c) {
    const double *x = c->in[0], *dy = c->dout;
    double* dx = nn_ref_grad(c, 0);
    for (size_t i = 0; dx && i < count_of(c); i++) {
        double density = 0.39894228040143268 * exp(-0.5 * x[i] * x[i]);
        dx[i] += dy[i] * (normal_below(x[i]) + x[i] * density);
    }
}

// ---- SILU: x s, s = 1 / (1 + e^-x) ----

void nn_ref_silu_forward(const nn_call* c) {
    const double* x = c->in[0];
    double* y = c->out;
    for (size_t i = 0; i < count_of(c); i++) y[i] = x[i] / (1 + exp(-x[i]));
}

void nn_ref_silu_backward(const nn_call* c) {
    const double *x = c->in[0], *dy = c->dout;
    double* dx = nn_ref_grad(c, 0);
    for (size_t i = 0; dx && i < count_of(c); i++) {
        double s = 1 / (1 + exp(-x[i]));
        dx[i] += dy[i] * s * (1 + x[i] * (1 - s));
    }
}

// ---- ADD: alpha x + beta y ----

void nn_ref_add_forward(const nn_call* c) {
    const double *x = c->in[0], *y = c->in[1];
    double* z = c->out;
    for (size_t i = 0; i < count_of(c); i++) z[i] = c->node->alpha * x[i] + c->node->beta * y[i];
}

void nn_ref_add_backward(const nn_call* c) {
    const double* dz = c->dout;
    double *dx = nn_ref_grad(c, 0), *dy = nn_ref_grad(c, 1);
    for (size_t i = 0; i < count_of(c); i++) {
        if (dx) dx[i] += c->node->alpha * dz[i];
        if (dy) dy[i] += c->node->beta * dz[i];
    }
}

// ---- ADDP: x + p, p repeated over samples and leading dimensions ----

void nn_ref_addp_forward(const nn_call* c) {
    const double *x = c->in[0], *p = c->in[1];
    double* y = c->out;
    size_t period = (size_t)nn_addp_period(c->graph, c->node);
    for (size_t i = 0; i < count_of(c); i++) y[i] = x[i] + p[i % period];
}

void nn_ref_addp_backward(const nn_call* c) {
    const double* dy = c->dout;
    double *dx = nn_ref_grad(c, 0), *dp = nn_ref_grad(c, 1);
    size_t period = (size_t)nn_addp_period(c->graph, c->node);
    for (size_t i = 0; i < count_of(c); i++) {
        if (dx) dx[i] += dy[i];
        if (dp) dp[i % period] += dy[i];
    }
}

// ---- MUL: x y ----

void nn_ref_mul_forward(const nn_call* c) {
    const double *x = c->in[0], *y = c->in[1];
    double* z = c->out;
    for (size_t i = 0; i < count_of(c); i++) z[i] = x[i] * y[i];
}

void nn_ref_mul_backward(const nn_call* c) {
    const double *x = c->in[0], *y = c->in[1], *dz = c->dout;
    double *dx = nn_ref_grad(c, 0), *dy = nn_ref_grad(c, 1);
    for (size_t i = 0; i < count_of(c); i++) {
        if (dx) dx[i] += dz[i] * y[i];
        if (dy) dy[i] += dz[i] * x[i];
    }
}

// ---- PAIRNORM: (s, c) / max(|(s, c)|, 1e-6) for the first pairs of the last dimension ----

static const double SHORTEST_PAIR = 1e-6;

void nn_ref_pairnorm_forward(const nn_call* c) {
    int C = nn_ref_last(nn_in(c, 0));
    const double* x = c->in[0];
    double* y = c->out;
    for (size_t at = 0; at < count_of(c); at += C) {
        for (int j = 0; j < C; j++) y[at + j] = x[at + j];
        for (int j = 0; j < 2 * c->node->pairs; j += 2) {
            double length = fmax(hypot(x[at + j], x[at + j + 1]), SHORTEST_PAIR);
            y[at + j] /= length;
            y[at + j + 1] /= length;
        }
    }
}

// with the unit pair u: dx = (dy - u (u . dy)) / length; a pair too short to turn is only scaled
void nn_ref_pairnorm_backward(const nn_call* c) {
    int C = nn_ref_last(nn_in(c, 0));
    const double *x = c->in[0], *dy = c->dout;
    double* dx = nn_ref_grad(c, 0);
    for (size_t at = 0; dx && at < count_of(c); at += C) {
        for (int j = 2 * c->node->pairs; j < C; j++) dx[at + j] += dy[at + j];
        for (int j = 0; j < 2 * c->node->pairs; j += 2) {
            double gs = dy[at + j], gc = dy[at + j + 1];
            double length = hypot(x[at + j], x[at + j + 1]);
            if (length <= SHORTEST_PAIR) {
                dx[at + j] += gs / SHORTEST_PAIR;
                dx[at + j + 1] += gc / SHORTEST_PAIR;
                continue;
            }
            double us = x[at + j] / length, uc = x[at + j + 1] / length, along = us * gs + uc * gc;
            dx[at + j] += (gs - us * along) / length;
            dx[at + j + 1] += (gc - uc * along) / length;
        }
    }
}

// ---- CLAMP: min(max(x, alpha), beta); the bounds themselves still pass a gradient ----

void nn_ref_clamp_forward(const nn_call* c) {
    const double* x = c->in[0];
    double* y = c->out;
    for (size_t i = 0; i < count_of(c); i++) y[i] = fmin(fmax(x[i], c->node->alpha), c->node->beta);
}

void nn_ref_clamp_backward(const nn_call* c) {
    const double *x = c->in[0], *dy = c->dout;
    double* dx = nn_ref_grad(c, 0);
    for (size_t i = 0; dx && i < count_of(c); i++) {
        if (x[i] >= c->node->alpha && x[i] <= c->node->beta) dx[i] += dy[i];
    }
}

// ---- RELATIVE: (sin, cos) of the angle from y to x for the first pairs, x - y for the rest ----

void nn_ref_relative_forward(const nn_call* c) {
    int C = nn_ref_last(nn_in(c, 0));
    const double *x = c->in[0], *y = c->in[1];
    double* z = c->out;
    for (size_t at = 0; at < count_of(c); at += C) {
        for (int j = 2 * c->node->pairs; j < C; j++) z[at + j] = x[at + j] - y[at + j];
        for (int j = 0; j < 2 * c->node->pairs; j += 2) {
            const double *a = x + at + j, *b = y + at + j;
            z[at + j] = a[0] * b[1] - a[1] * b[0];
            z[at + j + 1] = a[1] * b[1] + a[0] * b[0];
        }
    }
}

void nn_ref_relative_backward(const nn_call* c) {
    int C = nn_ref_last(nn_in(c, 0));
    const double *x = c->in[0], *y = c->in[1], *dz = c->dout;
    double *dx = nn_ref_grad(c, 0), *dy = nn_ref_grad(c, 1);
    for (size_t at = 0; at < count_of(c); at += C) {
        for (int j = 2 * c->node->pairs; j < C; j++) {
            if (dx) dx[at + j] += dz[at + j];
            if (dy) dy[at + j] -= dz[at + j];
        }
        for (int j = 0; j < 2 * c->node->pairs; j += 2) {
            const double *a = x + at + j, *b = y + at + j;
            double gs = dz[at + j], gc = dz[at + j + 1];
            if (dx) {
                dx[at + j] += gs * b[1] + gc * b[0];
                dx[at + j + 1] += gc * b[1] - gs * b[0];
            }
            if (dy) {
                dy[at + j] += gc * a[0] - gs * a[1];
                dy[at + j + 1] += gs * a[0] + gc * a[1];
            }
        }
    }
}
