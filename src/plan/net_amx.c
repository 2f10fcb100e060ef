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
#ifndef AMX_STREAM
#define AMX_STREAM 1
#endif
#ifndef AMX_MOST
#define AMX_MOST 512
#endif
#ifndef AMX_FETCH
#define AMX_FETCH 0
#endif
#if AMX_STREAM
#define LOAD_OPERAND _tile_stream_loadd
#else
#define LOAD_OPERAND _tile_loadd
#endif

// Finishes some of a panel's sums (ROWS, 16 * vectors), which the tiles left. A unit is two rows of
// 16 candidates; units from .. to - 1.
static inline __attribute__((always_inline)) void finish(const net_products* p, const float* sum,
                                                         char* out, int vectors,
                                                         net_epilogue epilogue, int from, int to) {
    int width = vectors * NET_LANES;
    for (int i = from; i < to; i++) {
        int r = i / vectors * 2, j = i % vectors * NET_LANES;
        const float* s = sum + r * width + j;
        bf16_finish(_mm512_add_ps(_mm512_load_ps(s), bf16_splat(p->bias[r])),
                    _mm512_add_ps(_mm512_load_ps(s + width), bf16_splat(p->bias[r + 1])), out, j, r,
                    width, epilogue);
    }
}

// 32 more inputs. Tiles: 0 1 / 2 3 sums, 4 5 weights, 6 7 operands
static inline __attribute__((always_inline)) void multiply(const char* weight, const char* x,
                                                           int vectors) {
    int stride = TILE_BYTES * vectors;
#if AMX_FETCH
    for (int i = 0; i < 16 * vectors; i++) __builtin_prefetch(x + AMX_FETCH * TILE_ROWS * stride + i * 64, 0, 3);
#endif
    LOAD_OPERAND(6, x, stride);
    _tile_loadd(4, weight, TILE_BYTES);
    if (vectors == 2) LOAD_OPERAND(7, x + TILE_BYTES, stride);
    _tile_loadd(5, weight + TILE_ROWS * TILE_BYTES, TILE_BYTES);
    _tile_dpbf16ps(0, 4, 6);
    if (vectors == 2) _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    if (vectors == 2) _tile_dpbf16ps(3, 5, 7);
}

static inline __attribute__((always_inline)) void keep(float* sum, int vectors) {
    int width = vectors * NET_LANES, stride = TILE_BYTES * vectors;
    _tile_stored(0, sum, stride);
    if (vectors == 2) _tile_stored(1, sum + NET_LANES, stride);
    _tile_stored(2, sum + TILE_ROWS * width, stride);
    if (vectors == 2) _tile_stored(3, sum + TILE_ROWS * width + NET_LANES, stride);
}

// The tile unit works on a panel while the vector units finish the sums of the one before: after
// each product a few of them, so that both fit into the processor's window of instructions.
static inline __attribute__((always_inline)) void sweep(const net_products* p, int vectors,
                                                        net_epilogue epilogue) {
    _Alignas(64) float sum[2][ROWS * 2 * NET_LANES];
    int units = ROWS / 2 * vectors, steps = p->inputs / DEPTH;
    int each = steps ? (units + steps - 1) / steps : units, lines = DEPTH / p->count + 1;
    int left = p->ahead ? p->inputs : 0;  // lines of 64 bytes to ask for
    const char* ahead = p->ahead;
    for (int i = 0; i < p->count; i++) {
        const char *weight = p->w, *x = p->in + (size_t)i * p->in_step;
        char* last = i ? p->out + (size_t)(i - 1) * p->out_step : p->out;
        int done = i ? 0 : units;  // of the panel before
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        for (int k = 0; k < steps; k++) {
            multiply(weight, x, vectors);
            x += DEPTH / 2 * TILE_BYTES * vectors;
            weight += ROWS * TILE_BYTES;
            for (int l = 0; l < lines && left > 0; l++, left--, ahead += TILE_BYTES)
                __builtin_prefetch(ahead, 0, 2);
            int to = done + each < units ? done + each : units;
            finish(p, sum[1 - i % 2], last, vectors, epilogue, done, to);
            done = to;
        }
        finish(p, sum[1 - i % 2], last, vectors, epilogue, done, units);
        keep(sum[i % 2], vectors);
    }
    finish(p, sum[(p->count - 1) % 2], p->out + (size_t)(p->count - 1) * p->out_step, vectors,
           epilogue, 0, units);
}

// A product that is added goes MOST inputs at a time, whose weights stay in the first cache while
// the panels pass by.
static inline __attribute__((always_inline)) void add(const net_products* p, int vectors) {
    static const float none[ROWS];
    int parts = (p->inputs + AMX_MOST - 1) / AMX_MOST;
    for (int i = 0, from = 0; i < parts; i++) {
        net_products q = *p;
        q.inputs = (p->inputs - from) / (parts - i) / DEPTH * DEPTH;
        q.w = (const char*)p->w + (size_t)from * ROWS * 2;
        q.in = p->in + (size_t)from * (size_t)vectors * NET_LANES * 2;
        if (from) q.bias = none;
        if (p->ahead) q.ahead = p->ahead + (size_t)from * TILE_BYTES;
        sweep(&q, vectors, NET_ADD);
        from += q.inputs;
    }
}

static inline __attribute__((always_inline)) void product(const net_products* p, int vectors) {
    switch (p->epilogue) {
        case NET_STORE: sweep(p, vectors, NET_STORE); break;
        case NET_GELU: sweep(p, vectors, NET_GELU); break;
        case NET_ADD: add(p, vectors); break;
    }
}

static void product_2(const net_products* p) {
    product(p, 2);
}

static void product_1(const net_products* p) {
    product(p, 1);
}

BF16_PANEL(2, DEPTH)
BF16_PANEL(1, DEPTH)

const net_kernels net_kernels_amx = {.name = "amx",
                                     .rows = ROWS,
                                     .unit = NET_LANES,
                                     .depth = DEPTH,
                                     .bytes = 2,
                                     .block = 320,
                                     .ahead = 1,
                                     .speed = 40000,
                                     .begin = amx_begin,
                                     .end = amx_end,
                                     .panels = 2,
                                     .panel = {BF16_ENTRY(2, 200), BF16_ENTRY(1, 130)}};
#endif
