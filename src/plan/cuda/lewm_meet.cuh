// lewm_meet.cuh - blocks of one launch that wait for one another,
// numbers that other blocks have just written, and weights fetched while waiting. tests/emulated
// has a second form of this file.
#ifndef PLAN_CUDA_LEWM_MEET_CUH
#define PLAN_CUDA_LEWM_MEET_CUH

#include <stdint.h>

// Where blocks meet: a cluster's own barrier, or a counter of arrivals, ever.
typedef struct meeting {
    unsigned* counter;  // 0 at the start
    unsigned blocks, until;
    bool cluster;  // all blocks, and no others, are one cluster
} meeting;

// All threads call both, in turn. What a block wrote before it arrived is there for all that
// waited.
static __device__ __forceinline__ void meet_arrive(const meeting& m) {
#if __CUDA_ARCH__ >= 900
    if (m.cluster) {
        __syncwarp();  // a barrier of whole warps
        asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
        return;
    }
#endif
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("fence.acq_rel.gpu;\nred.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(m.counter)
                     : "memory");
}

static __device__ __forceinline__ void meet_wait(meeting& m) {
#if __CUDA_ARCH__ >= 900
    if (m.cluster) {
        asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
        return;
    }
#endif
    m.until += m.blocks;
    if (threadIdx.x == 0) {
        unsigned seen;
        do
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                         : "=r"(seen)
                         : "l"(m.counter)
                         : "memory");
        while (seen < m.until);
    }
    __syncthreads();
}

// Shared memory of a block of the cluster: the same place as `own` in this one's. There are
// clusters from compute capability 9.0 on.
static __device__ __forceinline__ uint32_t far_of(const meeting&, const void* own, int block) {
    uint32_t at = (uint32_t)__cvta_generic_to_shared(own);
#if __CUDA_ARCH__ >= 900
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(at), "r"(block));
#else
    __trap();
#endif
    return at;
}
static __device__ __forceinline__ void put_far(uint32_t at, float2 v) {
#if __CUDA_ARCH__ >= 900
    asm volatile("st.shared::cluster.v2.f32 [%0], {%1,%2};" ::"r"(at), "f"(v.x), "f"(v.y)
                 : "memory");
#endif
}
static __device__ __forceinline__ void put_far(uint32_t at, uint4 v) {
#if __CUDA_ARCH__ >= 900
    asm volatile("st.shared::cluster.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(v.x), "r"(v.y),
                 "r"(v.z), "r"(v.w)
                 : "memory");
#endif
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
