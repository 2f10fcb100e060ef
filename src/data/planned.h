// planned.h - what a search through a learned model would do at recorded moments: action
// sequences for interventions, so that a model learns where its own optimism is wrong.
//
// Goals are configurations of the moment's own episode: the one a plan ahead, and others of
// it in turn. Searches end after all, half or a quarter of their iterations, in turn, so that not
// only what they end with is seen. Nobody asks whether a goal was reached.
#ifndef DATA_PLANNED_H
#define DATA_PLANNED_H

#include "data/branches.h"
#include "data/planner.h"

enum { PLANNED_DEPTHS = 3 };  // all, half and a quarter of a search's iterations

typedef struct planned planned;

// One pilot of each depth; they and the episodes must outlive it.
firm_status planned_open(const data_pilot pilot[PLANNED_DEPTHS], const episodes* e, uint64_t seed,
                         planned** out, firm_error* err);
// An intervene_options.propose with the planned ones as its ctx.
firm_status planned_make(void* ctx, int64_t row, int number, float* action, firm_error* err);
void planned_free(planned* p);

#endif
