// loops.h - the float loops around the matrix products, compiled once per instruction set
// (loops_simd.c) and chosen at run time. FIRM_SIMD=plain|avx2|avx512|neon in the environment
// overrides the choice.
#ifndef NN_CPU_LOOPS_H
#define NN_CPU_LOOPS_H

#include <stddef.h>
#include <stdint.h>

typedef struct nn_loops {
    const char* name;
    // dst = src + repeated bias: n rows of width c start as the bias
    void (*fill_rows)(int64_t rows, int width, const float* bias, float* out);
    void (*sum_rows)(int64_t rows, int width, const float* x,
                     float* total);  // total += column sums
    void (*gelu)(int64_t n, const float* x, float* y);
    void (*gelu_back)(int64_t n, const float* x, const float* dy, float* dx, int add);
    void (*erfgelu)(int64_t n, const float* x, float* y);
    void (*erfgelu_back)(int64_t n, const float* x, const float* dy, float* dx, int add);
    void (*silu)(int64_t n, const float* x, float* y);
    void (*silu_back)(int64_t n, const float* x, const float* dy, float* dx, int add);
    // y = alpha * a + beta * b
    void (*axpby)(int64_t n, float alpha, const float* a, float beta, const float* b, float* y);
    void (*scaled)(int64_t n, float alpha, const float* a, float* y, int add);  // y (+)= alpha * a
    void (*product)(int64_t n, const float* a, const float* b, float* y, int add);
    // stat: (rows, 2) mean and 1/deviation
    void (*layernorm)(int64_t rows, int width, const float* x, const float* gamma,
                      const float* beta, float eps, float* y, float* stat);
    void (*layernorm_back)(int64_t rows, int width, const float* x, const float* gamma,
                           const float* stat, const float* dy, float* dx, int add, float* dgamma,
                           float* dbeta);
    // likewise without gamma and beta
    void (*standardise)(int64_t rows, int width, const float* x, float eps, float* y, float* stat);
    // of a norm without gamma and beta, followed by (1 + scale), one scale per element
    void (*adanorm_back)(int64_t rows, int width, const float* x, const float* scale,
                         const float* stat, const float* dy, float* dx, int add);
    // per channel sums over positions, in double: x and x^2, or dy and dy * x
    void (*channel_sums)(int64_t positions, int channels, const float* x, const float* y,
                         double* sum_x, double* sum_xy);
    // y (+)= x * scale[c] + z * slope[c] + shift[c]; z may be NULL
    void (*channel_affine)(int64_t positions, int channels, const float* x, const float* scale,
                           const float* z, const float* slope, const float* shift, float* y,
                           int add);
    void (*softmax)(int n, float* row, const uint8_t* mask, float scale);  // in place; NULL: all
    // dp -> ds for one softmax row: ds = p * (dp - sum(p dp)) * scale
    void (*softmax_back)(int n, const float* p, float* dp, float scale);
    double (*square_sum)(int64_t n, const float* x);
    // bytes of images (size, size, 3), cut into patches of p x p pixels: standardised by a table of
    // 256 values per channel; differences times a scale per channel; 1 where a channel moved
    void (*patches)(int64_t images, int size, int p, const uint8_t* in, float table[3][256],
                    float* out);
    void (*patchdiff)(int64_t images, int size, int p, const uint8_t* now, const uint8_t* before,
                      const float scale[3], float* out);
    void (*patchmask)(int64_t images, int size, int p, const uint8_t* now, const uint8_t* before,
                      float* out);
    void (*adamw)(int64_t n, float* w, const float* g, float* m, float* v, float grad_scale,
                  float beta1, float beta2, float step, float correction2, float eps, float decay);
} nn_loops;

const nn_loops* nn_loops_get(void);

#endif
