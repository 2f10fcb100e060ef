// mma.cuh - bfloat16 products of a warp on tensor cores: 16 x 8 results from 16 x 16 and 16 x 8
// operands in registers, loaded from shared memory in rows of 128 bytes whose 16-byte pieces are
// permuted, so that eight rows at one column never share a bank.
#ifndef NN_CUDA_MMA_CUH
#define NN_CUDA_MMA_CUH

#include "nn/cuda/warp.cuh"

typedef __nv_bfloat16 bf16;

// byte offset of 16-byte piece `piece` (0 .. 7) of row `row`
__device__ __forceinline__ uint32_t piece_at(int row, int piece) {
    return (uint32_t)(row * 128 + ((piece ^ (row & 7)) << 4));
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

#endif
