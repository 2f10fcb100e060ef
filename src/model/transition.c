// transition.c - T: one macro step of the recurrent state. x = [c, m, u]; a residual MLP gives
// increments of the configuration and of the fiber. src/plan/net.c holds the planner's copy of the
// same equation.
#include <stdio.h>

#include "model/model.h"

void model_transition(nn_graph* g, const firm_model* m, nn_id u, nn_id* c, nn_id* fiber) {
    nn_id x = nn_concat(g, 0, 3, (nn_id[]){*c, *fiber, u});
    nn_id h = nn_linear(g, "transition.in", x, m->shape.hidden, 1.0f);
    for (int i = 0; i < m->shape.blocks; i++) {
        char name[48];
#define PART(what) (snprintf(name, sizeof name, "transition.block%d." what, i), name)
        nn_id y = nn_layernorm(g, PART("norm"), h);
        y = nn_gelu(g, nn_linear(g, PART("up"), y, m->shape.inner, 1.4f));
        h = nn_add(g, h, nn_linear(g, PART("down"), y, m->shape.hidden, 0.5f));
#undef PART
    }
    nn_id y = nn_layernorm(g, "transition.norm", h);
    // small first steps: the state starts close to "nothing moves"
    nn_id dc = nn_linear(g, "transition.config", y, m->env->config_dim, 0.1f);
    nn_id dm = nn_linear(g, "transition.fiber", y, m->shape.fiber, 0.1f);
    *c = nn_pairnorm(g, nn_add(g, *c, dc), m->env->pairs);
    if (!m->shape.no_fiber) *fiber = nn_add(g, *fiber, dm);
}
