// lewm_formula.h - LeWM models whose weights, frames and actions are formulas that
// scripts/reference/lewm.py computes too, and its results (tests/golden/lewm.txt).
#ifndef TESTS_MODEL_LEWM_FORMULA_H
#define TESTS_MODEL_LEWM_FORMULA_H

#include "model/lewm/lewm.h"

// Number i of the noise of a name: uniform in [-1, 1), a function of both alone.
float lewm_noise(const char* name, size_t i);
// A model of TwoRoom with these sizes and the formula's weights; the test program ends without
// memory.
lewm_model* lewm_formula(const lewm_shape* shape);
lewm_shape lewm_small(void);                                  // of the golden training step
void lewm_formula_frames(int count, int size, uint8_t* out);  // (count, size, size, 3)
void lewm_formula_actions(int count, float* out);             // standardised numbers

// The numbers of a section of the golden file; NULL and a failed check if it is missing or has
// another count. free() it.
double* lewm_golden(const char* section, int count);

#endif
