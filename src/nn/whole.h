// whole.h - gradients of large weights over the whole batch at once, where all shards are kept
// between the passes (exec.h). The gradient is cut into tiles; each is summed by one thread over
// all steps and shards, in order. So there is one gradient block instead of one for each lane, a
// tile stays in cache while it is summed, and the bits do not depend on the number of threads.
#ifndef NN_WHOLE_H
#define NN_WHOLE_H

#include "nn/layout.h"

typedef struct nn_whole_tile {
    int weight;  // tensor
    int row, rows, col, cols;
} nn_whole_tile;

typedef struct nn_whole {
    nn_whole_tile* tile;
    int tiles;
} nn_whole;

// The batch whose forward and backward passes have run.
typedef struct nn_whole_batch {
    const nn_graph* g;
    const nn_backend* b;
    const nn_layout* at;
    char* arena;               // (shards, slot_bytes)
    int shard, shards, count;  // samples of a shard, shards, samples
    float* grad;
} nn_whole_batch;

// Tiles of all weights that the layout sums over the whole batch.
firm_status nn_whole_make(const nn_graph* g, const nn_layout* at, nn_whole* out, firm_error* err);
void nn_whole_free(nn_whole* w);
void nn_whole_tile_run(const nn_whole_batch* batch, const nn_whole_tile* t);

#endif
