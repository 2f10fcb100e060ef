// chain.h - blocks of vision transformers found in a graph: ten nodes that vit.cu runs as one step,
// where the queue's precision is NN_CUDA_MIXED.
#ifndef NN_CUDA_CHAIN_H
#define NN_CUDA_CHAIN_H

#include "nn/cuda/vit.h"
#include "nn/layout.h"

// All blocks whose inner values nobody else reads; mem_free(out->chain).
firm_status nn_cuda_chains_find(nn_cuda_queue* q, const nn_graph* g, int batch, nn_chains* out,
                                firm_error* err);
// Sizes of a chain's block for `rows` samples; addresses are the caller's.
nn_cuda_vit nn_cuda_chain_block(const nn_graph* g, const nn_chain* c, int rows);
void nn_cuda_chain_params(const nn_graph* g, const nn_chain* c, nn_id out[VIT_PARAMS]);
int nn_cuda_chain_adds(const nn_layout* at, const nn_chain* c);  // the input has a gradient already

#endif
