// pass.h - one graph over one batch on the device: the whole batch is one shard in one slot. Only
// enqueues; used by exec.c (graphs run for their outputs) and trainer.c (updates).
#ifndef NN_CUDA_PASS_H
#define NN_CUDA_PASS_H

#include <cuda_runtime_api.h>

#include "nn/cuda/chain.h"
#include "nn/cuda/steps.h"
#include "nn/layout.h"

// Turns a failed call of the CUDA runtime into a status.
firm_status nn_cuda_status(nn_cuda_queue* q, cudaError_t st, const char* what, firm_error* err);

typedef struct nn_cuda_pass {
    const nn_graph* g;
    nn_cuda_queue* q;
    nn_layout at;
    nn_chains fused;  // blocks that run as one step
    int batch, train;
    const int64_t* clock;  // device: number of the update in progress; of whoever made the pass
    char *arena, *scratch;
    float *params, *grad;  // device blocks of whoever made the pass: the store's layout, and that
                           // of `at` unless at.param_grad_at was changed
    nn_cuda_term* term;    // device (terms)
    double* value;         // device (terms): unweighted values of the last run
    size_t bytes;          // taken on the device
} nn_cuda_pass;

// weight: factor of all terms. params, grad and clock may be set later, before the first run.
firm_status nn_cuda_pass_open(nn_cuda_pass* s, const nn_graph* g, nn_cuda_queue* q, int batch,
                              int train, float weight, firm_error* err);
void nn_cuda_pass_close(nn_cuda_pass* s);  // zeroed and half-open ones are fine

void* nn_cuda_pass_value(const nn_cuda_pass* s, nn_id id);  // on the device

// The first `rows` samples: all nodes forward and the loss terms with their seeds; then backward,
// which adds to grad.
void nn_cuda_pass_forward(const nn_cuda_pass* s, int rows);
void nn_cuda_pass_backward(const nn_cuda_pass* s, int rows);

#endif
