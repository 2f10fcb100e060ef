// lewm_bf16.h - LeWM's matrix products on bfloat16 operands with float32 sums, for processors that
// have instructions for it: lewm_avx512bf16.c and lewm_amx.c. Both read the same packed weights and
// add in an order that depends on k alone.
#ifndef PLAN_LEWM_BF16_H
#define PLAN_LEWM_BF16_H

#include <stddef.h>
#include <stdint.h>

// Inputs are padded with zeros to a multiple of DEPTH, outputs to one of STRIP. A product may read
// rows of a up to a multiple of ROWS.
enum { LEWM_DEPTH = 32, LEWM_STRIP = 32, LEWM_ROWS = 32 };

// c (m, n) = a (m, k) b + bias
typedef struct lewm_product {
    int m, n, k;        // k is padded
    const uint16_t* a;  // row i: a + i * a_step
    size_t a_step;
    const uint16_t* b;  // strips of outputs, of each the pairs of inputs: (n / STRIP, k / 2, STRIP,
                        // 2)
    const float* bias;  // (n)
    float* c;           // row i: c + i * c_step
    size_t c_step;
} lewm_product;

typedef struct lewm_products {
    const char* name;
    void (*begin)(void);  // before a thread's first product, and after its last; NULL: nothing
    void (*end)(void);
    // rows of k numbers, rounded to nearest even and padded
    void (*round)(int rows, int k, const float* x, size_t x_step, uint16_t* to, size_t to_step);
    void (*product)(const lewm_product* p);
} lewm_products;

extern const lewm_products lewm_products_avx512bf16;
extern const lewm_products lewm_products_amx;

const lewm_products* lewm_products_get(void);  // NULL: this processor has none

static inline int lewm_padded(int n, int to) {
    return (n + to - 1) / to * to;
}

// ---- what the tables share ----
#if defined(__AVX512BF16__)
#include <immintrin.h>

static inline __mmask16 lewm_mask(int numbers) {
    return numbers >= 16 ? (__mmask16)0xffff : (__mmask16)((1u << (numbers < 0 ? 0 : numbers)) - 1);
}

static inline void lewm_round_rows(int rows, int k, const float* x, size_t x_step, uint16_t* to,
                                   size_t to_step) {
    for (int i = 0; i < rows; i++, x += x_step, to += to_step)
        for (int j = 0; j < lewm_padded(k, LEWM_DEPTH); j += 16) {
            __m512 v = _mm512_maskz_loadu_ps(lewm_mask(k - j), x + j);
            _mm256_storeu_si256((__m256i*)(void*)(to + j), (__m256i)_mm512_cvtneps_pbh(v));
        }
}
#endif

#endif
