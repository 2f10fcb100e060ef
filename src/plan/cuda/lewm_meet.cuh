// lewm_meet.cuh - blocks of one launch that wait for one another: a counter in the device's memory,
// numbers that other blocks have just written, and weights fetched while waiting. tests/emulated
// has a second form of this file.
#ifndef PLAN_CUDA_LEWM_MEET_CUH
#define PLAN_CUDA_LEWM_MEET_CUH

#include <stdint.h>

// One thread of a block, after a barrier of the block: what the block wrote is there for those who
// see the counter.
static __device__ __forceinline__ void meet_arrive(unsigned* at) {
    asm volatile("fence.acq_rel.gpu;\nred.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(at)
                 : "memory");
}

// One thread of a block, before a barrier of the block.
static __device__ __forceinline__ void meet_wait(const unsigned* at, unsigned until) {
    unsigned seen;
    do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(at) : "memory");
    while (seen < until);
}

// past the multiprocessor's own cache, which does not see what others write
static __device__ __forceinline__ float2 fresh_pair(const float* p) {
    return __ldcg((const float2*)p);
}

// Never written while the kernel runs; asked for where it stands in the program, however long
// before its use.
static __device__ __forceinline__ uint4 fetch16(const uint4* p) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

#endif
