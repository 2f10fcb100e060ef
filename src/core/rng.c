// rng.c - normals and sequential reading on top of rng.h's Philox words.
#include "core/rng.h"

#include <math.h>
#include <string.h>

#include "core/stats.h"
#include "core/status.h"

void rng_normal4(const uint32_t words[4], float out[4]) {
    for (int i = 0; i < 4; i += 2) {
        float radius = sqrtf(-2.0f * logf(rng_unit(words[i])));
        float angle = 6.283185307f * rng_unit(words[i + 1]);
        out[i] = radius * cosf(angle);
        out[i + 1] = radius * sinf(angle);
    }
}

void rng_fill_normal(uint64_t seed, uint64_t stream, uint64_t first, float* out, int64_t n) {
    for (int64_t i = 0; i < n; i += 4) {
        uint32_t words[4];
        float four[4];
        rng_block(seed, stream, (first + (uint64_t)i) / 4, words);
        rng_normal4(words, four);
        for (int64_t j = 0; j < 4 && i + j < n; j++) out[i + j] = four[j];
    }
}

rng rng_start(uint64_t seed, uint64_t stream) {
    return (rng){.seed = seed, .stream = stream};
}

uint32_t rng_u32(rng* r) {
    if (r->left == 0) {
        rng_block(r->seed, r->stream, r->index++, r->word);
        r->left = 4;
    }
    return r->word[4 - r->left--];
}

uint32_t rng_below(rng* r, uint32_t n) {
    CHECK(n > 0, "rng_below(0): there is no number below 0");
    // reject the top partial range so that every value is equally likely
    uint32_t limit = UINT32_MAX - UINT32_MAX % n;
    uint32_t x;
    do x = rng_u32(r);
    while (x >= limit);
    return x % n;
}

double rng_uniform(rng* r, double lo, double hi) {
    uint64_t high = rng_u32(r) >> 5, low = rng_u32(r) >> 6;  // 27 + 26 bits
    return lo + (hi - lo) * ((double)((high << 26) | low) / 9007199254740992.0);
}

float rng_gauss(rng* r) {
    if (r->has_spare) {
        r->has_spare = 0;
        return r->spare;
    }
    float u = rng_unit(rng_u32(r)), v = rng_unit(rng_u32(r));
    float radius = sqrtf(-2.0f * logf(u)), angle = 6.283185307f * v;
    r->spare = radius * sinf(angle);
    r->has_spare = 1;
    return radius * cosf(angle);
}

void rng_shuffle(rng* r, int* items, int n) {
    for (int i = n - 1; i > 0; i--) {
        int j = (int)rng_below(r, (uint32_t)i + 1);
        int keep = items[i];
        items[i] = items[j];
        items[j] = keep;
    }
}

uint64_t rng_hash_text(const char* text) {
    return stats_hash(STATS_HASH_START, text, strlen(text));
}
