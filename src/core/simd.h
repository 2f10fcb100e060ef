// simd.h - which instruction set the hot loops use: the best this processor has, or what the
// environment variable FIRM_SIMD (plain, avx2, avx512, avx512bf16, amx) asks for, if the processor
// has it.
#ifndef CORE_SIMD_H
#define CORE_SIMD_H

typedef enum simd_level {
    SIMD_PLAIN,
    SIMD_AVX2,
    SIMD_AVX512,
    SIMD_AVX512BF16,  // dot products of bfloat16 pairs
    SIMD_AMX          // tiles of bfloat16
} simd_level;

simd_level simd_best(void);       // for float32: SIMD_AVX512 at most
simd_level simd_best_bf16(void);  // SIMD_AMX, SIMD_AVX512BF16, or SIMD_PLAIN: neither

#endif
