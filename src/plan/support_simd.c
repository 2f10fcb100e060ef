// support_simd.c - squared distance from one configuration to the nearest of many points, which lie
// coordinate by coordinate; compiled once per instruction set.
#include <math.h>

#define JOIN2(a, b) a##_##b
#define JOIN(a, b) JOIN2(a, b)

enum { LANES = 16, BLOCK = 4 * LANES };

// points (dim, count), count a multiple of LANES. Points are taken in blocks, from the block at *at
// on and around; a distance of `enough` or less ends the search, and *at is where it was found.
float JOIN(plan_support_nearest, FIRM_SIMD)(const float* points, int count, int dim, const float* c,
                                            float enough, int* at);
float JOIN(plan_support_nearest, FIRM_SIMD)(const float* points, int count, int dim, const float* c,
                                            float enough, int* at) {
    float best[LANES], least = INFINITY;
    for (int j = 0; j < LANES; j++) best[j] = INFINITY;
    for (int done = 0, from = *at; done < count; from = from + BLOCK < count ? from + BLOCK : 0) {
        int to = from + BLOCK < count ? from + BLOCK : count;
        for (int k = from; k < to; k += LANES) {
            float sum[LANES] = {0};
            for (int i = 0; i < dim; i++) {
                const float* p = points + (long)i * count + k;
                for (int j = 0; j < LANES; j++) sum[j] += (p[j] - c[i]) * (p[j] - c[i]);
            }
            for (int j = 0; j < LANES; j++) best[j] = sum[j] < best[j] ? sum[j] : best[j];
        }
        done += to - from;
        for (int j = 0; j < LANES; j++) least = best[j] < least ? best[j] : least;
        *at = from;
        if (least <= enough) break;
    }
    return least;
}
