// exec.h - running a graph: forward, derived reverse mode, and the batch cut into shards.
//
// A batch of `batch` samples is cut into shards of `shard` samples; shard s belongs to lane s %
// lanes. Each lane owns a gradient block and handles its shards in order; lanes run on the pool's
// threads. The cut depends on the options alone, so sums are formed in the same order for any
// number of threads. A shard goes through the whole graph while it is warm in cache; only if a loss
// looks at the whole batch (TopMean) are all shards kept between the forward and the backward pass.
#ifndef NN_EXEC_H
#define NN_EXEC_H

#include "core/pool.h"
#include "nn/layout.h"

typedef struct nn_exec nn_exec;

typedef struct nn_exec_options {
    int batch;    // samples per run
    int shard;    // samples per shard; the last shard may be smaller
    int lanes;    // gradient blocks, 1 .. ; upper limit of useful threads in training
    int train;    // derive and run the backward pass
    void* queue;  // of the device (device.h); NULL on the host
} nn_exec_options;

// What a fill callback writes: samples first .. first + count - 1 of the batch of an update. A
// callback may be asked for batches ahead of time and in any order: a sample must depend on nothing
// but its number and the update's.
typedef struct nn_feed {
    int first, count, worker;
    int64_t update;
    const int64_t* row;  // (count) for parts that are tables (trainer.h): the rows to write
    void* const* slot;   // per input tensor of the graph; use the functions below
    const nn_graph* graph;
} nn_feed;

int64_t nn_feed_row(const nn_feed* f, int i);           // row of sample i; first + i outside tables
float* nn_feed_real(const nn_feed* f, nn_id input);     // (count, size)
uint8_t* nn_feed_bytes(const nn_feed* f, nn_id input);  // (count, size)
int nn_feed_wants(const nn_feed* f, nn_id input);       // windows only: 0: leave it out

typedef firm_status (*nn_fill_fn)(void* ctx, const nn_feed* feed);

// Takes all memory. The graph, its store and the pool must outlive it.
firm_status nn_exec_create(const nn_graph* g, const nn_backend* b, const nn_exec_options* opt,
                           pool* p, nn_exec** out, firm_error* err);
void nn_exec_free(nn_exec* e);
size_t nn_exec_bytes(const nn_exec* e);

// The number later runs hand to fill callbacks as feed->update; 0 until then.
void nn_exec_set_update(nn_exec* e, int64_t update);
// Fills inputs and runs forward for `batch` samples (the first `count` if smaller; no allocation).
firm_status nn_exec_forward(nn_exec* e, int count, nn_fill_fn fill, void* ctx);
// Forward over any number of samples, `batch` at a time; sample numbers go on from one batch to the
// next. take() gets the outputs of samples first .. first + count - 1, in order, and may read them
// with nn_exec_output. A device works on one batch while the next is filled.
typedef void (*nn_take_fn)(void* to, const nn_exec* e, int first, int count);
firm_status nn_exec_stream(nn_exec* e, int count, nn_fill_fn fill, void* ctx, nn_take_fn take,
                           void* to);
// Forward and backward for a full batch. Gradients of trained parameters end up in nn_exec_grad().
firm_status nn_exec_gradient(nn_exec* e, nn_fill_fn fill, void* ctx);

// What went wrong on the device when a run returned FIRM_E_UNAVAILABLE, or NULL; a failing fill
// callback's own status is returned as it is.
const char* nn_exec_fault(const nn_exec* e);

const float* nn_exec_output(const nn_exec* e, nn_id x);  // (batch, size) of an nn_output tensor
double nn_exec_loss(const nn_exec* e);                   // total of the last run
double nn_exec_term(const nn_exec* e, int term);         // unweighted value of one term

int nn_exec_trained(const nn_exec* e, const nn_trained** list);  // in the gradient block
size_t nn_exec_grad_count(const nn_exec* e);
float* nn_exec_grad(nn_exec* e);  // (grad_count) floats on the host

// ref keeps its own copy of the parameters in double; tests perturb it for finite differences.
// Other backends share or mirror the store. nn_exec_pull_params() copies the store again.
double* nn_exec_ref_params(nn_exec* e);
double* nn_exec_ref_grad(nn_exec* e);  // (grad_count)
void nn_exec_pull_params(nn_exec* e);

#endif
