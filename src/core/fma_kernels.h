// fma_kernels.h - the variants of fma_simd.c: runs `rounds` rounds, returns the operations done.
#ifndef CORE_FMA_KERNELS_H
#define CORE_FMA_KERNELS_H

#include <stdint.h>

double fma_run_plain(int64_t rounds);
#if defined(__x86_64__)
double fma_run_avx2(int64_t rounds);
double fma_run_avx512(int64_t rounds);
#elif defined(__aarch64__)
double fma_run_neon(int64_t rounds);
#endif

#endif
