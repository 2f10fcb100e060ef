// wgmma.cuh - products of a warpgroup on Hopper's tensor cores (compute capability 9.0a): 64 rows
// by N outputs by 16 inputs, asynchronous, sums in registers.
//
// Operands in shared memory lie row by row, 64 inputs (128 bytes) of a row together, 8 rows making
// 1024 bytes within which the 16-byte piece i of row r stands at i ^ r ("128-byte swizzle"); a
// descriptor names the first byte. A sum's fragment is that of mma m16n8 per 8 outputs, so 16 of
// them are an operand's.
//
// wgmma_begin() before the first product of a batch, wgmma_commit() after its last; after
// wgmma_wait() the sums may be read once wgmma_own() has told the compiler so.
#ifndef PLAN_CUDA_WGMMA_CUH
#define PLAN_CUDA_WGMMA_CUH

#include "plan/cuda/mma.cuh"

static __device__ __forceinline__ uint64_t wgmma_operand(uint32_t address) {
    // address, rows' distance (unused with this swizzle), 1024 bytes between groups of 8 rows,
    // swizzle
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 |
           (uint64_t)1 << 62;
}
// likewise with 32 inputs (64 bytes) of a row together, 8 rows making 512 bytes, piece i of row r
// at i ^ r / 2 ("64-byte swizzle")
static __device__ __forceinline__ uint64_t wgmma_operand_64(uint32_t address) {
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)(512 >> 4) << 32 |
           (uint64_t)2 << 62;
}
static __device__ __forceinline__ void wgmma_begin() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
static __device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
static __device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
static __device__ __forceinline__ void wgmma_wait_but_one() {  // the last batch goes on
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}
template <int N>
static __device__ __forceinline__ void wgmma_own(float (&d)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}

// Each product is written once, for both types of operands.
#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D16(i) D4(i), D4(i + 4), D4(i + 8), D4(i + 12)

// The sums' registers, by number of outputs a thread holds.
#define SUMS_32                                                    \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "           \
    "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
    "%24, %25, %26, %27, %28, %29, %30, %31"
#define SUMS_68                                                        \
    SUMS_32                                                            \
        ", "                                                           \
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, " \
        "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, " \
        "%56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67"
#define SUMS_96                                                        \
    SUMS_68                                                            \
        ", "                                                           \
        "%68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, " \
        "%92, %93, %94, %95"

#define PRODUCT(TYPE)                                                             \
    asm volatile(                                                                 \
        "{\n"                                                                     \
        ".reg .pred p;\n"                                                         \
        "setp.ne.b32 p, %98, 0;\n"                                                \
        "wgmma.mma_async.sync.aligned.m64n192k16.f32." TYPE "." TYPE " {" SUMS_96 \
        "}, "                                                                     \
        "%96, %97, p, 1, 1, 0, 0;\n"                                              \
        "}"                                                                       \
        : D16(0), D16(16), D16(32), D16(48), D16(64), D16(80)                     \
        : "l"(a), "l"(b), "r"(add))

// d (+)= a b, both in shared memory; add 0: d = a b
template <typename T>
static __device__ __forceinline__ void wgmma_192(float (&d)[96], uint64_t a, uint64_t b, int add) {
    if constexpr (std::is_same<T, __half>::value)
        PRODUCT("f16");
    else
        PRODUCT("bf16");
}
#undef PRODUCT

#define PRODUCT(TYPE)                                                             \
    asm volatile(                                                                 \
        "{\n"                                                                     \
        ".reg .pred p;\n"                                                         \
        "setp.ne.b32 p, %70, 0;\n"                                                \
        "wgmma.mma_async.sync.aligned.m64n136k16.f32." TYPE "." TYPE " {" SUMS_68 \
        "}, "                                                                     \
        "%68, %69, p, 1, 1, 0, 0;\n"                                              \
        "}"                                                                       \
        : D16(0), D16(16), D16(32), D16(48), D4(64)                               \
        : "l"(a), "l"(b), "r"(add))

// likewise, 136 outputs
template <typename T>
static __device__ __forceinline__ void wgmma_136(float (&d)[68], uint64_t a, uint64_t b, int add) {
    if constexpr (std::is_same<T, __half>::value)
        PRODUCT("f16");
    else
        PRODUCT("bf16");
}
#undef PRODUCT

#define PRODUCT(TYPE)                                                            \
    asm volatile(                                                                \
        "{\n"                                                                    \
        ".reg .pred p;\n"                                                        \
        "setp.ne.b32 p, %34, 0;\n"                                               \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " {" SUMS_32 \
        "}, "                                                                    \
        "%32, %33, p, 1, 1, 0, 0;\n"                                             \
        "}"                                                                      \
        : D16(0), D16(16)                                                        \
        : "l"(a), "l"(b), "r"(add))

// likewise, 64 outputs
template <typename T>
static __device__ __forceinline__ void wgmma_64(float (&d)[32], uint64_t a, uint64_t b, int add) {
    if constexpr (std::is_same<T, __half>::value)
        PRODUCT("f16");
    else
        PRODUCT("bf16");
}
#undef PRODUCT

#define PRODUCT(TYPE)                                                             \
    asm volatile(                                                                 \
        "{\n"                                                                     \
        ".reg .pred p;\n"                                                         \
        "setp.ne.b32 p, %101, 0;\n"                                               \
        "wgmma.mma_async.sync.aligned.m64n192k16.f32." TYPE "." TYPE " {" SUMS_96 \
        "}, "                                                                     \
        "{%96, %97, %98, %99}, %100, p, 1, 1, 0;\n"                               \
        "}"                                                                       \
        : D16(0), D16(16), D16(32), D16(48), D16(64), D16(80)                     \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1))

// d += a b, a in registers
template <typename T>
static __device__ __forceinline__ void wgmma_192_held(float (&d)[96], const uint32_t (&a)[4],
                                                      uint64_t b) {
    if constexpr (std::is_same<T, __half>::value)
        PRODUCT("f16");
    else
        PRODUCT("bf16");
}
#undef PRODUCT

#undef D4
#undef D16
#undef SUMS_32
#undef SUMS_68
#undef SUMS_96

#endif
