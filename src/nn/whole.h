// whole.h - gradients of large weights over the whole batch at once. Its operands are in the
// shards' slots, where all are kept between the passes (exec.h), or were copied aside. The gradient
// is cut into tiles; each is summed by one thread over all steps and shards, in order. So there is
// one gradient block instead of one for each lane, a tile stays in cache while it is summed, and
// the bits do not depend on the number of threads.
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
    char* arena;               // (shards, slot_bytes); not read if there is an aside
    char* aside;               // per operand (samples, its size); NULL: none
    int shard, count;          // samples of a shard, samples
    float* grad;
} nn_whole_batch;

// Tiles of all weights that the layout sums over the whole batch.
firm_status nn_whole_make(const nn_graph* g, const nn_layout* at, nn_whole* out, firm_error* err);
void nn_whole_free(nn_whole* w);
// Copies the operands of node `node` of a shard that has run back as far as it: x and dy (rows).
void nn_whole_keep(const nn_whole_batch* batch, int node, int first, int rows, const void* x,
                   const void* dy);
void nn_whole_tile_run(const nn_whole_batch* batch, const nn_whole_tile* t);

#endif
