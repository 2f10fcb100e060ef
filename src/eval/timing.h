// timing.h - solve times of an arm: a growing list with its mean, median and other quantiles.
#ifndef EVAL_TIMING_H
#define EVAL_TIMING_H

#include "core/status.h"

typedef struct eval_times {
    double* ms;
    int count, room;
} eval_times;

firm_status eval_times_add(eval_times* t, double ms, firm_error* err);
double eval_times_mean(const eval_times* t);  // 0 without entries
// stats_quantile() of the entries (0.5: the median). Sorts the list. 0 without entries.
double eval_times_quantile(eval_times* t, double share);
void eval_times_free(eval_times* t);

#endif
