// rng.h - Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011):
// randomness as a pure function of (seed, stream, index).
//
// A batch, a noise sample or an initial weight depends on its key alone, never on thread count,
// device or order. `stream` is RNG_STREAM(purpose, sub): the purpose is one of the list below,
// `sub` tells instances of it apart (an episode, a solve, a training stage).
#ifndef CORE_RNG_H
#define CORE_RNG_H

#include <stdint.h>

#include "core/anywhere.h"

typedef enum rng_purpose {
    RNG_COLLECT = 1,  // sub: episode
    RNG_SPLIT,        // train/validation split
    RNG_SEGMENT,      // factual segments
    RNG_ANCHOR,       // intervention anchors
    RNG_BRANCH,       // sub: anchor * branches + branch
    RNG_INIT,         // sub: hash of the parameter's name
    RNG_BATCH,        // sub: training stage
    RNG_PLAN,         // sub: solve number
    RNG_TRIAL,        // evaluation trials
    RNG_BOOTSTRAP,
    RNG_ARM,        // sub: trial; the random arm
    RNG_TEST,       // of the tests
    RNG_DROPOUT,    // sub: node of the graph
    RNG_DIRECTIONS  // sub: node of the graph; random directions of SIGReg
} rng_purpose;

#define RNG_STREAM(purpose, sub) (((uint64_t)(purpose) << 48) ^ (uint64_t)(sub))

// Four independent 32-bit words for one key.
ANYWHERE void rng_block(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4]) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32);
    uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

// Uniform in (0, 1), never 0 or 1: 23 bits and a half fill a float's 24-bit mantissa exactly; one
// bit more would round up to 1.
ANYWHERE float rng_unit(uint32_t word) {
    return ((float)(word >> 9) + 0.5f) * (1.0f / 8388608.0f);
}

void rng_normal4(const uint32_t words[4], float out[4]);  // four standard normals (Box-Muller)

// Fills out[0..n) with standard normals for indices first .. first + n - 1 of the stream;
// first must be a multiple of 4.
void rng_fill_normal(uint64_t seed, uint64_t stream, uint64_t first, float* out, int64_t n);

// Sequential reading of one stream, for code that draws an unknown number of values.
typedef struct rng {
    uint64_t seed, stream, index;
    uint32_t word[4];
    int left;
    float spare;
    int has_spare;
} rng;

rng rng_start(uint64_t seed, uint64_t stream);
uint32_t rng_u32(rng* r);
uint32_t rng_below(rng* r, uint32_t n);            // uniform in 0 .. n - 1, without bias
double rng_uniform(rng* r, double lo, double hi);  // 53 bits
float rng_gauss(rng* r);
void rng_shuffle(rng* r, int* items, int n);

uint64_t rng_hash_text(const char* text);  // stats_hash() of a name, for stream numbers

#endif
