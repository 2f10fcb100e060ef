// lewm_meet.cuh - src/plan/cuda/lewm_meet.cuh on the CPU: the blocks of emulate_together().
#ifndef PLAN_CUDA_LEWM_MEET_CUH
#define PLAN_CUDA_LEWM_MEET_CUH

#include "warps.h"

static inline void meet_arrive(unsigned* at) {
    ++*at;
}
static inline void meet_wait(const unsigned* at, unsigned until) {
    while (*at < until) let_others();
}
static inline float2 fresh_pair(const float* p) {
    return *(const float2*)p;
}
static inline uint4 fetch16(const uint4* p) {
    return *p;
}

#endif
