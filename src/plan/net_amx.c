// net_amx.c - bfloat16 products on AMX tiles (amx.h). A is weights, a row per output feature; B is
// operands as the panels hold them, a column per candidate; so C is 16 features of 16 candidates,
// in the order of the other kernels. Four tiles of sums, two of weights and two of operands: 32
// features x 32 candidates.
//
// tests/plan/amx_emulated.c compiles this file with the tile instructions in plain C.
#if defined(__x86_64__)
#include "plan/amx.h"
#include "plan/net_bf16.h"

enum {
    ROWS = 32,
    DEPTH = 32,
    MOST = 512  // inputs whose weights stay in the first cache while the panels pass by
};
#define INLINE static inline __attribute__((always_inline))

// Finishes two more rows of the sums that wait.
INLINE void finish_rows(net_left* w, int vectors, net_epilogue epilogue) {
    const int width = vectors * NET_LANES;
    const __m512 lo = bf16_splat(w->bias[0]), hi = bf16_splat(w->bias[1]);
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
        const float* s = w->from + v * NET_LANES;
        bf16_finish(_mm512_add_ps(_mm512_load_ps(s), lo),
                    _mm512_add_ps(_mm512_load_ps(s + width), hi), w->out, v * NET_LANES, 0, width,
                    epilogue);
    }
    w->from += 2 * width;
    w->bias += 2;
    w->out += 2 * width * (epilogue == NET_GELU ? 2 : 4);
    w->rows -= 2;
}

INLINE void finish_all(net_left* w, int vectors, net_epilogue epilogue) {
    while (w->rows > 0) finish_rows(w, vectors, epilogue);
}

// 32 more inputs. Tiles: 0 1 / 2 3 sums, 4 5 weights, 6 7 operands. Operands pass by once for each
// group of outputs, so they are loaded with the hint that leaves the first cache to the weights.
INLINE void multiply(const char* weight, const char* x, int vectors) {
    const long stride = TILE_BYTES * vectors;
    _tile_stream_loadd(6, x, stride);
    _tile_loadd(4, weight, TILE_BYTES);
    if (vectors == 2) _tile_stream_loadd(7, x + TILE_BYTES, stride);
    _tile_loadd(5, weight + TILE_ROWS * TILE_BYTES, TILE_BYTES);
    _tile_dpbf16ps(0, 4, 6);
    if (vectors == 2) _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    if (vectors == 2) _tile_dpbf16ps(3, 5, 7);
}

INLINE void keep(float* sum, int vectors) {
    const int width = vectors * NET_LANES;
    const long stride = TILE_BYTES * vectors;
    _tile_stored(0, sum, stride);
    if (vectors == 2) _tile_stored(1, sum + NET_LANES, stride);
    _tile_stored(2, sum + TILE_ROWS * width, stride);
    if (vectors == 2) _tile_stored(3, sum + TILE_ROWS * width + NET_LANES, stride);
}

// Asks for a few more lines of the next weights.
INLINE const char* ask(const char* ahead, const char* end, int lines) {
    for (int l = 0; l < lines && ahead < end; l++, ahead += TILE_BYTES)
        __builtin_prefetch(ahead, 0, 2);
    return ahead;
}

// The tile unit works on a panel while the vector units finish the sums of the one before: after
// each product a few of them, so that both fit into the processor's window of instructions. The
// last panel's sums wait for the next call.
INLINE void sweep(const net_products* p, net_waiting* waiting, int vectors, net_epilogue epilogue) {
    const int steps = p->inputs / DEPTH, lines = DEPTH / p->count + 1;
    const char *ahead = p->ahead, *end = ahead ? ahead + (size_t)p->inputs * TILE_BYTES : NULL;
    net_left w = waiting->left;
    for (int i = 0; i < p->count; i++) {
        const char *weight = p->w, *x = p->in + (size_t)i * p->in_step;
        float* sum = waiting->sum[w.turn = 1 - w.turn];
        int due = 0;
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        for (int k = 0; k < steps; k++) {
            multiply(weight, x, vectors);
            x += DEPTH / 2 * TILE_BYTES * vectors;
            weight += ROWS * TILE_BYTES;
            ahead = ask(ahead, end, lines);
            for (due += ROWS / 2; due >= steps; due -= steps)
                if (w.rows > 0) finish_rows(&w, vectors, epilogue);
        }
        finish_all(&w, vectors, epilogue);
        keep(sum, vectors);
        w.rows = ROWS;
        w.from = sum;
        w.bias = p->bias;
        w.out = p->out + (size_t)i * p->out_step;
    }
    waiting->left = w;
}

// A product that is added goes some inputs at a time.
INLINE void add(const net_products* p, net_waiting* waiting, int vectors) {
    static const float none[ROWS];
    const int parts = (p->inputs + MOST - 1) / MOST;
    for (int i = 0, from = 0; i < parts; i++) {
        net_products q = *p;
        q.inputs = (p->inputs - from) / (parts - i) / DEPTH * DEPTH;
        q.w = (const char*)p->w + (size_t)from * ROWS * 2;
        q.in = p->in + (size_t)from * (size_t)vectors * NET_LANES * 2;
        if (from) q.bias = none;
        if (p->ahead) q.ahead = p->ahead + (size_t)from * TILE_BYTES;
        sweep(&q, waiting, vectors, NET_ADD);
        from += q.inputs;
    }
}

INLINE void finish(net_waiting* waiting, int vectors, net_epilogue epilogue) {
    switch (epilogue) {
        case NET_STORE: finish_all(&waiting->left, vectors, NET_STORE); break;
        case NET_GELU: finish_all(&waiting->left, vectors, NET_GELU); break;
        case NET_ADD: finish_all(&waiting->left, vectors, NET_ADD); break;
    }
}

INLINE void product(const net_products* p, int vectors) {
    net_waiting own, *waiting = p->waiting ? p->waiting : &own;
    own.left = (net_left){0};
    switch (p->epilogue) {
        case NET_STORE: sweep(p, waiting, vectors, NET_STORE); break;
        case NET_GELU: sweep(p, waiting, vectors, NET_GELU); break;
        case NET_ADD: add(p, waiting, vectors); break;
    }
    if (waiting == &own) finish(&own, vectors, p->epilogue);
}

static void product_2(const net_products* p) {
    product(p, 2);
}

static void product_1(const net_products* p) {
    product(p, 1);
}

static void finish_2(net_waiting* waiting, net_epilogue epilogue) {
    finish(waiting, 2, epilogue);
}

static void finish_1(net_waiting* waiting, net_epilogue epilogue) {
    finish(waiting, 1, epilogue);
}

BF16_PANEL(2, DEPTH)
BF16_PANEL(1, DEPTH)

const net_kernels net_kernels_amx = {
    .name = "amx",
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
    .panel = {BF16_ENTRY(2, 200, finish_2), BF16_ENTRY(1, 130, finish_1)}};
#endif
