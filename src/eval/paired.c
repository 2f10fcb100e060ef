// paired.c - percentile bootstrap over trials. Resample r draws its n trials from Philox key
// (seed, RNG_BOOTSTRAP, r), so intervals do not depend on what was computed before.
#include "eval/paired.h"

#include <math.h>
#include <stdlib.h>

#include "core/mem.h"
#include "core/rng.h"

static int ascending(const void* a, const void* b) {
    int x = *(const int*)a, y = *(const int*)b;
    return (x > y) - (x < y);
}

// 2.5 % and 97.5 % quantiles of the resampled sums of n values, as percent of n.
static firm_status bootstrap(const int8_t* value, int n, uint64_t seed, int resamples, double* lo,
                             double* hi, firm_error* err) {
    if (n < 1 || resamples < 40)
        return FAIL(err, FIRM_E_USAGE,
                    "an interval needs at least 1 trial and 40 resamples; got %d and %d", n,
                    resamples);
    int* sum = mem_alloc((size_t)resamples * sizeof *sum);
    if (!sum) return FAIL(err, FIRM_E_MEMORY, "no memory for %d resamples", resamples);
    for (int r = 0; r < resamples; r++) {
        rng draw = rng_start(seed, RNG_STREAM(RNG_BOOTSTRAP, r));
        sum[r] = 0;
        for (int i = 0; i < n; i++) sum[r] += value[rng_below(&draw, (uint32_t)n)];
    }
    qsort(sum, (size_t)resamples, sizeof *sum, ascending);
    *lo = 100.0 * sum[(int)floor(0.025 * (resamples - 1))] / n;
    *hi = 100.0 * sum[(int)ceil(0.975 * (resamples - 1))] / n;
    mem_free(sum);
    return FIRM_OK;
}

firm_status paired_rate(const int8_t* value, int n, uint64_t seed, int resamples,
                        paired_interval* out, firm_error* err) {
    *out = (paired_interval){0};
    TRY(bootstrap(value, n, seed, resamples, &out->lo, &out->hi, err));
    int sum = 0;
    for (int i = 0; i < n; i++) sum += value[i];
    out->mean = 100.0 * sum / n;
    return FIRM_OK;
}

firm_status paired_compare(const int8_t* a, const int8_t* b, const uint64_t* hash_a,
                           const uint64_t* hash_b, int n, uint64_t seed, int resamples,
                           paired_difference* out, firm_error* err) {
    *out = (paired_difference){0};
    for (int i = 0; i < n; i++)
        if (hash_a[i] != hash_b[i])
            return FAIL(
                err, FIRM_E_USAGE,
                "trial %d differs between the two arms; compare arms that ran the same trials", i);
    int8_t* difference = mem_alloc((size_t)(n > 0 ? n : 1));
    if (!difference) return FAIL(err, FIRM_E_MEMORY, "no memory to compare %d trials", n);
    int sum = 0;
    for (int i = 0; i < n; i++) {
        difference[i] = (int8_t)(a[i] - b[i]);
        sum += difference[i];
        out->rescue += difference[i] > 0;
        out->harm += difference[i] < 0;
    }
    firm_status status = bootstrap(difference, n, seed, resamples, &out->lo, &out->hi, err);
    mem_free(difference);
    if (status == FIRM_OK) out->difference = 100.0 * sum / n;
    return status;
}
