// few.cuh - attention over few tokens (few.cu), for attention.cu.
#ifndef NN_CUDA_FEW_CUH
#define NN_CUDA_FEW_CUH

#include "nn/cuda/device.cuh"

enum { NN_CUDA_FEW = 8 };  // tokens

// bits: a word of the mask per row
void nn_cuda_few_forward(const nn_call* c, const uint32_t* bits);
void nn_cuda_few_backward(const nn_call* c, const uint32_t* bits);

#endif
