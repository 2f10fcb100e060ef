// lewm_toys.h - small models of LeWM with lively weights for the planner's tests.
#ifndef TESTS_PLAN_LEWM_TOYS_H
#define TESTS_PLAN_LEWM_TOYS_H

#include "model/lewm/lewm.h"

task_typed toy_lewm_task(void);  // TwoRoom's
// Widths that are no multiples of a vector; modulation, norms and running statistics drawn at
// random, which training would move away from 0 and 1. NULL: the test has failed.
lewm_model* toy_lewm(int context, uint64_t seed);
// Widths that are multiples of 8, as a GPU wants them.
lewm_model* toy_lewm_even(int context, uint64_t seed);
// The published predictor's widths, two blocks deep.
lewm_model* toy_lewm_wide(int context, uint64_t seed);
// The published predictor; its encoder is a toy.
lewm_model* toy_lewm_full(uint64_t seed);

#endif
