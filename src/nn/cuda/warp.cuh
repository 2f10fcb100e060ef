// warp.cuh - the instructions of a warp that products on tensor cores are made of. tests/emulated
// has a second form of this file, with which kernels run on the CPU.
#ifndef NN_CUDA_WARP_CUH
#define NN_CUDA_WARP_CUH

#include <cuda_bf16.h>
#include <stdint.h>

// the shared memory that a kernel is launched with, aligned as operands of warpgroups need it
#define LAUNCHED_ROOM(name) extern __shared__ __align__(1024) unsigned char name[]

__device__ __forceinline__ uint32_t shared_address(const void* p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

// Four 8 x 8 matrices of 16 bits; lane 8 m + i has the address of row i of matrix m.
__device__ __forceinline__ void ldsm4(uint32_t (&r)[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

__device__ __forceinline__ void ldsm4_turned(uint32_t (&r)[4], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

// c += a b
__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 2^x; 0 where that is below the smallest normal number
__device__ __forceinline__ float power2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Copies 16 bytes to shared memory in the background; `bytes` 0: zeros.
__device__ __forceinline__ void copy16(uint32_t to, const void* from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

__device__ __forceinline__ void copies_done(void) {
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
}

#endif
