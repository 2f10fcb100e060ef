// cost.h - what a predicted path costs, from a world's price of its states.
//
// contract: the paper's terminal cost, for FIRM d_C(c_P, goal).
// reach: earliest arrival. With d_k the distance to the goal after macro step k in tolerance units
// (below 1 is success), step k counts d_k + price k if it arrives (d_k <= arrive), and d_k + price
// P if not. A path costs its cheapest step plus `running` times the mean distance up to there. The
// price is what makes replanning after every macro action get there: without it a plan may for ever
// arrive "in P steps". Charging the whole horizon to paths that do not arrive makes any detour that
// does arrive cheaper than waiting at a wall for ever. A path that leaves the support of the
// training data before it arrives pays for that: the model does not know what happens there.
//
// A path that follows a recording goes on beyond its horizon: from its last state on happens what
// was recorded after the recording's. With d_k the distance there, k = P + 1 .. ahead, such a step
// counts d_k + price P + ahead_price (k - P). This is what tells ways apart that all end far from a
// goal beyond the horizon.
#ifndef PLAN_COST_H
#define PLAN_COST_H

#include "plan/world.h"

typedef struct plan_cost {
    plan_price by;  // of the world
    firm_mode mode;
    float price, running, arrive;  // reach only
    float stray;                   // reach only: price of leaving the support; 0: none
    int ahead;                     // reach only: macro steps looked ahead along a recording
    float ahead_price;             // reach only: of such a step
} plan_cost;

// now (state) is the start, path (horizon, state) what follows. Returns +inf for a path that is not
// finite. *arrival (nullable): the macro step, 1 .. horizon, at which the path counts as arrived;
// in contract mode the closest one.
float plan_cost_path(const plan_cost* cost, const float* now, const float* path, int horizon,
                     const float* goal, int* arrival);

// The same of a path that follows a recording. The arrival of one that comes closest beyond its
// horizon is the horizon.
float plan_cost_trail(const plan_cost* cost, const float* now, const float* path, int horizon,
                      const plan_trail* trail, const float* goal, int* arrival);

#endif
