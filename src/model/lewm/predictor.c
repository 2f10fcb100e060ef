// predictor.c - the next latents: a causal transformer over at most `context` latents. Six vectors
// made of the action's embedding modulate each block: shift, scale and gate of either branch. They
// start at 0, so that every block starts as the identity.
#include <string.h>

#include "model/lewm/layers.h"

#define BARE_EPS 1e-6f  // of the norms without gamma and beta
#define EPS 1e-5f

// chunk i of six of the modulation
static nn_id chunk(nn_graph* g, nn_id modulation, int i, int width) {
    return nn_slice(g, modulation, 1, i * width, width);
}

static nn_id attend(nn_graph* g, const lewm_shape* s, int i, nn_id x) {
    uint8_t mask[LEWM_MAX_CONTEXT * LEWM_MAX_CONTEXT];
    int n = nn_dims(g, x)[0];
    for (int t = 0; t < n; t++)
        for (int k = 0; k < n; k++) mask[t * n + k] = k <= t;
    layer_name norm = lewm_name("predictor", i, "norm1"), qkv = lewm_name("predictor", i, "qkv");
    layer_name out = lewm_name("predictor", i, "out");
    x = lewm_norm(g, norm.text, x, EPS);
    x = lewm_linear_plain(g, qkv.text, x, 3 * s->predictor_heads * s->predictor_head,
                          LAYER_UNIFORM);
    x = nn_attention_dropped(g, x, s->predictor_heads, mask, s->dropout);
    return nn_dropout(g, lewm_linear(g, out.text, x, s->width, LAYER_UNIFORM), s->dropout);
}

static nn_id feed(nn_graph* g, const lewm_shape* s, int i, nn_id x) {
    layer_name norm = lewm_name("predictor", i, "norm2"), up = lewm_name("predictor", i, "up");
    layer_name down = lewm_name("predictor", i, "down");
    x = lewm_norm(g, norm.text, x, EPS);
    x = nn_erfgelu(g, lewm_linear(g, up.text, x, s->predictor_mlp, LAYER_UNIFORM));
    x = lewm_linear(g, down.text, nn_dropout(g, x, s->dropout), s->width, LAYER_UNIFORM);
    return nn_dropout(g, x, s->dropout);
}

static nn_id block(nn_graph* g, const lewm_shape* s, int i, nn_id x, nn_id condition) {
    layer_name name = lewm_name("predictor", i, "modulation");
    int w = s->width;
    nn_id m = lewm_linear(g, name.text, condition, 6 * w, LAYER_ZERO);
    nn_id u = nn_adanorm(g, x, chunk(g, m, 1, w), chunk(g, m, 0, w), BARE_EPS);
    x = nn_add(g, x, nn_mul(g, chunk(g, m, 2, w), attend(g, s, i, u)));
    u = nn_adanorm(g, x, chunk(g, m, 4, w), chunk(g, m, 3, w), BARE_EPS);
    return nn_add(g, x, nn_mul(g, chunk(g, m, 5, w), feed(g, s, i, u)));
}

nn_id lewm_predict(nn_graph* g, const lewm_model* m, nn_id latents, nn_id embeddings) {
    const lewm_shape* s = &m->shape;
    nn_id positions =
        nn_param(g, "predictor.positions", NN_INIT_NORMAL, 1, 2, (int[]){s->context, s->width});
    nn_id x = nn_addp(g, latents, positions), condition = nn_silu(g, embeddings);
    for (int i = 0; i < s->predictor_depth; i++) x = block(g, s, i, x, condition);
    return lewm_head(g, m, "head", lewm_norm(g, "predictor.norm", x, EPS));
}
