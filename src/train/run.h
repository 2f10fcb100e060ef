// run.h - the state of a training run, shared by run.c (order, checkpoints, results) and stage.c
// (updates).
#ifndef TRAIN_RUN_H
#define TRAIN_RUN_H

#include "model/checkpoint.h"
#include "train/frontend.h"

enum {
    MAX_STAGES = 16,
    MOST_DETAILS = 2 * ((int)MOST_STEPS + (int)TASK_MAX_DISTANCE + 1)  // room enough
};

typedef struct stage_result {
    char name[48];
    int updates;
    double seconds;
    double gate, limit;  // limit 0: the figure is only reported
    int pass;
    // ground: mean and largest of each distance, then the P95 in tolerance units; rollout: means by
    // horizon, then the P95s
    double detail[MOST_DETAILS];
} stage_result;
int run_details(const task_typed* t);  // how many of them a checkpoint notes

typedef struct train_run_state {
    const config* settings;
    const train_options* opt;
    train_set set;
    firm_model* model;
    pool* p;
    FILE* metrics;
    int lock;               // of the folder; -1: none
    int shown;              // progress_run_begin() was called
    double seconds_before;  // spent in earlier sittings of the current stage
    stage_result result[MAX_STAGES];
    int results;
    history_cache cache[PACK_SOURCES];  // kept over consecutive recurrent stages
    float* anchor;                      // the tokenizer the current stage began with, or NULL
    size_t anchor_count;
    float* average;  // (store) mean of the current stage's weights so far, or NULL: see average.c
} train_run_state;

// A stage at work: a part for each source, with the graphs and batch descriptions behind them.
typedef struct stage_work {
    nn_part part[SOURCES];
    int parts;
    nn_trainer* trainer;  // NULL until stage_run makes it
    frontend_graph front[SOURCES];
    rollout_graph roll[SOURCES];
    frontend_batch front_batch[SOURCES];
    rollout_batch roll_batch[SOURCES];
    records few[SOURCES];  // what of a source's records is used; borrowed
    token_cache tokens[SOURCES], held_tokens;
    int* order[SOURCES];
} stage_work;
// What updates of a stage from `from` on need: graphs, caches of frozen modules, samples. The work
// must stay where it is; stage_end is due even after a failure.
firm_status stage_begin(train_run_state* run, const stage* s, int from, stage_work* w,
                        firm_error* err);
void stage_end(train_run_state* run, stage_work* w);

// Runs one stage from `from` on (0 for a fresh one); moments come from the checkpoint when from >
// 0.
firm_status stage_run(train_run_state* run, const stage* s, int from, firm_error* err);
// Writes checkpoint.safetensors: the next update is `update` of stage `index`.
firm_status run_checkpoint(train_run_state* run, int index, int update, nn_trainer* trainer,
                           double seconds, firm_error* err);
// Reads it, all but the moments: weights, where the run goes on, and its results so far.
firm_status run_read_checkpoint(train_run_state* run, int* stage_index, int* update,
                                firm_error* err);
firm_status run_read_moments(train_run_state* run, nn_trainer* trainer, firm_error* err);
firm_status run_read_average(train_run_state* run, firm_error* err);
void run_identity(const train_run_state* run, char text[256]);  // what a resumed run must share
void run_drop_caches(train_run_state* run);

// What a checkpoint notes of a run: where it stands, whose it is, and its finished stages.
enum { RUN_NOTES = 4 + MAX_STAGES };
typedef struct run_notes {
    checkpoint_note note[RUN_NOTES];
    char key[MAX_STAGES][24];
} run_notes;
void run_notes_begin(run_notes* n);  // keys, and values that are empty
void run_notes_fill(const train_run_state* run, int index, int update, double seconds,
                    const char* identity, run_notes* out);
// Where the run goes on, and its results so far. The notes come from `file` and are not trusted:
// what does not fit the settings of this run is refused, and *run stays as it was.
firm_status run_notes_read(train_run_state* run, const char* file, const char* identity,
                           const run_notes* n, int* index, int* update, firm_error* err);

// Remembers the tokenizer as it is now; exchanges the remembered one with the one in the model.
firm_status run_note_anchor(train_run_state* run, firm_error* err);
void run_swap_anchor(train_run_state* run);

// average.c: of a stage that goes on from update `from`; whether the weights after `done` updates
// count; adds those in the store; puts the mean into the store and forgets it.
firm_status average_begin(train_run_state* run, const stage* s, int from, firm_error* err);
int average_due(const stage* s, int done);
void average_add(train_run_state* run, const stage* s, int done);
void average_take(train_run_state* run);
void average_drop(train_run_state* run);

// The JSON of a finished run; the caller deletes it. follow: of `held` imagined records, if any.
cJSON* run_results(const train_run_state* run, const char* model_path, int held,
                   const rollout_error* follow);

// metrics.csv
firm_status metrics_open(train_run_state* run, int stage_index, int update, firm_error* err);
// after nn_trainer_read; `update` counts those that are done
firm_status metrics_row(train_run_state* run, const stage* s, int update, const nn_trainer* t,
                        double seconds, firm_error* err);

#endif
