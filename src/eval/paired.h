// paired.h - what an evaluation may claim: bootstrap intervals of rates, and differences between
// arms that ran the same trials.
#ifndef EVAL_PAIRED_H
#define EVAL_PAIRED_H

#include <stdint.h>

#include "core/status.h"

enum { BOOTSTRAP_RESAMPLES = 10000 };

// All rates and intervals are in percent.
typedef struct paired_interval {
    double mean, lo, hi;  // 95 % percentile interval
} paired_interval;

typedef struct paired_difference {
    double difference, lo, hi;  // a - b
    int rescue;                 // a succeeded where b failed
    int harm;                   // b succeeded where a failed
} paired_difference;

// Interval of the mean of n values (1: success, 0: failure) by resampling trials.
firm_status paired_rate(const int8_t* value, int n, uint64_t seed, int resamples,
                        paired_interval* out, firm_error* err);
// Difference of two arms' success, resampling trials and keeping each trial's two outcomes
// together. hash_a, hash_b (n): the trials' hashes as each arm saw them; FIRM_E_USAGE if the arms
// ran other trials.
firm_status paired_compare(const int8_t* a, const int8_t* b, const uint64_t* hash_a,
                           const uint64_t* hash_b, int n, uint64_t seed, int resamples,
                           paired_difference* out, firm_error* err);

#endif
