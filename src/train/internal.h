// internal.h - what the files of src/train share: the data of a run, caches, losses, gates and
// stages.
#ifndef TRAIN_INTERNAL_H
#define TRAIN_INTERNAL_H

#include "data/frames.h"
#include "data/pack.h"
#include "nn/trainer.h"
#include "train/train.h"

enum { HIST = MODEL_HISTORY, MOST_STEPS = TASK_MAX_HORIZON };
_Static_assert((int)RECORD_FRAMES == HIST, "records are made for other histories");

// Sources of samples, numbered as in data/pack.h: F recorded, I common-reset, S structured, D
// imagined.
enum { SOURCES = 4, SOURCE_F = 1, SOURCE_I = 2, SOURCE_S = 4, SOURCE_D = 8 };
#define SOURCE_LETTERS "FISD"
_Static_assert((int)PACK_HELD == (int)SOURCES, "every other source can be trained on");

// Everything a run reads. Training uses train episodes only; PACK_HELD records and pairs come from
// validation episodes.
typedef struct train_set {
    const env_spec* env;
    pack data;
    data_split split;  // empty when the data come from a pack's file
    int frame_pool;    // distinct pairs of frames per source and lag; 0: all there are
    int frame_pool_i;  // likewise of branches
    frames* frames;    // draws frames of episodes
    env** painter;     // (painters) draws states of a pack's file
    int painters;
    pictures* pictures;
    uint64_t seed;
    nn_device device;  // where graphs run; the host until a run says otherwise
} train_set;

// The set must stay where it is until it is closed.
firm_status train_set_open(const config* settings, const env_spec* env, const train_inputs* in,
                           const train_options* opt, int workers, train_set* out, firm_error* err);
void train_set_close(train_set* s);
// The device of that name, with the settings' precision.
firm_status train_device_open(const config* settings, const char* name, nn_device* out,
                              firm_error* err);
// image, action and chi statistics from the training split
firm_status train_set_stats(train_set* s, model_stats* stats, firm_error* err);
// The pairs of a source (pack_source) `lag` apart; NULL if no stage asked for them.
const pairs* train_pairs(const train_set* s, int source, int lag);
// A scene's frame into (image, image, 3) bytes, by the pool's worker of that number.
firm_status train_frame(const train_set* s, int worker, int64_t scene, uint8_t* rgb);
// Why a run over frames failed: the device's reason, or a `kind` ("training") frame that cannot be
// read.
firm_status train_failed(const nn_exec* e, firm_status st, const char* kind, firm_error* err);

// Picks `count` configurations that cover those of the training episodes, and how well they do.
firm_status support_fill(const train_set* s, firm_model* m, int count, firm_error* err);

// What `count` frames of the training records look like; fewer where there are fewer.
firm_status tokens_fill(const train_set* s, firm_model* m, int count, pool* p, firm_error* err);

// uniform index below n for sample i of an update: a function of its key alone
nn_pick train_pick_key(uint64_t seed, int stage);
int64_t train_pick(uint64_t seed, int stage, int64_t update, int sample, int64_t n);

// ---- stages -------------------------------------------------------------------------------------

enum { MOST_MODULES = 8 };

// Weights of the terms of a pixel stage; 0: absent.
typedef struct pixel_terms {
    float picture;       // RGB reconstruction, and which pixels change
    float config;        // configuration of both frames of a pair
    float difference;    // change of configuration between them
    float tail;          // the worst quarter of configuration errors
    float anchor;        // tokens stay as they were when the stage began
    float equivariance;  // keypoints of a turned picture are the turned keypoints
    float physical;      // where the links end can be read from the grounder's trunk
    float posture;       // chi of the first frame can be read from its tokens
} pixel_terms;

typedef struct stage {
    char name[48];
    const char* objective;  // picture, ground, geometry, physical, dynamics, rollout
    int sources;            // bits
    int balance;            // bits: sources whose rare moments are shown as often as the rest
    int updates;
    int batch[SOURCES];
    float weight[SOURCES];
    nn_adamw_options adamw;
    struct {
        char prefix[32];  // "grounder."
        float factor;     // of the rate
    } module[MOST_MODULES];
    int modules;        // those trained
    int records;        // dynamics, rollout: the first so many of a source; 0: all
    double average;     // share of the updates whose weights are averaged; 0: none
    int average_every;  // updates between two weights of the mean
    float noise;        // rollout: deviation of the noise on the configurations of a history
    int bootstrap;      // rollout: the run sees its own sample of the histories
    float doubt;        // rollout: spread at which imagined targets count half; 0: all alike
    int lag;            // pixel stages: rows between the two frames of a pair
    pixel_terms terms;
    const char* loss;   // rollout: the [loss.NAME] of all sources; "": each its own
    int spatial;        // rollout: the spatial residual sees its extra inputs
    double gate_limit;  // 0: no gate
    int index;
} stage;
int stage_read(const config* settings, int i, const char* sources, stage* out);  // 0 past the last
// Number of the first stage to run: that called `from`, or 0 if it is NULL.
firm_status stage_first(const config* settings, const char* from, int* index, firm_error* err);
// The training-only parameters that the settings' stages need, for model_create().
int stages_auxiliary(const config* settings);
int stage_recurrent(const stage* s);    // its samples are records with remembered histories
int stage_sees_frames(const stage* s);  // its samples are pairs of frames
// What updates from `from` on cost, in frames seen, roughly: a rollout from remembered histories
// costs a seventh of a frame.
double stage_cost(const stage* s, int from);
int stage_trains(const stage* s, const char* prefix);  // any parameter of that prefix
void stage_train(const stage* s, nn_graph* g);         // declares what is trained; s NULL: nothing
float stage_factor(const stage* s, const char* parameter);
// settings that contradict each other or the task
firm_status stage_check(const stage* s, const config* settings, const train_set* set,
                        const firm_model* m, firm_error* err);
const char* stage_loss(const stage* s, int source);  // NAME of its [loss.NAME]

// ---- caches -------------------------------------------------------------------------------------

// What frozen modules say about histories: computed once, so that recurrent stages never touch
// pixels.
typedef struct history_cache {
    int count;
    float* belief;  // (count, belief)
    float* config;  // (count, 3, config_dim), grounded from pixels
} history_cache;
firm_status cache_histories(const train_set* s, const firm_model* m, const records* of, pool* p,
                            const char* label, history_cache* out, firm_error* err);
void cache_free(history_cache* c);

// Tokens of frames. Of records: t-2, t-1, t and the one after the first control; of histories the
// first three of these; of pairs: E(o, 0) of the first frame.
typedef struct token_cache {
    int count, frames, size;  // size: numbers of one frame's tokens
    float* tokens;            // (count, frames, size)
} token_cache;
firm_status cache_record_tokens(const train_set* s, const firm_model* m, const records* of, pool* p,
                                const char* label, token_cache* out, firm_error* err);
firm_status cache_history_tokens(const train_set* s, const firm_model* m, const records* of,
                                 pool* p, const char* label, token_cache* out, firm_error* err);
firm_status cache_pair_tokens(const train_set* s, const firm_model* m, const pairs* of, pool* p,
                              const char* label, token_cache* out, firm_error* err);
void token_cache_free(token_cache* c);

// Recorded sequences for the model: the first `count` records of r, or all where there are fewer.
firm_status recorded_fill(const records* r, firm_model* m, int count, firm_error* err);

// ---- the rollout loss ---------------------------------------------------------------------------

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
    int imagined;  // targets are a teacher's, which says nothing of chi
    int trusted;   // and count for each macro step by its trust
} loss_weights;
firm_status loss_read(const config* settings, const env_spec* env, const char* source,
                      loss_weights* out, firm_error* err);

typedef struct rollout_graph {
    nn_graph* g;
    nn_id belief;                        // from the cache, or
    nn_id tokens[HIST], past[HIST - 1];  // the history module's inputs, where it is trained
    nn_id config[HIST], zero_fiber, u[MOST_STEPS], target;
    nn_id chi0, chi;  // NN_NONE of imagined targets
    nn_id trust;      // (horizon, config_dim) root of what macro steps count, or NN_NONE: all alike
    nn_id path;       // (horizon, config_dim) predicted
} rollout_graph;
// w NULL: predictions only; s NULL: nothing is trained.
firm_status rollout_graph_build(const firm_model* m, const loss_weights* w, const stage* s,
                                rollout_graph* out, firm_error* err);

typedef struct rollout_batch {
    const train_set* set;
    const firm_model* model;
    const rollout_graph* graph;
    const records* from;
    const history_cache* cache;
    const token_cache* tokens;  // of histories, where the history module is trained
    const int* order;           // balanced: the record of a row; NULL: its own number
    int first;                  // sample i, or row i of a trainer's table, is record first + i
    // with noise, the table holds its rows NOISE_DRAWS times, each time with other noise
    int rows;
    float noise;
    nn_pick noise_key;
    float doubt;  // of trust
} rollout_batch;
enum { NOISE_DRAWS = 8 };
firm_status rollout_fill(void* ctx, const nn_feed* feed);

// What heads learn of `count` moments' chi (count, chi_dim): standardised, and cut at eight
// deviations.
void chi_target(const firm_model* m, const float* chi, int count, float* out);

// Rows of a table in which rare and other samples come equally often: *rows indices below n, to be
// freed with mem_free; NULL and n rows if one of the kinds is missing.
firm_status balanced_order(const uint8_t* rare, int n, int** order, int* rows, firm_error* err);

// sample.c: a run's own sample of a source's histories, drawn with replacement by its seed: as many
// as there are, each with all its records. Every stage of a run sees the same one.
typedef struct history_sample {
    int count;      // records in it
    int* record;    // (count) their numbers
    uint8_t* rare;  // (count) as in records
} history_sample;
firm_status sample_histories(const records* r, uint64_t seed, int source, history_sample* out,
                             firm_error* err);
// An order of `rows` places in the sample (*order NULL: all in turn) becomes one of records.
void sample_take(history_sample* s, int** order, int rows);
void sample_free(history_sample* s);

// ---- gates --------------------------------------------------------------------------------------

// Held-out rollout error by horizon in tolerance units.
typedef struct rollout_error {
    double mean[MOST_STEPS], p95[MOST_STEPS];
} rollout_error;
firm_status gate_rollout(const train_set* s, const firm_model* m, const records* of,
                         const history_cache* cache, pool* p, rollout_error* out, firm_error* err);
// Held-out grounding error of validation frames that show all that moves: mean tolerance units, and
// mean and largest of every named distance in its unit.
typedef struct ground_error {
    double mean_units, p95_units;
    double mean[TASK_MAX_DISTANCE], max[TASK_MAX_DISTANCE];
} ground_error;
firm_status gate_ground(const train_set* s, const firm_model* m, pool* p, ground_error* out,
                        firm_error* err);

// ---- imagined records ---------------------------------------------------------------------------

// The last sixteenth of the imagined histories with their records is held out: nothing learns from
// it. Those before.
records imagined_shown(const records* all);
// How far the model's rollouts are from what the teacher says of those held out. *held 0: there are
// none.
firm_status imagined_follow(const train_set* s, const firm_model* m, pool* p, int* held,
                            rollout_error* out, firm_error* err);

#endif
