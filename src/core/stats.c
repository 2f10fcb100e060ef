// stats.c - see stats.h. Sums run in the order of the values, so equal input gives equal bits.
#include "core/stats.h"

#include <math.h>
#include <stdlib.h>

#include "core/mem.h"
#include "core/rng.h"

// ---- order --------------------------------------------------------------------------------------

int stats_order(double a, double b) {
    if (isnan(a) || isnan(b)) return (isnan(a) != 0) - (isnan(b) != 0);
    return (a > b) - (a < b);
}

static int by_value(const void* a, const void* b) {
    return stats_order(*(const double*)a, *(const double*)b);
}

static int by_float(const void* a, const void* b) {
    return stats_order((double)*(const float*)a, (double)*(const float*)b);
}

void stats_sort(double* value, size_t n) {
    if (n) qsort(value, n, sizeof *value, by_value);
}

void stats_sort_floats(float* value, size_t n) {
    if (n) qsort(value, n, sizeof *value, by_float);
}

// ---- location and spread ------------------------------------------------------------------------

double stats_mean(const double* value, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += value[i];
    return n > 0 ? sum / n : NAN;
}

void stats_tally_add(stats_tally* t, double value) {
    double before = value - t->mean;
    t->n++;
    t->mean += before / t->n;
    t->square += before * (value - t->mean);
}

double stats_tally_mean(const stats_tally* t) {
    return t->n > 0 ? t->mean : NAN;
}

double stats_tally_deviation(const stats_tally* t) {
    return t->n > 1 ? sqrt(t->square / (t->n - 1)) : NAN;
}

double stats_quantile_sorted(const double* sorted, int n, double share) {
    if (n < 1 || isnan(share) || isnan(sorted[n - 1])) return NAN;  // NaN sorts last
    double at = share * (n - 1);
    if (!(at > 0)) return sorted[0];
    if (at >= n - 1) return sorted[n - 1];
    int low = (int)at;
    // equal neighbours, infinite ones too, need no arithmetic
    if (at == low || sorted[low] == sorted[low + 1]) return sorted[low];
    return sorted[low] + (at - low) * (sorted[low + 1] - sorted[low]);
}

double stats_quantile(double* value, int n, double share) {
    if (n < 1) return NAN;
    stats_sort(value, (size_t)n);
    return stats_quantile_sorted(value, n, share);
}

// ---- intervals ----------------------------------------------------------------------------------

stats_interval stats_wilson(double share, int n) {
    const double z = 1.959963984540054;  // 97.5 % of the normal distribution lie below it
    if (n < 1 || isnan(share)) return (stats_interval){NAN, NAN};
    double spare = z * z / n, middle = share + spare / 2;
    double half = z * sqrt(share * (1 - share) / n + spare / (4 * n));
    // rounding must not move the end that is known
    double lo = share <= 0 ? 0 : (middle - half) / (1 + spare);
    double hi = share >= 1 ? 1 : (middle + half) / (1 + spare);
    return (stats_interval){lo, hi};
}

// Correlation of the two outcomes, corrected for continuity where it is positive; 0 where one of
// them never varies.
static double outcome_correlation(double both, double first, double second, double neither) {
    double n = both + first + second + neither, cross = both * neither - first * second;
    double margins = (both + first) * (second + neither) * (both + second) * (first + neither);
    if (margins <= 0) return 0;
    if (cross > 0) cross = fmax(cross - n / 2, 0);
    return cross / sqrt(margins);
}

stats_interval stats_newcombe(int both, int first, int second, int neither) {
    int n = both + first + second + neither;
    if (n < 1) return (stats_interval){NAN, NAN};
    double p = (both + first) / (double)n, q = (both + second) / (double)n;
    stats_interval a = stats_wilson(p, n), b = stats_wilson(q, n);
    double r = outcome_correlation(both, first, second, neither);
    double down = p - a.lo, up = a.hi - p, other_down = q - b.lo, other_up = b.hi - q;
    double low = down * down - 2 * r * down * other_up + other_up * other_up;
    double high = up * up - 2 * r * up * other_down + other_down * other_down;
    return (stats_interval){p - q - sqrt(fmax(low, 0)), p - q + sqrt(fmax(high, 0))};
}

firm_status stats_bootstrap(const double* value, int n, uint64_t seed, stats_interval* out,
                            firm_error* err) {
    *out = (stats_interval){NAN, NAN};
    if (n < 1)
        return FAIL(err, FIRM_E_USAGE, "an interval needs at least 1 value; there are %d", n);
    double* mean = mem_calloc(STATS_RESAMPLES, sizeof *mean);
    if (!mean) return FAIL(err, FIRM_E_MEMORY, "no memory for %d resamples", STATS_RESAMPLES);
    for (int r = 0; r < STATS_RESAMPLES; r++) {
        rng draw = rng_start(seed, RNG_STREAM(RNG_BOOTSTRAP, r));
        for (int i = 0; i < n; i++) mean[r] += value[rng_below(&draw, (uint32_t)n)];
        mean[r] /= n;
    }
    stats_sort(mean, STATS_RESAMPLES);
    out->lo = stats_quantile_sorted(mean, STATS_RESAMPLES, 0.025);
    out->hi = stats_quantile_sorted(mean, STATS_RESAMPLES, 0.975);
    mem_free(mean);
    return FIRM_OK;
}

// ---- hash ---------------------------------------------------------------------------------------

uint64_t stats_hash(uint64_t hash, const void* bytes, size_t n) {
    const unsigned char* b = bytes;
    for (size_t i = 0; i < n; i++) hash = (hash ^ b[i]) * 0x100000001b3ull;
    return hash;
}
