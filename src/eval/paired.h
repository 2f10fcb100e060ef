// paired.h - differences in success between two arms that ran the same trials. (The interval of one
// arm's rate is Wilson's: stats_wilson() in core/stats.h.)
#ifndef EVAL_PAIRED_H
#define EVAL_PAIRED_H

#include <stdint.h>

#include "core/status.h"

typedef struct paired_arm {
    const int8_t* success;  // (n) 1: reached, 0: missed
    const uint64_t* hash;   // (n) of the trials as this arm met them
} paired_arm;

typedef struct paired_difference {
    double difference, lo, hi;  // a - b in points, with its 95 % interval
    int rescue;                 // a succeeded where b failed
    int harm;                   // b succeeded where a failed
} paired_difference;

// The interval is Newcombe's (stats_newcombe() in core/stats.h). FIRM_E_USAGE if the arms ran other
// trials, or none.
firm_status paired_compare(const paired_arm* a, const paired_arm* b, int n, paired_difference* out,
                           firm_error* err);

#endif
