// net_amx.c - bfloat16 products on AMX tiles (amx.h). A is weights, a row per output feature; B is
// operands as the panels hold them, a column per candidate; so C is 16 features of 16 candidates,
// in the order of the other kernels. Four tiles of sums, two of weights and two of operands: 32
// features x 32 candidates.
//
// tests/plan/amx_emulated.c compiles this file with the tile instructions in plain C.
#if defined(__x86_64__)
#include "plan/amx.h"
#include "plan/net_bf16.h"

enum { ROWS = 32, DEPTH = 32 };

// sums (ROWS, width) as the tiles left them
static inline void finish(const float* sum, const float* bias, int width, void* out,
                          net_epilogue epilogue) {
    for (int r = 0; r < ROWS; r += 2)
        for (int j = 0; j < width; j += NET_LANES) {
            const float* s = sum + r * width + j;
            bf16_finish(_mm512_add_ps(_mm512_load_ps(s), bf16_splat(bias[r])),
                        _mm512_add_ps(_mm512_load_ps(s + width), bf16_splat(bias[r + 1])), out, j,
                        r, width, epilogue);
        }
}

// tiles: 0 1 / 2 3 sums, 4 5 weights, 6 7 operands
static void product_2(const void* w, const float* bias, int inputs, const void* in, void* out,
                      net_epilogue epilogue) {
    enum { WIDTH = 2 * NET_LANES, STRIDE = 4 * WIDTH };
    _Alignas(64) float sum[ROWS * WIDTH];
    const char *weight = w, *x = in;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int k = 0; k < inputs; k += DEPTH) {
        _tile_loadd(6, x, STRIDE);
        _tile_loadd(4, weight, TILE_BYTES);
        _tile_loadd(7, x + TILE_BYTES, STRIDE);
        _tile_loadd(5, weight + TILE_ROWS * TILE_BYTES, TILE_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        x += DEPTH / 2 * STRIDE;
        weight += ROWS * TILE_BYTES;
    }
    _tile_stored(0, sum, STRIDE);
    _tile_stored(1, sum + NET_LANES, STRIDE);
    _tile_stored(2, sum + TILE_ROWS * WIDTH, STRIDE);
    _tile_stored(3, sum + TILE_ROWS * WIDTH + NET_LANES, STRIDE);
    finish(sum, bias, WIDTH, out, epilogue);
}

static void product_1(const void* w, const float* bias, int inputs, const void* in, void* out,
                      net_epilogue epilogue) {
    enum { STRIDE = 4 * NET_LANES };
    _Alignas(64) float sum[ROWS * NET_LANES];
    const char *weight = w, *x = in;
    _tile_zero(0);
    _tile_zero(2);
    for (int k = 0; k < inputs; k += DEPTH) {
        _tile_loadd(6, x, STRIDE);
        _tile_loadd(4, weight, TILE_BYTES);
        _tile_loadd(5, weight + TILE_ROWS * TILE_BYTES, TILE_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(2, 5, 6);
        x += DEPTH / 2 * STRIDE;
        weight += ROWS * TILE_BYTES;
    }
    _tile_stored(0, sum, STRIDE);
    _tile_stored(2, sum + TILE_ROWS * NET_LANES, STRIDE);
    finish(sum, bias, NET_LANES, out, epilogue);
}

BF16_PANEL(2, DEPTH)
BF16_PANEL(1, DEPTH)

const net_kernels net_kernels_amx = {.name = "amx",
                                     .rows = ROWS,
                                     .unit = NET_LANES,
                                     .depth = DEPTH,
                                     .bytes = 2,
                                     .ahead = 1,
                                     .speed = 40000,
                                     .begin = amx_begin,
                                     .end = amx_end,
                                     .panels = 2,
                                     .panel = {BF16_ENTRY(2, 200), BF16_ENTRY(1, 130)}};
#endif
