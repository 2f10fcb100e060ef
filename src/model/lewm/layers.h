// layers.h - parameters and operation in one call, with the initial values of the reference.
#ifndef MODEL_LEWM_LAYERS_H
#define MODEL_LEWM_LAYERS_H

#include "model/lewm/lewm.h"

// name of a part of block i: "encoder.3.qkv"
typedef struct layer_name {
    char text[64];
} layer_name;
layer_name lewm_name(const char* module, int block, const char* part);

typedef enum layer_init {
    LAYER_VIT,      // normal with deviation 0.02, bias 0 (cut at +-2, which never happens)
    LAYER_UNIFORM,  // uniform within 1 / sqrt(inputs), weights and bias
    LAYER_ZERO
} layer_init;

// x (..., k) -> (..., n), parameters name.weight (k, n) and name.bias (n)
nn_id lewm_linear(nn_graph* g, const char* name, nn_id x, int n, layer_init init);
nn_id lewm_linear_plain(nn_graph* g, const char* name, nn_id x, int n, layer_init init);  // no bias
nn_id lewm_norm(nn_graph* g, const char* name, nn_id x, float eps);
// linear, batch norm, GELU, linear: the projector and the prediction head
nn_id lewm_head(nn_graph* g, const lewm_model* m, const char* name, nn_id x);

#endif
