// cost.c - the two costs of a predicted path; see cost.h for the equations.
#include "plan/cost.h"

#include <math.h>

static int finite_path(const float* path, int n) {
    for (int i = 0; i < n; i++)
        if (!isfinite(path[i])) return 0;
    return 1;
}

static float units(const plan_cost* cost, const float* path, int k, const float* goal) {
    return cost->by.units(cost->by.context, path + (k - 1) * cost->by.state, goal);
}

// The cheapest step after the last of the path, if what happens there is what was recorded; +inf
// without a recording.
static float beyond(const plan_cost* cost, const float* path, int horizon, const plan_trail* trail,
                    const float* goal) {
    float best = INFINITY, state[FIRM_MAX_CONFIG];
    const float* end = path + (horizon - 1) * cost->by.state;
    if (trail->first < 0 || !cost->by.beyond) return best;
    for (int k = horizon + 1; k <= cost->ahead; k++) {
        if (!cost->by.beyond(cost->by.context, trail->first, horizon, end, k, state)) break;
        float value = units(cost, state, 1, goal) + cost->price * (float)horizon +
                      cost->ahead_price * (float)(k - horizon);
        if (value < best) best = value;
    }
    return best;
}

static float reach(const plan_cost* cost, const float* now, const float* path, int horizon,
                   const plan_trail* trail, const float* goal, int* arrival) {
    float best = INFINITY, sum = 0.0f, sum_at_best = 0.0f;
    int at = 1;
    for (int k = 1; k <= horizon; k++) {
        float d = units(cost, path, k, goal);
        float value = d + cost->price * (float)(d <= cost->arrive ? k : horizon);
        sum += d;
        if (value < best) {
            best = value;
            at = k;
            sum_at_best = sum;
        }
    }
    float later = beyond(cost, path, horizon, trail, goal);
    if (later < best) {
        best = later;
        at = horizon;
        sum_at_best = sum;
    }
    if (arrival) *arrival = at;
    float stray = cost->stray > 0 && cost->by.stray
                      ? cost->stray * cost->by.stray(cost->by.context, now, path, at)
                      : 0;
    return best + cost->running * sum_at_best / (float)at + stray;
}

static int closest(const plan_cost* cost, const float* path, int horizon, const float* goal) {
    int at = 1;
    float best = INFINITY;
    for (int k = 1; k <= horizon; k++) {
        float d = units(cost, path, k, goal);
        if (d < best) best = d, at = k;
    }
    return at;
}

float plan_cost_trail(const plan_cost* cost, const float* now, const float* path, int horizon,
                      const plan_trail* trail, const float* goal, int* arrival) {
    if (arrival) *arrival = 1;
    if (!finite_path(path, horizon * cost->by.state)) return INFINITY;
    if (cost->mode == FIRM_MODE_REACH) return reach(cost, now, path, horizon, trail, goal, arrival);
    if (arrival) *arrival = closest(cost, path, horizon, goal);
    return cost->by.cost(cost->by.context, path + (horizon - 1) * cost->by.state, goal);
}

float plan_cost_path(const plan_cost* cost, const float* now, const float* path, int horizon,
                     const float* goal, int* arrival) {
    static const plan_trail none = {.first = -1};
    return plan_cost_trail(cost, now, path, horizon, &none, goal, arrival);
}
