// net_avx512bf16.c - bfloat16 products by AVX512-BF16: one instruction multiplies 16 candidates'
// pairs of inputs with a pair of weights and adds both products to 16 float32 sums. The tile is
// that of the float32 kernels: 12 features x 2 vectors in registers.
#if defined(__x86_64__)
#include <string.h>

#include "plan/net_bf16.h"

enum { ROWS = 12, DEPTH = 2 };

static inline __attribute__((always_inline)) void panel(const net_products* p, const char* x,
                                                        char* out, int vectors) {
    __m512 acc[ROWS][2];
    const int* weight = p->w;
    int width = vectors * NET_LANES;
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) acc[r][v] = bf16_splat(p->bias[r]);
    for (int k = 0; k < p->inputs; k += DEPTH) {
        __m512bh a[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) a[v] = (__m512bh)_mm512_loadu_si512(x + 64 * v);
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; r++) {
            __m512bh b = (__m512bh)_mm512_set1_epi32(weight[r]);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) acc[r][v] = _mm512_dpbf16_ps(acc[r][v], b, a[v]);
        }
        x += 64 * vectors;
        weight += ROWS;
    }
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; r += 2)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            bf16_finish(acc[r][v], acc[r + 1][v], out, v * NET_LANES, r, width, p->epilogue);
}

static void product_2(const net_products* p) {
    for (int i = 0; i < p->count; i++)
        panel(p, p->in + (size_t)i * p->in_step, p->out + (size_t)i * p->out_step, 2);
}

static void product_1(const net_products* p) {
    for (int i = 0; i < p->count; i++)
        panel(p, p->in + (size_t)i * p->in_step, p->out + (size_t)i * p->out_step, 1);
}

BF16_PANEL(2, DEPTH)
BF16_PANEL(1, DEPTH)

const net_kernels net_kernels_avx512bf16 = {
    .name = "avx512bf16",
    .rows = ROWS,
    .unit = NET_LANES,
    .depth = DEPTH,
    .bytes = 2,
    .block = 160,
    .speed = 7000,
    .panels = 2,
    .panel = {BF16_ENTRY(2, 200, NULL), BF16_ENTRY(1, 105, NULL)}};
#endif
