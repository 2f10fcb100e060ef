// actions.c - a macro action becomes an embedding: an affine map, then one hidden layer with SiLU.
#include "model/lewm/layers.h"

nn_id lewm_embed(nn_graph* g, const lewm_model* m, nn_id actions) {
    const lewm_shape* s = &m->shape;
    nn_id x = lewm_linear(g, "actions.patch", actions, s->action_hidden, LAYER_UNIFORM);
    x = nn_silu(g, lewm_linear(g, "actions.up", x, s->action_mlp, LAYER_UNIFORM));
    return lewm_linear(g, "actions.down", x, s->width, LAYER_UNIFORM);
}
