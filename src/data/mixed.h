// mixed.h - action sequences for wider interventions than the paper's: what a search proposes, not
// only what a demonstrator with noise does.
//
// Kinds take turns over the branches of an anchor:
//   0  independent noise per control, at the recorded spread (the paper's)
//   1  independent noise at 0.5 to 2 times that spread
//   2  smooth noise: 3 to 8 random points, joined by straight lines, at 0.5 to 2 times the spread
//   3  the recorded actions with smooth noise of 0.1 to 1 times the spread on top
// Only an environment that clamps actions itself has them clipped: a search may ask for more, and a
// transition that never saw it would guess.
#ifndef DATA_MIXED_H
#define DATA_MIXED_H

#include "core/rng.h"
#include "env/env.h"

enum { MIXED_KINDS = 4 };

// Fills action (controls, action_dim); recorded (controls, action_dim) is read by kind 3.
void mixed_actions(const env_spec* spec, int kind, const float* mean, const float* std,
                   const float* recorded, int controls, rng* g, float* action);

#endif
