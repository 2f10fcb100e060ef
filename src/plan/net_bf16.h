// net_bf16.h - what the two bfloat16 tables share: 16 candidates to a vector, everything but the
// products themselves. Operands are pairs of bfloat16, rounded to nearest even; arithmetic is
// float32. Every operation is lane by lane and in the same order at every width.
#ifndef PLAN_NET_BF16_H
#define PLAN_NET_BF16_H

#include <immintrin.h>

#include "plan/net_kernels.h"
#include "plan/net_math.h"

enum { NET_LANES = 16 };

static inline __m512 bf16_splat(float x) {
    return _mm512_set1_ps(x);
}

// 16 pairs of (lo, hi)
static inline __m512i bf16_pair(__m512 lo, __m512 hi) {
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(hi, lo));
}

// To 3e-6, a thousandth of what rounding to bfloat16 does. As the AVX-512 form of net_tile.h.
static inline __m512 bf16_gelu(__m512 x) {
    __m512 x2 = _mm512_mul_ps(x, x);
    __m512 t = _mm512_mul_ps(x, _mm512_fmadd_ps(bf16_splat(GELU_K3), x2, bf16_splat(GELU_K1)));
    t = _mm512_min_ps(t, bf16_splat(126.0f));
    __m512 f = _mm512_reduce_ps(t, 1);
    __m512 p = _mm512_fmadd_ps(bf16_splat(EXP2_SHORT_C4), f, bf16_splat(EXP2_SHORT_C3));
    p = _mm512_fmadd_ps(p, f, bf16_splat(EXP2_SHORT_C2));
    p = _mm512_fmadd_ps(p, f, bf16_splat(EXP2_SHORT_C1));
    p = _mm512_fmadd_ps(p, f, bf16_splat(1.0f));
    __m512 d = _mm512_add_ps(_mm512_scalef_ps(p, t), bf16_splat(1.0f));
    __m512 q = _mm512_rcp14_ps(d);
    q = _mm512_mul_ps(q, _mm512_fnmadd_ps(d, q, bf16_splat(2.0f)));
    return _mm512_mul_ps(x, q);
}

// An accumulated vector of outputs r and r + 1, float32, goes where the epilogue says; `at` is the
// first of its candidates in the group's rows.
static inline void bf16_finish(__m512 lo, __m512 hi, void* out, int at, int r, int width,
                               net_epilogue epilogue) {
    if (epilogue == NET_GELU) {
        char* to = (char*)out + (size_t)(r * width + 2 * at) * 2;
        _mm512_storeu_si512(to, bf16_pair(bf16_gelu(lo), bf16_gelu(hi)));
        return;
    }
    float* to = (float*)out + r * width + at;
    if (epilogue == NET_ADD) {
        lo = _mm512_add_ps(_mm512_loadu_ps(to), lo);
        hi = _mm512_add_ps(_mm512_loadu_ps(to + width), hi);
    }
    _mm512_storeu_ps(to, lo);
    _mm512_storeu_ps(to + width, hi);
}

// Zeros from feature `from` (even) up to a multiple of depth.
static inline void bf16_pad(void* out, int from, int depth, int width) {
    int to = (from + depth - 1) / depth * depth;
    for (int i = from * width; i < to * width; i += 2 * NET_LANES)
        _mm512_storeu_si512((char*)out + (size_t)i * 2, _mm512_setzero_si512());
}

static inline void bf16_round(const float* in, int features, void* out, int width, int depth) {
    for (int f = 0; f < features; f += 2)
        for (int j = 0; j < width; j += NET_LANES) {
            const float* x = in + f * width + j;
            __m512 hi = f + 1 < features ? _mm512_loadu_ps(x + width) : _mm512_setzero_ps();
            _mm512_storeu_si512((char*)out + (size_t)(f * width + 2 * j) * 2,
                                bf16_pair(_mm512_loadu_ps(x), hi));
        }
    bf16_pad(out, (features + 1) / 2 * 2, depth, width);
}

// The sum over the features of x, or of (x - mean)^2, in four chains: features 4 i, 4 i + 1, ...
static inline __m512 bf16_sum(const float* x, int features, int width, const __m512* mean) {
    __m512 chain[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(),
                       _mm512_setzero_ps()};
    int f = 0;
    for (; f + 4 <= features; f += 4)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            __m512 v = _mm512_loadu_ps(x + (f + i) * width);
            if (mean) v = _mm512_sub_ps(v, *mean);
            chain[i] = mean ? _mm512_fmadd_ps(v, v, chain[i]) : _mm512_add_ps(chain[i], v);
        }
    for (; f < features; f++) {
        __m512 v = _mm512_loadu_ps(x + f * width);
        if (mean) v = _mm512_sub_ps(v, *mean);
        chain[0] = mean ? _mm512_fmadd_ps(v, v, chain[0]) : _mm512_add_ps(chain[0], v);
    }
    return _mm512_add_ps(_mm512_add_ps(chain[0], chain[1]), _mm512_add_ps(chain[2], chain[3]));
}

static inline void bf16_normalise(const float* in, int features, void* out, int width, int depth) {
    __m512 share = bf16_splat(1.0f / (float)features);
    for (int j = 0; j < width; j += NET_LANES) {
        const float* x = in + j;
        __m512 mean = _mm512_mul_ps(bf16_sum(x, features, width, NULL), share);
        __m512 squares = bf16_sum(x, features, width, &mean);
        __m512 deviation = _mm512_sqrt_ps(_mm512_fmadd_ps(squares, share, bf16_splat(LN_EPS)));
        __m512 scale = _mm512_div_ps(bf16_splat(1.0f), deviation);
        for (int f = 0; f < features; f += 2) {
            __m512 lo = _mm512_sub_ps(_mm512_loadu_ps(x + f * width), mean), hi = mean;
            if (f + 1 < features) hi = _mm512_loadu_ps(x + (f + 1) * width);
            hi = _mm512_sub_ps(hi, mean);
            _mm512_storeu_si512((char*)out + (size_t)(f * width + 2 * j) * 2,
                                bf16_pair(_mm512_mul_ps(lo, scale), _mm512_mul_ps(hi, scale)));
        }
    }
    bf16_pad(out, (features + 1) / 2 * 2, depth, width);
}

static inline void bf16_unit_pairs(float* c, int pairs, int width) {
    for (int p = 0; p < pairs; p++)
        for (int j = 0; j < width; j += NET_LANES) {
            float* s = c + 2 * p * width + j;
            __m512 a = _mm512_loadu_ps(s), b = _mm512_loadu_ps(s + width);
            // the tiny number only keeps a pair of exact zeros from becoming 0 / 0
            __m512 length =
                _mm512_sqrt_ps(_mm512_fmadd_ps(a, a, _mm512_fmadd_ps(b, b, bf16_splat(1e-12f))));
            _mm512_storeu_ps(s, _mm512_div_ps(a, length));
            _mm512_storeu_ps(s + width, _mm512_div_ps(b, length));
        }
}

// The kernels of panels of `units` times 16 candidates, but for the product, and their table entry.
#define BF16_PANEL(units, depth)                                              \
    static void normalise_##units(const float* in, int features, void* out) { \
        bf16_normalise(in, features, out, units* NET_LANES, depth);           \
    }                                                                         \
    static void round_##units(const float* in, int features, void* out) {     \
        bf16_round(in, features, out, units* NET_LANES, depth);               \
    }                                                                         \
    static void unit_pairs_##units(float* c, int pairs) {                     \
        bf16_unit_pairs(c, pairs, units* NET_LANES);                          \
    }
#define BF16_ENTRY(units, cost, finish)                                            \
    {                                                                              \
        units, cost, 1, product_##units, finish, normalise_##units, round_##units, \
            unit_pairs_##units                                                     \
    }

#endif
