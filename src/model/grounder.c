// grounder.c - G: tokens of E(o, 0) to named coordinates. LayerNorm, one hidden layer, sine-cosine
// pairs on the unit circle. The same map serves the current image and the goal image.
#include "model/model.h"

nn_id model_ground(nn_graph* g, const firm_model* m, nn_id tokens) {
    int flat = nn_size(g, tokens);
    nn_id h = nn_layernorm(g, "grounder.norm", nn_reshape(g, tokens, 1, &flat));
    h = nn_gelu(g, nn_linear(g, "grounder.hidden", h, m->shape.grounder_hidden, 1.4f));
    // a small start matters: at gain 1 the same 1,000 updates end at 1.4 px, at 0.03 at 0.1 px
    // (TwoRoom)
    return nn_pairnorm(g, nn_linear(g, "grounder.out", h, m->env->config_dim, 0.03f),
                       m->env->pairs);
}
