// simd.c - run-time choice of instruction set.
#define _GNU_SOURCE
#include "core/simd.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

// Tiles: the processor has them (leaf 7: AMX-BF16 and AMX-TILE), and the system saves their state
// and gives it to this process when asked. Asking again is harmless.
static int has_tiles(void) {
#if defined(__linux__)
    enum { TILE_DATA = 18, REQUEST = 0x1023, BF16 = 1 << 22, TILE = 1 << 24 };
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & BF16) || !(d & TILE)) return 0;
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
    return 0;
#endif
}

static int has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
#endif

static simd_level supported(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (has_avx512() && __builtin_cpu_supports("avx512bf16"))
        return has_tiles() ? SIMD_AMX : SIMD_AVX512BF16;
    if (has_avx512()) return SIMD_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return SIMD_AVX2;
#endif
    return SIMD_PLAIN;
}

static simd_level allowed(void) {
    static const char* const name[] = {"plain", "avx2", "avx512", "avx512bf16", "amx"};
    simd_level have = supported();
    const char* asked = getenv("FIRM_SIMD");
    for (int i = 0; asked && i < (int)have; i++)
        if (strcmp(asked, name[i]) == 0) return (simd_level)i;
    return have;
}

simd_level simd_best(void) {
    simd_level level = allowed();
    return level < SIMD_AVX512 ? level : SIMD_AVX512;
}

simd_level simd_best_bf16(void) {
    simd_level level = allowed();
    return level < SIMD_AVX512BF16 ? SIMD_PLAIN : level;
}
