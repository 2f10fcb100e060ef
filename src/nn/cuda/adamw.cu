// adamw.cu - the optimiser in two kernels: the parts' gradients are added up and squared, then every
// block works out the norm for itself and updates its share of the weights. The formula is
// cpu/loops_simd.c's; sums have a fixed order.
#include "nn/cuda/device.cuh"
#include "nn/cuda/steps.h"

enum { THREADS = NN_CUDA_NORM_BLOCKS };  // a thread for each partial sum
static_assert((int)THREADS * 4 == (int)NN_CUDA_CHUNK, "a thread for four neighbours of a chunk");

__device__ static double block_sum(double v) {
    __shared__ double part[THREADS / 32];
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    double sum = 0;
    for (int i = 0; i < THREADS / 32; i++) sum += part[i];
    return sum;
}

__global__ static void __launch_bounds__(THREADS) sum_kernel(nn_cuda_adamw a) {
    double square = 0;
    for (int k = (int)blockIdx.x; k < a.chunks; k += NN_CUDA_NORM_BLOCKS) {
        const nn_cuda_chunk c = a.chunk[k];
        uint32_t i = threadIdx.x * 4;
        if (i >= c.count) continue;
        float4* to = (float4*)(a.grad + c.grad_at + i);
        float4 g = *to;
        for (int p = 1; p < a.parts; p++) {
            float4 more = *(const float4*)(a.grad + (size_t)p * a.grad_count + c.grad_at + i);
            g.x += more.x, g.y += more.y, g.z += more.z, g.w += more.w;
        }
        if (a.parts > 1) *to = g;
        square += (double)g.x * g.x + (double)g.y * g.y + (double)g.z * g.z + (double)g.w * g.w;
    }
    square = block_sum(square);
    if (threadIdx.x == 0) a.partial[blockIdx.x] = square;
}

__device__ static void update(float* w, float g, float* m, float* v, float beta1, float beta2,
                              float step, float correction2, float eps, float decay) {
    *m = beta1 * *m + (1.0f - beta1) * g;
    *v = beta2 * *v + (1.0f - beta2) * g * g;
    *w = *w * decay - step * *m / (sqrtf(*v * correction2) + eps);
}

__global__ static void __launch_bounds__(THREADS) update_kernel(nn_cuda_adamw a) {
    double norm = sqrt(block_sum(a.partial[threadIdx.x]));
    float shrink = a.opt.clip > 0 && norm > (double)a.opt.clip
                       ? (float)((double)a.opt.clip / norm)
                       : 1.0f;
    for (int k = (int)blockIdx.x; k < a.chunks; k += (int)gridDim.x) {
        const nn_cuda_chunk c = a.chunk[k];
        uint32_t i = threadIdx.x * 4;
        if (i >= c.count) continue;
        float rate = a.clock->rate * c.scale;
        float step = rate * a.clock->correction1, correction2 = a.clock->correction2;
        float decay = c.decays ? 1.0f - rate * a.opt.decay : 1.0f;
        float w[4], g[4], m[4], v[4];
        load<4>(w, a.value + c.value_at + i);
        load<4>(g, a.grad + c.grad_at + i);
        load<4>(m, a.moment1 + c.grad_at + i);
        load<4>(v, a.moment2 + c.grad_at + i);
#pragma unroll
        for (int j = 0; j < 4; j++)
            update(&w[j], g[j] * shrink, &m[j], &v[j], a.opt.beta1, a.opt.beta2, step, correction2,
                   a.opt.eps, decay);
        store<4>(a.value + c.value_at + i, w);
        store<4>(a.moment1 + c.grad_at + i, m);
        store<4>(a.moment2 + c.grad_at + i, v);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) *a.norm = norm;
}

// after everyone has read the clock
__global__ static void tick_kernel(nn_cuda_clock* clock) {
    clock->update++;
}

extern "C" void nn_cuda_adamw_step(nn_cuda_queue* q, const nn_cuda_adamw* a) {
    launch(q, "gradient norm", sum_kernel, NN_CUDA_NORM_BLOCKS, THREADS, *a);
    launch(q, "optimiser", update_kernel, (uint32_t)a->chunks, THREADS, *a);
    launch(q, "clock", tick_kernel, 1, 1, a->clock);
}
