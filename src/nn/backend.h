// backend.h - what a backend provides: a kernel per op plus memory. `ref` computes in double with
// plain loops, `cpu` in float with register tiles and vectorised loops. A CUDA backend is one more
// table of this type: device memory behind alloc/upload/download, one kernel pair per op under
// src/nn/cuda.
#ifndef NN_BACKEND_H
#define NN_BACKEND_H

#include "core/rng.h"
#include "nn/graph.h"

// One op on one shard of `rows` samples. Pointers are to `real`s of the backend (double in ref,
// float in cpu), except byte images. din[i] is NULL where no gradient is wanted. Gradients of
// parameters are always added to; gradients of values are added to where accumulate[i] is set, else
// overwritten whole.
typedef struct nn_call {
    const nn_graph* graph;
    const nn_node* node;
    int rows;
    const void* in[NN_MAX_IN];  // absent inputs (no bias) are NULL
    void* out;
    const void* dout;
    void* din[NN_MAX_IN];
    int accumulate[NN_MAX_IN];
    int train;             // training; 0: deployed
    int batch, first;      // samples of the whole batch, number of the shard's first one in it
    int64_t update;        // of a training run: part of the key of what is drawn at random
    const int64_t* clock;  // cuda: where `update` stands on the device
    const double *sum, *sum_back;  // ops with an nn_gather: sums over the whole batch
    void* save;                    // kept from forward to backward, save_bytes() large
    void* scratch;  // of this worker, scratch_bytes() large; contents do not survive the call
    // the weights of a linear op as nn_backend.pack wrote them for this pass, or NULL
    const void* packed;
    void* queue;  // cuda: where the work is put (nn/cuda/cuda.h); host backends: NULL
    int kept;     // cuda: operands of the weight's gradient stay to the end of the backward pass
} nn_call;

typedef struct nn_kernel {
    void (*forward)(const nn_call* c);
    void (*backward)(const nn_call* c);  // NULL: no gradient exists (images)
    size_t (*save_bytes)(const nn_graph* g, const nn_node* n, int rows);     // NULL: none
    size_t (*scratch_bytes)(const nn_graph* g, const nn_node* n, int rows);  // NULL: none
} nn_kernel;

// What an op that looks at the whole batch needs of every sample before it can go on: sums, formed
// shard by shard and added up in the order of the shards. A device that runs the batch as one shard
// needs none of this.
typedef struct nn_gather {
    int always;  // also where nothing is trained
    size_t (*count)(const nn_graph* g, const nn_node* n, int back);  // numbers, of either pass
    void (*shard)(const nn_call* c, int back, double* sum);          // writes those of one shard
    void (*settle)(const nn_call* c);  // once per update, after the forward pass; NULL: nothing
} nn_gather;

// A part of a weight's gradient, summed over samples: dw (rows, cols) = or += x' dy.
typedef struct nn_weight_tile {
    // (runs, samples, x_step), (runs, samples, dy_step), at the part's row and column; a run begins
    // x_run and dy_run numbers after the one before
    const float *x, *dy;
    int64_t runs, samples, x_step, dy_step, x_run, dy_run;
    int rows, cols;
    float* dw;
    int64_t dw_step;
    int add;
} nn_weight_tile;

// Packing some columns of a product's second operand: the weight, turned in the backward pass.
typedef struct nn_pack_job {
    int weight, back;  // tensor; for the backward pass
    int col, cols;
    size_t at;  // floats: where the whole weight begins
} nn_pack_job;

typedef struct nn_backend {
    const char* name;
    size_t real;  // bytes of one number
    nn_kernel kernel[NN_OP_COUNT];
    const nn_gather* gather[NN_OP_COUNT];  // NULL: the op looks at one sample at a time
    void* (*alloc)(size_t bytes);
    void (*release)(void* p);
    void (*upload)(void* device, const float* host, size_t count);    // floats to reals
    void (*download)(float* host, const void* device, size_t count);  // reals to floats
    // linear weights (K, N) in the order of the forward or backward product; NULL: as they are
    size_t (*packed)(const nn_tensor* w, int back);  // floats
    // the columns of a job into the packed weight `to`
    void (*pack)(const nn_tensor* w, const float* value, const nn_pack_job* job, float* to);
    void (*weight_tile)(const nn_weight_tile* t);  // NULL: gradients are summed by lanes
} nn_backend;

const nn_backend* nn_backend_ref(void);
const nn_backend* nn_backend_cpu(void);

// The key of what a node draws at random in an update, for core/rng.h: block i of the stream holds
// the numbers of elements 4 i .. 4 i + 3, counted over the whole batch.
typedef struct nn_key {
    uint64_t seed, stream, first;  // first: number of block 0
} nn_key;

static inline nn_key nn_key_of(const nn_call* c, rng_purpose purpose) {
    uint64_t node = (uint64_t)(c->node - c->graph->node);
    return (nn_key){c->graph->seed, RNG_STREAM(purpose, node), (uint64_t)c->update << 32};
}

// 1 where dropout with probability p keeps an element
ANYWHERE int nn_kept(uint32_t word, float p) {
    return rng_unit(word) >= p;
}

// independent groups of tokens of one sample: attention never looks from one into another
static inline int nn_attention_groups(const nn_tensor* qkv) {
    return qkv->size / (qkv->dim[qkv->rank - 2] * qkv->dim[qkv->rank - 1]);
}

// numbers of ADDP's parameter that are used: all, or those before x ends
static inline int nn_addp_period(const nn_graph* g, const nn_node* n) {
    int x = g->tensor[n->in[0]].size, p = g->tensor[n->in[1]].size;
    return p < x ? p : x;
}

// sizes of one call, for kernels: of tensor i of the node
static inline const nn_tensor* nn_in(const nn_call* c, int i) {
    return &c->graph->tensor[c->node->in[i]];
}
static inline const nn_tensor* nn_out(const nn_call* c) {
    return &c->graph->tensor[c->node->out];
}

#endif
