// transition.c - T: one macro step of the recurrent state. x = [c, m, u]; a residual MLP gives
// increments of the configuration and of the fiber. src/plan/net.c holds the planner's copy of the
// same equation.
//
// Where the task says what is pushed, a model may add a spatial residual to the hidden update,
// before the others: a block that also sees s(c, v, u), fixed geometric features of agent, pushed
// shape and macro action (nn/spatial.h), where v is the agent's velocity as a linear reading of the
// fiber. The weights on s start at zero, so enlarging the input changes nothing until they are
// trained.
#include <stdio.h>

#include "model/model.h"

static nn_id spatial_residual(nn_graph* g, const firm_model* m, nn_id u, nn_id c, nn_id fiber,
                              nn_id h) {
    int units = m->shape.spatial;
    nn_id v = nn_linear(g, "transition.spatial.velocity", fiber, 2, 0.0f);
    const nn_push push = task_push(&m->task);
    nn_id s = nn_spatial(g, &push, c, v, u, m->stats.action_mean, m->stats.action_std);
    nn_id w = nn_param(g, "transition.spatial.extra.weight", NN_INIT_ZERO, 0, 2,
                       (int[]){nn_size(g, s), units});
    nn_id y = nn_layernorm(g, "transition.spatial.norm", h);
    y = nn_linear(g, "transition.spatial.up", y, units, 1.4f);
    if (!m->spatial_off) y = nn_add(g, y, nn_op_linear(g, s, w, NN_NONE));
    return nn_add(g, h,
                  nn_linear(g, "transition.spatial.down", nn_gelu(g, y), m->shape.hidden, 0.5f));
}

void model_transition(nn_graph* g, const firm_model* m, nn_id u, nn_id* c, nn_id* fiber) {
    nn_id x = nn_concat(g, 0, 3, (nn_id[]){*c, *fiber, u});
    nn_id h = nn_linear(g, "transition.in", x, m->shape.hidden, 1.0f);
    if (m->shape.spatial) h = spatial_residual(g, m, u, *c, *fiber, h);
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
    nn_id dc = nn_linear(g, "transition.config", y, m->task.config_dim, 0.1f);
    nn_id dm = nn_linear(g, "transition.fiber", y, m->shape.fiber, 0.1f);
    *c = nn_pairnorm(g, nn_add(g, *c, dc), m->task.pairs);
    if (!m->shape.no_fiber) *fiber = nn_add(g, *fiber, dm);
}
