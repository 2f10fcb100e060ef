// embed.h - pictures become the tokens of a vision transformer as one step: patches and the product
// with the weights in bfloat16, the stream of tokens in float32. chain.c finds such steps in a
// graph.
//     y = (class, patches(frames) W + b) + positions
#ifndef NN_CUDA_EMBED_H
#define NN_CUDA_EMBED_H

#ifdef __cplusplus
extern "C" {
#endif

#include "nn/cuda/cuda.h"

enum { EMBED_WEIGHT, EMBED_BIAS, EMBED_CLASS, EMBED_POSITIONS, EMBED_PARAMS };

typedef struct nn_cuda_embed {
    int pictures, side, patch, width;  // side: pixels of a picture
    float scale[3], shift[3];          // of bytes, by channel
    const float* param[EMBED_PARAMS];
    const uint8_t* frames;  // (pictures, side, side, 3)
    float* y;               // (pictures, patches + 1, width)
    void* save;             // nn_cuda_embed_save() bytes
    // backward
    const float* dy;
    float* grad[EMBED_PARAMS];  // added to; NULL: not wanted
    void* scratch;              // nn_cuda_embed_scratch() bytes, forward too
} nn_cuda_embed;

// Whether such a step has kernels.
int nn_cuda_embed_fits(int side, int patch, int width);
size_t nn_cuda_embed_save(const nn_cuda_embed* e);
size_t nn_cuda_embed_scratch(const nn_cuda_embed* e);
void nn_cuda_embed_forward(nn_cuda_queue* q, const nn_cuda_embed* e);
void nn_cuda_embed_backward(nn_cuda_queue* q, const nn_cuda_embed* e);

#ifdef __cplusplus
}
#endif

#endif
