// attempts.h - what a controller really does from training moments: two contract plans in a row,
// each carried out to its end, as in a trial. A model that learned from demonstrations alone has
// never seen a plan of its own fail, and reads what it sees afterwards as if it had not.
//
// Nobody asks whether a goal was reached: an attempt is a recording like any other, and what
// training takes of it are segments with their histories.
#ifndef DATA_ATTEMPTS_H
#define DATA_ATTEMPTS_H

#include "data/pack.h"
#include "data/planner.h"
#include "data/trial_set.h"

enum {
    ATTEMPT_PLANS = 2,
    ATTEMPT_RECORDS = 3  // from the start, from somewhere in the first plan, from the second one
};

static inline int attempt_rows(const task_typed* t) {
    return FIRM_HISTORY + ATTEMPT_PLANS * task_span(t);
}

// One attempt for each moment of the set, all threads of the pool at work, each with its own pilot:
// an episode of attempt_rows() rows each. *reached: how many came within the goal's tolerance on
// the way. An attempt whose simulation broke down is left out.
firm_status attempts_make(const data_pilot* pilot, const trial_set* moments, uint64_t seed, pool* p,
                          episodes** out, int* reached, firm_error* err);
// Adds ATTEMPT_RECORDS records of each attempt to the second set of interventions of a pack that
// was read from a file and holds states.
firm_status attempts_add(const episodes* attempts, uint64_t seed, pack* p, firm_error* err);

#endif
