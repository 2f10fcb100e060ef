// simd.h - which instruction set the hot loops use: the best this processor has, or what the
// environment variable FIRM_SIMD (plain, avx2, avx512, neon) asks for, if the processor has it.
#ifndef CORE_SIMD_H
#define CORE_SIMD_H

typedef enum simd_level { SIMD_PLAIN, SIMD_AVX2, SIMD_AVX512, SIMD_NEON } simd_level;

simd_level simd_best(void);

#endif
