// mma.cuh - bfloat16 products of a warp on tensor cores: 16 x 8 results from 16 x 16 and 16 x 8
// operands in registers, loaded from shared memory in rows of 128 bytes whose 16-byte pieces are
// permuted, so that eight rows at one column never share a bank.
#ifndef NN_CUDA_MMA_CUH
#define NN_CUDA_MMA_CUH

#include <cuda_bf16.h>
#include <stdint.h>

typedef __nv_bfloat16 bf16;

// byte offset of 16-byte piece `piece` (0 .. 7) of row `row`
__device__ __forceinline__ uint32_t piece_at(int row, int piece) {
    return (uint32_t)(row * 128 + ((piece ^ (row & 7)) << 4));
}

__device__ __forceinline__ uint32_t shared_address(const void* p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

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

__device__ __forceinline__ void ldsm2_turned(uint32_t (&r)[2], uint32_t at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
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

__device__ __forceinline__ uint32_t pack2(float low, float high) {
    __nv_bfloat162 v = __floats2bfloat162_rn(low, high);
    return *(uint32_t*)&v;
}

__device__ __forceinline__ float2 unpack2(uint32_t v) {
    return __bfloat1622float2(*(__nv_bfloat162*)&v);
}

// Where a lane's row of an operand begins in a tile of such rows whose first is a multiple of 8. The
// pieces 16 k .. 16 k + 15 of the row are at (tile + operand) ^ (k << 5).
//     operand a (16 x 16), rows first; or b of two neighbouring results, given as rows k (loaded turned)
//     operand b of two neighbouring results (16 columns), given as rows n
__device__ __forceinline__ uint32_t operand_a(int lane) {
    return piece_at(lane & 15, lane >> 4);
}
__device__ __forceinline__ uint32_t operand_b(int lane) {
    return piece_at(((lane >> 4) << 3) + (lane & 7), (lane >> 3) & 1);
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
