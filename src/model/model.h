// model.h - FIRM's modules as graph builders, and the weights they share.
//
//   E  tokenizer.c    p = E(o, o - o_prev)                          (49, 64) spatial tokens
//   G  grounder.c     c = G(E(o, 0))                                named configuration
//   B  history.c      b = B(p_{t-2..t}, a_{t-2..t-1})                causal belief
//   R  fiber.c        m = R([b, c_{t-1} - c_{t-2}, c_t - c_{t-1}])   dynamic fiber
//   T  transition.c   (c, m) <- T(c, m, u)                          one macro action
//   D  decoder.c      chi = D(m), pictures, next tokens              training only ("aux."
//   parameters)
//
// Each builder is written once, forward only; training, deployment and tests build their own
// graphs.
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "core/config.h"
#include "env/env.h"
#include "nn/graph.h"

enum {
    MODEL_HISTORY = FIRM_HISTORY,  // frames of a history
    MODEL_CONTROLS = 5,            // raw controls per macro action (S)
    MODEL_HORIZON = 5,             // macro steps of a training rollout (H)
    MODEL_PATCH = 4                // the first convolution reads disjoint 4 x 4 patches
};

// Sizes; stored in the checkpoint, set from the [model] section.
typedef struct model_shape {
    int channels[4];  // convolution stages
    int groups;       // of every GroupNorm
    int grounder_hidden;
    int history_width, history_inner, history_blocks, history_heads;
    int belief;
    int fiber, fiber_hidden;
    int hidden, inner, blocks;  // transition
    int no_fiber;               // ablation: m stays 0
} model_shape;

// Constants estimated from the training split and frozen in the checkpoint.
typedef struct model_stats {
    float image_mean[3], image_std[3];
    float action_mean[FIRM_MAX_ACTION], action_std[FIRM_MAX_ACTION];
    float chi_mean[ENV_MAX_CHI], chi_std[ENV_MAX_CHI];
} model_stats;

struct firm_model {
    const env_spec* env;
    model_shape shape;
    model_stats stats;
    nn_store* store;
    // where the training data lie in configuration space: the planner's reach mode stays near them
    float* support;        // (support_count, config_dim), or NULL
    int support_count;
    float support_radius;  // distance within which nearly every training configuration has a point
    int auxiliary;         // training-only parameters are there too
    char* config;          // resolved settings of the training run as text; "" if unknown
    char provenance[256];  // one line: version, seed, data hash
};

extern const config_key model_keys[];
extern const int model_key_count;
void model_shape_read(const config* c, model_shape* shape);

// Declares every module for the task, draws initial weights from the seed.
firm_status model_create(const env_spec* env, const model_shape* shape, int auxiliary,
                         uint64_t seed, firm_model** out, firm_error* err);

// ---- builders ----
nn_id model_tokens(nn_graph* g, const firm_model* m, nn_id image,
                   nn_id before);  // before: NN_NONE for E(o, 0)
nn_id model_ground(nn_graph* g, const firm_model* m, nn_id tokens);
nn_id model_belief(nn_graph* g, const firm_model* m, const nn_id tokens[MODEL_HISTORY],
                   const nn_id actions[MODEL_HISTORY - 1]);
nn_id model_fiber(nn_graph* g, const firm_model* m, nn_id belief, const nn_id c[MODEL_HISTORY]);
void model_transition(nn_graph* g, const firm_model* m, nn_id u, nn_id* c,
                      nn_id* fiber);  // in place
nn_id model_chi(nn_graph* g, const firm_model* m, nn_id fiber);
// reconstruction in 8 x 8 patches: standardised RGB (784, 192) and change logits (784, 64)
void model_picture(nn_graph* g, const firm_model* m, nn_id tokens, nn_id* rgb, nn_id* change);
// Gaussian over the next frame's tokens from the current ones, the belief and the action taken
void model_next_tokens(nn_graph* g, const firm_model* m, nn_id tokens, nn_id belief, nn_id action,
                       nn_id* mean, nn_id* logvar);

int model_token_count(const firm_model* m);  // 49
int model_token_width(const firm_model* m);  // 64

// ---- accounting: deployed parameters by module, beside the paper's ----
typedef struct model_params {
    size_t frontend, grounder, transition, total;
} model_params;
model_params model_count(const firm_model* m);

// standardised action coordinates
void model_standardise(const firm_model* m, const float* raw, int controls, float* out);
void model_raw_action(const firm_model* m, const float* standard, int controls, float* out);

#endif
