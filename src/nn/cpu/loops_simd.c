// loops_simd.c - plain C loops that the compiler vectorises; built once per instruction set (see
// cmake/folders.cmake). Sums run in a fixed order per build, so one machine always gives the same
// bits.
#include <math.h>
#include <string.h>

#include "nn/cpu/loops.h"

#define JOIN2(a, b) a##_##b
#define JOIN(a, b) JOIN2(a, b)

enum { LANES = 16 };  // independent partial sums: fixes the order and lets the compiler vectorise

// e^x to about 2 ulp, branch-free so that it vectorises
static inline float exp_fast(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    float r =
        x * 1.44269504f + 12582912.0f;  // round to nearest through the magic number 1.5 * 2^23
    int32_t i;
    memcpy(&i, &r, sizeof i);
    r -= 12582912.0f;
    float f = x - r * 0.693359375f + r * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * f + 1.3981999507e-3f;
    p = p * f + 8.3334519073e-3f;
    p = p * f + 4.1665795894e-2f;
    p = p * f + 1.6666665459e-1f;
    p = p * f + 5.0000001201e-1f;
    p = p * f * f + f + 1.0f;
    uint32_t bits = (uint32_t)(i - 0x4B400000 + 127) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

// 0.5 (1 + tanh(0.79788456 (x + 0.044715 x^3))) as a logistic function
static inline float gelu_gate(float x) {
    float z = 1.5957691216f * (x + 0.044715f * x * x * x);
    return 1.0f / (1.0f + exp_fast(-z));
}

static void fill_rows(int64_t rows, int width, const float* bias, float* out) {
    for (int64_t i = 0; i < rows; i++) memcpy(out + i * width, bias, (size_t)width * sizeof *out);
}

static void sum_rows(int64_t rows, int width, const float* x, float* total) {
    for (int64_t i = 0; i < rows; i++) {
        const float* row = x + i * width;
        for (int j = 0; j < width; j++) total[j] += row[j];
    }
}

static void gelu(int64_t n, const float* restrict x, float* restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * gelu_gate(x[i]);
}

static inline float gelu_slope(float x) {
    float s = gelu_gate(x);
    return s + x * s * (1.0f - s) * 1.5957691216f * (1.0f + 0.134145f * x * x);
}

static void gelu_back(int64_t n, const float* restrict x, const float* restrict dy,
                      float* restrict dx, int add) {
    if (add)
        for (int64_t i = 0; i < n; i++) dx[i] += dy[i] * gelu_slope(x[i]);
    else
        for (int64_t i = 0; i < n; i++) dx[i] = dy[i] * gelu_slope(x[i]);
}

// erf to about 2 ulp, branch-free: a rational function of x on [-4, 4], beyond which it is 1
static inline float erf_fast(float x) {
    x = x < -4.0f ? -4.0f : x;
    x = x > 4.0f ? 4.0f : x;
    float z = x * x;
    float p = -2.72614225801306e-10f;
    p = p * z + 2.77068142495902e-08f;
    p = p * z - 2.10102402082508e-06f;
    p = p * z - 5.69250639462346e-05f;
    p = p * z - 7.34990630326855e-04f;
    p = p * z - 2.95459980854025e-03f;
    p = p * z - 1.60960333262415e-02f;
    float q = -1.45660718464996e-05f;
    q = q * z - 2.13374055278905e-04f;
    q = q * z - 1.68282697438203e-03f;
    q = q * z - 7.37332916720468e-03f;
    q = q * z - 1.42647390514189e-02f;
    return x * p / q;
}

static inline float normal_below(float x) {
    return 0.5f + 0.5f * erf_fast(x * 0.70710678f);
}

static void erfgelu(int64_t n, const float* restrict x, float* restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * normal_below(x[i]);
}

static void erfgelu_back(int64_t n, const float* restrict x, const float* restrict dy,
                         float* restrict dx, int add) {
    float keep = add ? 1.0f : 0.0f;
    if (!add) memset(dx, 0, (size_t)n * sizeof *dx);  // what was there need not be a number
    for (int64_t i = 0; i < n; i++) {
        float density = 0.39894228f * exp_fast(-0.5f * x[i] * x[i]);
        dx[i] = keep * dx[i] + dy[i] * (normal_below(x[i]) + x[i] * density);
    }
}

static void silu(int64_t n, const float* restrict x, float* restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] / (1.0f + exp_fast(-x[i]));
}

static void silu_back(int64_t n, const float* restrict x, const float* restrict dy,
                      float* restrict dx, int add) {
    float keep = add ? 1.0f : 0.0f;
    if (!add) memset(dx, 0, (size_t)n * sizeof *dx);
    for (int64_t i = 0; i < n; i++) {
        float s = 1.0f / (1.0f + exp_fast(-x[i]));
        dx[i] = keep * dx[i] + dy[i] * s * (1.0f + x[i] * (1.0f - s));
    }
}

static void axpby(int64_t n, float alpha, const float* a, float beta, const float* b,
                  float* restrict y) {
    for (int64_t i = 0; i < n; i++) y[i] = alpha * a[i] + beta * b[i];
}

static void scaled(int64_t n, float alpha, const float* restrict a, float* restrict y, int add) {
    if (add)
        for (int64_t i = 0; i < n; i++) y[i] += alpha * a[i];
    else
        for (int64_t i = 0; i < n; i++) y[i] = alpha * a[i];
}

static void product(int64_t n, const float* a, const float* b, float* restrict y, int add) {
    if (add)
        for (int64_t i = 0; i < n; i++) y[i] += a[i] * b[i];
    else
        for (int64_t i = 0; i < n; i++) y[i] = a[i] * b[i];
}

static inline float total_of(const float* part) {
    float sum = 0;
    for (int j = 0; j < LANES; j++) sum += part[j];
    return sum;
}

// mean and 1/deviation of a row
static inline void row_stats(const float* row, int width, float eps, float* stat) {
    int even = width / LANES * LANES;
    float part[LANES] = {0};
    for (int j = 0; j < even; j += LANES)
        for (int k = 0; k < LANES; k++) part[k] += row[j + k];
    float sum = total_of(part);
    for (int j = even; j < width; j++) sum += row[j];
    float mean = sum / (float)width;
    memset(part, 0, sizeof part);
    for (int j = 0; j < even; j += LANES)
        for (int k = 0; k < LANES; k++) part[k] += (row[j + k] - mean) * (row[j + k] - mean);
    float square = total_of(part);
    for (int j = even; j < width; j++) square += (row[j] - mean) * (row[j] - mean);
    stat[0] = mean;
    stat[1] = 1.0f / sqrtf(square / (float)width + eps);
}

static void layernorm(int64_t rows, int width, const float* x, const float* gamma,
                      const float* beta, float eps, float* y, float* stat) {
    for (int64_t i = 0; i < rows; i++) {
        const float* row = x + i * width;
        row_stats(row, width, eps, stat + 2 * i);
        float *out = y + i * width, mean = stat[2 * i], rstd = stat[2 * i + 1];
        for (int j = 0; j < width; j++) out[j] = (row[j] - mean) * rstd * gamma[j] + beta[j];
    }
}

static void standardise(int64_t rows, int width, const float* x, float eps, float* y, float* stat) {
    for (int64_t i = 0; i < rows; i++) {
        const float* row = x + i * width;
        row_stats(row, width, eps, stat + 2 * i);
        float *out = y + i * width, mean = stat[2 * i], rstd = stat[2 * i + 1];
        for (int j = 0; j < width; j++) out[j] = (row[j] - mean) * rstd;
    }
}

// s1 and s2: means over the row of g and of g times the normalised x
static void adanorm_back(int64_t rows, int width, const float* x, const float* scale,
                         const float* stat, const float* dy, float* dx, int add) {
    for (int64_t i = 0; i < rows; i++) {
        const float *row = x + i * width, *g = dy + i * width, *by = scale + i * width;
        float mean = stat[2 * i], rstd = stat[2 * i + 1], s1 = 0, s2 = 0;
        for (int j = 0; j < width; j++) {
            float d = g[j] * (1.0f + by[j]);
            s1 += d;
            s2 += d * (row[j] - mean) * rstd;
        }
        s1 /= (float)width;
        s2 /= (float)width;
        float* out = dx + i * width;
        for (int j = 0; j < width; j++) {
            float d = rstd * (g[j] * (1.0f + by[j]) - s1 - (row[j] - mean) * rstd * s2);
            out[j] = add ? out[j] + d : d;
        }
    }
}

static void layernorm_back(int64_t rows, int width, const float* x, const float* gamma,
                           const float* stat, const float* dy, float* dx, int add, float* dgamma,
                           float* dbeta) {
    int even = width / LANES * LANES;
    for (int64_t i = 0; i < rows; i++) {
        const float *row = x + i * width, *g = dy + i * width;
        float mean = stat[2 * i], rstd = stat[2 * i + 1];
        float part1[LANES] = {0}, part2[LANES] = {0};
        for (int j = 0; j < even; j += LANES) {
            for (int k = 0; k < LANES; k++) {
                float d = g[j + k] * gamma[j + k];
                part1[k] += d;
                part2[k] += d * (row[j + k] - mean) * rstd;
            }
        }
        float s1 = total_of(part1), s2 = total_of(part2);
        for (int j = even; j < width; j++) {
            s1 += g[j] * gamma[j];
            s2 += g[j] * gamma[j] * (row[j] - mean) * rstd;
        }
        s1 /= (float)width;
        s2 /= (float)width;
        if (dx) {
            float* out = dx + i * width;
            if (add)
                for (int j = 0; j < width; j++)
                    out[j] += rstd * (g[j] * gamma[j] - s1 - (row[j] - mean) * rstd * s2);
            else
                for (int j = 0; j < width; j++)
                    out[j] = rstd * (g[j] * gamma[j] - s1 - (row[j] - mean) * rstd * s2);
        }
        if (dgamma)
            for (int j = 0; j < width; j++) dgamma[j] += g[j] * (row[j] - mean) * rstd;
        if (dbeta)
            for (int j = 0; j < width; j++) dbeta[j] += g[j];
    }
}

// float sums over short runs of positions, then double: as exact as needed, and vectorised
static void channel_sums(int64_t positions, int channels, const float* x, const float* y,
                         double* sum_x, double* sum_xy) {
    enum { RUN = 16, WIDEST = 256 };
    float a[WIDEST], b[WIDEST];
    for (int from = 0; from < channels; from += WIDEST) {
        int c = channels - from < WIDEST ? channels - from : WIDEST;
        for (int64_t p = 0; p < positions; p += RUN) {
            int64_t end = p + RUN < positions ? p + RUN : positions;
            memset(a, 0, (size_t)c * sizeof *a);
            memset(b, 0, (size_t)c * sizeof *b);
            for (int64_t q = p; q < end; q++) {
                const float *u = x + q * channels + from, *v = y + q * channels + from;
                for (int j = 0; j < c; j++) {
                    a[j] += u[j];
                    b[j] += u[j] * v[j];
                }
            }
            for (int j = 0; j < c; j++) {
                sum_x[from + j] += (double)a[j];
                sum_xy[from + j] += (double)b[j];
            }
        }
    }
}

static void channel_affine(int64_t positions, int channels, const float* x, const float* scale,
                           const float* z, const float* slope, const float* shift, float* y,
                           int add) {
    for (int64_t p = 0; p < positions; p++) {
        const float* u = x + p * channels;
        const float* w = z ? z + p * channels : NULL;
        float* out = y + p * channels;
        if (!w)
            for (int j = 0; j < channels; j++) out[j] = u[j] * scale[j] + shift[j];
        else if (add)
            for (int j = 0; j < channels; j++)
                out[j] += u[j] * scale[j] + w[j] * slope[j] + shift[j];
        else
            for (int j = 0; j < channels; j++)
                out[j] = u[j] * scale[j] + w[j] * slope[j] + shift[j];
    }
}

static void softmax(int n, float* row, const uint8_t* mask, float scale) {
    float top = -INFINITY;
    for (int j = 0; j < n; j++) {
        row[j] = !mask || mask[j] ? row[j] * scale : -INFINITY;
        top = row[j] > top ? row[j] : top;
    }
    if (top == -INFINITY) {
        memset(row, 0, (size_t)n * sizeof *row);
        return;
    }
    for (int j = 0; j < n; j++) row[j] = !mask || mask[j] ? exp_fast(row[j] - top) : 0.0f;
    float sum = 0;
    for (int j = 0; j < n; j++) sum += row[j];
    float inverse = 1.0f / sum;
    for (int j = 0; j < n; j++) row[j] *= inverse;
}

static void softmax_back(int n, const float* p, float* dp, float scale) {
    float dot = 0;
    for (int j = 0; j < n; j++) dot += p[j] * dp[j];
    for (int j = 0; j < n; j++) dp[j] = p[j] * (dp[j] - dot) * scale;
}

static double square_sum(int64_t n, const float* x) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum;
}

static void adamw(int64_t n, float* restrict w, const float* restrict g, float* restrict m,
                  float* restrict v, float grad_scale, float beta1, float beta2, float step,
                  float correction2, float eps, float decay) {
    for (int64_t i = 0; i < n; i++) {
        float d = g[i] * grad_scale;
        m[i] = beta1 * m[i] + (1.0f - beta1) * d;
        v[i] = beta2 * v[i] + (1.0f - beta2) * d * d;
        w[i] = w[i] * decay - step * m[i] / (sqrtf(v[i] * correction2) + eps);
    }
}

// ---- images -------------------------------------------------------------------------------------

#define CHANGE_LEVELS 8  // a pixel counts as changed if a channel moved by more than this

// Where row y of patch (gy, gx) begins in an image: p pixels lie together.
static inline int64_t run_at(int size, int p, int gy, int gx, int y) {
    return ((int64_t)(gy * p + y) * size + gx * p) * 3;
}

static void patches(int64_t images, int size, int p, const uint8_t* in, float table[3][256],
                    float* restrict out) {
    const int grid = size / p;
    for (int64_t i = 0; i < images; i++, in += (int64_t)size * size * 3)
        for (int gy = 0; gy < grid; gy++)
            for (int gx = 0; gx < grid; gx++)
                for (int y = 0; y < p; y++) {
                    const uint8_t* run = in + run_at(size, p, gy, gx, y);
                    for (int j = 0; j < 3 * p; j += 3) {
                        *out++ = table[0][run[j]];
                        *out++ = table[1][run[j + 1]];
                        *out++ = table[2][run[j + 2]];
                    }
                }
}

static void patchdiff(int64_t images, int size, int p, const uint8_t* now, const uint8_t* before,
                      const float scale[3], float* restrict out) {
    const int grid = size / p;
    const int64_t bytes = (int64_t)size * size * 3;
    for (int64_t i = 0; i < images; i++, now += bytes, before += bytes)
        for (int gy = 0; gy < grid; gy++)
            for (int gx = 0; gx < grid; gx++)
                for (int y = 0; y < p; y++) {
                    const int64_t at = run_at(size, p, gy, gx, y);
                    for (int j = 0; j < 3 * p; j += 3)
                        for (int ch = 0; ch < 3; ch++)
                            *out++ = (float)(now[at + j + ch] - before[at + j + ch]) * scale[ch];
                }
}

static void patchmask(int64_t images, int size, int p, const uint8_t* now, const uint8_t* before,
                      float* restrict out) {
    const int grid = size / p;
    const int64_t bytes = (int64_t)size * size * 3;
    for (int64_t i = 0; i < images; i++, now += bytes, before += bytes)
        for (int gy = 0; gy < grid; gy++)
            for (int gx = 0; gx < grid; gx++)
                for (int y = 0; y < p; y++) {
                    int64_t at = run_at(size, p, gy, gx, y);
                    for (int x = 0; x < p; x++, at += 3) {
                        int changed = 0;
                        for (int ch = 0; ch < 3; ch++) {
                            const int d = now[at + ch] - before[at + ch];
                            changed |= (d > CHANGE_LEVELS) | (d < -CHANGE_LEVELS);
                        }
                        *out++ = (float)changed;
                    }
                }
}

#define STRING2(x) #x
#define STRING(x) STRING2(x)

extern const nn_loops JOIN(nn_loops, FIRM_SIMD);
const nn_loops JOIN(nn_loops, FIRM_SIMD) = {
    .name = STRING(FIRM_SIMD),
    .fill_rows = fill_rows,
    .sum_rows = sum_rows,
    .gelu = gelu,
    .gelu_back = gelu_back,
    .erfgelu = erfgelu,
    .erfgelu_back = erfgelu_back,
    .silu = silu,
    .silu_back = silu_back,
    .axpby = axpby,
    .scaled = scaled,
    .product = product,
    .layernorm = layernorm,
    .standardise = standardise,
    .layernorm_back = layernorm_back,
    .adanorm_back = adanorm_back,
    .channel_sums = channel_sums,
    .channel_affine = channel_affine,
    .softmax = softmax,
    .softmax_back = softmax_back,
    .square_sum = square_sum,
    .adamw = adamw,
    .patches = patches,
    .patchdiff = patchdiff,
    .patchmask = patchmask,
};
