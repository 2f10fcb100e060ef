// spatial.c - disc, pushed shape and macro action as geometric features; the rule is in
// nn/spatial.h.
#include <math.h>

#include "nn/cpu/cpu.h"

#define SPATIAL_REAL float
#define SPATIAL_SQRT sqrtf
#define SPATIAL_FN static inline
#include "nn/spatial.h"

static void forward(const nn_call* c) {
    const nn_push* s = &c->node->push;
    const float *x = c->in[0], *v = c->in[1], *u = c->in[2];
    float *y = c->out, pose[SPATIAL_CONFIG], control[SPATIAL_ACTION];
    for (int r = 0; r < c->rows; r++) {
        spatial_gather(s, x + r * s->config, u + r * s->controls * s->action, pose, control);
        spatial_features(s, pose, v + 2 * r, control, c->node->mean, c->node->std,
                         y + r * nn_push_features(s));
    }
}

// Where input i's gradient of a row goes, zeroed unless it is added to; NULL: not wanted.
static float* sink(const nn_call* c, int i, int row, int size) {
    if (!c->din[i]) return NULL;
    float* to = (float*)c->din[i] + row * size;
    for (int j = 0; !c->accumulate[i] && j < size; j++) to[j] = 0;
    return to;
}

static void backward(const nn_call* c) {
    const nn_push* s = &c->node->push;
    const int macro = s->controls * s->action;
    const float *x = c->in[0], *v = c->in[1], *u = c->in[2], *dy = c->dout;
    for (int r = 0; r < c->rows; r++) {
        float pose[SPATIAL_CONFIG], control[SPATIAL_ACTION];
        float dc[SPATIAL_CONFIG], dv[2], du[SPATIAL_ACTION];
        spatial_gather(s, x + r * s->config, u + r * macro, pose, control);
        spatial_gradient(s, pose, v + 2 * r, control, c->node->mean, c->node->std,
                         dy + r * nn_push_features(s), dc, dv, du);
        float *to_c = sink(c, 0, r, s->config), *to_v = sink(c, 1, r, 2);
        float* to_u = sink(c, 2, r, macro);
        for (int i = 0; i < 2; i++) {
            if (to_c) {
                to_c[s->angle + i] += dc[i];
                to_c[s->agent[i]] += dc[2 + i];
                to_c[s->block[i]] += dc[4 + i];
            }
            if (to_v) to_v[i] += dv[i];
            for (int k = 0; to_u && k < s->controls; k++) to_u[k * s->action + i] += du[2 * k + i];
        }
    }
}

const nn_kernel nn_cpu_spatial = {forward, backward, NULL, NULL};
