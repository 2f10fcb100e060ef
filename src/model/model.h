// model.h - FIRM's modules as graph builders, and the weights they share.
//
//   E  tokenizer.c    p = E(o, o - o_prev)                          (count, width) tokens
//   G  grounder.c     c = G(E(o, 0))                                named configuration
//   B  history.c      b = B(p_{t-2..t}, a_{t-2..t-1})                causal belief
//   R  fiber.c        m = R([b, c_{t-1} - c_{t-2}, c_t - c_{t-1}])   dynamic fiber
//   T  transition.c   (c, m) <- T(c, m, u)                          one macro action
//   D  decoder.c      chi = D(m), pictures, next tokens              training only ("aux."
//   parameters)
//      reading.c      chi of (c, m), for looking recorded segments up; only where it is asked for
//
// Each builder is written once, forward only; training, deployment and tests build their own
// graphs. Which form of a module a task uses is part of the shape, not of the code that calls it.
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "nn/graph.h"
#include "task/task.h"

enum {
    MODEL_HISTORY = FIRM_HISTORY,  // frames of a history
    MODEL_TOKEN_WIDTH = 8192,      // numbers of a token at most
    MODEL_MEMBERS = 7,             // most models of an ensemble beside the first
    MODEL_PATCH = 4                // the first convolution reads disjoint 4 x 4 patches
};

// LeWM: a latent this close to the goal's is at the goal, as root mean square over its numbers.
// Those of training frames have mean 0 and deviation 1, so that unrelated frames are 1.4 apart.
#define MODEL_LATENT_TOLERANCE 0.25f

// Training-only parameters that a model has, for model_create().
enum {
    MODEL_AUXILIARY = 1,  // those of every training
    MODEL_POSTURE = 2     // and the head of the term `posture`, for trainings with that term
};

// How tokens become a configuration.
typedef enum model_grounder {
    MODEL_GROUND_FLAT,   // one hidden layer over all tokens
    MODEL_GROUND_VOTES,  // the grid is kept: every cell votes on points and angles
    MODEL_GROUND_STAGED  // a configuration head, then a residual head that corrects it
} model_grounder;

// Sizes and forms; stored in the checkpoint, set from the [model] section (train/shape.h).
typedef struct model_shape {
    int channels[4];  // convolution stages
    int groups;       // of every GroupNorm
    int grounder_hidden;
    int history_width, history_inner, history_blocks, history_heads;
    int belief;
    int fiber, fiber_hidden;
    int hidden, inner, blocks;  // transition
    int no_fiber;               // ablation: m stays 0
    // task-typed forms
    int grid;       // cells per side of the last feature map: the image's side over 32, 16 or 8
    int keypoints;  // geometry encoder: tokens are what so many keypoints see; 0: the cells
    int keypoint_width;     // numbers of such a token; the last two are its place x, y in -1 .. 1
    int history_pool;       // the history module sees pool x pool cells as one token
    int grounder;           // model_grounder
    int grounder_residual;  // hidden units of the staged grounder's residual head
    int spatial;            // hidden units of the transition's spatial residual; 0: none
    int reading;            // hidden units of the reading of chi; 0: none
    int place;              // hidden units of the belief's look at single cells; 0: none
} model_shape;

// Constants estimated from the training split and frozen in the checkpoint.
typedef struct model_stats {
    float image_mean[3], image_std[3];
    float action_mean[FIRM_MAX_ACTION], action_std[FIRM_MAX_ACTION];
    float chi_mean[TASK_MAX_CHI], chi_std[TASK_MAX_CHI];
} model_stats;

// A model file of FIRM, or of LeWM: then `lewm` is there, and of the rest only task, stats'
// actions, config and provenance.
struct firm_model {
    task_typed task;
    struct lewm_model* lewm;  // NULL: a model of FIRM. See model/lewm/lewm.h
    model_shape shape;
    model_stats stats;
    nn_store* store;
    // where the training data lie in configuration space: the planner's reach mode stays near them
    float* support;  // (support_count, config_dim), or NULL
    int support_count;
    float support_radius;  // distance within which nearly every training configuration has a point
    // what was done in recordings: reach mode tries what was done in similar moments
    float* recorded;       // (recorded_count, span, action_dim) raw controls (task_span()), or NULL
    float* recorded_path;  // (recorded_count, horizon + 1, config_dim) what came of them
    float* recorded_chi;   // (recorded_count, chi_dim) how the moment was
    // or moments of whole episodes, a macro action apart: then `recorded` has the controls of one
    // macro action each, recorded_path one configuration, and this the count of macro actions to
    // the end of the episode
    float* recorded_left;  // (recorded_count), or NULL: segments
    int recorded_count;
    // what training frames look like, for telling others (statistics.c)
    float* token_stats;  // (2, width) mean and deviation of the tokens' channels, or NULL
    float token_radius;  // nearly every training frame is so near to the mean
    int auxiliary;       // bits: which training-only parameters are there too; 0: none
    int spatial_off;     // a training stage leaves the spatial residual's extra inputs out (zeros,
                         // as its weights on them start); not stored: deployed models have them
    char* config;        // resolved settings of the training run as text; "" if unknown
    char provenance[256];  // one line: version, seed, data hash
    // an ensemble: further models of the same task, shape and action statistics, owned by the
    // first, whose settings, support and recorded segments count. They have none, and no members
    // either.
    int members;
    firm_model* member[MODEL_MEMBERS];
    // of a member: its tokenizer, grounder and picture statistics are the first's, so a file holds
    // them once and a controller looks at a frame once
    int shares;
};

// Declares every module for the task, draws initial weights from the seed. auxiliary:
// MODEL_AUXILIARY and MODEL_POSTURE, or 0.
firm_status model_create(const task_typed* task, const model_shape* shape, int auxiliary,
                         uint64_t seed, firm_model** out, firm_error* err);

// ---- builders ----
nn_id model_tokens(nn_graph* g, const firm_model* m, nn_id image,
                   nn_id before);  // before: NN_NONE for E(o, 0)
// Parameters "grounder."; of the staged form "grounder.trunk.", "grounder.config." and
// "grounder.residual.", the last of which starts at no correction: training the first two alone
// trains the configuration head.
nn_id model_ground(nn_graph* g, const firm_model* m, nn_id tokens);
nn_id model_belief(nn_graph* g, const firm_model* m, const nn_id tokens[MODEL_HISTORY],
                   const nn_id actions[MODEL_HISTORY - 1]);
nn_id model_fiber(nn_graph* g, const firm_model* m, nn_id belief, const nn_id c[MODEL_HISTORY]);
void model_transition(nn_graph* g, const firm_model* m, nn_id u, nn_id* c,
                      nn_id* fiber);  // in place
nn_id model_chi(nn_graph* g, const firm_model* m, nn_id fiber);
nn_id model_reading(nn_graph* g, const firm_model* m, nn_id c, nn_id fiber);  // standardised chi
// geometry encoder: the places of its keypoints (keypoints, 2), x right, y down, -1 .. 1
nn_id model_keypoints(nn_graph* g, const firm_model* m, nn_id tokens);
// staged grounder, training only ("aux.physical."): where the ends of a chain of links lie, read
// from the trunk of the configuration head: (2 pairs), see model_physical_target
nn_id model_physical(nn_graph* g, const firm_model* m, nn_id tokens);
// (x, y) of every link's end in link lengths, from a configuration of joint angles: (2 pairs)
void model_physical_target(const firm_model* m, const float* c, float* xy);
// training only ("aux.posture."): standardised chi, read from E(o, 0) by a flat head, so that
// tokens learn the places of all parts, not only of those that the configuration names
nn_id model_posture(nn_graph* g, const firm_model* m, nn_id tokens);
// reconstruction in 8 x 8 patches: standardised RGB (n, 192) and change logits (n, 64), with n
// patches in a frame (784 of 224 pixels a side)
void model_picture(nn_graph* g, const firm_model* m, nn_id tokens, nn_id* rgb, nn_id* change);
// Gaussian over the next frame's tokens from the current ones, the belief and the action taken
void model_next_tokens(nn_graph* g, const firm_model* m, nn_id tokens, nn_id belief, nn_id action,
                       nn_id* mean, nn_id* logvar);

int model_token_count(const firm_model* m);  // grid * grid, or keypoints
int model_token_width(const firm_model* m);  // the last stage's channels, or keypoint_width

// Whether a member sees what the first model sees: the same tokenizer, grounder and statistics of
// pictures, to the bit.
int model_sees_alike(const firm_model* m, const firm_model* first);
int model_is_sight(const char* parameter);  // of the tokenizer or the grounder

// ---- accounting: deployed parameters by module, beside the paper's; of all members together, what
// they share once ----
typedef struct model_params {
    size_t frontend, grounder, transition, total;
} model_params;
model_params model_count(const firm_model* m);

// A model of LeWM as a model file: takes it over, also when it fails.
firm_status model_of_lewm(struct lewm_model* lewm, firm_model** out, firm_error* err);

// Whether it was trained on the episodes of that hash, and every member of an ensemble, too: a name
// in the provenance.
int model_learned_from(const firm_model* m, uint64_t data_hash);

// Without its support points, without its recorded sequences.
void model_drop_support(firm_model* m);
void model_drop_recorded(firm_model* m);
void model_drop_tokens(firm_model* m);

// ---- statistics.c: tokens beside those of the training frames ----
void model_pool_tokens(const firm_model* m, const float* tokens,
                       float* pooled);  // (count, width) -> their mean (width)
// Root mean square over the channels of the distance from the mean, in deviations.
float model_token_distance(const firm_model* m, const float* pooled);

// standardised action coordinates
void model_standardise(const firm_model* m, const float* raw, int controls, float* out);

#endif
