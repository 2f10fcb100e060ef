// lewm_simd.c - see lewm_rows.h. Plain C loops that the compiler vectorises, built once per
// instruction set (cmake/folders.cmake). Sums run in a fixed order.
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "plan/lewm_rows.h"
#include "plan/net_math.h"

#define JOIN2(a, b) a##_##b
#define JOIN(a, b) JOIN2(a, b)
#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

enum { LANES = 16 };  // independent partial sums: fixes the order and lets the compiler vectorise

static inline float total_of(const float* part) {
    float half[8], quarter[4];
    for (int k = 0; k < 8; k++) half[k] = part[k] + part[k + 8];
    for (int k = 0; k < 4; k++) quarter[k] = half[k] + half[k + 4];
    return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}

// out = LN(x; eps), which may be x itself
static inline void standardise(int width, const float* x, float eps, float* out) {
    int even = width / LANES * LANES;
    float part[LANES] = {0};
    for (int j = 0; j < even; j += LANES)
        for (int k = 0; k < LANES; k++) part[k] += x[j + k];
    float sum = total_of(part);
    for (int j = even; j < width; j++) sum += x[j];
    float mean = sum / (float)width;
    memset(part, 0, sizeof part);
    for (int j = 0; j < even; j += LANES)
        for (int k = 0; k < LANES; k++) part[k] += (x[j + k] - mean) * (x[j + k] - mean);
    float square = total_of(part);
    for (int j = even; j < width; j++) square += (x[j] - mean) * (x[j] - mean);
    float scale = 1.0f / sqrtf(square / (float)width + eps);
    for (int j = 0; j < width; j++) out[j] = (x[j] - mean) * scale;
}

static void modulate(int rows, int width, const float* x, const float* shift, const float* scale,
                     size_t step, float* out) {
    for (int i = 0; i < rows; i++, x += width, shift += step, scale += step, out += width) {
        standardise(width, x, 1e-6f, out);
        for (int j = 0; j < width; j++) out[j] = out[j] * (1.0f + scale[j]) + shift[j];
        standardise(width, out, LN_EPS, out);
    }
}

static void normalise(int rows, int width, const float* x, float* out) {
    for (int i = 0; i < rows; i++, x += width, out += width) standardise(width, x, LN_EPS, out);
}

// 2^t for t <= 0
static inline float power(float t) {
    t = t < -126.0f ? -126.0f : t;
    float rounded = t + 12582912.0f, f = t - (rounded - 12582912.0f);
    float p = EXP2_C6 * f + EXP2_C5;
    p = p * f + EXP2_C4;
    p = p * f + EXP2_C3;
    p = p * f + EXP2_C2;
    p = p * f + EXP2_C1;
    p = p * f + EXP2_C0;
    int32_t bits, whole;
    memcpy(&bits, &p, sizeof bits);
    memcpy(&whole, &rounded, sizeof whole);
    bits = (int32_t)((uint32_t)bits + ((uint32_t)whole << 23));
    memcpy(&p, &bits, sizeof p);
    return p;
}

enum { GROUP = 16, MOST = 16 };  // rows and tokens at a time

#if defined(FIRM_SIMD_avx512)
enum { VEC = 16 };
#elif defined(FIRM_SIMD_avx2)
enum { VEC = 8 };
#else
enum { VEC = 4 };
#endif
typedef float vec __attribute__((vector_size(4 * VEC)));

static inline vec load(const float* p) {
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

// n of its numbers, and zeros
static inline vec load_some(const float* p, int n) {
    float room[VEC] = {0};
    memcpy(room, p, (size_t)n * sizeof *p);
    return load(room);
}

// to[t * GROUP] = x . u of a row and token t
static inline __attribute__((always_inline)) void score(const lewm_mix* a, const int tokens,
                                                        const float* x, const float* u, float* to) {
    const int even = a->width / VEC * VEC, rest = a->width - even;
    vec part[MOST];
#pragma GCC unroll 3
    for (int t = 0; t < tokens; t++)
        part[t] =
            rest ? load_some(x + even, rest) * load_some(u + (size_t)t * a->token_step + even, rest)
                 : (vec){0};
    for (int j = 0; j < even; j += VEC) {
        const vec own = load(x + j);
#pragma GCC unroll 3
        for (int t = 0; t < tokens; t++) part[t] += own * load(u + (size_t)t * a->token_step + j);
    }
#pragma GCC unroll 3
    for (int t = 0; t < tokens; t++) {
        float room[LANES] = {0};
        memcpy(room, &part[t], sizeof part[t]);
        to[t * GROUP] = total_of(room);
    }
}

// Scores become weights by softmax in base 2. A function of its own, so that all rows pass through
// the same instructions.
static __attribute__((noinline)) void soften(int tokens, float scale, float (*weight)[GROUP]) {
    float top[GROUP], sum[GROUP] = {0};
    for (int t = 0; t < tokens; t++)
        for (int i = 0; i < GROUP; i++) weight[t][i] *= scale;
    for (int i = 0; i < GROUP; i++) top[i] = weight[0][i];
    for (int t = 1; t < tokens; t++)
        for (int i = 0; i < GROUP; i++) top[i] = weight[t][i] > top[i] ? weight[t][i] : top[i];
    for (int t = 0; t < tokens; t++)
        for (int i = 0; i < GROUP; i++) {
            // what is not finite must stay so
            weight[t][i] = power(weight[t][i] - top[i]) + 0.0f * weight[t][i];
            sum[i] += weight[t][i];
        }
    for (int t = 0; t < tokens; t++)
        for (int i = 0; i < GROUP; i++) weight[t][i] /= sum[i];
}

// The rows u of `tokens` tokens, mixed by their weights.
static inline __attribute__((always_inline)) void blend(const lewm_mix* a, const int tokens,
                                                        const float* u, const float* weight,
                                                        float* x) {
    const int even = a->width / VEC * VEC, rest = a->width - even;
    for (int j = 0; j < even; j += VEC) {
        vec sum = {0};
#pragma GCC unroll 3
        for (int t = 0; t < tokens; t++) sum += weight[t] * load(u + (size_t)t * a->token_step + j);
        memcpy(x + j, &sum, sizeof sum);
    }
    if (!rest) return;
    vec sum = {0};
    for (int t = 0; t < tokens; t++)
        sum += weight[t] * load_some(u + (size_t)t * a->token_step + even, rest);
    memcpy(x + even, &sum, (size_t)rest * sizeof *x);
}

static inline __attribute__((always_inline)) void mix_group(const lewm_mix* a, const int tokens,
                                                            int rows, const float* u, float* x) {
    float weight[MOST][GROUP] = {{0}};
    for (int i = 0; i < rows; i++)
        score(a, tokens, x + (size_t)(i * a->width), u + (size_t)(i * a->width), &weight[0][i]);
    soften(tokens, 1.44269504f / sqrtf((float)a->head), weight);
    for (int i = 0; i < rows; i++) {
        float own[MOST];
        for (int t = 0; t < tokens; t++) own[t] = weight[t][i];
        blend(a, tokens, u + (size_t)(i * a->width), own, x + (size_t)(i * a->width));
    }
}

static void mix(const lewm_mix* a) {
    for (int i = 0; i < a->rows; i += GROUP) {
        const size_t at = (size_t)(i * a->width);
        const int rows = a->rows - i < GROUP ? a->rows - i : GROUP;
        switch (a->tokens) {
            case 2: mix_group(a, 2, rows, a->u + at, a->x + at); break;
            case 3: mix_group(a, 3, rows, a->u + at, a->x + at); break;
            default: mix_group(a, a->tokens, rows, a->u + at, a->x + at);
        }
    }
}

static void gate(int rows, int width, const float* g, size_t step, const float* y, float* x) {
    for (int i = 0; i < rows; i++, g += step, y += width, x += width)
        for (int j = 0; j < width; j++) x[j] += g[j] * y[j];
}

extern const lewm_rows JOIN(lewm_rows, FIRM_SIMD);
const lewm_rows JOIN(lewm_rows, FIRM_SIMD) = {.name = TEXT(FIRM_SIMD),
                                              .modulate = modulate,
                                              .normalise = normalise,
                                              .mix = mix,
                                              .gate = gate};
