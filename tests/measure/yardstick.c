// yardstick.c - see yardstick.h.
#include "yardstick.h"

#include <math.h>
#include <stdlib.h>

#include "check.h"

enum { MEMBERS = 5 };

// squared distance of a row's prediction from the truth
static double squares(const double* a, const double* b, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

// Adds up the members' squared errors per row.
static void add_members(yardstick* y, const plan_net_shape* s, const plan_net_weights* w,
                        rounded_way way, const float* c0, const float* m0, const float* u) {
    size_t rows = (size_t)y->n * (size_t)y->horizon, config = (size_t)y->config;
    double* one = malloc(rows * config * sizeof *one);
    way.sums = SUMS_FLOAT;
    for (int k = 0; k < MEMBERS; k++) {
        way.turn = 1 + k * s->hidden / MEMBERS;
        rounded_rollout(s, w, way, y->n, y->horizon, c0, m0, u, one);
        for (size_t r = 0; r < rows; r++)
            y->own[r] += squares(one + r * config, y->want + r * config, y->config) / MEMBERS;
    }
    free(one);
}

// No row of a macro step has less than the mean of all.
static void at_least_the_mean(yardstick* y) {
    for (int k = 0; k < y->horizon; k++) {
        double mean = 0;
        for (int i = 0; i < y->n; i++) mean += y->own[i * y->horizon + k] / y->n;
        for (int i = 0; i < y->n; i++)
            y->own[i * y->horizon + k] = fmax(y->own[i * y->horizon + k], mean);
    }
}

yardstick yardstick_make(const plan_net_shape* s, const plan_net_weights* w,
                         plan_precision precision, int raw, int n, int horizon, const float* c0,
                         const float* m0, const float* u) {
    size_t rows = (size_t)n * (size_t)horizon, config = (size_t)s->config;
    yardstick y = {n, horizon, s->config, malloc(rows * config * sizeof(double)),
                   calloc(rows, sizeof(double))};
    rounded_way way = {.precision = precision, .raw = raw};
    rounded_rollout(s, w, way, n, horizon, c0, m0, u, y.want);
    add_members(&y, s, w, way, c0, m0, u);
    if (precision != PLAN_FP32) at_least_the_mean(&y);
    // no answer can be closer than its own last bit
    for (size_t r = 0; r < rows; r++) {
        double last = 0;
        for (size_t i = 0; i < config; i++) {
            double bit = ldexp(y.want[r * config + i], -24);
            last += bit * bit;
        }
        y.own[r] = sqrt(y.own[r] + last);
    }
    return y;
}

void yardstick_free(yardstick* y) {
    free(y->want), free(y->own);
}

yardstick_reading yardstick_read_double(const yardstick* y, const double* got) {
    yardstick_reading r = {0};
    double off = 0, whole = 0;
    for (int k = 0; k < y->horizon; k++) {
        double mean = 0;
        for (int i = 0; i < y->n; i++) {
            int row = i * y->horizon + k;
            const double *a = got + row * y->config, *b = y->want + row * y->config;
            double e = squares(a, b, y->config);
            if (!isfinite(e)) e = INFINITY;
            mean += e / (y->own[row] * y->own[row]) / y->n;
            off += e;
            for (int j = 0; j < y->config; j++) whole += b[j] * b[j];
        }
        r.last = sqrt(mean);
        if (k == 0) r.first = r.last;
        r.most = test_worse(r.most, r.last);
    }
    r.off = sqrt(off / whole);
    return r;
}

yardstick_reading yardstick_read(const yardstick* y, const float* got) {
    size_t size = (size_t)y->n * (size_t)y->horizon * (size_t)y->config;
    double* wide = malloc(size * sizeof *wide);
    for (size_t i = 0; i < size; i++) wide[i] = got[i];
    yardstick_reading r = yardstick_read_double(y, wide);
    free(wide);
    return r;
}

int yardstick_sound(const yardstick_reading* r) {
    return r->most <= YARDSTICK_SOUND * test_tolerance_scale();
}
