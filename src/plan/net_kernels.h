// net_kernels.h - what net.c needs from the kernels: net_simd.c (float32, one table per instruction
// set), net_avx512bf16.c and net_amx.c (bfloat16).
//
// A *panel* is a strip of `width` candidates. Numbers that are added to (state, residual stream)
// are float32: feature f of the panel is the `width` consecutive floats at f * width. *Operands*,
// which products multiply, are float32 in the same order, or bfloat16 in pairs: features f and f +
// 1 (f even) of candidate j are the two numbers at (f * width + 2 * j).
//
// Weights are packed in groups of `rows` output features. With `depth` inputs at a time, weight
// (input k, output r of the group) is number ((k / depth) * rows + r) * depth + k % depth of the
// group. Inputs are padded with zeros to a multiple of depth. A table offers kernels for several
// panel widths, in units of `unit` candidates.
#ifndef PLAN_NET_KERNELS_H
#define PLAN_NET_KERNELS_H

#include <stddef.h>

#include "core/status.h"
#include "plan/precision.h"

enum { NET_MOST_ROWS = 32, NET_MOST_UNIT = 16, NET_MOST_WIDTH = 32, NET_MOST_KINDS = 3 };

typedef enum net_epilogue {
    NET_STORE,  // out = acc                float32
    NET_GELU,   // out = gelu(acc)          operand
    NET_ADD     // out += acc               float32
} net_epilogue;

// Sums of a panel that a kernel has computed and not yet finished (bias, epilogue), so that it can
// do so while it computes the next ones.
typedef struct net_left {
    int rows;  // 0: none wait
    int turn;  // which of the sums was written last
    const float *from, *bias;
    char* out;
} net_left;

typedef struct net_waiting {
    net_left left;
    _Alignas(64) float sum[2][NET_MOST_ROWS * NET_MOST_WIDTH];
} net_waiting;

// One group of output features, or two consecutive ones, for consecutive panels: acc = bias + w in.
typedef struct net_products {
    const void* w;      // (groups, inputs, rows)
    const float* bias;  // (groups * rows)
    int inputs;
    int groups;     // at most what the panel takes; 0 is 1
    size_t w_step;  // bytes from a group to the next
    net_epilogue epilogue;
    int count;                 // panels
    const char* in;            // (inputs, width) operands of the first panel
    char* out;                 // (groups * rows, width)
    size_t in_step, out_step;  // bytes from a panel to the next
    const char* ahead;         // as many weights, which will be needed next; NULL: none
    net_waiting* waiting;      // some of the work may wait here for the next call with the same
                               // epilogue, or finish(); NULL: nothing waits
} net_products;

typedef struct net_panel_kernels {
    int units;   // width of the panel in units
    int cost;    // of a product, in hundredths of one of 16 candidates
    int groups;  // that it takes at once: 1 or 2
    void (*product)(const net_products* p);
    void (*finish)(net_waiting* waiting, net_epilogue epilogue);  // NULL: nothing ever waits
    // out = (in - mean) / sqrt(variance + eps) over the features: (features, width) to operands
    void (*normalise)(const float* in, int features, void* out);
    void (*round)(const float* in, int features, void* out);  // (features, width) to operands
    void (*unit_pairs)(float* c, int pairs);  // c (2 pairs, width): sin, cos, sin, cos, ...
} net_panel_kernels;

typedef struct net_kernels {
    const char* name;
    int rows;   // output features of a group; a multiple of depth unless that is more
    int unit;   // candidates of the narrowest panel
    int depth;  // inputs taken together: normalise and round pad their output to a multiple
    int bytes;  // of an operand: 4 or 2
    int ahead;  // 1: products so fast that the next group's weights are asked for meanwhile
    int block;  // candidates that one thread takes at a time: their activations fit in L2
    int speed;  // roughly, products of 16 candidates with one weight per microsecond
    void (*begin)(void), (*end)(void);  // around a thread's use of the kernels; NULL: nothing to do
    int panels;
    net_panel_kernels panel[NET_MOST_KINDS];  // widest first; the last is 1 unit wide
} net_kernels;

extern const net_kernels net_kernels_plain;
#if defined(__x86_64__)
extern const net_kernels net_kernels_avx2;
extern const net_kernels net_kernels_avx512;
extern const net_kernels net_kernels_avx512bf16;
extern const net_kernels net_kernels_amx;
#elif defined(__aarch64__)
extern const net_kernels net_kernels_neon;
#endif

// The best table of this machine; none for a precision that it lacks.
firm_status net_kernels_pick(plan_precision precision, const net_kernels** out, firm_error* err);

#endif
