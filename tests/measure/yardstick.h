// yardstick.h - how far a planner's float32 predictions may be from exact arithmetic.
//
// A rollout amplifies rounding by what its net and its row happen to do, so no fixed number is both
// fair to every net and tight for any. The yardstick is what float32 itself does to the same rows:
// the rollout in double on operands rounded alike is the truth, and the errors of a handful of
// float32 rollouts, which differ in the order of their sums only, are the measure. A sound
// implementation is about as far from the truth as they are; a wrong weight, a lost bias or a
// missing step is far outside (yardstick_test.c).
//
// In 16 bits errors come in steps: a sum that differs in its last bit may round an operand to its
// other neighbour, here in this row and there in another. A row's measure is then at least that of
// the rows' mean.
#ifndef TESTS_MEASURE_YARDSTICK_H
#define TESTS_MEASURE_YARDSTICK_H

#include "rounded.h"

typedef struct yardstick {
    int n, horizon, config;
    double* want;  // (n, horizon, config) the truth
    double* own;   // (n, horizon) what float32 is off by
} yardstick;

yardstick yardstick_make(const plan_net_shape* s, const plan_net_weights* w,
                         plan_precision precision, int raw, int n, int horizon, const float* c0,
                         const float* m0, const float* u);
void yardstick_free(yardstick* y);

// An implementation's error in units of float32's own: root of the mean square over the rows.
typedef struct yardstick_reading {
    double first, last;  // after the first and the last macro step
    double most;         // after any
    double off;          // the error itself: norm of the difference over norm of the truth
} yardstick_reading;

yardstick_reading yardstick_read(const yardstick* y, const float* got);
yardstick_reading yardstick_read_double(const yardstick* y, const double* got);

// Sums in another order read about 1; kernels that add in trees, or cut what they add as tensor
// cores do, somewhat less or more. Whatever reads at most this much is sound.
#define YARDSTICK_SOUND 4.0
int yardstick_sound(const yardstick_reading* r);

#endif
