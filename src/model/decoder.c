// decoder.c - training-only heads: chi from the fiber, pictures and changes from tokens, the next
// frame's tokens from belief and action. Their parameters start with "aux." and are not deployed.
#include "model/model.h"

nn_id model_chi(nn_graph* g, const firm_model* m, nn_id fiber) {
    nn_id h = nn_gelu(g, nn_linear(g, "aux.chi.hidden", fiber, 128, 1.4f));
    return nn_linear(g, "aux.chi.out", h, m->env->chi_dim, 1.0f);
}

void model_picture(nn_graph* g, const firm_model* m, nn_id tokens, nn_id* rgb, nn_id* change) {
    int width = model_token_width(m), side = 7;
    nn_id h = nn_reshape(g, tokens, 3, (int[]){side, side, width});
    h = nn_convt(g, "aux.picture.up1", h, 64, 4, 2, 1);
    h = nn_gelu(g, nn_groupnorm(g, "aux.picture.norm1", h, m->shape.groups));
    h = nn_convt(g, "aux.picture.up2", h, 32, 4, 2, 1);
    h = nn_gelu(g, nn_groupnorm(g, "aux.picture.norm2", h, m->shape.groups));
    int grid = 4 * side;
    h = nn_reshape(g, h, 2, (int[]){grid * grid, 32});
    *rgb = nn_linear(g, "aux.picture.rgb", h, 8 * 8 * 3, 1.0f);
    *change = nn_linear(g, "aux.picture.change", h, 8 * 8, 1.0f);
}

void model_next_tokens(nn_graph* g, const firm_model* m, nn_id tokens, nn_id belief, nn_id action,
                       nn_id* mean, nn_id* logvar) {
    int count = model_token_count(m), width = model_token_width(m), hidden = 128;
    // what the belief and the action say is the same for every token
    nn_id said =
        nn_linear(g, "aux.next.said", nn_concat(g, 0, 2, (nn_id[]){belief, action}), hidden, 1.0f);
    nn_id seen = nn_linear(g, "aux.next.seen", tokens, hidden, 1.0f);
    said = nn_reshape(g, said, 2, (int[]){1, hidden});
    nn_id rows[7], whole[7];  // 49 = 7 x 7 copies
    for (int i = 0; i < 7; i++) rows[i] = said;
    nn_id seven = nn_concat(g, 0, 7, rows);
    for (int i = 0; i < count / 7; i++) whole[i] = seven;
    nn_id h = nn_gelu(g, nn_add(g, seen, nn_concat(g, 0, count / 7, whole)));
    h = nn_gelu(g, nn_linear(g, "aux.next.hidden", h, hidden, 1.4f));
    *mean = nn_add(g, tokens, nn_linear(g, "aux.next.mean", h, width, 0.1f));
    *logvar = nn_clamp(g, nn_linear(g, "aux.next.logvar", h, width, 0.1f), -8.0f, 4.0f);
}
