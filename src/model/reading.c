// reading.c - what the state says of chi, after the fact: trained with everything else frozen. D
// reads chi from the fiber alone, to shape it; where the gripper is, say, the fiber tells better
// together with where the block is.
#include "model/model.h"

nn_id model_reading(nn_graph* g, const firm_model* m, nn_id c, nn_id fiber) {
    int units = m->shape.reading;
    nn_id h = nn_concat(g, 0, 2, (nn_id[]){c, fiber});
    h = nn_gelu(g, nn_linear(g, "reading.first", h, units, 1.4f));
    h = nn_gelu(g, nn_linear(g, "reading.second", h, units, 1.4f));
    return nn_linear(g, "reading.out", h, m->task.chi_dim, 1.0f);
}
