// lewm_avx512bf16.c - LeWM's products by AVX512-BF16: one instruction multiplies a pair of inputs
// with 16 outputs' pairs of weights and adds both products to 16 float32 sums. Twelve rows and two
// vectors of outputs are in registers.
#if defined(__x86_64__)
#include <string.h>

#include "plan/lewm_bf16.h"

enum { MOST = 12, PAIR = 2 * LEWM_STRIP };

static inline __attribute__((always_inline)) void tile(const lewm_product* p, int i, int j,
                                                       const int rows) {
    __m512 sum[MOST][2];
    const uint16_t *a = p->a + (size_t)i * p->a_step, *b = p->b + (size_t)j * (size_t)p->k;
    const __mmask16 mask[2] = {lewm_mask(p->n - j), lewm_mask(p->n - j - 16)};
#pragma GCC unroll 2
    for (int v = 0; v < 2; v++) {
        const __m512 bias = _mm512_maskz_loadu_ps(mask[v], p->bias + j + 16 * v);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) sum[r][v] = bias;
    }
    for (int k = 0; k < p->k; k += 2, b += PAIR) {
        const __m512bh w0 = (__m512bh)_mm512_loadu_si512(b),
                       w1 = (__m512bh)_mm512_loadu_si512(b + LEWM_STRIP);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            int32_t pair;
            memcpy(&pair, a + (size_t)r * p->a_step + k, sizeof pair);
            const __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
            sum[r][0] = _mm512_dpbf16_ps(sum[r][0], x, w0);
            sum[r][1] = _mm512_dpbf16_ps(sum[r][1], x, w1);
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++)
            _mm512_mask_storeu_ps(p->c + (size_t)(i + r) * p->c_step + j + 16 * v, mask[v],
                                  sum[r][v]);
}

static void some_rows(const lewm_product* p, int i, int j, int rows) {
    switch (rows) {
        case 1: tile(p, i, j, 1); break;
        case 2: tile(p, i, j, 2); break;
        case 3: tile(p, i, j, 3); break;
        case 4: tile(p, i, j, 4); break;
        case 5: tile(p, i, j, 5); break;
        case 6: tile(p, i, j, 6); break;
        case 7: tile(p, i, j, 7); break;
        case 8: tile(p, i, j, 8); break;
        case 9: tile(p, i, j, 9); break;
        case 10: tile(p, i, j, 10); break;
        case 11: tile(p, i, j, 11); break;
        default: tile(p, i, j, MOST);
    }
}

static void product(const lewm_product* p) {
    for (int j = 0; j < p->n; j += LEWM_STRIP)
        for (int i = 0; i < p->m; i += MOST) some_rows(p, i, j, p->m - i < MOST ? p->m - i : MOST);
}

const lewm_products lewm_products_avx512bf16 = {
    .name = "avx512bf16", .round = lewm_round_rows, .product = product};
#endif
