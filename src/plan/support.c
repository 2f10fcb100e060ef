// support.c - keeps the search of the reach mode where the model knows its way.
#include "plan/support.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/simd.h"

enum { LANES = 16, BETWEEN = 3 };  // points looked at on the way from one macro step to the next

typedef float nearest_fn(const float* points, int count, int dim, const float* c, float enough,
                         int* at);
nearest_fn plan_support_nearest_plain;
#if defined(__x86_64__)
nearest_fn plan_support_nearest_avx2, plan_support_nearest_avx512;
#elif defined(__aarch64__)
nearest_fn plan_support_nearest_neon;
#endif

struct plan_support {
    int count, dim, pairs;  // count rounded up to LANES by repeating the last point
    float radius, inside;   // squared distance that surely is within the radius
    float* points;          // (dim, count)
    nearest_fn* nearest;
};

static nearest_fn* choose(void) {
#if defined(__x86_64__)
    switch (simd_best()) {
        case SIMD_AVX512: return plan_support_nearest_avx512;
        case SIMD_AVX2: return plan_support_nearest_avx2;
        default: break;
    }
#elif defined(__aarch64__)
    if (simd_best() == SIMD_NEON) return plan_support_nearest_neon;
#endif
    return plan_support_nearest_plain;
}

firm_status plan_support_create(const float* points, int count, int dim, int pairs, float radius,
                                plan_support** out, firm_error* err) {
    *out = NULL;
    int rounded = (count + LANES - 1) / LANES * LANES;
    plan_support* s = mem_calloc(1, sizeof *s);
    if (s) s->points = mem_calloc((size_t)rounded * (size_t)dim, sizeof *s->points);
    if (!s || !s->points) {
        mem_free(s);
        return FAIL(err, FIRM_E_MEMORY, "no memory for %d support points", count);
    }
    s->count = rounded;
    s->dim = dim;
    s->pairs = pairs;
    s->radius = radius;
    s->inside = (1 - 1e-5f) * radius * radius;
    s->nearest = choose();
    for (int k = 0; k < rounded; k++)
        for (int i = 0; i < dim; i++)
            s->points[(size_t)i * (size_t)rounded + (size_t)k] =
                points[(k < count ? k : count - 1) * dim + i];
    *out = s;
    return FIRM_OK;
}

void plan_support_free(plan_support* s) {
    if (!s) return;
    mem_free(s->points);
    mem_free(s);
}

// Inside one point will do, and that of the step before is most often near: *at is where to look
// first. The answer does not depend on it.
static float outside(const plan_support* s, const float* c, int* at) {
    float d = sqrtf(s->nearest(s->points, s->count, s->dim, c, s->inside, at)) / s->radius - 1.0f;
    return d > 0.0f ? d : 0.0f;
}

float plan_support_radii(const plan_support* s, const float* c) {
    int at = 0;
    return sqrtf(s->nearest(s->points, s->count, s->dim, c, 0.0f, &at)) / s->radius;
}

float plan_support_stray(const plan_support* s, const float* c0, const float* path, int steps) {
    float total = 0.0f;
    int at = 0;
    for (int k = 0; k < steps; k++) {
        const float *from = k ? path + (k - 1) * s->dim : c0, *to = path + k * s->dim;
        float worst = outside(s, to, &at);
        // a straight way between sines and cosines leaves the circle, so only plain positions
        for (int j = 1; j <= BETWEEN && s->pairs == 0; j++) {
            float c[FIRM_MAX_CONFIG], f = (float)j / (BETWEEN + 1);
            for (int i = 0; i < s->dim; i++) c[i] = from[i] + f * (to[i] - from[i]);
            float d = outside(s, c, &at);
            if (d > worst) worst = d;
        }
        total += worst < 4.0f ? worst : 4.0f;
    }
    return total;
}
