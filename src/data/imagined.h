// imagined.h - what a teacher expects of the action sequences that a search looks at: a search
// finds those that a single model is wrongly hopeful about, and an ensemble knows better. Records
// of it let one model learn to predict what the ensemble does (distillation). No simulator takes
// part.
//
// Searches start at moments of a pack: histories of recorded segments and of the second set of
// interventions, where attempts are. Every other goal is what the moment's own record ends with, a
// plan ahead; the others are the ends of other records. Of every iteration some candidates of all
// ranks are kept, and the plan.
#ifndef DATA_IMAGINED_H
#define DATA_IMAGINED_H

#include "data/pack.h"
#include "data/planner.h"

typedef struct imagined_options {
    int searches;  // where there are fewer moments, they take turns
    int keep;      // candidates kept of an iteration
    uint64_t seed;
} imagined_options;

// `by` has an imaginer for each thread of the pool, all alike. The scenes of *out are the pack's; a
// history for each search, from which nothing is missing but predictions that are not finite.
firm_status imagined_make(const data_imaginer* by, const pack* from, const imagined_options* opt,
                          pool* p, records* out, firm_error* err);

#endif
