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

static inline float dot(int n, const float* a, const float* b) {
    int even = n / LANES * LANES;
    float part[LANES] = {0};
    for (int j = 0; j < even; j += LANES)
        for (int k = 0; k < LANES; k++) part[k] += a[j + k] * b[j + k];
    float sum = total_of(part);
    for (int j = even; j < n; j++) sum += a[j] * b[j];
    return sum;
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

static inline void attend_head(const lewm_attend* a, const float* q, const float* k, const float* v,
                               float* out) {
    enum { MOST = 16 };
    float weight[MOST], top = -INFINITY, sum = 0;
    // softmax in base 2
    const float scale = 1.44269504f / sqrtf((float)a->head);
    for (int t = 0; t < a->tokens; t++) {
        weight[t] = scale * dot(a->head, q, k + (size_t)t * a->token_step);
        top = weight[t] > top ? weight[t] : top;
    }
    for (int t = 0; t < a->tokens; t++) {
        // what is not finite must stay so
        weight[t] = power(weight[t] - top) + 0.0f * weight[t];
        sum += weight[t];
    }
    for (int t = 0; t < a->tokens; t++) {
        const float w = weight[t] / sum, *from = v + (size_t)t * a->token_step;
        for (int j = 0; j < a->head; j++) out[j] = (t ? out[j] : 0.0f) + w * from[j];
    }
}

static void attend(const lewm_attend* a) {
    const int inner = a->heads * a->head;
    for (int i = 0; i < a->rows; i++)
        for (int h = 0; h < a->heads; h++) {
            const float* k = a->kv + (size_t)i * 2 * (size_t)inner + (size_t)(h * a->head);
            const size_t at = (size_t)(h * a->head);
            attend_head(a, a->q + (size_t)i * (size_t)inner + at, k, k + inner,
                        a->out + (size_t)i * a->out_step + at);
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
                                              .attend = attend,
                                              .gate = gate};
