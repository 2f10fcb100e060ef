// internal.h - what the files of src/train share: the data of a run, its moments, caches and
// stages.
#ifndef TRAIN_INTERNAL_H
#define TRAIN_INTERNAL_H

#include "data/frames.h"
#include "data/split.h"
#include "nn/trainer.h"
#include "train/train.h"

enum { HIST = MODEL_HISTORY, STEPS = MODEL_HORIZON, SPAN = MODEL_HORIZON * MODEL_CONTROLS };

typedef enum source_bits { SOURCE_F = 1, SOURCE_I = 2 } source_bits;

// A moment: a recorded history that ends at `row`, and one future of 25 controls after it: the
// recorded one (branch -1) or a common-reset branch. `outcome` is the branch whose states are taken
// as the result; it differs from `branch` only in the mismatch ablation.
typedef struct moment {
    int64_t row;
    int branch, outcome;
    int history;  // index into the caches: moments of one anchor share it
} moment;

typedef struct moments {
    moment* item;
    int count;
    int64_t* row;  // (histories) the distinct rows
    int histories;
} moments;

// Everything a run reads. Training uses train episodes only; `held` are moments of validation
// episodes.
typedef struct train_set {
    const env_spec* env;
    const episodes* data;
    const branches* inter;  // NULL: no interventions
    data_split split;
    frames* frames;
    int64_t* pair_row;  // rows of train episodes that have a row before them
    int64_t pair_rows;
    moments factual, intervened, held;
    uint64_t seed;
    nn_device device;  // where graphs run; the host until a run says otherwise
} train_set;

firm_status train_set_open(const config* settings, const env_spec* env, const episodes* data,
                           const branches* inter, const train_options* opt, int workers,
                           train_set* out, firm_error* err);
void train_set_close(train_set* s);
// The device of that name, with the settings' precision.
firm_status train_device_open(const config* settings, const char* name, nn_device* out,
                              firm_error* err);
// image, action and chi statistics from the training split
firm_status train_set_stats(train_set* s, model_stats* stats, firm_error* err);

// Picks `count` configurations that cover those of the training episodes, and how well they do.
firm_status support_fill(const train_set* s, firm_model* m, int count, firm_error* err);

const double* moment_state(const train_set* s, const moment* m, int control);  // control: -2 .. 25
void moment_actions(const train_set* s, const moment* m, int control, int count, float* raw);
void moment_config(const train_set* s, const moment* m, int control, float* c);
void moment_chi(const train_set* s, const moment* m, int control, float* chi);
// the frame `control` steps after the moment's row (-2 .. 25)
firm_status moment_frame(const train_set* s, const moment* m, int control, int worker,
                         uint8_t* rgb);

// uniform index below n for sample i of an update: a function of its key alone
nn_pick train_pick_key(uint64_t seed, int stage);
int64_t train_pick(uint64_t seed, int stage, int64_t update, int sample, int64_t n);

// What frozen modules say about histories: computed once, so that recurrent stages never touch
// pixels.
typedef struct history_cache {
    int count;
    float* belief;  // (count, belief)
    float* config;  // (count, 3, config_dim), grounded from pixels
} history_cache;
firm_status cache_histories(const train_set* s, const firm_model* m, const moments* of, pool* p,
                            const char* label, history_cache* out, firm_error* err);
void cache_free(history_cache* c);

typedef struct token_cache {
    int count, size;  // size: numbers of one frame's tokens
    float* tokens;    // (count, 4, size): frames t-2, t-1, t and the one after the first control
} token_cache;
firm_status cache_tokens(const train_set* s, const firm_model* m, const moments* of, pool* p,
                         const char* label, token_cache* out, firm_error* err);

// ---- objectives: each builds its graph and fills its batches
// -----------------------------------------

typedef enum loss_tail {
    TAIL_TERMINAL,      // one error per record: configuration MSE at the horizon
    TAIL_CHORD,         // one per record and macro step: longest chord between joint directions
    TAIL_CHORD_SQUARED  // likewise, squared
} loss_tail;

// One row of the loss contract: weights of the five terms, how changes are measured (relative:
// angles are composed, not subtracted), from where (the step before, or the start), and whose
// errors make the tail.
typedef struct loss_weights {
    float config, displacement, tail, chi, chi0;
    int relative, from_start;
    loss_tail tail_kind;
} loss_weights;
firm_status loss_read(const config* settings, const env_spec* env, const char* source,
                      loss_weights* out, firm_error* err);

typedef struct rollout_graph {
    nn_graph* g;
    nn_id belief, config[HIST], zero_fiber, u[STEPS], target, chi0, chi;
    nn_id path;  // (5, config_dim) predicted
} rollout_graph;
firm_status rollout_graph_build(const firm_model* m, const loss_weights* w, int train,
                                rollout_graph* out, firm_error* err);

typedef struct rollout_batch {
    const train_set* set;
    const firm_model* model;
    const rollout_graph* graph;
    const moments* from;
    const history_cache* cache;
    int first;  // sample i, or row i of a trainer's table, is moment first + i
} rollout_batch;
firm_status rollout_fill(void* ctx, const nn_feed* feed);

// Held-out rollout error by horizon in tolerance units.
typedef struct rollout_error {
    double mean[STEPS], p95[STEPS];
} rollout_error;
firm_status gate_rollout(const train_set* s, const firm_model* m, const moments* of,
                         const history_cache* cache, pool* p, rollout_error* out, firm_error* err);
// Held-out grounding error of `count` validation frames: mean tolerance units, and mean/max of the
// first named distance in its unit.
typedef struct ground_error {
    double mean_units, mean, max;
} ground_error;
firm_status gate_ground(const train_set* s, const firm_model* m, int count, pool* p,
                        ground_error* out, firm_error* err);

// ---- stages
// ------------------------------------------------------------------------------------------

typedef struct stage {
    char name[48];
    const char* objective;  // picture, ground, dynamics, rollout
    int sources;            // source_bits
    int updates, batch, batch_i;
    nn_adamw_options adamw;
    float refine;       // ground: rate factor of the tokenizer; 0: frozen
    int lag;            // ground: rows between the two frames of a pair
    double gate_limit;  // 0: no gate
    int index;
} stage;
int stage_read(const config* settings, int i, const char* sources, stage* out);  // 0 past the last

#endif
