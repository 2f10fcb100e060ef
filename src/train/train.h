// train.h - training runs: the stages of a task's config, one after the other, resumable at any
// update.
//
// A run folder holds config.ini (resolved settings), metrics.csv, checkpoint.safetensors (to
// resume), model.safetensors (the result) and train.json.
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include "data/branches.h"
#include "io/config.h"
#include "io/json.h"
#include "model/model.h"

// What a run learns from: episodes with their branches, or a pack made of them.
typedef struct train_inputs {
    const episodes* data;
    const branches *interventions, *structured;  // NULL: none
    const char* pack;                            // file; the others are NULL then
} train_inputs;

typedef struct train_options {
    const char* folder;   // the run folder, made if it is not there
    uint64_t seed;        // initial weights and batches; the data split keeps its own seed
    int threads;          // 0: all cores
    int resume;           // continue a run that was stopped
    const char* sources;  // "F", "I", "FI" restrict every stage; NULL: as the config says
    const char* init;     // a checkpoint or model to take the first weights from; NULL: random ones
    const char* from;     // with init: the first stage to run; NULL: all
    const char* until;    // the last stage of this sitting; NULL: all
    int mismatch;         // ablation: outcomes of branches are shuffled
    const char* device;   // "cpu" (also NULL) or "cuda"
    int ablations;        // packs: also what runs restricted to F or I read
    const char* recordings;  // episodes whose moments go with the model (train.moments); NULL: none
} train_options;

extern const config_key train_keys[];
extern const int train_key_count;

// Runs all stages. *result (nullable, caller deletes) gets the JSON object of `firm train --json`.
// FIRM_E_STOPPED: a signal came (core/interrupt.h); --resume goes on after the last update made.
// FIRM_E_GATE: it ran, the model is written, but a gate failed (the message says which).
firm_status train_run(const config* settings, const env_spec* env, const train_inputs* in,
                      const train_options* opt, cJSON** result, firm_error* err);

// Writes all that the stages will read into one file (data/pack.h), with frames as states to draw
// or as pictures. *result as above.
firm_status train_pack(const config* settings, const env_spec* env, const train_inputs* in,
                       const train_options* opt, int as_pictures, const char* path, cJSON** result,
                       firm_error* err);

// Held-out errors of a finished model, for tasks without a simulator: how well it sees frames of
// validation episodes and predicts their recorded futures, in tolerance units. Of the options,
// threads, device and sources count. *result is the JSON object of `firm eval --json`.
firm_status train_measure(const config* settings, const env_spec* env, const train_inputs* in,
                          const train_options* opt, const firm_model* m, cJSON** result,
                          firm_error* err);

// Gives a model up to `count` recorded action sequences for reach mode: the first segments of a
// pack of the data it was trained on. Other data are refused, and models that cannot look them up.
firm_status train_add_recorded(firm_model* m, const env_spec* env, const char* pack, int count,
                               firm_error* err);

// Gives a model whole training episodes of `path` instead, up to `count` moments that are a macro
// action apart: reach mode can follow them to goals beyond its horizon. The provenance names the
// data.
firm_status train_add_episodes(firm_model* m, const env_spec* env, const char* path,
                               uint64_t split_seed, int count, firm_error* err);

// Tells a model what frames of its task look like, for firm_step.strange, from `count` frames of
// fresh episodes of the default policy.
firm_status train_add_tokens(firm_model* m, const env_spec* env, int count, pool* p,
                             firm_error* err);

// Speed of the two kinds of training update on synthetic batches, for `firm bench train`.
typedef struct train_speed {
    double frontend_frames_per_s;    // frames forward, backward and update of tokenizer + grounder
    double recurrent_updates_per_s;  // at the config's batch, factual + intervention
    double episodes_per_s;           // collected, on all threads
    // Beside the machine's multiply-add rate, measured in between; 0 on a GPU, and a fraction where
    // the task has no such stage. Products alone are counted (nn/count.h), all time is.
    double fma_gflops, fraction_of_fma_frontend, fraction_of_fma_recurrent;
    int frontend_batch, recurrent_batch;
} train_speed;
firm_status train_bench(const config* settings, const env_spec* env, const char* device,
                        int threads, double seconds, train_speed* out, firm_error* err);

#endif
