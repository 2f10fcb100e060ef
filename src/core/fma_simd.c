// fma_simd.c - the register-only loop for one instruction set; compiled once per set, see fma.c.
//
// Every accumulator lives in a register and waits for nothing but itself. There are enough of them
// to hide the latency of two multiply-add units: AVX-512 and NEON have 32 registers, the
// others 16.
#include <stdint.h>

#include "core/fma_kernels.h"

#if defined(FIRM_SIMD_avx512)
enum { LANES = 16, CHAINS = 24 };
#elif defined(FIRM_SIMD_avx2)
enum { LANES = 8, CHAINS = 12 };
#elif defined(FIRM_SIMD_neon)
enum { LANES = 4, CHAINS = 24 };
#else
enum { LANES = 4, CHAINS = 12 };
#endif

typedef float vec __attribute__((vector_size(4 * LANES)));

// keeps a value in a register and the compiler from knowing it
#if defined(__x86_64__)
#define HIDE(v) __asm__ volatile("" : "+v"(v))
#elif defined(__aarch64__)
#define HIDE(v) __asm__ volatile("" : "+w"(v))
#else
#define HIDE(v) (void)(v)
#endif

#define FMA_JOIN2(a, b) a##b
#define FMA_JOIN(a, b) FMA_JOIN2(a, b)

double FMA_JOIN(fma_run_, FIRM_SIMD)(int64_t rounds) {
    vec acc[CHAINS], x = {0}, y = {0};
    x += 0.999f;
    y += 0.001f;
    HIDE(x);
    HIDE(y);
#pragma GCC unroll 24
    for (int i = 0; i < CHAINS; i++) {
        acc[i] = y + (float)i;
        HIDE(acc[i]);
    }
    for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 24
        for (int i = 0; i < CHAINS; i++) acc[i] = acc[i] * x + y;
#pragma GCC unroll 24
        for (int i = 0; i < CHAINS; i++) HIDE(acc[i]);
    }
    vec sum = {0};
#pragma GCC unroll 24
    for (int i = 0; i < CHAINS; i++) sum += acc[i];
    HIDE(sum);
    return 2.0 * LANES * CHAINS * (double)rounds;
}
