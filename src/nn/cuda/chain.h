// chain.h - nodes of a graph that run as one step where the queue's precision is NN_CUDA_MIXED: the ten
// of a vision transformer's block (vit.cu), and the four that make pictures its tokens (embed.cu).
#ifndef NN_CUDA_CHAIN_H
#define NN_CUDA_CHAIN_H

#include "nn/cuda/embed.h"
#include "nn/cuda/vit.h"
#include "nn/layout.h"

enum { CHAIN_BLOCK, CHAIN_EMBED };  // kinds

// All chains whose inner values nobody else reads; mem_free(out->chain).
firm_status nn_cuda_chains_find(nn_cuda_queue* q, const nn_graph* g, int batch, nn_chains* out,
                                firm_error* err);
// Sizes of a chain's step for `rows` samples; addresses are the caller's.
nn_cuda_vit nn_cuda_chain_block(const nn_graph* g, const nn_chain* c, int rows);
nn_cuda_embed nn_cuda_chain_embed(const nn_graph* g, const nn_chain* c, int rows);
void nn_cuda_chain_block_params(const nn_graph* g, const nn_chain* c, nn_id out[VIT_PARAMS]);
void nn_cuda_chain_embed_params(const nn_graph* g, const nn_chain* c, nn_id out[EMBED_PARAMS]);
int nn_cuda_chain_adds(const nn_layout* at, const nn_chain* c);  // a block's input has a gradient

#endif
