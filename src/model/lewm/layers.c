// layers.c - the layers LeWM's modules are made of.
#include "model/lewm/layers.h"

#include <math.h>
#include <stdio.h>

layer_name lewm_name(const char* module, int block, const char* part) {
    layer_name name;
    int n = snprintf(name.text, sizeof name.text, "%s.%d.%s", module, block, part);
    CHECK(n > 0 && n < (int)sizeof name.text, "the name %s.%d.%s is too long", module, block, part);
    return name;
}

static nn_id param(nn_graph* g, const char* name, const char* part, nn_init init, float scale,
                   int rank, const int* dim) {
    char full[64];
    int n = snprintf(full, sizeof full, "%s.%s", name, part);
    CHECK(n > 0 && n < (int)sizeof full, "the name %s.%s is too long", name, part);
    return nn_param(g, full, init, scale, rank, dim);
}

static nn_id weight(nn_graph* g, const char* name, int k, int n, layer_init init) {
    static const nn_init kind[] = {NN_INIT_NORMAL, NN_INIT_UNIFORM, NN_INIT_ZERO};
    float scale = init == LAYER_VIT ? 0.02f : 1 / sqrtf((float)k);
    return param(g, name, "weight", kind[init], scale, 2, (int[]){k, n});
}

nn_id lewm_linear(nn_graph* g, const char* name, nn_id x, int n, layer_init init) {
    int k = nn_last(g, x);
    nn_id w = weight(g, name, k, n, init);
    nn_id b = param(g, name, "bias", init == LAYER_UNIFORM ? NN_INIT_UNIFORM : NN_INIT_ZERO,
                    1 / sqrtf((float)k), 1, &n);
    return nn_op_linear(g, x, w, b);
}

nn_id lewm_linear_plain(nn_graph* g, const char* name, nn_id x, int n, layer_init init) {
    return nn_op_linear(g, x, weight(g, name, nn_last(g, x), n, init), NN_NONE);
}

nn_id lewm_norm(nn_graph* g, const char* name, nn_id x, float eps) {
    int n = nn_last(g, x);
    nn_id gamma = param(g, name, "weight", NN_INIT_ONE, 0, 1, &n);
    return nn_op_layernorm(g, x, gamma, param(g, name, "bias", NN_INIT_ZERO, 0, 1, &n), eps);
}

nn_id lewm_head(nn_graph* g, const lewm_model* m, const char* name, nn_id x) {
    char part[3][64];
    static const char* const suffix[] = {"up", "norm", "down"};
    for (int i = 0; i < 3; i++) {
        int n = snprintf(part[i], sizeof part[i], "%s.%s", name, suffix[i]);
        CHECK(n > 0 && n < (int)sizeof part[i], "the name %s is too long", name);
    }
    nn_id y = lewm_linear(g, part[0], x, m->shape.projector, LAYER_UNIFORM);
    y = nn_erfgelu(g, nn_batchnorm(g, part[1], y));
    return lewm_linear(g, part[2], y, m->shape.width, LAYER_UNIFORM);
}
