// lewm_weights.h - the weights of LeWM's predictor as the planners want them, on whichever device
// they run: norms and batch norm folded into the layers behind or before them.
#ifndef PLAN_LEWM_WEIGHTS_H
#define PLAN_LEWM_WEIGHTS_H

#include "model/lewm/lewm.h"

enum { LEWM_CHUNKS = 6 };  // of a modulation: shift, scale and gate of either branch

// y = x w + b
typedef struct lewm_fold {
    int in, out;
    float *w, *b;  // (in, out), (out)
} lewm_fold;

typedef struct lewm_folded {
    lewm_fold qkv, out, up, down;
} lewm_folded;

typedef struct lewm_weights {
    lewm_shape shape;
    int action, inner;  // numbers of a macro action; heads * head of the predictor
    lewm_fold patch, embed_up, embed_down;
    lewm_fold modulation;  // of all blocks, side by side
    lewm_folded* block;    // (predictor_depth)
    lewm_fold head_up, head_down;
    float* positions;  // (context, width)
} lewm_weights;

// Copies; the model may go. Free it also after a failure.
firm_status lewm_weights_take(const lewm_model* m, lewm_weights* out, firm_error* err);
void lewm_weights_free(lewm_weights* w);

#endif
