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
enum { GEMM_BUCKETS = 256, NN_CUDA_MARKS = 3 };

struct nn_cuda_queue {
    cudaStream_t stream;
    cublasLtHandle_t blas;
    void* workspace;
    size_t workspace_bytes;
    nn_cuda_precision precision;
    char name[256];  // of the GPU
    int processors;
    nn_cuda_mask* masks;
    struct nn_cuda_queue* aside;  // or NULL
    cudaEvent_t fork, join, mark[NN_CUDA_MARKS];
    int pending;  // work aside that this queue has not waited for
    unsigned ways;
    gemm_plan* plans[GEMM_BUCKETS];
    char error[320];
};

// ---- work aside ----
// What nothing on the way needs (gradients of weights, sums over rows) may run on a second stream
// beside the queue's own. Operands must stay as they are until the queue has waited for it.

// The queue for work aside, which begins where `q` stands now; q itself where there is none.
nn_cuda_queue* nn_cuda_aside(nn_cuda_queue* q);
// Names what was put aside so far; q goes on only when it is done. Within one pass.
void nn_cuda_mark(nn_cuda_queue* q, int mark);
void nn_cuda_await(nn_cuda_queue* q, int mark);

nn_cuda_mask* nn_cuda_mask_find(nn_cuda_queue* q, const uint8_t* host, int tokens);
void nn_cuda_plans_free(nn_cuda_queue* q);

#endif
