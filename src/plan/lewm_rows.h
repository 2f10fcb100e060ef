// lewm_rows.h - the loops between LeWM's matrix products, compiled once per instruction set
// (lewm_simd.c) and chosen at run time. Rows do not depend on each other.
#ifndef PLAN_LEWM_ROWS_H
#define PLAN_LEWM_ROWS_H

#include <stddef.h>

// What one head makes of one token per row, the last of its window: the scores are x . u of the
// window's tokens, and the u of the tokens, mixed by softmax, take the place of x.
typedef struct lewm_mix {
    int rows, width;
    int head;        // numbers of a head: scores are over its root
    int tokens;      // of the window
    const float* u;  // token k, row i: u + k * token_step + i * width
    size_t token_step;
    float* x;  // (rows, width)
} lewm_mix;

typedef struct lewm_rows {
    const char* name;
    // out = LN(LN(x; 1e-6) * (1 + scale) + shift; 1e-5), both without gamma and beta. shift and
    // scale of row i are at i * step.
    void (*modulate)(int rows, int width, const float* x, const float* shift, const float* scale,
                     size_t step, float* out);
    void (*normalise)(int rows, int width, const float* x, float* out);  // LN(x; 1e-5)
    void (*mix)(const lewm_mix* a);
    // x += gate * y; the gate of row i is at i * step
    void (*gate)(int rows, int width, const float* gate, size_t step, const float* y, float* x);
} lewm_rows;

const lewm_rows* lewm_rows_get(void);

#endif
