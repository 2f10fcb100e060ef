// spatial.c - agent, block and macro action as geometric features; the rule is in nn/spatial.h.
#include <math.h>

#include "nn/cpu/cpu.h"

#define SPATIAL_REAL float
#define SPATIAL_SQRT sqrtf
#define SPATIAL_FN static inline
#include "nn/spatial.h"

static void forward(const nn_call* c) {
    const float *x = c->in[0], *v = c->in[1], *u = c->in[2];
    float* y = c->out;
    for (int r = 0; r < c->rows; r++)
        spatial_features(x + r * SPATIAL_CONFIG, v + 2 * r, u + r * SPATIAL_ACTION, c->node->mean,
                         c->node->std, y + r * SPATIAL_FEATURES);
}

static void put(const nn_call* c, int i, int row, int size, const float* from) {
    float* to = (float*)c->din[i] + row * size;
    for (int j = 0; c->din[i] && j < size; j++)
        to[j] = c->accumulate[i] ? to[j] + from[j] : from[j];
}

static void backward(const nn_call* c) {
    const float *x = c->in[0], *v = c->in[1], *u = c->in[2], *dy = c->dout;
    for (int r = 0; r < c->rows; r++) {
        float dc[SPATIAL_CONFIG], dv[2], du[SPATIAL_ACTION];
        spatial_gradient(x + r * SPATIAL_CONFIG, v + 2 * r, u + r * SPATIAL_ACTION, c->node->mean,
                         c->node->std, dy + r * SPATIAL_FEATURES, dc, dv, du);
        put(c, 0, r, SPATIAL_CONFIG, dc);
        put(c, 1, r, 2, dv);
        put(c, 2, r, SPATIAL_ACTION, du);
    }
}

const nn_kernel nn_cpu_spatial = {forward, backward, NULL, NULL};
