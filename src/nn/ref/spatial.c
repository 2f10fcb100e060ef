// spatial.c - agent, block and macro action as geometric features, reference. The rule itself is
// in nn/spatial.h, here in double.
#include <math.h>

#include "nn/ref/ref.h"

#define SPATIAL_REAL double
#define SPATIAL_SQRT sqrt
#define SPATIAL_FN static inline
#include "nn/spatial.h"

void nn_ref_spatial_forward(const nn_call* c) {
    const double *x = c->in[0], *v = c->in[1], *u = c->in[2];
    double* y = c->out;
    for (int r = 0; r < c->rows; r++)
        spatial_features(x + r * SPATIAL_CONFIG, v + 2 * r, u + r * SPATIAL_ACTION, c->node->mean,
                         c->node->std, y + r * SPATIAL_FEATURES);
}

void nn_ref_spatial_backward(const nn_call* c) {
    const double *x = c->in[0], *v = c->in[1], *u = c->in[2], *dy = c->dout;
    const int size[3] = {SPATIAL_CONFIG, 2, SPATIAL_ACTION};
    double* to[3];
    for (int i = 0; i < 3; i++) to[i] = nn_ref_grad(c, i);
    for (int r = 0; r < c->rows; r++) {
        double dc[SPATIAL_CONFIG], dv[2], du[SPATIAL_ACTION];
        const double* part[3] = {dc, dv, du};
        spatial_gradient(x + r * SPATIAL_CONFIG, v + 2 * r, u + r * SPATIAL_ACTION, c->node->mean,
                         c->node->std, dy + r * SPATIAL_FEATURES, dc, dv, du);
        for (int i = 0; i < 3; i++)
            for (int j = 0; to[i] && j < size[i]; j++) to[i][r * size[i] + j] += part[i][j];
    }
}
