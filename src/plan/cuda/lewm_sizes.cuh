// lewm_sizes.cuh - sizes of LeWM's GPU planner, and a search in its memory.
#ifndef PLAN_CUDA_LEWM_SIZES_CUH
#define PLAN_CUDA_LEWM_SIZES_CUH

#include <stddef.h>
#include <stdint.h>

// One search, as it travels to the device and back: this head, then z0, goal, mean and spread.
typedef struct lewm_search {
    uint64_t seed, solve;
    int iteration;  // next one to draw
    int nonfinite, elites;
    float elite_cost;
} lewm_search;

typedef struct lewm_sizes {
    int width, inner, heads, head, depth, context, mlp, projector;
    int action, action_hidden, action_mlp;
    int candidates, elites, horizon, longest;
    int modulation;                                     // depth * 6 * width
    size_t stride, z0_at, goal_at, mean_at, spread_at;  // bytes of a search
} lewm_sizes;

static __host__ __device__ __forceinline__ lewm_search* lewm_search_at(char* searches,
                                                                       const lewm_sizes& s, int i) {
    return (lewm_search*)(searches + (size_t)i * s.stride);
}
static __host__ __device__ __forceinline__ float* lewm_part(lewm_search* q, size_t at) {
    return (float*)((char*)q + at);
}

#endif
