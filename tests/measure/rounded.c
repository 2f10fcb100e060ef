// rounded.c - the transition with rounded operands; plain loops, weights rounded once.
#include "rounded.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SPATIAL_REAL double
#define SPATIAL_SQRT sqrt
#define SPATIAL_FN static inline
#include "nn/spatial.h"

// to 11 (float16, whose smallest step is 2^-24) or 8 (bfloat16) significant bits, ties to even
static double round_to(double x, plan_precision p) {
    int bits = p == PLAN_TF32 ? 11 : 8, e;
    if (p == PLAN_FP32 || x == 0 || !isfinite(x)) return x;
    frexp(x, &e);
    int step = e - bits;
    if (p == PLAN_TF32 && step < -24) step = -24;
    return ldexp(nearbyint(ldexp(x, -step)), step);
}

static double kept(double x, rounded_way way) {
    return way.sums == SUMS_DOUBLE ? x : (double)(float)x;
}

// One product, a LayerNorm's scale and shift folded in.
typedef struct rounded_layer {
    int in, out;
    double *w, *bias, *sum;  // (in, out), (out), (out) column sums of the rounded weights
} rounded_layer;

// more (nullable): rows of further inputs, behind those that a LayerNorm precedes
static rounded_layer make(int in, int out, const float* w, const float* b, const float* scale,
                          const float* shift, int extra, const float* more, plan_precision p) {
    size_t area = (size_t)(in + extra) * (size_t)out;
    rounded_layer l = {in + extra, out, malloc((area + 1) * sizeof(double)),
                       calloc((size_t)out + 1, sizeof(double)),
                       calloc((size_t)out + 1, sizeof(double))};
    double most = 0;
    for (int k = 0; k < in + extra; k++)
        for (int o = 0; o < out; o++) {
            double v = k < in ? w[k * out + o] : more[(k - in) * out + o];
            if (k < in && shift) l.bias[o] += shift[k] * v;
            v = (float)(k < in && scale ? scale[k] * v : v);
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

// x rounded; see rounded_way.turn
static double operand(double x, int k, rounded_way way) {
    if (way.precision == PLAN_FP32) return x;
    if (way.turn) {
        uint32_t bits;
        float f = (float)x;
        memcpy(&bits, &f, sizeof bits);
        bits = (bits ^ (uint32_t)(k + 1) * 2654435761u ^ (uint32_t)way.turn * 40503u) * 2246822519u;
        bits = (bits ^ bits >> 15) * 3266489917u;
        x += ldexp(x, -20) * ((double)(bits >> 8) / (1 << 23) - 1);
    }
    return round_to(x, way.precision);
}

// y = x W, x rounded
static void multiply(const rounded_layer* l, const double* x, rounded_way way, double* y) {
    memset(y, 0, (size_t)l->out * sizeof *y);
    for (int i = 0; i < l->in; i++) {
        int k = (i + way.turn) % l->in;
        const double *w = l->w + (size_t)k * (size_t)l->out, v = operand(x[k], k, way);
        if (way.sums == SUMS_DOUBLE)
            for (int o = 0; o < l->out; o++) y[o] += v * w[o];
        else if (way.sums == SUMS_FLOAT)
            for (int o = 0; o < l->out; o++) y[o] = (float)(y[o] + v * w[o]);
        else
            for (int o = 0; o < l->out; o++) y[o] = round_to(y[o] + v * w[o], way.precision);
    }
}

// LN(h) = (h - mean) * scale
static void statistics(const double* h, int n, rounded_way way, double* mean, double* scale) {
    double sum = 0, squares = 0;
    for (int k = 0; k < n; k++) sum = kept(sum + h[k], way);
    *mean = kept(sum / n, way);
    for (int k = 0; k < n; k++) squares = kept(squares + (h[k] - *mean) * (h[k] - *mean), way);
    *scale = kept(1 / sqrt(squares / n + 1e-5), way);
}

// y = LN(h) W + bias in one of the two orders; `room` has as many numbers as the layer inputs, and
// those behind h are already there
static void normalised(const rounded_layer* l, const double* h, int hidden, rounded_way way,
                       double* room, double* y) {
    double mean, scale;
    statistics(h, hidden, way, &mean, &scale);
    for (int k = 0; k < hidden; k++) room[k] = way.raw ? h[k] : kept((h[k] - mean) * scale, way);
    multiply(l, room, way, y);
    for (int o = 0; o < l->out; o++)
        y[o] =
            kept((way.raw ? scale * kept(y[o] - mean * l->sum[o], way) : y[o]) + l->bias[o], way);
}

static double gelu(double x) {
    return 0.5 * x * (1 + tanh(0.7978845608 * (x + 0.044715 * x * x * x)));
}

typedef struct rounded_net {
    const plan_net_shape* s;
    const plan_net_weights* w;
    rounded_layer in, up[PLAN_MAX_BLOCKS], down[PLAN_MAX_BLOCKS], spatial_up, spatial_down, to_c,
        to_m;
    double *h, *a, *g, *d;  // working memory of a row
} rounded_net;

// h += GELU(LN(h) up) down
static void residual(rounded_net* net, const rounded_layer* up, const rounded_layer* down,
                     rounded_way way) {
    normalised(up, net->h, net->s->hidden, way, net->a, net->g);
    for (int i = 0; i < up->out; i++) net->g[i] = kept(gelu(net->g[i]), way);
    multiply(down, net->g, way, net->a);
    for (int i = 0; i < net->s->hidden; i++)
        net->h[i] = kept(net->h[i] + net->a[i] + down->bias[i], way);
}

// x = [c, m, u]; LN(h) and the features are rounded together, before the product in every way
static void spatial(rounded_net* net, const double* x, rounded_way way) {
    const plan_net_shape* s = net->s;
    const plan_net_spatial* q = &net->w->spatial;
    double v[2] = {0, 0};
    for (int k = 0; k < 2 * s->fiber; k++)
        v[k % 2] = kept(v[k % 2] + x[s->config + k / 2] * q->w_v[k], way);
    for (int k = 0; k < 2; k++) v[k] = kept(v[k] + q->b_v[k], way);
    double c[SPATIAL_CONFIG], u[SPATIAL_ACTION];
    spatial_gather(&q->push, x, x + s->config + s->fiber, c, u);
    spatial_features(&q->push, c, v, u, q->mean, q->std, net->a + s->hidden);
    way.raw = 0;
    residual(net, &net->spatial_up, &net->spatial_down, way);
}

// One macro step; x = [c, m, u] receives c' and m'.
static void step(rounded_net* net, rounded_way way, double* x) {
    const plan_net_shape* s = net->s;
    multiply(&net->in, x, way, net->h);
    for (int i = 0; i < s->hidden; i++) net->h[i] = kept(net->h[i] + net->in.bias[i], way);
    if (s->spatial) spatial(net, x, way);
    for (int b = 0; b < s->blocks; b++) residual(net, &net->up[b], &net->down[b], way);
    normalised(&net->to_c, net->h, s->hidden, way, net->a, net->d);
    if (s->fiber) normalised(&net->to_m, net->h, s->hidden, way, net->a, net->d + s->config);
    for (int i = 0; i < s->config + s->fiber; i++) x[i] = kept(x[i] + net->d[i], way);
    for (int q = 0; q < s->pairs; q++) {
        double length = sqrt(x[2 * q] * x[2 * q] + x[2 * q + 1] * x[2 * q + 1]);
        x[2 * q] = kept(x[2 * q] / length, way);
        x[2 * q + 1] = kept(x[2 * q + 1] / length, way);
    }
}

static void open_net(rounded_net* net, const plan_net_shape* s, const plan_net_weights* w,
                     plan_precision p) {
    int state = s->config + s->fiber, widest = s->spatial > s->inner ? s->spatial : s->inner;
    const int features = nn_push_features(&w->spatial.push);
    *net = (rounded_net){.s = s, .w = w};
    net->in = make(state + s->action, s->hidden, w->w_in, w->b_in, NULL, NULL, 0, NULL, p);
    for (int b = 0; b < s->blocks; b++) {
        const plan_net_block* q = &w->block[b];
        net->up[b] = make(s->hidden, s->inner, q->w1, q->b1, q->ln_scale, q->ln_shift, 0, NULL, p);
        net->down[b] = make(s->inner, s->hidden, q->w2, q->b2, NULL, NULL, 0, NULL, p);
    }
    if (s->spatial) {
        const plan_net_block* q = &w->spatial.block;
        net->spatial_up = make(s->hidden, s->spatial, q->w1, q->b1, q->ln_scale, q->ln_shift,
                               features, w->spatial.w_s, p);
        net->spatial_down = make(s->spatial, s->hidden, q->w2, q->b2, NULL, NULL, 0, NULL, p);
    }
    net->to_c = make(s->hidden, s->config, w->w_c, w->b_c, w->ln_scale, w->ln_shift, 0, NULL, p);
    net->to_m = make(s->hidden, s->fiber, w->w_m, w->b_m, w->ln_scale, w->ln_shift, 0, NULL, p);
    net->h = malloc((size_t)(2 * s->hidden + features + widest + state) * sizeof(double));
    net->a = net->h + s->hidden;
    net->g = net->a + s->hidden + features;
    net->d = net->g + widest;
}

static void close_net(rounded_net* net) {
    for (int b = 0; b < net->s->blocks; b++) layer_free(&net->up[b]), layer_free(&net->down[b]);
    layer_free(&net->in), layer_free(&net->to_c), layer_free(&net->to_m);
    layer_free(&net->spatial_up), layer_free(&net->spatial_down);
    free(net->h);
}

void rounded_rollout(const plan_net_shape* s, const plan_net_weights* w, rounded_way way, int n,
                     int horizon, const float* c0, const float* m0, const float* u, double* c_out) {
    int state = s->config + s->fiber;
    rounded_net net;
    open_net(&net, s, w, way.precision);
    double* x = malloc((size_t)(state + s->action) * sizeof *x);
    for (int row = 0; row < n; row++) {
        for (int i = 0; i < state; i++) x[i] = i < s->config ? c0[i] : m0[i - s->config];
        for (int k = 0; k < horizon; k++, c_out += s->config) {
            for (int i = 0; i < s->action; i++) {
                double v = *u++;
                if (w->u_low) v = fmin(fmax(v, w->u_low[i]), w->u_high[i]);
                x[state + i] = v;
            }
            step(&net, way, x);
            memcpy(c_out, x, (size_t)s->config * sizeof *x);
        }
    }
    free(x);
    close_net(&net);
}
