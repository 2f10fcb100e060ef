// lewm_meet.cuh - src/plan/cuda/lewm_meet.cuh on the CPU: the blocks of emulate_together().
#ifndef PLAN_CUDA_LEWM_MEET_CUH
#define PLAN_CUDA_LEWM_MEET_CUH

#include "warps.h"

typedef struct meeting {
    unsigned* counter;
    unsigned blocks, until;
    bool cluster;  // the same here
} meeting;

static inline void meet_arrive(const meeting& m) {
    __syncthreads();
    if (threadIdx.x == 0) ++*m.counter;
}
static inline void meet_wait(meeting& m) {
    m.until += m.blocks;
    while (*m.counter < m.until) let_others();
}
static inline float2 fresh_pair(const float* p) {
    return *(const float2*)p;
}
static inline uint4 fetch16(const uint4* p) {
    return *p;
}

#endif
