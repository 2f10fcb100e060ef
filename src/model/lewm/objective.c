// objective.c - what LeWM minimises: the squared error of one-step predictions, the targets being
// latents of the same encoder that receive gradients too, plus SIGReg, which keeps the latents of
// every time step close to a standard normal, so that they do not collapse.
#include "model/lewm/lewm.h"

lewm_objective lewm_train(nn_graph* g, const lewm_model* m, float sigreg, int directions) {
    int n = m->shape.context, dim[] = {n + 1, lewm_action_dim(m)};
    lewm_objective o = {.frames = nn_frames(g, "frames", n + 1, m->shape.image),
                        .actions = nn_input(g, "actions", 2, dim)};
    o.latents = lewm_encode(g, m, o.frames);
    nn_id used = lewm_embed(g, m, nn_slice(g, o.actions, 0, 0, n));
    o.predictions = lewm_predict(g, m, nn_slice(g, o.latents, 0, 0, n), used);
    nn_loss(g, "prediction", nn_mse(g, o.predictions, nn_slice(g, o.latents, 0, 1, n)), 1);
    nn_loss(g, "sigreg", nn_sigreg(g, o.latents, directions), sigreg);
    return o;
}
