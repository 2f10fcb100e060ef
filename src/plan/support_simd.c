// support_simd.c - squared distance from one configuration to the nearest of many points, which lie
// coordinate by coordinate; compiled once per instruction set.
#include <math.h>

#define JOIN2(a, b) a##_##b
#define JOIN(a, b) JOIN2(a, b)

enum { LANES = 16 };

// points (dim, count), count a multiple of LANES
float JOIN(plan_support_nearest, FIRM_SIMD)(const float* points, int count, int dim,
                                            const float* c);
float JOIN(plan_support_nearest, FIRM_SIMD)(const float* points, int count, int dim,
                                            const float* c) {
    float best[LANES];
    for (int j = 0; j < LANES; j++) best[j] = INFINITY;
    for (int k = 0; k < count; k += LANES) {
        float sum[LANES] = {0};
        for (int i = 0; i < dim; i++) {
            const float* p = points + (long)i * count + k;
            for (int j = 0; j < LANES; j++) sum[j] += (p[j] - c[i]) * (p[j] - c[i]);
        }
        for (int j = 0; j < LANES; j++) best[j] = sum[j] < best[j] ? sum[j] : best[j];
    }
    float least = best[0];
    for (int j = 1; j < LANES; j++) least = best[j] < least ? best[j] : least;
    return least;
}
