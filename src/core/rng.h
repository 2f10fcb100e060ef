// rng.h - Philox 4x32-10: randomness as a pure function of (seed, stream, index).
//
// A batch, a noise sample or an initial weight depends on its key alone, never on thread count,
// device or order. `stream` is RNG_STREAM(purpose, sub): the purpose is one of the list below,
// `sub` tells instances of it apart (an episode, a solve, a training stage).
#ifndef CORE_RNG_H
#define CORE_RNG_H

#include <stdint.h>

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
    RNG_ARM,  // sub: trial; the random arm
    RNG_TEST
} rng_purpose;

#define RNG_STREAM(purpose, sub) (((uint64_t)(purpose) << 48) ^ (uint64_t)(sub))

// Four independent 32-bit words for one key.
void rng_block(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4]);

float rng_unit(uint32_t word);  // uniform in (0, 1), 23 bits, never 0 or 1
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

uint64_t rng_hash_text(const char* text);  // FNV-1a, for stream numbers from names

#endif
