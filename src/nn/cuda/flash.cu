// flash.cu - attention over a few hundred tokens: launches of the kernels in flash_kernels.cuh.
#include "nn/cuda/device.cuh"
#include "nn/cuda/flash_kernels.cuh"

namespace {

__global__ void __launch_bounds__(FLASH_WARPS * 32, 3) forward_kernel(flash f) {
    forward<HAS_WARPGROUPS>(f);
}

__global__ void __launch_bounds__(FLASH_WARPS * 32, 3) queries_kernel(flash f) {
    queries<HAS_WARPGROUPS>(f);
}

__global__ void __launch_bounds__(FLASH_WARPS * 32, 3) keys_kernel(flash f) {
    keys<HAS_WARPGROUPS>(f);
}

static flash flash_of(const nn_cuda_flash* f) {
    return flash{f->tokens,           f->queries,  f->heads, (int64_t)3 * f->heads * DEPTH,
                 (const bf16*)f->qkv, (bf16*)f->y, f->lse,   (const bf16*)f->dy,
                 (bf16*)f->dqkv,      f->mean,     f->sums,  0.125f * LOG2E};
}

static void run(nn_cuda_queue* q, const nn_cuda_flash* f, void (*kernel)(flash), int bytes) {
    cudaError_t st =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (st == cudaSuccess)  // room for three blocks a processor
        st = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                  cudaSharedmemCarveoutMaxShared);
    if (st != cudaSuccess) nn_cuda_note(q, "attention: %s", cudaGetErrorString(st));
    kernel<<<f->groups * f->heads, FLASH_WARPS * 32, bytes, (cudaStream_t)nn_cuda_stream(q)>>>(
        flash_of(f));
    nn_cuda_check(q, "attention");
}

}  // namespace

void nn_cuda_flash_forward(nn_cuda_queue* q, const nn_cuda_flash* f) {
    run(q, f, forward_kernel, FORWARD_ROOM);
}

void nn_cuda_flash_backward(nn_cuda_queue* q, const nn_cuda_flash* f) {
    run(q, f, queries_kernel, QUERIES_ROOM);
    run(q, f, keys_kernel, KEYS_ROOM);
}
