// fiber.c - R: the belief and the two latest changes of the configuration make the initial fiber.
#include "model/model.h"

nn_id model_fiber(nn_graph* g, const firm_model* m, nn_id belief, const nn_id c[MODEL_HISTORY]) {
    nn_id change1 = nn_sub(g, c[1], c[0]), change2 = nn_sub(g, c[2], c[1]);
    nn_id x = nn_concat(g, 0, 3, (nn_id[]){belief, change1, change2});
    nn_id h = nn_gelu(g, nn_linear(g, "fiber.hidden", x, m->shape.fiber_hidden, 1.4f));
    return nn_linear(g, "fiber.out", h, m->shape.fiber, 1.0f);
}
