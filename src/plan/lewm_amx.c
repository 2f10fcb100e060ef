// lewm_amx.c - LeWM's products on AMX tiles (amx.h): rows of a are tiles as they
// lie, 16 pairs of inputs of 16 outputs are one of the packed weights. Four tiles of sums, two of
// rows and two of weights: 32 rows x 32 outputs.
//
// tests/plan/lewm_amx_emulated.c compiles this file with the tile instructions in plain C.
#if defined(__x86_64__)
#include "plan/amx.h"
#include "plan/lewm_bf16.h"

enum { PAIR_BYTES = 4 * LEWM_STRIP };

static void finish(const lewm_product* p, int i, int j, const float* sum) {
    const int rows = p->m - i < LEWM_ROWS ? p->m - i : LEWM_ROWS;
    for (int v = 0; v < 2; v++) {
        const __mmask16 mask = lewm_mask(p->n - j - 16 * v);
        const __m512 bias = _mm512_maskz_loadu_ps(mask, p->bias + j + 16 * v);
        for (int r = 0; r < rows; r++)
            _mm512_mask_storeu_ps(
                p->c + (size_t)(i + r) * p->c_step + j + 16 * v, mask,
                _mm512_add_ps(bias, _mm512_load_ps(sum + r * LEWM_STRIP + 16 * v)));
    }
}

// tiles: 0 1 / 2 3 sums, 4 5 rows, 6 7 weights
static void block(const lewm_product* p, int i, int j) {
    enum { STRIDE = 4 * LEWM_STRIP };
    _Alignas(64) float sum[LEWM_ROWS * LEWM_STRIP];
    const uint16_t* a = p->a + (size_t)i * p->a_step;
    const char* b = (const char*)(p->b + (size_t)j * (size_t)p->k);
    const size_t step = p->a_step * sizeof *a, lower = TILE_ROWS * p->a_step;
    const int both = p->m - i > TILE_ROWS;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int k = 0; k < p->k; k += LEWM_DEPTH, b += LEWM_DEPTH / 2 * PAIR_BYTES) {
        _tile_loadd(4, a + k, step);
        _tile_loadd(6, b, PAIR_BYTES);
        _tile_loadd(7, b + TILE_BYTES, PAIR_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        if (!both) continue;
        _tile_loadd(5, a + lower + k, step);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sum, STRIDE);
    _tile_stored(1, sum + TILE_ROWS, STRIDE);
    _tile_stored(2, sum + TILE_ROWS * LEWM_STRIP, STRIDE);
    _tile_stored(3, sum + TILE_ROWS * LEWM_STRIP + TILE_ROWS, STRIDE);
    finish(p, i, j, sum);
}

static void product(const lewm_product* p) {
    for (int j = 0; j < p->n; j += LEWM_STRIP)
        for (int i = 0; i < p->m; i += LEWM_ROWS) block(p, i, j);
}

const lewm_products lewm_products_amx = {.name = "amx",
                                         .begin = amx_begin,
                                         .end = amx_end,
                                         .round = lewm_round_rows,
                                         .product = product};
#endif
