// stats.h - the statistics of the whole program, each in one form: order, mean and deviation,
// quantiles, 95 % intervals, and the hash that tells byte sequences apart.
//
// Not a number (NaN) is never skipped. It sorts last, and a mean, a deviation or a quantile of
// values that hold one is NaN. So is each of them when there are no values.
#ifndef CORE_STATS_H
#define CORE_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

// ---- order --------------------------------------------------------------------------------------

int stats_order(double a, double b);  // -1, 0 or 1: before, equal, after; NaN after all numbers
void stats_sort(double* value, size_t n);  // ascending
void stats_sort_floats(float* value, size_t n);

// ---- location and spread ------------------------------------------------------------------------

double stats_mean(const double* value, int n);
// The value below which a share (0 to 1) of the sorted values lies. Quantile number `share` stands
// at place share * (n - 1), counted from 0, and is interpolated linearly between its neighbours:
// type 7 of Hyndman and Fan ("Sample quantiles in statistical packages", 1996), NumPy's default.
double stats_quantile_sorted(const double* sorted, int n, double share);
double stats_quantile(double* value, int n, double share);  // sorts the values first

// Mean and deviation of values that come one by one (Welford); begin with {0}.
typedef struct stats_tally {
    int n;
    double mean, square;  // square: sum of squared distances from the mean
} stats_tally;
void stats_tally_add(stats_tally* t, double value);
double stats_tally_mean(const stats_tally* t);
double stats_tally_deviation(const stats_tally* t);  // of a sample (n - 1); NaN below 2 values

// ---- intervals ----------------------------------------------------------------------------------

enum { STATS_RESAMPLES = 10000 };

typedef struct stats_interval {  // 95 %, in the unit of the values
    double lo, hi;
} stats_interval;

// Wilson's score interval of a success rate: `share` of n trials succeeded. It has a width also
// where all or none did. NaN without trials.
stats_interval stats_wilson(double share, int n);
// Newcombe's hybrid score interval of the difference of two success rates on the same trials
// (method 10 of "Improved confidence intervals for the difference between binomial proportions
// based on paired data", 1998): trials that both succeeded on, only the first, only the second,
// neither. It has a width also where all trials went the same way. NaN without trials.
stats_interval stats_newcombe(int both, int first, int second, int neither);
// Percentile bootstrap of the mean: the quantiles 0.025 and 0.975 of the means of STATS_RESAMPLES
// resamples. Resample r draws its n values by the key (seed, RNG_BOOTSTRAP, r), so the interval
// depends on nothing that was computed before. Without values: FIRM_E_USAGE.
firm_status stats_bootstrap(const double* value, int n, uint64_t seed, stats_interval* out,
                            firm_error* err);

// ---- hash ---------------------------------------------------------------------------------------

// FNV-1a over bytes, 64 bits; the first call starts with STATS_HASH_START. (Checksums of data files
// are part of their format: data/hdf5.h.)
#define STATS_HASH_START 0xcbf29ce484222325ull
uint64_t stats_hash(uint64_t hash, const void* bytes, size_t n);

#endif
