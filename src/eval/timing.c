// timing.c - solve times and their quantiles, for evaluations and `firm bench plan`.
#include "eval/timing.h"

#include "core/mem.h"
#include "core/stats.h"

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
    return t->count ? stats_mean(t->ms, t->count) : 0.0;
}

double eval_times_quantile(eval_times* t, double share) {
    return t->count ? stats_quantile(t->ms, t->count, share) : 0.0;
}

void eval_times_free(eval_times* t) {
    mem_free(t->ms);
    *t = (eval_times){0};
}
