// options.h - the planner's settings: section [plan] of a task's config, one set of keys per mode.
#ifndef PLAN_OPTIONS_H
#define PLAN_OPTIONS_H

#include "core/config.h"
#include "core/status.h"

typedef struct plan_options {
    firm_mode mode;
    int candidates, iterations, elites;
    int horizon;   // macro actions looked ahead; in reach mode at first
    int replan;    // macro actions executed before the next solve
    float spread;  // start deviation of the proposals, standardised action units

    // reach mode only; contract mode ignores these
    int horizon_max;    // looked ahead when nothing shorter arrives
    int knots;          // corners of a proposal's noise over the horizon, per action coordinate
    float box;          // share of the action bounds that proposals use, where the task clamps
    float wide_share;   // share of candidates drawn anew around zero in every iteration
    float wide_spread;  // their deviation
    float recorded;     // share of candidates that are recorded action sequences, if there are any
    float floor;        // smallest deviation after a refit
    int keep;           // elites kept between iterations and, shifted, between solves
    float price;        // per macro step until arrival, in tolerance units
    float running;      // weight of the mean distance until arrival
    float arrive;       // a plan that comes this close, in tolerance units, arrives
    float stray;        // price of leaving the training data's support, per radius and macro step
    int patience;  // iterations without a better plan before an arriving search stops; 0: never
} plan_options;

extern const config_key plan_keys[];
extern const int plan_key_count;

void plan_options_read(const config* c, firm_mode mode, plan_options* out);
// So many candidates, and the same share of them as elites: rounded up, two at least.
void plan_options_candidates(plan_options* o, int candidates);
firm_status plan_options_check(const plan_options* o, firm_error* err);

#endif
