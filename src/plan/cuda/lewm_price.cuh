// lewm_price.cuh - what LeWM's candidates cost.
#ifndef PLAN_CUDA_LEWM_PRICE_CUH
#define PLAN_CUDA_LEWM_PRICE_CUH

#include "plan/cuda/lewm_rows.cuh"

// A warp prices a candidate: how far its last latent is from the goal; infinite if any of its
// latents is not finite.
__global__ void __launch_bounds__(32 * WARPS)
    lewm_price_kernel(const __grid_constant__ rows_args r) {
    const int row = (int)(blockIdx.x * WARPS + threadIdx.x / 32), lane = (int)threadIdx.x % 32,
              width = r.s.width, numbers = r.horizon * width;
    if (row >= r.rows) return;
    lewm_search* q = lewm_search_at(r.searches, r.s, row / r.each);
    const float *goal = lewm_part(q, r.s.goal_at), *path = r.path + (size_t)row * numbers,
                *end = path + numbers - width;
    int finite = 1;
#pragma unroll 16
    for (int k = lane; k < numbers; k += 32) finite &= isfinite(path[k]) != 0;
    finite = __all_sync(~0u, finite);
    float sum = 0;
#pragma unroll 4
    for (int f = lane; f < width; f += 32) sum += (end[f] - goal[f]) * (end[f] - goal[f]);
    sum = warp_sum(sum);
    if (lane) return;
    r.value[row] = finite ? sum : INFINITY;
    if (!finite) atomicAdd(&q->nonfinite, 1);
}

#endif
