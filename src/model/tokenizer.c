// tokenizer.c - E: four convolution stages with GroupNorm and GELU, 224 x 224 -> 7 x 7 tokens, plus
// learned positions. The first stage reads disjoint 4 x 4 patches, so it is a product over patches:
// one weight for the image, one for its change since the frame before. E(o, 0) simply leaves the
// second out.
#include <stdio.h>

#include "model/model.h"

static nn_id first_stage(nn_graph* g, const firm_model* m, nn_id image, nn_id before) {
    const float *mean = m->stats.image_mean, *std = m->stats.image_std;
    nn_id seen = nn_patches(g, image, MODEL_PATCH, mean, std);
    nn_id h = nn_linear(g, "tokenizer.stage1.image", seen, m->shape.channels[0], 1.4f);
    // declared even when unused, so that every graph knows the same parameters
    int inputs = MODEL_PATCH * MODEL_PATCH * 3, outputs = m->shape.channels[0];
    nn_id w = nn_param(g, "tokenizer.stage1.change.weight", NN_INIT_NORMAL, 0.2f, 2,
                       (int[]){inputs, outputs});
    if (before != NN_NONE) {
        nn_id change = nn_patchdiff(g, image, before, MODEL_PATCH, std);
        h = nn_add(g, h, nn_op_linear(g, change, w, NN_NONE));
    }
    return nn_gelu(g, nn_groupnorm(g, "tokenizer.stage1.norm", h, m->shape.groups));
}

nn_id model_tokens(nn_graph* g, const firm_model* m, nn_id image, nn_id before) {
    int side = ENV_IMAGE / MODEL_PATCH;
    nn_id h = first_stage(g, m, image, before);
    h = nn_reshape(g, h, 3, (int[]){side, side, m->shape.channels[0]});
    for (int stage = 1; stage < 4; stage++) {
        char conv[48], norm[48];
        snprintf(conv, sizeof conv, "tokenizer.stage%d.conv", stage + 1);
        snprintf(norm, sizeof norm, "tokenizer.stage%d.norm", stage + 1);
        h = nn_conv(g, conv, h, m->shape.channels[stage], 3, 2, 1);
        h = nn_gelu(g, nn_groupnorm(g, norm, h, m->shape.groups));
    }
    int count = model_token_count(m), width = model_token_width(m);
    h = nn_reshape(g, h, 2, (int[]){count, width});
    nn_id position =
        nn_param(g, "tokenizer.position", NN_INIT_NORMAL, 0.02f, 2, (int[]){count, width});
    return nn_addp(g, h, position);
}

int model_token_count(const firm_model* m) {
    (void)m;
    int side = ENV_IMAGE / MODEL_PATCH / 8;
    return side * side;
}

int model_token_width(const firm_model* m) {
    return m->shape.channels[3];
}
