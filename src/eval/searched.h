// searched.h - what a search through the true simulator tries at training moments: interventions
// where they matter. A search needs to know what comes of actions like noise that almost do the
// right thing, then of those that do; recordings show neither, and of the plans that a learned
// model believes in most fail.
//
// From every moment a cross-entropy search like the contract's, with fewer candidates, looks for a
// way to the configuration that the recording has 25 controls later. Some candidates of every
// iteration are kept with all that came of them: half of them from the elites, half from the rest.
#ifndef EVAL_SEARCHED_H
#define EVAL_SEARCHED_H

#include "data/pack.h"
#include "data/trial_set.h"

typedef struct searched_options {
    int candidates, iterations;
    int keep;  // candidates kept of an iteration
    uint64_t seed;
} searched_options;

// All threads of the pool at work, each on a moment. The branches' rows are those of
// moments->rows. *reached: moments from which the best candidate ended within the goal's
// tolerance. A moment from which nothing could be simulated is left out.
firm_status searched_make(const trial_set* moments, const searched_options* opt, pool* p,
                          branches** out, int* reached, firm_error* err);
// Adds all branches to the second set of interventions of a pack that was read from a file and
// holds states; their moments' histories are shared.
firm_status searched_add(const trial_set* moments, const branches* searched, pack* p,
                         firm_error* err);

#endif
