// timing.c - solve times and their quantiles, for evaluations and `firm bench plan`.
#include "eval/timing.h"

#include <stdlib.h>

#include "core/mem.h"

firm_status eval_times_add(eval_times* t, double ms, firm_error* err) {
    if (t->count == t->room) {
        int room = t->room ? 2 * t->room : 256;
        double* grown =
            mem_realloc(t->ms, (size_t)t->room * sizeof *grown, (size_t)room * sizeof *grown);
        if (!grown) return FAIL(err, FIRM_E_MEMORY, "no memory for %d solve times", room);
        t->ms = grown;
        t->room = room;
    }
    t->ms[t->count++] = ms;
    return FIRM_OK;
}

double eval_times_mean(const eval_times* t) {
    double sum = 0.0;
    for (int i = 0; i < t->count; i++) sum += t->ms[i];
    return t->count ? sum / t->count : 0.0;
}

static int ascending(const void* a, const void* b) {
    double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

double eval_times_quantile(eval_times* t, double share) {
    if (t->count == 0) return 0.0;
    qsort(t->ms, (size_t)t->count, sizeof *t->ms, ascending);
    double at = share * (t->count - 1);
    int low = (int)at;
    if (low < 0) return t->ms[0];
    if (low >= t->count - 1) return t->ms[t->count - 1];
    return t->ms[low] + (at - low) * (t->ms[low + 1] - t->ms[low]);
}

void eval_times_free(eval_times* t) {
    mem_free(t->ms);
    *t = (eval_times){0};
}
