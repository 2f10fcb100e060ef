// cuda_bf16.h - CUDA's bfloat16 for kernels that run on the CPU.
#ifndef EMULATED_CUDA_BF16_H
#define EMULATED_CUDA_BF16_H

#include "warps.h"

struct __nv_bfloat16 {
    uint16_t bits;
};
struct __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

// to the nearest, ties to even; what is not a number stays so
static inline __nv_bfloat16 __float2bfloat16(float x) {
    uint32_t u = bits_of(x);
    if ((u & 0x7fffffff) > 0x7f800000) return __nv_bfloat16{0x7fff};
    return __nv_bfloat16{(uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16)};
}
static inline float __bfloat162float(__nv_bfloat16 x) {
    return float_of((uint32_t)x.bits << 16);
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return __nv_bfloat162{__float2bfloat16(x), __float2bfloat16(y)};
}
static inline float2 __bfloat1622float2(__nv_bfloat162 v) {
    return float2{__bfloat162float(v.x), __bfloat162float(v.y)};
}

#endif
