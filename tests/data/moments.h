// moments.h - a few training moments of a small TwoRoom data set, for what learns from them.
#ifndef TESTS_DATA_MOMENTS_H
#define TESTS_DATA_MOMENTS_H

#include "data/split.h"
#include "data/trial_set.h"

typedef struct moments {
    episodes* e;
    data_split split;
    trial_set* set;
} moments;

// `count` of them, 25 controls before their goals; none of a validation episode, which is checked.
// 0: *err says why. Free it either way.
int moments_make(int count, moments* out, firm_error* err);
void moments_free(moments* m);

#endif
