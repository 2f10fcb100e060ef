// graph.h - static graphs: a module is written once, forward only, as a few calls that read like
// its equation; reverse mode is derived from the graph (exec.h).
//
// Shapes are per sample, the batch is implicit: a graph has no batch size until an exec is made of
// it. Building never fails half-way in the caller's hands: a wrong shape is our own mistake and
// panics with the shapes in the text; running out of memory is remembered and reported by
// nn_exec_create().
#ifndef NN_GRAPH_H
#define NN_GRAPH_H

#include "nn/ops.h"
#include "nn/push.h"
#include "nn/store.h"

enum { NN_MAX_RANK = 4, NN_MAX_IN = 8 };

typedef int nn_id;  // a tensor of a graph
#define NN_NONE (-1)

typedef enum nn_kind { NN_INPUT, NN_BYTES, NN_PARAM, NN_VALUE, NN_ALIAS } nn_kind;

typedef struct nn_tensor {
    nn_kind kind;
    int rank, dim[NN_MAX_RANK];  // per sample
    int size;                    // product of dim
    int root;                    // whose memory it uses: itself, or the reshaped tensor
    int entry;                   // parameters: index in the store
    int producer;                // node, or -1
    int wants_grad;
    char name[48];  // inputs only
} nn_tensor;

typedef struct nn_node {
    nn_op op;
    int in_count, in[NN_MAX_IN], out;
    int kernel, stride, pad, groups, heads, pairs, axis, from, patch;
    float alpha, beta, eps;
    float mean[3], std[3];
    nn_push push;         // of spatial
    const uint8_t* mask;  // (T, T), 1 where row t may look at column s; owned by the graph; NULL:
                          // everywhere
} nn_node;

typedef enum nn_reduce { NN_REDUCE_MEAN, NN_REDUCE_TOPMEAN } nn_reduce;

// total loss = sum of weight * reduce(tensor over batch and elements)
typedef struct nn_term {
    char name[32];
    nn_id tensor;
    float weight;
    nn_reduce reduce;
    float share;  // TopMean: the largest ceil(share * count) elements are averaged
} nn_term;

typedef struct nn_graph {
    nn_store* store;
    nn_tensor* tensor;
    nn_node* node;
    nn_term* term;
    nn_id* output;
    int tensors, nodes, terms, outputs;
    int tensor_cap, node_cap, term_cap, output_cap;
    uint8_t** mask;
    int masks;
    char train[8][32];  // prefixes of parameters that are trained
    int trains;
    uint64_t seed;  // of dropout and random directions
    int broken;     // out of memory while building
} nn_graph;

firm_status nn_graph_create(nn_store* store, nn_graph** out, firm_error* err);
void nn_graph_free(nn_graph* g);

// Parameters whose name starts with `prefix` are trained; call before building. Default: none.
void nn_train(nn_graph* g, const char* prefix);

// Seed of what ops draw at random in training; a number then depends on the seed, the update, the
// node and the element alone. Default: 0.
void nn_random(nn_graph* g, uint64_t seed);

// ---- leaves ----
nn_id nn_input(nn_graph* g, const char* name, int rank, const int* dim);
nn_id nn_input1(nn_graph* g, const char* name, int n);
nn_id nn_image(nn_graph* g, const char* name, int size);              // bytes (size, size, 3)
nn_id nn_frames(nn_graph* g, const char* name, int count, int size);  // (count, size, size, 3)
nn_id nn_param(nn_graph* g, const char* name, nn_init init, float scale, int rank, const int* dim);
nn_id nn_buffer(nn_graph* g, const char* name, nn_init init, int n);  // never trained

// ---- operations (see ops.h) ----
nn_id nn_op_linear(nn_graph* g, nn_id x, nn_id w, nn_id b);
nn_id nn_op_conv2d(nn_graph* g, nn_id x, nn_id w, nn_id b, int kernel, int stride, int pad);
nn_id nn_op_convt2d(nn_graph* g, nn_id x, nn_id w, nn_id b, int kernel, int stride, int pad);
nn_id nn_op_layernorm(nn_graph* g, nn_id x, nn_id gamma, nn_id beta, float eps);
nn_id nn_op_groupnorm(nn_graph* g, nn_id x, nn_id gamma, nn_id beta, int groups, float eps);
nn_id nn_adanorm(nn_graph* g, nn_id x, nn_id scale, nn_id shift, float eps);
nn_id nn_gelu(nn_graph* g, nn_id x);
nn_id nn_erfgelu(nn_graph* g, nn_id x);
nn_id nn_silu(nn_graph* g, nn_id x);
nn_id nn_dropout(nn_graph* g, nn_id x, float p);  // p 0: x itself
nn_id nn_add(nn_graph* g, nn_id x, nn_id y);
nn_id nn_sub(nn_graph* g, nn_id x, nn_id y);
nn_id nn_scale(nn_graph* g, nn_id x, float by);
nn_id nn_addp(nn_graph* g, nn_id x, nn_id p);
nn_id nn_mul(nn_graph* g, nn_id x, nn_id y);
nn_id nn_pairnorm(nn_graph* g, nn_id x, int pairs);
nn_id nn_clamp(nn_graph* g, nn_id x, float lo, float hi);
nn_id nn_relative(nn_graph* g, nn_id x, nn_id y, int pairs);        // topology-aware x - y
nn_id nn_concat(nn_graph* g, int axis, int count, const nn_id* x);  // any number of them
nn_id nn_slice(nn_graph* g, nn_id x, int axis, int from, int count);
nn_id nn_mean(nn_graph* g, nn_id x);
nn_id nn_prepend(nn_graph* g, nn_id x, nn_id p);
nn_id nn_attention(nn_graph* g, nn_id qkv, int heads, const uint8_t* mask);  // mask (T, T), copied
nn_id nn_attention_dropped(nn_graph* g, nn_id qkv, int heads, const uint8_t* mask, float p);
nn_id nn_coords(nn_graph* g, nn_id x);
nn_id nn_softpool(nn_graph* g, nn_id logits, nn_id values);
// raw action = u * std + mean, the first two numbers of both
nn_id nn_spatial(nn_graph* g, const nn_push* push, nn_id c, nn_id velocity, nn_id u,
                 const float* mean, const float* std);
nn_id nn_patches(nn_graph* g, nn_id image, int patch, const float mean[3], const float std[3]);
nn_id nn_patchdiff(nn_graph* g, nn_id image, nn_id before, int patch, const float std[3]);
nn_id nn_patchmask(nn_graph* g, nn_id image, nn_id before, int patch);
nn_id nn_mse(nn_graph* g, nn_id x, nn_id target);
nn_id nn_bce(nn_graph* g, nn_id logits, nn_id target, float positive_weight);
nn_id nn_nll(nn_graph* g, nn_id mean, nn_id logvar, nn_id target);
nn_id nn_chord(nn_graph* g, nn_id x, nn_id target, int pairs, float eps);  // one number per row
nn_id nn_sigreg(nn_graph* g, nn_id z, int directions);                     // one number per row
nn_id nn_reshape(nn_graph* g, nn_id x, int rank, const int* dim);  // same memory, other shape

// ---- layers: parameters and operation in one call, named prefix.weight, prefix.bias ----
nn_id nn_linear(nn_graph* g, const char* prefix, nn_id x, int n,
                float gain);  // gain 0: starts at zero
nn_id nn_conv(nn_graph* g, const char* prefix, nn_id x, int n, int kernel, int stride, int pad);
nn_id nn_convt(nn_graph* g, const char* prefix, nn_id x, int n, int kernel, int stride, int pad);
nn_id nn_layernorm(nn_graph* g, const char* prefix, nn_id x);
nn_id nn_groupnorm(nn_graph* g, const char* prefix, nn_id x, int groups);
// prefix.weight, .bias and the buffers .running_mean, .running_var, .num_batches_tracked; eps 1e-5,
// momentum 0.1, running variance without bias
nn_id nn_batchnorm(nn_graph* g, const char* prefix, nn_id x);

// ---- results ----
void nn_loss(nn_graph* g, const char* name, nn_id per_sample, float weight);
void nn_loss_topmean(nn_graph* g, const char* name, nn_id per_sample, float weight, float share);
void nn_output(nn_graph* g, nn_id x);  // readable after a run

const int* nn_dims(const nn_graph* g, nn_id x);
int nn_size(const nn_graph* g, nn_id x);
int nn_last(const nn_graph* g, nn_id x);  // last dimension

#endif
