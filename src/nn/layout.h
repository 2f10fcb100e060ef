// layout.h - where everything of a graph lives while it runs: lifetimes of values, gradients and
// saved buffers, packed into one slot; which nodes run backward; which parameters are trained.
//
// Made once for a number of rows (samples that go through the graph together) and a backend. On
// the host an exec has a slot per shard in flight (exec.h); on a device the whole batch is one
// shard in one slot (cuda/exec.c).
#ifndef NN_LAYOUT_H
#define NN_LAYOUT_H

#include "nn/backend.h"

// A trained parameter: entry index in the store and its place in the gradient block.
typedef struct nn_trained {
    int entry;
    size_t offset, count;
    int whole;  // summed over the whole batch
} nn_trained;

// Threads share a gradient block out in chunks of this many numbers.
enum { NN_CHUNK = 16384 };

static inline int nn_chunks(size_t count) {
    return (int)((count + NN_CHUNK - 1) / NN_CHUNK);
}

// The part of a parameter that lies in a chunk: `count` numbers at `from` of the parameter; 0:
// none.
static inline int nn_part_in_chunk(const nn_trained* t, int chunk, size_t* from, size_t* count) {
    size_t low = (size_t)chunk * NN_CHUNK, high = low + NN_CHUNK;
    if (t->offset >= high || t->offset + t->count <= low) return 0;
    *from = t->offset < low ? low - t->offset : 0;
    size_t end = t->offset + t->count < high ? t->count : high - t->offset;
    *count = end - *from;
    return 1;
}

typedef enum nn_layout_kind {
    NN_LAYOUT_FORWARD,
    NN_LAYOUT_TRAIN,
    NN_LAYOUT_WHOLE,  // and what gradients of large weights need stays to the end
    NN_LAYOUT_ASIDE   // and it is copied aside where that is little beside the gradient itself
} nn_layout_kind;

// Consecutive nodes that a device runs as one step: forward in the place of the last, backward in
// that of the first which runs back. What the others produce is never written.
typedef struct nn_chain {
    int kind;  // of the device's
    int first, last;
    size_t save, scratch;  // bytes
} nn_chain;

typedef struct nn_chains {
    nn_chain* chain;
    int chains;
} nn_chains;

typedef struct nn_layout {
    size_t *value_at, *grad_at, *stage_at;  // per tensor root: offsets in a slot
    size_t* save_at;                        // per node
    uint8_t* runs_back;                     // per node: its backward pass runs
    uint8_t* whole;  // per node: its weight's gradient is summed over the whole batch (whole.h)
    uint8_t (*adds)[NN_MAX_IN];  // per node and input: gradient is added to, not overwritten
    size_t slot_bytes, scratch_bytes;
    // per node whose operands are copied aside: where a sample's are, in a block of aside_bytes per
    // sample (whole.h)
    size_t *aside_x, *aside_dy, aside_bytes;

    nn_trained* trained;
    int trained_count;
    size_t grad_count;      // numbers in the gradient block
    size_t* param_grad_at;  // per tensor: offset in the gradient block
} nn_layout;

// chains: NULL: every node is a step of its own
firm_status nn_layout_make(const nn_graph* g, const nn_backend* b, int rows, int kind,
                           const nn_chains* chains, nn_layout* out, firm_error* err);
void nn_layout_free(nn_layout* l);

// The node in whose place a chain runs back, or -1.
static inline int nn_chain_back(const nn_layout* l, const nn_chain* c) {
    for (int i = c->first; i <= c->last; i++)
        if (l->runs_back[i]) return i;
    return -1;
}

// The value of a tensor in a slot; parameters lie in their own block of `real`s.
static inline void* nn_layout_value(const nn_layout* l, const nn_graph* g, size_t real, char* slot,
                                    void* params, nn_id id) {
    int root = g->tensor[id].root;
    const nn_tensor* t = &g->tensor[root];
    if (t->kind == NN_PARAM) return (char*)params + g->store->entry[t->entry].offset * real;
    return slot + l->value_at[root];
}

#endif
