// paired.c - see paired.h.
#include "eval/paired.h"

#include "core/stats.h"

firm_status paired_compare(const paired_arm* a, const paired_arm* b, int n, paired_difference* out,
                           firm_error* err) {
    int both = 0, neither = 0;
    *out = (paired_difference){0};
    if (n < 1) return FAIL(err, FIRM_E_USAGE, "there are no trials to compare two arms on");
    for (int i = 0; i < n; i++) {
        if (a->hash[i] != b->hash[i])
            return FAIL(
                err, FIRM_E_USAGE,
                "trial %d differs between the two arms; compare arms that ran the same trials", i);
        out->rescue += a->success[i] > b->success[i];
        out->harm += a->success[i] < b->success[i];
        both += a->success[i] && b->success[i];
        neither += !a->success[i] && !b->success[i];
    }
    stats_interval ci = stats_newcombe(both, out->rescue, out->harm, neither);
    out->difference = 100.0 * (out->rescue - out->harm) / n;
    out->lo = 100 * ci.lo;
    out->hi = 100 * ci.hi;
    return FIRM_OK;
}
