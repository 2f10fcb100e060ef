// lewm_layers.h - the layers that lewm_net.c packs and lewm_roll.c multiplies with.
#ifndef PLAN_LEWM_LAYERS_H
#define PLAN_LEWM_LAYERS_H

#include "nn/cpu/loops.h"
#include "plan/lewm_net.h"
#include "plan/lewm_rows.h"

// y = x w + b. The outputs come in parts, of which each is a product of its own: a block's share of
// the modulation, a head, a piece of a hidden layer.
typedef struct lewm_layer {
    int in, out, each;  // out: of all parts; each: of one, and the last may have fewer
    size_t packed;      // numbers of a part in w or w16
    float* w;           // (parts, packed) for nn/cpu/gemm.h,
    uint16_t* w16;      // or for lewm_bf16.h
    float* b;           // (out)
} lewm_layer;

// Head h compares token t with its own token by q_h . (K_h u_t) = (K_h' q_h) . u_t and mixes
// V_h u_t, which is V_h of the mixed u_t. So neither keys nor values are computed.
typedef struct lewm_packed {
    lewm_layer alone;           // V, then the output layer: of a window's first token
    lewm_layer q, turned_k, v;  // by head; turned_k: (head) -> (width)
    lewm_layer out, up, down;
} lewm_packed;

struct lewm_net {
    lewm_shape shape;
    int action, inner;  // inner: heads * head of the predictor
    const lewm_rows* rows;
    const nn_loops* loops;
    const lewm_products* products;  // of bfloat16; NULL: float32
    lewm_layer patch, embed_up, embed_down;
    lewm_layer modulation;  // by block: shift, scale and gate of either branch
    lewm_packed* block;     // (depth)
    lewm_layer head_up, head_down;
    float* positions;  // (context, width)
    size_t bytes;
};

static inline int lewm_layer_parts(const lewm_layer* l) {
    return (l->out + l->each - 1) / l->each;
}

// Outputs of a part.
static inline int lewm_layer_outputs(const lewm_layer* l, int part) {
    const int rest = l->out - part * l->each;
    return rest < l->each ? rest : l->each;
}

#endif
