// trainer.h - one update of the weights, on whichever device: gradients of all parts of a stage,
// their sum, AdamW.
//
// A part is one source of samples (recorded rows, interventions, ...): a graph, a batch and what
// fills it. The losses of all parts are added up. A part whose samples come from a fixed list is a
// table: it says how many rows there are and under which key they are picked, the trainer picks
// (nn_feed_row tells the fill callback which), and a GPU then keeps the whole table and never asks
// for a row twice. Other parts are filled for every update, on a GPU a few updates ahead.
//
//   nn_trainer_create(&opt, part, 2, &t, err);
//   for (u = 0; u < updates; u++) nn_trainer_step(t, u, err);  // a GPU: only enqueues
//   nn_trainer_read(t, err); loss = nn_trainer_loss(t);        // waits for the updates so far
//   nn_trainer_pull(t, err);                                   // weights back into the store
#ifndef NN_TRAINER_H
#define NN_TRAINER_H

#include "nn/adamw.h"
#include "nn/device.h"

enum { NN_MAX_PARTS = 4 };

typedef struct nn_pick {
    uint64_t seed, stream;  // of core/rng.h
} nn_pick;
// Row of a sample of an update: uniform, a function of its key alone.
int64_t nn_pick_row(const nn_pick* key, int64_t update, int sample, int64_t rows);

// A table whose samples overlap: an input of a sample is made of `pieces` rows of a longer table,
// `stride` apart, so that each row is kept once.
typedef struct nn_window {
    nn_id input;
    int pieces, stride;
} nn_window;

typedef struct nn_windows {
    const nn_window* window;  // one for every input of the graph
    int count;
    int64_t stored;        // rows of the longer table
    const int64_t* start;  // (rows) where a sample begins in it
} nn_windows;

typedef struct nn_part {
    const char* label;  // before the names of its terms in metrics.csv: "" or "i_", say
    const nn_graph* graph;
    int batch, shard;  // shard: samples a thread takes at once (host only)
    float weight;      // factor of all its terms, above 0
    nn_fill_fn fill;
    void* ctx;
    int64_t rows;  // 0: a sample is its number and the update; else the length of the table
    nn_pick pick;  // tables only; feed->update is 0 there
    // NULL: a row of the table is a sample. Else fill() writes pieces of rows of the longer table,
    // (count, size / pieces) of every input whose slot is not NULL.
    const nn_windows* windows;
} nn_part;

typedef struct nn_trainer_options {
    const nn_device* device;
    nn_store* store;
    pool* p;
    int lanes;  // host: see exec.h
    nn_adamw_options adamw;
    const float* scale;  // (store entries) rate factors, copied; NULL: all 1
} nn_trainer_options;

typedef struct nn_trainer nn_trainer;

// Graphs, callbacks, store, device and pool must outlive it; parts are copied. All memory is taken
// here, and on a GPU the tables are filled.
firm_status nn_trainer_create(const nn_trainer_options* opt, const nn_part* part, int parts,
                              nn_trainer** out, firm_error* err);
void nn_trainer_free(nn_trainer* t);

// Update number `update`; they must follow each other from 0 or from nn_trainer_resume on.
firm_status nn_trainer_step(nn_trainer* t, int64_t update, firm_error* err);
// Waits for the updates so far and notes their last losses and gradient norm, which the functions
// after it return. Costs nothing where nn_trainer_prompt; elsewhere, call it when they are needed.
firm_status nn_trainer_read(nn_trainer* t, firm_error* err);
int nn_trainer_prompt(const nn_trainer* t);
double nn_trainer_loss(const nn_trainer* t);                      // total of all parts
double nn_trainer_term(const nn_trainer* t, int part, int term);  // unweighted
double nn_trainer_norm(const nn_trainer* t);                 // of the gradient, before clipping
float nn_trainer_rate(const nn_trainer* t, int64_t update);  // learning rate
int nn_trainer_parts(const nn_trainer* t, const nn_part** part);

// Brings weights into the store and the optimiser's moments into nn_trainer_moments: what a
// checkpoint holds, and what gates and later stages read.
firm_status nn_trainer_pull(nn_trainer* t, firm_error* err);
float* nn_trainer_moments(nn_trainer* t, size_t* count);  // (2, trained numbers), on the host
// Goes on from the store and the moments as they are now; the next update is `update`.
firm_status nn_trainer_resume(nn_trainer* t, int64_t update, firm_error* err);

#endif
