// paired.c - see paired.h.
#include "eval/paired.h"

#include "core/mem.h"
#include "core/stats.h"

firm_status paired_compare(const paired_arm* a, const paired_arm* b, int n, uint64_t seed,
                           paired_difference* out, firm_error* err) {
    *out = (paired_difference){0};
    for (int i = 0; i < n; i++)
        if (a->hash[i] != b->hash[i])
            return FAIL(
                err, FIRM_E_USAGE,
                "trial %d differs between the two arms; compare arms that ran the same trials", i);
    double* points = mem_alloc((size_t)(n > 0 ? n : 1) * sizeof *points);
    if (!points) return FAIL(err, FIRM_E_MEMORY, "no memory to compare %d trials", n);
    for (int i = 0; i < n; i++) {
        int difference = a->success[i] - b->success[i];
        points[i] = 100.0 * difference;
        out->rescue += difference > 0;
        out->harm += difference < 0;
    }
    stats_interval ci;
    firm_status status = stats_bootstrap(points, n, seed, &ci, err);
    if (status == FIRM_OK) {
        out->difference = stats_mean(points, n);
        out->lo = ci.lo;
        out->hi = ci.hi;
    }
    mem_free(points);
    return status;
}
