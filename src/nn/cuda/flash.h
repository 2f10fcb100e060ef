// flash.h - attention of a vision transformer in bfloat16: heads of 64, up to 272 tokens, tokens
// look at all. Scores never leave the processor.
#ifndef NN_CUDA_FLASH_H
#define NN_CUDA_FLASH_H

#ifdef __cplusplus
extern "C" {
#endif

#include "nn/cuda/cuda.h"

enum { NN_CUDA_FLASH_TOKENS = 272, NN_CUDA_FLASH_DEPTH = 64 };

typedef struct nn_cuda_flash {
    int groups, tokens, heads;  // groups: independent sets of tokens
    int queries;                // the first of them: tokens that look; y and dy of others are not touched
    const void* qkv;            // bf16 (groups, tokens, 3, heads, 64)
    void* y;                    // bf16 (groups, tokens, heads, 64)
    float* lse;                 // (groups, heads, tokens), in units of log 2
    // backward
    const void* dy;  // bf16, as y
    void* dqkv;      // bf16, as qkv; of queries the first ones alone are written
    float* mean;     // room for (groups, heads, tokens)
    float* sums;     // (groups, 3, heads, 64): dqkv added up over a group's tokens
} nn_cuda_flash;

void nn_cuda_flash_forward(nn_cuda_queue* q, const nn_cuda_flash* f);
void nn_cuda_flash_backward(nn_cuda_queue* q, const nn_cuda_flash* f);

#ifdef __cplusplus
}
#endif

#endif
