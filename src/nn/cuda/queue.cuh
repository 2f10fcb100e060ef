// queue.cuh - inside of a queue, for cuda.cu, gemm.cu and attention.cu.
#ifndef NN_CUDA_QUEUE_CUH
#define NN_CUDA_QUEUE_CUH

#include <cublasLt.h>

#include "nn/cuda/device.cuh"

enum { NN_CUDA_HEAD_MAX = 128 };  // widest attention head

// An attention mask on the device, bit b of word w of line i: may i look at 32 w + b (by_row); may
// 32 w + b look at i (by_column). Bits past the last token are 0.
typedef struct nn_cuda_mask {
    const uint8_t* host;  // whose copy it is
    int tokens, words;    // words per line
    uint32_t *by_row, *by_column;
    struct nn_cuda_mask* next;
} nn_cuda_mask;

typedef struct gemm_plan gemm_plan;  // gemm.cu
enum { GEMM_BUCKETS = 256 };

struct nn_cuda_queue {
    cudaStream_t stream;
    cublasLtHandle_t blas;
    void* workspace;
    size_t workspace_bytes;
    nn_cuda_precision precision;
    char name[256];  // of the GPU
    int processors;
    nn_cuda_mask* masks;
    gemm_plan* plans[GEMM_BUCKETS];
    char error[320];
};

nn_cuda_mask* nn_cuda_mask_find(nn_cuda_queue* q, const uint8_t* host, int tokens);
void nn_cuda_plans_free(nn_cuda_queue* q);

#endif
