// peak.cu - the yardstick of `firm bench plan --device cuda`: cuBLASLt's best rate in this run.
#include <cublasLt.h>

#include "plan/cuda/internal.cuh"
#include "plan/cuda/library.cuh"

enum { SIZE = 8192, ROUNDS = 7, WORKSPACE = 64 << 20 };

typedef struct bench {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t square;
    cublasLtMatmulPreference_t preference;
    cudaEvent_t begun, ended;
    char* memory;
} bench;

static firm_status blas_failed(cublasStatus_t code, firm_error* err) {
    return FAIL(err, FIRM_E_UNAVAILABLE, "cuBLASLt failed: %s", cublasLtGetStatusString(code));
}
#define BLAS(call)                                                          \
    do {                                                                    \
        cublasStatus_t code_ = (call);                                      \
        if (code_ != CUBLAS_STATUS_SUCCESS) return blas_failed(code_, err); \
    } while (0)

// Not zeros: they multiply faster than real numbers on some GPUs.
template <typename T>
__global__ void fill(T* p, size_t n) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = operand<T>((float)(i * 2654435761u % 2048) / 1024.0f - 1.0f);
}

static firm_status measure(bench* b, plan_precision precision, double* gflops, firm_error* err) {
    cudaDataType_t type = precision == PLAN_FP32   ? CUDA_R_32F
                          : precision == PLAN_TF32 ? CUDA_R_16F
                                                   : CUDA_R_16BF;
    size_t area = (size_t)SIZE * SIZE, bytes = area * (precision == PLAN_FP32 ? 4 : 2);
    GPU(cudaMalloc((void**)&b->memory, 3 * bytes + WORKSPACE));
    char *x = b->memory, *y = x + bytes, *z = y + bytes, *work = z + bytes;
    unsigned blocks = (unsigned)(2 * area / 256);
    if (precision == PLAN_FP32)
        fill<<<blocks, 256>>>((float*)x, 2 * area);
    else if (precision == PLAN_TF32)
        fill<<<blocks, 256>>>((__half*)x, 2 * area);
    else
        fill<<<blocks, 256>>>((__nv_bfloat16*)x, 2 * area);
    GPU(cudaGetLastError());
    BLAS(cublasLtCreate(&b->handle));
    BLAS(cublasLtMatmulDescCreate(&b->what, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    BLAS(cublasLtMatrixLayoutCreate(&b->square, type, SIZE, SIZE, SIZE));
    BLAS(cublasLtMatmulPreferenceCreate(&b->preference));
    size_t limit = WORKSPACE;
    BLAS(cublasLtMatmulPreferenceSetAttribute(
        b->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, sizeof limit));
    cublasLtMatmulHeuristicResult_t plan;
    int found = 0;
    BLAS(cublasLtMatmulAlgoGetHeuristic(b->handle, b->what, b->square, b->square, b->square,
                                        b->square, b->preference, 1, &plan, &found));
    if (!found) return FAIL(err, FIRM_E_UNAVAILABLE, "cuBLASLt knows no product for the peak");
    GPU(cudaEventCreate(&b->begun));
    GPU(cudaEventCreate(&b->ended));
    *gflops = 0.0;
    for (int i = 0; i < ROUNDS; i++) {
        float one = 1.0f, zero = 0.0f, ms = 0.0f;
        GPU(cudaEventRecord(b->begun));
        BLAS(cublasLtMatmul(b->handle, b->what, &one, x, b->square, y, b->square, &zero, z,
                            b->square, z, b->square, &plan.algo, work, WORKSPACE, 0));
        GPU(cudaEventRecord(b->ended));
        GPU(cudaEventSynchronize(b->ended));
        GPU(cudaEventElapsedTime(&ms, b->begun, b->ended));
        double rate = 2.0 * SIZE * SIZE * (double)SIZE / (ms * 1e6);
        if (rate > *gflops) *gflops = rate;
    }
    return FIRM_OK;
}

firm_status cuda_plan_peak(plan_precision precision, double* gflops, firm_error* err) {
    bench b = {};
    firm_status status = measure(&b, precision, gflops, err);
    if (b.begun) cudaEventDestroy(b.begun);
    if (b.ended) cudaEventDestroy(b.ended);
    if (b.preference) cublasLtMatmulPreferenceDestroy(b.preference);
    if (b.square) cublasLtMatrixLayoutDestroy(b.square);
    if (b.what) cublasLtMatmulDescDestroy(b.what);
    if (b.handle) cublasLtDestroy(b.handle);
    if (b.memory) cudaFree(b.memory);
    return status;
}
