// decoder.c - training-only heads: chi from the fiber, pictures and changes from tokens, the next
// frame's tokens from belief and action. Their parameters start with "aux." and are not deployed.
#include "model/model.h"

nn_id model_chi(nn_graph* g, const firm_model* m, nn_id fiber) {
    nn_id h = nn_gelu(g, nn_linear(g, "aux.chi.hidden", fiber, 128, 1.4f));
    return nn_linear(g, "aux.chi.out", h, m->task.chi_dim, 1.0f);
}

// tokens as a map: the cells, or the cells of a coarse map (7 x 7 of 224 pixels) that all keypoints
// together make
static nn_id token_map(nn_graph* g, const firm_model* m, nn_id tokens) {
    int side = m->shape.grid, size = nn_size(g, tokens);
    if (!m->shape.keypoints)
        return nn_reshape(g, tokens, 3, (int[]){side, side, model_token_width(m)});
    nn_id flat = nn_reshape(g, tokens, 1, &size);
    side = m->task.image / (m->task.image % 32 ? 16 : 32);
    nn_id h = nn_gelu(g, nn_linear(g, "aux.picture.map", flat, side * side * 32, 1.4f));
    return nn_reshape(g, h, 3, (int[]){side, side, 32});
}

// to at least `side` cells per side
static nn_id enlarge(nn_graph* g, const char* prefix, nn_id map, int n, int side) {
    return nn_dims(g, map)[0] < side ? nn_convt(g, prefix, map, n, 4, 2, 1)
                                     : nn_conv(g, prefix, map, n, 3, 1, 1);
}

void model_picture(nn_graph* g, const firm_model* m, nn_id tokens, nn_id* rgb, nn_id* change) {
    int cells = m->task.image / 8;  // a side, of 8 x 8 pixels
    nn_id h = token_map(g, m, tokens);
    h = enlarge(g, "aux.picture.up1", h, 64, cells / 2);
    h = nn_gelu(g, nn_groupnorm(g, "aux.picture.norm1", h, m->shape.groups));
    h = enlarge(g, "aux.picture.up2", h, 32, cells);
    h = nn_gelu(g, nn_groupnorm(g, "aux.picture.norm2", h, m->shape.groups));
    h = nn_reshape(g, h, 2, (int[]){cells * cells, 32});
    *rgb = nn_linear(g, "aux.picture.rgb", h, 8 * 8 * 3, 1.0f);
    *change = nn_linear(g, "aux.picture.change", h, 8 * 8, 1.0f);
}

// `count` copies of a row, each joining up to seven of the copies made before
static nn_id repeat(nn_graph* g, nn_id row, int count) {
    if (count == 1) return row;
    int times = count < 7 ? count : 7, each = count / times, rest = count - times * each;
    nn_id part[8], whole = repeat(g, row, each);
    for (int i = 0; i < times; i++) part[i] = whole;
    if (rest) part[times] = repeat(g, row, rest);
    return nn_concat(g, 0, times + (rest > 0), part);
}

void model_next_tokens(nn_graph* g, const firm_model* m, nn_id tokens, nn_id belief, nn_id action,
                       nn_id* mean, nn_id* logvar) {
    int count = model_token_count(m), width = model_token_width(m), hidden = 128;
    // what the belief and the action say is the same for every token
    nn_id said =
        nn_linear(g, "aux.next.said", nn_concat(g, 0, 2, (nn_id[]){belief, action}), hidden, 1.0f);
    nn_id seen = nn_linear(g, "aux.next.seen", tokens, hidden, 1.0f);
    said = repeat(g, nn_reshape(g, said, 2, (int[]){1, hidden}), count);
    nn_id h = nn_gelu(g, nn_add(g, seen, said));
    h = nn_gelu(g, nn_linear(g, "aux.next.hidden", h, hidden, 1.4f));
    *mean = nn_add(g, tokens, nn_linear(g, "aux.next.mean", h, width, 0.1f));
    *logvar = nn_clamp(g, nn_linear(g, "aux.next.logvar", h, width, 0.1f), -8.0f, 4.0f);
}
