// norm.c - layer norm and group norm, reference: y = gamma (x - mean) / sqrt(var + eps) + beta with
// the biased variance. The two differ in the set that shares a mean: the last dimension, or all
// positions of a sample times the channels of one group. A set is described by `positions` runs of
// `width` neighbouring channels, `stride` apart.
#include <math.h>

#include "nn/ref/ref.h"

typedef struct norm_set {
    int positions, width, stride;
} norm_set;

static void set_stats(norm_set s, const double* x, double eps, double* mean, double* scale) {
    double count = (double)s.positions * s.width, sum = 0, square = 0;
    for (int p = 0; p < s.positions; p++) {
        for (int i = 0; i < s.width; i++) sum += x[(size_t)p * s.stride + i];
    }
    *mean = sum / count;
    for (int p = 0; p < s.positions; p++) {
        for (int i = 0; i < s.width; i++) {
            double d = x[(size_t)p * s.stride + i] - *mean;
            square += d * d;
        }
    }
    *scale = 1 / sqrt(square / count + eps);
}

static void set_forward(norm_set s, const double* x, const double* gamma, const double* beta,
                        double eps, double* y) {
    double mean, scale;
    set_stats(s, x, eps, &mean, &scale);
    for (int p = 0; p < s.positions; p++) {
        for (int i = 0; i < s.width; i++) {
            size_t at = (size_t)p * s.stride + i;
            y[at] = gamma[i] * (x[at] - mean) * scale + beta[i];
        }
    }
}

// with h = (x - mean) scale and g = dy gamma: dx = scale (g - mean(g) - h mean(g h))
static void set_backward(norm_set s, const double* x, const double* gamma, double eps,
                         const double* dy, double* dx, double* dgamma, double* dbeta) {
    double count = (double)s.positions * s.width, mean, scale, sum_g = 0, sum_gh = 0;
    set_stats(s, x, eps, &mean, &scale);
    for (int p = 0; p < s.positions; p++) {
        for (int i = 0; i < s.width; i++) {
            size_t at = (size_t)p * s.stride + i;
            double h = (x[at] - mean) * scale;
            sum_g += dy[at] * gamma[i];
            sum_gh += dy[at] * gamma[i] * h;
            if (dgamma) dgamma[i] += dy[at] * h;
            if (dbeta) dbeta[i] += dy[at];
        }
    }
    for (int p = 0; dx && p < s.positions; p++) {
        for (int i = 0; i < s.width; i++) {
            size_t at = (size_t)p * s.stride + i;
            double h = (x[at] - mean) * scale;
            dx[at] += scale * (dy[at] * gamma[i] - sum_g / count - h * sum_gh / count);
        }
    }
}

void nn_ref_layernorm_forward(const nn_call* c) {
    int C = nn_ref_last(nn_in(c, 0)), M = c->rows * (nn_in(c, 0)->size / C);
    const double* x = c->in[0];
    double* y = c->out;
    for (int m = 0; m < M; m++) {
        size_t at = (size_t)m * C;
        set_forward((norm_set){1, C, C}, x + at, c->in[1], c->in[2], c->node->eps, y + at);
    }
}

void nn_ref_layernorm_backward(const nn_call* c) {
    int C = nn_ref_last(nn_in(c, 0)), M = c->rows * (nn_in(c, 0)->size / C);
    const double *x = c->in[0], *dy = c->dout;
    double *dx = nn_ref_grad(c, 0), *dgamma = nn_ref_grad(c, 1), *dbeta = nn_ref_grad(c, 2);
    for (int m = 0; m < M; m++) {
        size_t at = (size_t)m * C;
        set_backward((norm_set){1, C, C}, x + at, c->in[1], c->node->eps, dy + at,
                     dx ? dx + at : NULL, dgamma, dbeta);
    }
}

// ---- ADANORM: a layer norm whose gamma and beta, 1 + scale and shift, belong to the element ----

void nn_ref_adanorm_forward(const nn_call* c) {
    int C = nn_ref_last(nn_in(c, 0)), M = c->rows * (nn_in(c, 0)->size / C);
    const double *x = c->in[0], *scale = c->in[1], *shift = c->in[2];
    double* y = c->out;
    for (int m = 0; m < M; m++) {
        size_t at = (size_t)m * C;
        double mean, slope;
        set_stats((norm_set){1, C, C}, x + at, c->node->eps, &mean, &slope);
        for (size_t i = at; i < at + C; i++)
            y[i] = (x[i] - mean) * slope * (1 + scale[i]) + shift[i];
    }
}

void nn_ref_adanorm_backward(const nn_call* c) {
    int C = nn_ref_last(nn_in(c, 0)), M = c->rows * (nn_in(c, 0)->size / C);
    const double *x = c->in[0], *scale = c->in[1], *dy = c->dout;
    double *dx = nn_ref_grad(c, 0), *dscale = nn_ref_grad(c, 1), *dshift = nn_ref_grad(c, 2);
    for (int m = 0; m < M; m++) {
        size_t at = (size_t)m * C;
        double mean, slope, sum_g = 0, sum_gh = 0;
        set_stats((norm_set){1, C, C}, x + at, c->node->eps, &mean, &slope);
        for (size_t i = at; i < at + C; i++) {
            double h = (x[i] - mean) * slope;
            sum_g += dy[i] * (1 + scale[i]) / C;
            sum_gh += dy[i] * (1 + scale[i]) * h / C;
        }
        for (size_t i = at; i < at + C; i++) {
            double h = (x[i] - mean) * slope;
            if (dx) dx[i] += slope * (dy[i] * (1 + scale[i]) - sum_g - h * sum_gh);
            if (dscale) dscale[i] += dy[i] * h;
            if (dshift) dshift[i] += dy[i];
        }
    }
}

void nn_ref_groupnorm_forward(const nn_call* c) {
    int C = nn_ref_last(nn_in(c, 0)), size = nn_in(c, 0)->size, width = C / c->node->groups;
    const double *x = c->in[0], *gamma = c->in[1], *beta = c->in[2];
    double* y = c->out;
    for (int r = 0; r < c->rows; r++) {
        for (int first = 0; first < C; first += width) {
            size_t at = (size_t)r * size + first;
            set_forward((norm_set){size / C, width, C}, x + at, gamma + first, beta + first,
                        c->node->eps, y + at);
        }
    }
}

void nn_ref_groupnorm_backward(const nn_call* c) {
    int C = nn_ref_last(nn_in(c, 0)), size = nn_in(c, 0)->size, width = C / c->node->groups;
    const double *x = c->in[0], *gamma = c->in[1], *dy = c->dout;
    double *dx = nn_ref_grad(c, 0), *dgamma = nn_ref_grad(c, 1), *dbeta = nn_ref_grad(c, 2);
    for (int r = 0; r < c->rows; r++) {
        for (int first = 0; first < C; first += width) {
            size_t at = (size_t)r * size + first;
            set_backward((norm_set){size / C, width, C}, x + at, gamma + first, c->node->eps,
                         dy + at, dx ? dx + at : NULL, dgamma ? dgamma + first : NULL,
                         dbeta ? dbeta + first : NULL);
        }
    }
}
