// lewm.h - training LeWM (model/lewm/lewm.h): `firm train TASK --world lewm`. One stage: clips of
// four frames from the training episodes, prediction error plus SIGReg, AdamW.
//
// The run folder is that of a FIRM run: config.ini, metrics.csv, checkpoint.safetensors,
// model.safetensors, train.json; and model-UPDATE.safetensors of the way there (lewm.snapshots).
#ifndef TRAIN_LEWM_LEWM_H
#define TRAIN_LEWM_LEWM_H

#include "data/episodes.h"
#include "io/config.h"
#include "io/json.h"
#include "model/lewm/lewm.h"

extern const config_key lewm_keys[];  // the section [lewm]
extern const int lewm_key_count;

typedef struct lewm_run_options {
    const char* folder;
    uint64_t seed;
    int threads;  // 0: all cores
    int resume;
    int64_t until;       // the last update of this sitting, whose model is written; 0: all
    const char* device;  // "cpu" or "cuda"
} lewm_run_options;

// *result (nullable, caller deletes) gets the JSON object of `firm train --json`. FIRM_E_STOPPED: a
// signal came; --resume goes on after the last update made, bit for bit.
firm_status lewm_run(const config* settings, const episodes* data, const lewm_run_options* opt,
                     cJSON** result, firm_error* err);

// Speed of updates on a few episodes of the task, for `firm bench train --world lewm`.
typedef struct lewm_speed {
    int batch;  // clips of an update
    double updates_per_s;
    double gflop_per_update;      // products alone
    double fma_gflops, fraction;  // multiply-adds of the machine, and the share of them; 0 on a GPU
} lewm_speed;
firm_status lewm_bench(const config* settings, const env_spec* env, const lewm_run_options* opt,
                       double seconds, lewm_speed* out, firm_error* err);

// Settings of a run as the keys have them, with a file (NULL: none) and overrides on top.
firm_status lewm_settings(const char* file, const char* const* overrides, int count, config** out,
                          firm_error* err);
void lewm_shape_read(const config* settings, lewm_shape* out);

#endif
