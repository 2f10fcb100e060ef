// spatial.c - disc, pushed shape and macro action as geometric features, reference. The rule itself
// is in nn/spatial.h, here in double.
#include <math.h>

#include "nn/ref/ref.h"

#define SPATIAL_REAL double
#define SPATIAL_SQRT sqrt
#define SPATIAL_FN static inline
#include "nn/spatial.h"

void nn_ref_spatial_forward(const nn_call* c) {
    const nn_push* s = &c->node->push;
    const double *x = c->in[0], *v = c->in[1], *u = c->in[2];
    double *y = c->out, pose[SPATIAL_CONFIG], control[SPATIAL_ACTION];
    for (int r = 0; r < c->rows; r++) {
        spatial_gather(s, x + r * s->config, u + r * s->controls * s->action, pose, control);
        spatial_features(s, pose, v + 2 * r, control, c->node->mean, c->node->std,
                         y + r * nn_push_features(s));
    }
}

void nn_ref_spatial_backward(const nn_call* c) {
    const nn_push* s = &c->node->push;
    const int macro = s->controls * s->action;
    const double *x = c->in[0], *v = c->in[1], *u = c->in[2], *dy = c->dout;
    double *to_c = nn_ref_grad(c, 0), *to_v = nn_ref_grad(c, 1), *to_u = nn_ref_grad(c, 2);
    for (int r = 0; r < c->rows; r++) {
        double pose[SPATIAL_CONFIG], control[SPATIAL_ACTION];
        double dc[SPATIAL_CONFIG], dv[2], du[SPATIAL_ACTION];
        spatial_gather(s, x + r * s->config, u + r * macro, pose, control);
        spatial_gradient(s, pose, v + 2 * r, control, c->node->mean, c->node->std,
                         dy + r * nn_push_features(s), dc, dv, du);
        for (int i = 0; i < 2; i++) {
            if (to_c) {
                to_c[r * s->config + s->angle + i] += dc[i];
                to_c[r * s->config + s->agent[i]] += dc[2 + i];
                to_c[r * s->config + s->block[i]] += dc[4 + i];
            }
            if (to_v) to_v[2 * r + i] += dv[i];
            for (int k = 0; to_u && k < s->controls; k++)
                to_u[r * macro + k * s->action + i] += du[2 * k + i];
        }
    }
}
