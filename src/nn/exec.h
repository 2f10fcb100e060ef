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
#include "nn/backend.h"

typedef struct nn_exec nn_exec;

typedef struct nn_exec_options {
    int batch;  // samples per run
    int shard;  // samples per shard; the last shard may be smaller
    int lanes;  // gradient blocks, 1 .. ; upper limit of useful threads in training
    int train;  // derive and run the backward pass
} nn_exec_options;

// What a fill callback writes: samples first .. first + count - 1 of the batch.
typedef struct nn_feed {
    int first, count, worker;
    void* const* slot;  // per input tensor of the graph; use the two functions below
    const nn_graph* graph;
} nn_feed;

float* nn_feed_real(const nn_feed* f, nn_id input);     // (count, size)
uint8_t* nn_feed_bytes(const nn_feed* f, nn_id input);  // (count, size)

typedef firm_status (*nn_fill_fn)(void* ctx, const nn_feed* feed);

// Takes all memory. The graph, its store and the pool must outlive it.
firm_status nn_exec_create(const nn_graph* g, const nn_backend* b, const nn_exec_options* opt,
                           pool* p, nn_exec** out, firm_error* err);
void nn_exec_free(nn_exec* e);
size_t nn_exec_bytes(const nn_exec* e);

// Fills inputs and runs forward for `batch` samples (the first `count` if smaller; no allocation).
firm_status nn_exec_forward(nn_exec* e, int count, nn_fill_fn fill, void* ctx);
// Forward and backward for a full batch. Gradients of trained parameters end up in nn_exec_grad().
firm_status nn_exec_gradient(nn_exec* e, nn_fill_fn fill, void* ctx);

const float* nn_exec_output(const nn_exec* e, nn_id x);  // (batch, size) of an nn_output tensor
double nn_exec_loss(const nn_exec* e);                   // total of the last run
double nn_exec_term(const nn_exec* e, int term);         // unweighted value of one term

// Trained parameters, compact: entry index in the store and offset in the gradient block.
typedef struct nn_trained {
    int entry;
    size_t offset, count;
} nn_trained;
int nn_exec_trained(const nn_exec* e, const nn_trained** list);
size_t nn_exec_grad_count(const nn_exec* e);
float* nn_exec_grad(nn_exec* e);  // (grad_count) floats on the host

// ref keeps its own copy of the parameters in double; tests perturb it for finite differences.
// Other backends share or mirror the store. nn_exec_pull_params() copies the store again.
double* nn_exec_ref_params(nn_exec* e);
double* nn_exec_ref_grad(nn_exec* e);  // (grad_count)
void nn_exec_pull_params(nn_exec* e);

#endif
