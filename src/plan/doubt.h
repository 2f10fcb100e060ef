// doubt.h - what the members of an ensemble disagree on, as a part of a path's cost.
//
// A search that prices the members' mean finds plans about which one member is far too hopeful.
// Two settings of [plan] count the disagreement; both are off at 0 and do nothing to a single
// model.
//
// ensemble_quantile: each member's own path is priced, and the path costs this quantile of the
// members' costs (1: the most pessimistic member) instead of the cost of their mean.
// ensemble_price: so many times the members' spread around their mean is added. In contract mode
// the spread is the mean of the task's cost between each member's last configuration and the mean
// one: with a squared distance, price 1 gives the mean of the members' costs. In reach mode it is
// their mean distance in tolerance units at the arrival.
#ifndef PLAN_DOUBT_H
#define PLAN_DOUBT_H

#include "plan/cost.h"

typedef struct plan_doubt {
    int members;     // below 2 nothing is doubted
    float price;     // of their spread; 0: free
    float quantile;  // of their costs; 0: the cost of their mean
} plan_doubt;

int plan_doubt_asked(const plan_doubt* d);  // whether the members' own paths are needed at all

// A predicted path: of the mean and of each member.
typedef struct plan_paths {
    const float* mean;  // (horizon, state)
    const float* each;  // (members, horizon, state)
    int horizon;
    plan_trail trail;  // the recording that it follows
} plan_paths;

// As plan_cost_path, with the disagreement of the members counted.
float plan_doubt_cost(const plan_doubt* d, const plan_cost* cost, const float* c0,
                      const plan_paths* path, const float* goal, int* arrival);

#endif
