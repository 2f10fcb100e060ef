// warpgroup.cuh - bfloat16 products of a warpgroup (four warps) on Hopper's tensor cores: 64 rows
// in registers times 16 columns of a matrix in shared memory, in the background, sums in registers.
// A warp's part is what mma of warp.cuh has: 16 rows, and 8 columns for every four sums of a lane.
//
// The matrix in shared memory has rows of 128 bytes as mma.cuh lays them out; eight rows begin at a
// multiple of 1024 bytes. group_begin() before the first product of a batch, group_commit() after
// its last. After group_wait() sums may be read once group_own() has told the compiler so.
// tests/emulated has a second form of this file.
#ifndef NN_CUDA_WARPGROUP_CUH
#define NN_CUDA_WARPGROUP_CUH

#include "nn/cuda/warp.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
enum { HAS_WARPGROUPS = 1 };
#else
enum { HAS_WARPGROUPS = 0 };
#endif

// Names a matrix by its first byte: 1024 bytes from eight rows to the next eight, 128-byte swizzle.
// `rows` on in units of 16 bytes: add 8 rows; 16 columns on: add 2.
__device__ __forceinline__ uint64_t group_operand(uint32_t address) {
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(1024 >> 4) << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

// What this thread wrote to shared memory is there for products, after the block's next barrier.
__device__ __forceinline__ void group_publish(void) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void group_begin(void) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void group_commit(void) {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// until at most LEFT batches go on
template <int LEFT>
__device__ __forceinline__ void group_wait(void) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
template <int N>
__device__ __forceinline__ void group_own(float (&d)[N][4]) {
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) asm volatile("" : "+f"(d[n][i])::"memory");
}
// operands in registers stay as they are until here
template <int N>
__device__ __forceinline__ void group_keep(const uint32_t (&a)[N][4]) {
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) asm volatile("" ::"r"(a[n][i]) : "memory");
}

#define D(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define A "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])

// d = a b (ADD: d += a b). The matrix holds b's columns as rows, TURNED: its rows as rows.
template <bool ADD, bool TURNED>
__device__ __forceinline__ void group_mma(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, p, 1, 1, %38;\n"
        "}"
        : D(0), D(1), D(2), D(3), D(4), D(5), D(6), D(7)
        : A, "l"(b), "n"((int)ADD), "n"((int)TURNED));
}
template <bool ADD, bool TURNED>
__device__ __forceinline__ void group_mma(float (&d)[4][4], const uint32_t (&a)[4], uint64_t b) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %21, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "{%16, %17, %18, %19}, %20, p, 1, 1, %22;\n"
        "}"
        : D(0), D(1), D(2), D(3)
        : A, "l"(b), "n"((int)ADD), "n"((int)TURNED));
}
template <bool ADD, bool TURNED>
__device__ __forceinline__ void group_mma(float (&d)[2][4], const uint32_t (&a)[4], uint64_t b) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %13, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7}, "
        "{%8, %9, %10, %11}, %12, p, 1, 1, %14;\n"
        "}"
        : D(0), D(1)
        : A, "l"(b), "n"((int)ADD), "n"((int)TURNED));
}

#undef D
#undef A

#endif
