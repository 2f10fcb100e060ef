// lewm_avx512bf16.c - LeWM's products by AVX512-BF16: one instruction multiplies a pair of inputs
// with 16 outputs' pairs of weights and adds both products to 16 float32 sums. Fourteen rows and
// two vectors of outputs are in registers.
#if defined(__x86_64__)
#include <string.h>

#include "plan/lewm_bf16.h"

enum { MOST = 14, PAIR = 2 * LEWM_STRIP, LINE = 64 };

// ahead: a line for every pair of inputs, asked for meanwhile
static inline __attribute__((always_inline)) void tile(const lewm_product* p, int i, int j,
                                                       const char* ahead, const int rows) {
    __m512 sum[MOST][2];
    const uint16_t *a = p->a + (size_t)i * p->a_step, *b = p->b + (size_t)j * (size_t)p->k;
    const __mmask16 mask[2] = {lewm_mask(p->n - j), lewm_mask(p->n - j - 16)};
#pragma GCC unroll 2
    for (int v = 0; v < 2; v++) {
        const __m512 bias = _mm512_maskz_loadu_ps(mask[v], p->bias + j + 16 * v);
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++) sum[r][v] = bias;
    }
    // where the sums will go is asked for, too
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++)
            _mm_prefetch((const char*)(p->c + (size_t)(i + r) * p->c_step + j + 16 * v),
                         _MM_HINT_T0);
    for (int k = 0; k < p->k; k += 2, b += PAIR, ahead += LINE) {
        _mm_prefetch(ahead, _MM_HINT_T0);
        const __m512bh w0 = (__m512bh)_mm512_loadu_si512(b),
                       w1 = (__m512bh)_mm512_loadu_si512(b + LEWM_STRIP);
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++) {
            int32_t pair;
            memcpy(&pair, a + (size_t)r * p->a_step + k, sizeof pair);
            const __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
            sum[r][0] = _mm512_dpbf16_ps(sum[r][0], x, w0);
            sum[r][1] = _mm512_dpbf16_ps(sum[r][1], x, w1);
        }
    }
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++)
            _mm512_mask_storeu_ps(p->c + (size_t)(i + r) * p->c_step + j + 16 * v, mask[v],
                                  sum[r][v]);
}

static void some_rows(const lewm_product* p, int i, int j, const char* ahead, int rows) {
    switch (rows) {
        case 1: tile(p, i, j, ahead, 1); break;
        case 2: tile(p, i, j, ahead, 2); break;
        case 3: tile(p, i, j, ahead, 3); break;
        case 4: tile(p, i, j, ahead, 4); break;
        case 5: tile(p, i, j, ahead, 5); break;
        case 6: tile(p, i, j, ahead, 6); break;
        case 7: tile(p, i, j, ahead, 7); break;
        case 8: tile(p, i, j, ahead, 8); break;
        case 9: tile(p, i, j, ahead, 9); break;
        case 10: tile(p, i, j, ahead, 10); break;
        case 11: tile(p, i, j, ahead, 11); break;
        case 12: tile(p, i, j, ahead, 12); break;
        case 13: tile(p, i, j, ahead, 13); break;
        default: tile(p, i, j, ahead, MOST);
    }
}

// The rows are cut into tiles of even height. The first two tiles of a strip ask for half of the
// next one each: a model's weights do not stay in the caches until they are used again. Behind the
// last strip lies another part of the layer, or nothing, where asking does no harm.
static void product(const lewm_product* p) {
    const int tiles = (p->m + MOST - 1) / MOST;
    const size_t half = (size_t)p->k / 2 * LINE;
    for (int j = 0; j < p->n; j += LEWM_STRIP) {
        const uintptr_t strip = (uintptr_t)(p->b + (size_t)j * (size_t)p->k);
        for (int t = 0; t < tiles; t++) {
            const int i = p->m * t / tiles, end = p->m * (t + 1) / tiles;
            const uintptr_t ahead = strip + (t < 2 ? (size_t)(2 + t) * half : 0);
            some_rows(p, i, j, (const char*)ahead, end - i);
        }
    }
}

const lewm_products lewm_products_avx512bf16 = {
    .name = "avx512bf16", .round = lewm_round_rows, .product = product};
#endif
