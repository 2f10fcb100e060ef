// rounded.c - the transition with rounded operands; plain loops, weights rounded once.
#include "rounded.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// to 11 (float16, whose smallest step is 2^-24) or 8 (bfloat16) significant bits, ties to even
static double round_to(double x, plan_precision p) {
    int bits = p == PLAN_TF32 ? 11 : 8, e;
    if (x == 0 || !isfinite(x)) return x;
    frexp(x, &e);
    int step = e - bits;
    if (p == PLAN_TF32 && step < -24) step = -24;
    return ldexp(nearbyint(ldexp(x, -step)), step);
}

// One product, a LayerNorm's scale and shift folded in.
typedef struct rounded_layer {
    int in, out;
    double *w, *bias, *sum;  // (in, out), (out), (out) column sums of the rounded weights
} rounded_layer;

static rounded_layer make(int in, int out, const float* w, const float* b, const float* scale,
                          const float* shift, plan_precision p) {
    size_t area = (size_t)in * (size_t)out;
    rounded_layer l = {in, out, malloc(area * sizeof(double)), calloc((size_t)out, sizeof(double)),
                       calloc((size_t)out, sizeof(double))};
    double most = 0;
    for (int k = 0; k < in; k++)
        for (int o = 0; o < out; o++) {
            double v = w[k * out + o];
            if (shift) l.bias[o] += shift[k] * v;
            v = (float)(scale ? scale[k] * v : v);
            l.w[k * out + o] = v;
            most = fmax(most, fabs(v));
        }
    double unit = p == PLAN_TF32 && most > 0 ? ldexp(1, ilogb(most) - 8) : 1;
    for (int o = 0; o < out; o++) l.bias[o] = (float)(l.bias[o] + b[o]);
    for (size_t i = 0; i < area; i++) {
        l.w[i] = unit * round_to(l.w[i] / unit, p);
        l.sum[i % (size_t)out] += l.w[i];
    }
    return l;
}

static void layer_free(rounded_layer* l) {
    free(l->w), free(l->bias), free(l->sum);
}

// y = x W, x rounded
static void multiply(const rounded_layer* l, const double* x, plan_precision p, double* y) {
    memset(y, 0, (size_t)l->out * sizeof *y);
    for (int k = 0; k < l->in; k++) {
        double v = round_to(x[k], p);
        for (int o = 0; o < l->out; o++) y[o] += v * l->w[k * l->out + o];
    }
}

// y = LN(h) W + bias in one of the two orders
static void normalised(const rounded_layer* l, const double* h, int raw, plan_precision p,
                       double* y) {
    double mean = 0, squares = 0, *a = malloc((size_t)l->in * sizeof *a);
    for (int k = 0; k < l->in; k++) mean += h[k] / l->in;
    for (int k = 0; k < l->in; k++) squares += (h[k] - mean) * (h[k] - mean) / l->in;
    double scale = 1 / sqrt(squares + 1e-5);
    for (int k = 0; k < l->in; k++) a[k] = raw ? h[k] : (h[k] - mean) * scale;
    multiply(l, a, p, y);
    for (int o = 0; o < l->out; o++)
        y[o] = (raw ? scale * (y[o] - mean * l->sum[o]) : y[o]) + l->bias[o];
    free(a);
}

static double gelu(double x) {
    return 0.5 * x * (1 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
}

typedef struct rounded_net {
    rounded_layer in, up[PLAN_MAX_BLOCKS], down[PLAN_MAX_BLOCKS], to_c, to_m;
} rounded_net;

// One macro step; x = [c, m, u] receives c' and m'.
static void step(const rounded_net* net, const plan_net_shape* s, int raw, plan_precision p,
                 double* x) {
    double* h = malloc((size_t)(2 * s->hidden + s->inner + s->fiber + 1) * sizeof *h);
    double *a = h + s->hidden, *g = a + s->hidden, *d = g + s->inner;
    multiply(&net->in, x, p, h);
    for (int i = 0; i < s->hidden; i++) h[i] += net->in.bias[i];
    for (int b = 0; b < s->blocks; b++) {
        normalised(&net->up[b], h, raw, p, g);
        for (int i = 0; i < s->inner; i++) g[i] = gelu(g[i]);
        multiply(&net->down[b], g, p, a);
        for (int i = 0; i < s->hidden; i++) h[i] += a[i] + net->down[b].bias[i];
    }
    double c[FIRM_MAX_CONFIG];
    normalised(&net->to_c, h, raw, p, c);
    for (int i = 0; i < s->config; i++) x[i] += c[i];
    if (s->fiber) normalised(&net->to_m, h, raw, p, d);
    for (int i = 0; i < s->fiber; i++) x[s->config + i] += d[i];
    for (int q = 0; q < s->pairs; q++) {
        double length = sqrt(x[2 * q] * x[2 * q] + x[2 * q + 1] * x[2 * q + 1]);
        x[2 * q] /= length;
        x[2 * q + 1] /= length;
    }
    free(h);
}

void rounded_rollout(const toy_net* t, plan_precision p, int raw, int n, int horizon,
                     const float* c0, const float* m0, const float* u, double* c_out) {
    const plan_net_shape* s = &t->shape;
    const plan_net_weights* w = &t->weights;
    int state = s->config + s->fiber;
    rounded_net net = {.in = make(state + s->action, s->hidden, w->w_in, w->b_in, NULL, NULL, p)};
    for (int b = 0; b < s->blocks; b++) {
        const plan_net_block* q = &w->block[b];
        net.up[b] = make(s->hidden, s->inner, q->w1, q->b1, q->ln_scale, q->ln_shift, p);
        net.down[b] = make(s->inner, s->hidden, q->w2, q->b2, NULL, NULL, p);
    }
    net.to_c = make(s->hidden, s->config, w->w_c, w->b_c, w->ln_scale, w->ln_shift, p);
    net.to_m = make(s->hidden, s->fiber, w->w_m, w->b_m, w->ln_scale, w->ln_shift, p);
    double* x = malloc((size_t)(state + s->action) * sizeof *x);
    for (int row = 0; row < n; row++) {
        for (int i = 0; i < state; i++) x[i] = i < s->config ? c0[i] : m0[i - s->config];
        for (int k = 0; k < horizon; k++) {
            for (int i = 0; i < s->action; i++)
                x[state + i] = u[(row * horizon + k) * s->action + i];
            step(&net, s, raw, p, x);
            memcpy(c_out + (row * horizon + k) * s->config, x, (size_t)s->config * sizeof *x);
        }
    }
    free(x);
    layer_free(&net.in), layer_free(&net.to_c), layer_free(&net.to_m);
    for (int b = 0; b < s->blocks; b++) layer_free(&net.up[b]), layer_free(&net.down[b]);
}
