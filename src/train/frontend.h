// frontend.h - the objectives that look at pixels or tokens: pixel stages (pictures, grounding,
// geometry: any mix of their terms) and token dynamics (history module).
#ifndef TRAIN_FRONTEND_H
#define TRAIN_FRONTEND_H

#include "train/internal.h"

typedef struct frontend_graph {
    nn_graph* g;
    nn_id image, before;                     // pixel stages: a pair of frames, or one and NN_NONE
    nn_id config_now, config_before;         // targets, or NN_NONE
    nn_id turned, turn[6];                   // equivariance: the picture turned, and how
    nn_id ends;                              // physical: where the links end
    nn_id chi;                               // posture: chi of the first frame
    nn_id anchor;                            // tokens to stay close to
    nn_id grounded;                          // G(E(image, 0)), where configurations are targets
    nn_id tokens[HIST], next, action[HIST];  // dynamics
} frontend_graph;

// The terms of a stage; s->modules are trained unless `train` is 0, which builds the same graph for
// held-out losses, without the anchor.
firm_status pixel_graph(const firm_model* m, const stage* s, int train, frontend_graph* out,
                        firm_error* err);
firm_status dynamics_graph(const firm_model* m, const stage* s, int train, frontend_graph* out,
                           firm_error* err);

typedef struct frontend_batch {
    const train_set* set;
    const firm_model* model;
    const frontend_graph* graph;
    // pixel stages
    const pairs* from;
    const int* order;  // balanced: the pair of a row; NULL: its own number
    int rows;          // rows to pick from
    int pick;          // key of the picks; -1: rows are given or samples count through
    const token_cache* anchor;
    // dynamics
    const records* records;
    const token_cache* tokens;
} frontend_batch;
firm_status pair_fill(void* ctx, const nn_feed* feed);
firm_status dynamics_fill(void* ctx, const nn_feed* feed);

// A flip, a quarter turn and a small shift, chosen by a number; for equivariance.
typedef struct turning {
    int xx, xy, yx, yy;  // x' = xx x + xy y: a signed permutation
    int dx, dy;          // then so many pixels right and down
} turning;
turning turning_of(int64_t number);
void turn_frame(const turning* t, int side, const uint8_t* rgb, uint8_t* out);

#endif
