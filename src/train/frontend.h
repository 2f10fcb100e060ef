// frontend.h - the objectives that look at pixels or tokens: pictures (tokenizer), grounding
// (grounder, with the tokenizer refined along), token dynamics (history module).
#ifndef TRAIN_FRONTEND_H
#define TRAIN_FRONTEND_H

#include "train/internal.h"

typedef struct frontend_graph {
    nn_graph* g;
    nn_id image, before;                     // picture, ground
    nn_id config_now, config_before;         // ground: targets
    nn_id grounded;                          // ground: G(E(image, 0))
    nn_id tokens[HIST], next, action[HIST];  // dynamics
} frontend_graph;

// refine: the tokenizer is trained too. train = 0 builds the same graph for held-out losses.
firm_status picture_graph(const firm_model* m, int train, frontend_graph* out, firm_error* err);
firm_status ground_graph(const firm_model* m, int train, int refine, frontend_graph* out,
                         firm_error* err);
firm_status dynamics_graph(const firm_model* m, int train, frontend_graph* out, firm_error* err);

typedef struct frontend_batch {
    const train_set* set;
    const firm_model* model;
    const frontend_graph* graph;
    int sources, stage, lag;
    int held;                   // samples of validation episodes, fixed by their numbers
    const token_cache* tokens;  // dynamics
    const moments* from;        // dynamics
} frontend_batch;
firm_status pair_fill(void* ctx, const nn_feed* feed);  // picture, ground
firm_status dynamics_fill(void* ctx, const nn_feed* feed);

#endif
