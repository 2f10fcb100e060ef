// propose.h - the candidates of one iteration, each a pure function of its key and the current fit.
#ifndef PLAN_PROPOSE_H
#define PLAN_PROPOSE_H

#include <stdint.h>

#include "plan/dynamics.h"
#include "plan/options.h"
#include "plan/world.h"

typedef struct plan_proposal {
    const plan_options* options;
    const plan_actions* actions;
    uint64_t seed, solve;
    int iteration, horizon;
    const float *mean, *spread;  // (horizon, action), flattened
    // icem: noise that is coloured in time, from plan_colour_basis
    const float* basis;
    int terms;
    plan_trail trail;  // the recording that the mean follows
    // reach mode: plans that enter unchanged as candidates 1 .. given, (given, stride) floats
    int given, given_stride;
    const float* given_plan;
    const plan_trail* given_trail;  // (given)
    plan_recalled recorded;         // reach mode: these enter in turn, iteration by iteration
} plan_proposal;

// Coloured noise over `controls` controls: a sum of cosines and sines with normal weights, whose
// amplitudes fall with the frequency. Its deviation is 1 at every control. Terms of the sum; 0: the
// solver draws other noise.
int plan_colour_terms(const plan_options* o, int controls);
void plan_colour_basis(const plan_options* o, int controls, float* basis);  // (controls, terms)

// Recorded sequences that enter in one iteration.
int plan_recorded_each(const plan_options* o);

// Writes candidate `index` (horizon * action floats). Candidate 0 is the mean.
void plan_propose(const plan_proposal* p, int index, float* u);
// The recording that it follows: noise around the mean follows the mean's.
plan_trail plan_propose_trail(const plan_proposal* p, int index);

#endif
