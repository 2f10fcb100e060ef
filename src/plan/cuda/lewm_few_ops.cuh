// lewm_few_ops.cuh - what lewm_few.cuh asks of Hopper beside warps and warpgroups: barriers that
// count bytes, stores into the shared memory of a cluster's other blocks, copies in bulk, products
// whose both operands are in shared memory. tests/emulated has a second form of this file.
#ifndef PLAN_CUDA_LEWM_FEW_OPS_CUH
#define PLAN_CUDA_LEWM_FEW_OPS_CUH

#include "nn/cuda/mma.cuh"
#include "nn/cuda/warpgroup.cuh"

namespace lewm_few {

// ---- clusters -----------------------------------------------------------------------------------

static __device__ __forceinline__ int block_in_cluster(void) {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return (int)rank;
}
// all threads of the cluster's blocks
static __device__ __forceinline__ void cluster_meets(void) {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}
// the same place in a block of the cluster
static __device__ __forceinline__ uint32_t far_of(uint32_t own, int block) {
    uint32_t at;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(own), "r"(block));
    return at;
}
// 16 bytes to a far place; its block's barrier counts them
static __device__ __forceinline__ void put_far(uint32_t at, uint4 v, uint32_t barrier) {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1,%2,%3,%4}, "
        "[%5];" ::"r"(at),
        "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(barrier)
        : "memory");
}

// ---- barriers in shared memory ------------------------------------------------------------------

static __device__ __forceinline__ void barrier_make(uint32_t at, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}
// after the last barrier_make(), before the cluster meets
static __device__ __forceinline__ void barriers_made(void) {
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::
                     : "memory");
}
// arrives, and lets the phase last until so many bytes have come, too
static __device__ __forceinline__ void barrier_expect(uint32_t at, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
                 : "memory");
}
static __device__ __forceinline__ void barrier_arrive(uint32_t at) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}
// until the phase of this parity is over
static __device__ __forceinline__ void barrier_wait(uint32_t at, int parity) {
    uint32_t done;
    do {
        asm volatile(
            "{\n.reg .pred p;\n"
            "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
            "selp.u32 %0, 1, 0, p;\n}"
            : "=r"(done)
            : "r"(at), "r"(parity)
            : "memory");
    } while (!done);
}

// what all lanes have, for the compiler to know
static __device__ __forceinline__ int uniform(int x) {
    return __shfl_sync(~0u, x, 0);
}

// barrier `number` of some warps of the block
static __device__ __forceinline__ void some_meet(int number, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
static __device__ __forceinline__ void some_arrive(int number, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// ---- copies -------------------------------------------------------------------------------------

// from device memory into this block's shared memory; the barrier counts the bytes
static __device__ __forceinline__ void bring(uint32_t to, const void* from, int bytes,
                                             uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(to),
        "l"(from), "r"(bytes), "r"(barrier)
        : "memory");
}

// two or four 8 x 8 matrices of 16 bits, each turned; lane 8 m + i has the address of row i of
// matrix m
static __device__ __forceinline__ void put_turned(uint32_t at, const uint32_t (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}
static __device__ __forceinline__ void put_turned(uint32_t at, const uint32_t (&r)[2]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1,%2};" ::"r"(at),
                 "r"(r[0]), "r"(r[1])
                 : "memory");
}
static __device__ __forceinline__ uint4 take16(uint32_t at) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(at)
                 : "memory");
    return v;
}
static __device__ __forceinline__ uint32_t take4(uint32_t at) {
    uint32_t v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
    return v;
}
static __device__ __forceinline__ void put4(uint32_t at, uint32_t v) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(v) : "memory");
}

static __device__ __forceinline__ void put16(uint32_t at, uint4 v) {
    asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w)
                 : "memory");
}

// Never written while the kernel runs; asked for where it stands in the program, however long
// before its use.
static __device__ __forceinline__ uint32_t fetch4(const void* p) {
    uint32_t v;
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}
static __device__ __forceinline__ float2 fetch8(const float* p) {
    float2 v;
    asm volatile("ld.global.nc.v2.f32 {%0,%1}, [%2];" : "=f"(v.x), "=f"(v.y) : "l"(p));
    return v;
}
// what this block may have written long ago
static __device__ __forceinline__ float2 fresh8(const float* p) {
    return __ldcg((const float2*)p);
}
static __device__ __forceinline__ uint4 fresh16(const void* p) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

static __device__ __forceinline__ float tanh_fast(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// ---- products -----------------------------------------------------------------------------------

#define D(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define D5(n) D(n), D(n + 1), D(n + 2), D(n + 3), D(n + 4)
#define PRODUCT(SHAPE, SUMS, A, B, ADD, ...)                                                  \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ADD                                      \
                 ", 0;\n"                                                                     \
                 "wgmma.mma_async.sync.aligned." SHAPE ".f32.bf16.bf16 {" SUMS "}, " A ", " B \
                 ", p, 1, 1, 0, 0;\n}"                                                        \
                 : __VA_ARGS__                                                                \
                 : "l"(a), "l"(b), "r"(add))
#define SUMS_20                                                                             \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, " \
    "%19"
#define SUMS_24 SUMS_20 ", %20, %21, %22, %23"
#define SUMS_60                                                                               \
    SUMS_24                                                                                   \
    ", %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, " \
    "%41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, "   \
    "%58, %59"
#define SUMS_68 SUMS_60 ", %60, %61, %62, %63, %64, %65, %66, %67"

// d (+)= a b': 64 rows of a, eight rows of b for every d[n], 16 columns of both; both in shared
// memory (group_operand); add 0: d = a b'
static __device__ __forceinline__ void group_product(float (&d)[5][4], uint64_t a, uint64_t b,
                                                     int add) {
    PRODUCT("m64n40k16", SUMS_20, "%20", "%21", "%22", D5(0));
}
static __device__ __forceinline__ void group_product(float (&d)[6][4], uint64_t a, uint64_t b,
                                                     int add) {
    PRODUCT("m64n48k16", SUMS_24, "%24", "%25", "%26", D5(0), D(5));
}
static __device__ __forceinline__ void group_product(float (&d)[15][4], uint64_t a, uint64_t b,
                                                     int add) {
    PRODUCT("m64n120k16", SUMS_60, "%60", "%61", "%62", D5(0), D5(5), D5(10));
}
static __device__ __forceinline__ void group_product(float (&d)[17][4], uint64_t a, uint64_t b,
                                                     int add) {
    PRODUCT("m64n136k16", SUMS_68, "%68", "%69", "%70", D5(0), D5(5), D5(10), D(15), D(16));
}

#undef D
#undef D5
#undef PRODUCT
#undef SUMS_20
#undef SUMS_24
#undef SUMS_60
#undef SUMS_68

}  // namespace lewm_few

#endif
