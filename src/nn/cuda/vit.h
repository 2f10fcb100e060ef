// vit.h - a whole block of a vision transformer as one step: values between its ops stay in
// bfloat16, the residual stream and all sums in float32. chain.c finds such blocks in a graph.
//     x2 = x + attention(norm(x) Wqkv + bqkv) Wo + bo
//     y = x2 + gelu(norm(x2) W1 + b1) W2 + b2
#ifndef NN_CUDA_VIT_H
#define NN_CUDA_VIT_H

#ifdef __cplusplus
extern "C" {
#endif

#include "nn/cuda/cuda.h"

// The parameters of a block, in the order of their use.
enum {
    VIT_GAMMA1,
    VIT_BETA1,
    VIT_QKV,
    VIT_QKV_BIAS,
    VIT_OUT,
    VIT_OUT_BIAS,
    VIT_GAMMA2,
    VIT_BETA2,
    VIT_UP,
    VIT_UP_BIAS,
    VIT_DOWN,
    VIT_DOWN_BIAS,
    VIT_PARAMS
};

typedef struct nn_cuda_vit {
    int groups, tokens, heads, width, mlp;  // width: heads * 64
    int first;  // only the first token of y is read: rows of others are not written, those of dy 0
    float eps;
    const float* param[VIT_PARAMS];
    const float* x;
    float* y;
    void* save;  // nn_cuda_vit_save() bytes
    // backward
    const float* dy;
    float* dx;
    int add;  // dx is added to
    // Two blocks in a row, the second running back right before the first: the second's last kernel
    // leaves dx in bfloat16 in their scratch, and adds up its rows.
    int copies;               // this is the second of two
    float* dx_sum;            // of the second: what the sums over rows of dx are added to, or NULL
    int dy_there;             // this is the first of two
    float* grad[VIT_PARAMS];  // added to; NULL: not wanted
    void* scratch;            // nn_cuda_vit_scratch() bytes
} nn_cuda_vit;

// Whether such a block has kernels. Backward, gradients of weights and sums over rows run aside
// (queue.cuh): the next step must be a block, or wait for them.
int nn_cuda_vit_fits(int tokens, int heads, int width, int mlp);
size_t nn_cuda_vit_save(const nn_cuda_vit* v);
size_t nn_cuda_vit_scratch(const nn_cuda_vit* v);
void nn_cuda_vit_forward(nn_cuda_queue* q, const nn_cuda_vit* v);
void nn_cuda_vit_backward(nn_cuda_queue* q, const nn_cuda_vit* v);

#ifdef __cplusplus
}
#endif

#endif
