// feed.h - samples on their way to the device: fill callbacks run on the pool's threads and write
// into pinned host memory, input by input; from there a batch goes to the inputs of a graph, or
// rows go into a table on the device.
#ifndef NN_CUDA_FEED_H
#define NN_CUDA_FEED_H

#include "nn/cuda/pass.h"
#include "nn/exec.h"

// Where the inputs of `rows` samples lie in one block: each input contiguous, 256-byte aligned.
typedef struct nn_cuda_block {
    const nn_graph* g;
    int64_t rows;
    size_t* at;         // per tensor; only inputs count
    size_t* row_bytes;  // per tensor; 0: no input
    size_t bytes;
} nn_cuda_block;
// pieces: per tensor, into how many rows a sample's input is cut (trainer.h, windows); NULL: 1
firm_status nn_cuda_block_make(const nn_graph* g, const int* pieces, int64_t rows,
                               nn_cuda_block* out, firm_error* err);
void nn_cuda_block_free(nn_cuda_block* b);

typedef struct nn_cuda_feeder {
    nn_cuda_block block;  // of one host buffer
    nn_cuda_queue* q;
    pool* p;
    void** slot;    // (threads, tensors)
    char* host[4];  // pinned
    int hosts;
} nn_cuda_feeder;
typedef struct nn_cuda_feeder_options {
    const nn_graph* graph;
    const int* pieces;  // as above
    int rows, hosts;    // of a buffer, buffers
} nn_cuda_feeder_options;
firm_status nn_cuda_feeder_open(nn_cuda_feeder* f, nn_cuda_queue* q, pool* p,
                                const nn_cuda_feeder_options* opt, firm_error* err);
void nn_cuda_feeder_close(nn_cuda_feeder* f);

// Writes samples first .. first + count - 1 into a host buffer; returns when they are there.
firm_status nn_cuda_feeder_fill(nn_cuda_feeder* f, int host, int first, int count, int64_t update,
                                nn_fill_fn fill, void* ctx);
// Enqueues the copy of `count` samples of a host buffer to the rows from `row` on of a device
// block.
cudaError_t nn_cuda_feeder_send(const nn_cuda_feeder* f, int host, int count,
                                const nn_cuda_block* to, char* device, int64_t row,
                                cudaStream_t stream);

#endif
