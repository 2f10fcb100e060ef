// simd.c - run-time choice of instruction set.
#include "core/simd.h"

#include <stdlib.h>
#include <string.h>

static simd_level supported(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return SIMD_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return SIMD_AVX2;
#elif defined(__aarch64__)
    return SIMD_NEON;  // every processor of the architecture has it
#endif
    return SIMD_PLAIN;
}

simd_level simd_best(void) {
    simd_level have = supported();
    const char* asked = getenv("FIRM_SIMD");
    if (!asked) return have;
    if (strcmp(asked, "plain") == 0) return SIMD_PLAIN;
    if (strcmp(asked, "avx2") == 0 && have == SIMD_AVX512) return SIMD_AVX2;
    return have;
}
