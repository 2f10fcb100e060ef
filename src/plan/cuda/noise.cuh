// noise.cuh - the noise of candidates: the CPU's Philox words (core/rng.h, plan/propose.c), and Box
// and Muller's functions evaluated in double and rounded.
#ifndef PLAN_CUDA_NOISE_CUH
#define PLAN_CUDA_NOISE_CUH

#include "plan/cuda/internal.cuh"

// Normals 4 quad .. 4 quad + 3 of a candidate.
static __device__ void normals(uint64_t seed, uint64_t solve, int iteration, int candidate,
                               int quad, float out[4]) {
    uint64_t stream = ((uint64_t)RNG_PLAN << 48) ^ solve;
    uint64_t first = ((uint64_t)iteration << 32) | ((uint64_t)candidate << 16);
    uint32_t word[4];
    rng_block(seed, stream, first / 4 + (uint64_t)quad, word);
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        float radius = __fsqrt_rn(__fmul_rn(-2.0f, (float)log((double)rng_unit(word[i]))));
        double s, c;
        sincos((double)__fmul_rn(6.283185307f, rng_unit(word[i + 1])), &s, &c);
        out[i] = __fmul_rn(radius, (float)c);
        out[i + 1] = __fmul_rn(radius, (float)s);
    }
}

#endif
