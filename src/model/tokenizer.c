// tokenizer.c - E: four convolution stages with GroupNorm and GELU. The first stage reads disjoint
// 4 x 4 patches, so it is a product over patches: one weight for the image, one for its change
// since the frame before. E(o, 0) simply leaves the second out. The later stages halve the map
// until it has model.grid cells per side.
//
// Learned positions are added to the cells. These are the tokens; or, with the geometry encoder,
// what a set of keypoints sees: each looks at the map through its own softmax and reports features
// and place.
#include <math.h>
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

// the places are left alone by what is learned about a keypoint as such: they are where it looked
static nn_id look(nn_graph* g, const firm_model* m, nn_id cells) {
    int grid = m->shape.grid, count = m->shape.keypoints;
    int width = m->shape.keypoint_width, features = width - 2;
    float scale = 0.6f / sqrtf((float)nn_last(g, cells));
    nn_id heat = nn_param(g, "tokenizer.keypoint.where.weight", NN_INIT_NORMAL, scale, 2,
                          (int[]){nn_last(g, cells), count});
    nn_id where = nn_op_linear(g, cells, heat, NN_NONE);  // a softmax would not notice a bias
    nn_id what = nn_linear(g, "tokenizer.keypoint.what", cells, features, 0.6f);
    what = nn_coords(g, nn_reshape(g, what, 3, (int[]){grid, grid, features}));
    nn_id seen = nn_softpool(g, where, nn_reshape(g, what, 2, (int[]){grid * grid, width}));
    nn_id name =
        nn_param(g, "tokenizer.keypoint.name", NN_INIT_NORMAL, 0.02f, 2, (int[]){count, features});
    nn_id feature = nn_addp(g, nn_slice(g, seen, 1, 0, features), name);
    return nn_concat(g, 1, 2, (nn_id[]){feature, nn_slice(g, seen, 1, features, 2)});
}

nn_id model_tokens(nn_graph* g, const firm_model* m, nn_id image, nn_id before) {
    int side = m->task.image / MODEL_PATCH;
    nn_id h = first_stage(g, m, image, before);
    h = nn_reshape(g, h, 3, (int[]){side, side, m->shape.channels[0]});
    for (int stage = 1; stage < 4; stage++) {
        char conv[48], norm[48];
        snprintf(conv, sizeof conv, "tokenizer.stage%d.conv", stage + 1);
        snprintf(norm, sizeof norm, "tokenizer.stage%d.norm", stage + 1);
        int stride = side > m->shape.grid ? 2 : 1;
        side /= stride;
        h = nn_conv(g, conv, h, m->shape.channels[stage], 3, stride, 1);
        h = nn_gelu(g, nn_groupnorm(g, norm, h, m->shape.groups));
    }
    int cells = side * side, width = m->shape.channels[3];
    nn_id position =
        nn_param(g, "tokenizer.position", NN_INIT_NORMAL, 0.02f, 2, (int[]){cells, width});
    h = nn_addp(g, nn_reshape(g, h, 2, (int[]){cells, width}), position);
    return m->shape.keypoints ? look(g, m, h) : h;
}

nn_id model_keypoints(nn_graph* g, const firm_model* m, nn_id tokens) {
    CHECK(m->shape.keypoints, "the tokens of %s are no keypoints", m->task.name);
    return nn_slice(g, tokens, 1, m->shape.keypoint_width - 2, 2);
}

int model_token_count(const firm_model* m) {
    return m->shape.keypoints ? m->shape.keypoints : m->shape.grid * m->shape.grid;
}

int model_token_width(const firm_model* m) {
    return m->shape.keypoints ? m->shape.keypoint_width : m->shape.channels[3];
}
