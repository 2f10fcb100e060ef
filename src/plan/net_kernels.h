// net_kernels.h - what net.c needs from the instruction-set variants of net_simd.c.
//
// A *panel* is a strip of `width` candidates: feature f of the panel is the `width` consecutive
// floats at f * width. Weights are packed in groups of `rows` output features: group g holds, for
// each input k, the `rows` weights of its outputs, then the next k. A variant offers kernels for 4,
// 2 and 1 units of `unit` candidates (NULL where it has none).
#ifndef PLAN_NET_KERNELS_H
#define PLAN_NET_KERNELS_H

typedef enum net_epilogue {
    NET_STORE,  // out = acc
    NET_GELU,   // out = gelu(acc)
    NET_ADD     // out += acc
} net_epilogue;

typedef struct net_panel_kernels {
    int units;  // width of the panel in units
    // acc = bias + w in for one group of output features:
    // w (inputs, rows), bias (rows), in (inputs, width), out (rows, width)
    void (*product)(const float* w, const float* bias, int inputs, const float* in, float* out,
                    net_epilogue epilogue);
    // out = (in - mean) / sqrt(variance + eps) over the features, both (features, width)
    void (*normalise)(const float* in, int features, float* out);
    void (*unit_pairs)(float* c, int pairs);  // c (2 pairs, width): sin, cos, sin, cos, ...
} net_panel_kernels;

typedef struct net_kernels {
    const char* name;
    int rows;  // output features of a group
    int unit;  // candidates of the narrowest panel
    int panels;
    net_panel_kernels panel[3];  // widest first; the last is 1 unit wide
} net_kernels;

extern const net_kernels net_kernels_plain;
#if defined(__x86_64__)
extern const net_kernels net_kernels_avx2;
extern const net_kernels net_kernels_avx512;
#elif defined(__aarch64__)
extern const net_kernels net_kernels_neon;
#endif

#endif
