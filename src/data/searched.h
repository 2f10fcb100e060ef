// searched.h - what a search through the true simulator tries at training moments: interventions
// where they matter. A search needs to know what comes of actions like noise that almost do the
// right thing, then of those that do; recordings show neither, and of the plans that a learned
// model believes in most fail.
//
// From every moment the contract's search, with fewer candidates, looks for a
// way to the configuration that the recording has a recorded future later. Some candidates of every
// iteration are kept with all that came of them: half of them from the elites, half from the rest.
// A controller whose plan failed plans again, from a moment like none that was recorded; so a
// second search begins where a candidate that failed had ended.
#ifndef DATA_SEARCHED_H
#define DATA_SEARCHED_H

#include "data/pack.h"
#include "data/planner.h"
#include "data/trial_set.h"

typedef struct searched_options {
    int candidates, iterations;
    int keep;  // candidates kept of an iteration
    uint64_t seed;
} searched_options;

// Of `finite` candidates, best first, of which the first `elites` made the next proposals: the rank
// of the j-th of `keep` that are kept. The first half is spread evenly over the elites, the rest
// over the others.
int searched_rank(int j, int keep, int elites, int finite);

// The starts of all searches, as "episodes" like those of a trial_set, and the branches from them.
typedef struct searched {
    episodes* starts;
    branches* from;
    int reached;  // searches whose best candidate ended within the goal's tolerance
} searched;

// All threads of the pool at work, each on a moment: its two searches are the starts 2 i and 2 i +
// 1. A search from which nothing could be simulated is left out, and so is the second if every
// candidate had arrived.
firm_status searched_make(const trial_set* moments, const searched_options* opt,
                          const data_searcher* by, pool* p, searched* out, firm_error* err);
// Adds all branches to the second set of interventions of a pack that was read from a file and
// holds states; those of one search share its history.
firm_status searched_add(const searched* made, pack* p, firm_error* err);
void searched_free(searched* s);

#endif
