// encoder.c - a frame becomes a latent: a vision transformer over patches, its class token, the
// projector. Pre-norm blocks; the class token leaves after the final norm.
#include "model/lewm/layers.h"

// of the pictures the reference's encoder is trained on
static const float MEAN[3] = {0.485f, 0.456f, 0.406f}, STD[3] = {0.229f, 0.224f, 0.225f};

#define EPS 1e-12f

nn_id lewm_block(nn_graph* g, const lewm_shape* s, int i, nn_id x) {
    layer_name before = lewm_name("encoder", i, "norm1"), qkv = lewm_name("encoder", i, "qkv");
    layer_name out = lewm_name("encoder", i, "out"), after = lewm_name("encoder", i, "norm2");
    layer_name up = lewm_name("encoder", i, "up"), down = lewm_name("encoder", i, "down");
    nn_id u = lewm_norm(g, before.text, x, EPS);
    u = lewm_linear(g, qkv.text, u, 3 * s->width, LAYER_VIT);
    u = nn_attention(g, u, s->heads, NULL);
    x = nn_add(g, x, lewm_linear(g, out.text, u, s->width, LAYER_VIT));
    u = lewm_norm(g, after.text, x, EPS);
    u = nn_erfgelu(g, lewm_linear(g, up.text, u, s->mlp, LAYER_VIT));
    return nn_add(g, x, lewm_linear(g, down.text, u, s->width, LAYER_VIT));
}

nn_id lewm_encode(nn_graph* g, const lewm_model* m, nn_id frames) {
    const lewm_shape* s = &m->shape;
    int count = nn_dims(g, frames)[0], grid = s->image / s->patch;
    nn_id x = nn_patches(g, frames, s->patch, MEAN, STD);
    x = lewm_linear(g, "encoder.patches", x, s->width, LAYER_VIT);
    x = nn_prepend(g, x, nn_param(g, "encoder.class", NN_INIT_NORMAL, 0.02f, 1, &s->width));
    x = nn_addp(g, x,
                nn_param(g, "encoder.positions", NN_INIT_NORMAL, 0.02f, 2,
                         (int[]){grid * grid + 1, s->width}));
    for (int i = 0; i < s->depth; i++) x = lewm_block(g, s, i, x);
    x = nn_reshape(g, nn_slice(g, x, 1, 0, 1), 2, (int[]){count, s->width});
    return lewm_head(g, m, "projector", lewm_norm(g, "encoder.norm", x, EPS));
}
