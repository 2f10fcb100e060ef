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
static inline unsigned char* far_of(const meeting& m, const void* own, int block) {
    return room_of(blockIdx.x / m.blocks * m.blocks + (unsigned)block) +
           ((const unsigned char*)own - launched_room);
}
static inline void put_far(unsigned char* at, float2 v) {
    *(float2*)at = v;
}
static inline void put_far(unsigned char* at, uint4 v) {
    *(uint4*)at = v;
}
static inline float2 fresh_pair(const float* p) {
    return *(const float2*)p;
}
static inline uint4 fetch16(const uint4* p) {
    return *p;
}

#endif
