// history.c - B: attention over the tokens of three frames and the two actions between them, causal
// by frame: a token sees its own frame, earlier frames and earlier actions. The belief is read from
// the mean of each frame and from the action tokens. Fine grids are merged first: one token sees
// model.history_pool x model.history_pool cells.
//
// A mean forgets where in the picture something is. With model.place the belief also reads the
// latest frame cell by cell, as the grounder does: where a gripper is, say.
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "model/model.h"

// token order: frame 0, action 0, frame 1, action 1, frame 2; a token may look at its own group and
// before
static int group_of(int token, int per_frame) {
    int cycle = token / (per_frame + 1);
    return 2 * cycle + (token % (per_frame + 1) == per_frame);
}

static nn_id block(nn_graph* g, const firm_model* m, int index, nn_id x, const uint8_t* mask) {
    char name[48];
    int width = m->shape.history_width;
#define PART(what) (snprintf(name, sizeof name, "history.block%d." what, index), name)
    nn_id h = nn_layernorm(g, PART("norm1"), x);
    h = nn_linear(g, PART("qkv"), h, 3 * width, 1.0f);
    h = nn_attention(g, h, m->shape.history_heads, mask);
    x = nn_add(g, x, nn_linear(g, PART("mix"), h, width, 0.5f));
    h = nn_layernorm(g, PART("norm2"), x);
    h = nn_gelu(g, nn_linear(g, PART("up"), h, m->shape.history_inner, 1.4f));
    return nn_add(g, x, nn_linear(g, PART("down"), h, width, 0.5f));
#undef PART
}

// tokens in the width of this module, (tokens of a frame, width)
static nn_id merge(nn_graph* g, const firm_model* m, nn_id tokens) {
    int width = m->shape.history_width, pool = m->shape.history_pool, grid = m->shape.grid;
    if (pool == 1) return nn_linear(g, "history.token", tokens, width, 1.0f);
    nn_id map = nn_reshape(g, tokens, 3, (int[]){grid, grid, nn_last(g, tokens)});
    map = nn_conv(g, "history.token", map, width, pool, pool, 0);
    return nn_reshape(g, map, 2, (int[]){nn_size(g, map) / width, width});
}

static nn_id place(nn_graph* g, const firm_model* m, nn_id tokens) {
    int size = nn_size(g, tokens);
    nn_id h = nn_layernorm(g, "history.place.norm", nn_reshape(g, tokens, 1, &size));
    return nn_gelu(g, nn_linear(g, "history.place", h, m->shape.place, 1.4f));
}

nn_id model_belief(nn_graph* g, const firm_model* m, const nn_id tokens[MODEL_HISTORY],
                   const nn_id actions[MODEL_HISTORY - 1]) {
    int width = m->shape.history_width, pool = m->shape.history_pool;
    int per_frame = model_token_count(m) / (pool * pool);
    int count = MODEL_HISTORY * per_frame + MODEL_HISTORY - 1;
    uint8_t* mask = mem_calloc((size_t)count, (size_t)count);
    if (!mask) {
        g->broken = 1;
        return tokens[0];
    }
    for (int t = 0; t < count; t++)
        for (int s = 0; s < count; s++)
            mask[t * count + s] = group_of(s, per_frame) <= group_of(t, per_frame);

    nn_id part[2 * MODEL_HISTORY - 1];
    for (int f = 0; f < MODEL_HISTORY; f++) {
        char name[48];
        snprintf(name, sizeof name, "history.frame%d", f);
        nn_id frame = nn_param(g, name, NN_INIT_NORMAL, 0.02f, 1, &width);
        part[2 * f] = nn_addp(g, merge(g, m, tokens[f]), frame);
        if (f + 1 < MODEL_HISTORY)
            part[2 * f + 1] = nn_reshape(g, nn_linear(g, "history.action", actions[f], width, 1.0f),
                                         2, (int[]){1, width});
    }
    nn_id x = nn_concat(g, 0, 2 * MODEL_HISTORY - 1, part);
    for (int i = 0; i < m->shape.history_blocks; i++) x = block(g, m, i, x, mask);
    mem_free(mask);
    x = nn_layernorm(g, "history.norm", x);

    nn_id seen[2 * MODEL_HISTORY];
    int parts = 2 * MODEL_HISTORY - 1;
    for (int f = 0, at = 0; f < MODEL_HISTORY; f++) {
        seen[2 * f] = nn_mean(g, nn_slice(g, x, 0, at, per_frame));
        at += per_frame;
        if (f + 1 < MODEL_HISTORY) seen[2 * f + 1] = nn_mean(g, nn_slice(g, x, 0, at++, 1));
    }
    if (m->shape.place) seen[parts++] = place(g, m, tokens[MODEL_HISTORY - 1]);
    return nn_linear(g, "history.belief", nn_concat(g, 0, parts, seen), m->shape.belief, 1.0f);
}
