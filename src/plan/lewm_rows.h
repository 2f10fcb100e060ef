// lewm_rows.h - the loops between LeWM's matrix products, compiled once per instruction set
// (lewm_simd.c) and chosen at run time. Rows do not depend on each other.
#ifndef PLAN_LEWM_ROWS_H
#define PLAN_LEWM_ROWS_H

#include <stddef.h>

// Attention of one token per row over the tokens of its window.
typedef struct lewm_attend {
    int rows, heads, head;  // head: numbers of one
    int tokens;             // of the window, the row's own one last
    const float* q;         // (rows, heads * head)
    const float* kv;  // token k, row i: kv + k * token_step + i * 2 * heads * head; keys first
    size_t token_step;
    float* out;  // row i: out + i * out_step, heads * head numbers
    size_t out_step;
} lewm_attend;

typedef struct lewm_rows {
    const char* name;
    // out = LN(LN(x; 1e-6) * (1 + scale) + shift; 1e-5), both without gamma and beta. shift and
    // scale of row i are at i * step.
    void (*modulate)(int rows, int width, const float* x, const float* shift, const float* scale,
                     size_t step, float* out);
    void (*normalise)(int rows, int width, const float* x, float* out);  // LN(x; 1e-5)
    void (*attend)(const lewm_attend* a);
    // x += gate * y; the gate of row i is at i * step
    void (*gate)(int rows, int width, const float* gate, size_t step, const float* y, float* x);
} lewm_rows;

const lewm_rows* lewm_rows_get(void);

#endif
