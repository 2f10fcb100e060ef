// doubt.c - prices what the members of an ensemble disagree on; see doubt.h.
#include "plan/doubt.h"

#include <math.h>

#include "core/stats.h"
#include "model/model.h"

int plan_doubt_asked(const plan_doubt* d) {
    return d->members > 1 && (d->price > 0.0f || d->quantile > 0.0f);
}

static size_t length_of(const plan_cost* cost, const plan_paths* path) {
    return (size_t)(path->horizon * cost->by.state);
}

static float quantile(const plan_doubt* d, const plan_cost* cost, const float* c0,
                      const plan_paths* path, const float* goal) {
    double sorted[1 + MODEL_MEMBERS];
    for (int k = 0; k < d->members; k++) {
        const float* own = path->each + (size_t)k * length_of(cost, path);
        double value = plan_cost_trail(cost, c0, own, path->horizon, &path->trail, goal, NULL);
        int at = k;
        for (; at > 0 && sorted[at - 1] > value; at--) sorted[at] = sorted[at - 1];
        sorted[at] = value;
    }
    return (float)stats_quantile_sorted(sorted, d->members, d->quantile);
}

// The members' mean distance from their mean at macro step `at`.
static float spread(const plan_doubt* d, const plan_cost* cost, const plan_paths* path, int at) {
    const size_t skip = (size_t)((at - 1) * cost->by.state);
    float sum = 0.0f;
    for (int k = 0; k < d->members; k++) {
        const float* own = path->each + (size_t)k * length_of(cost, path) + skip;
        sum += cost->mode == FIRM_MODE_REACH
                   ? cost->by.units(cost->by.context, own, path->mean + skip)
                   : cost->by.cost(cost->by.context, own, path->mean + skip);
    }
    return sum / (float)d->members;
}

float plan_doubt_cost(const plan_doubt* d, const plan_cost* cost, const float* c0,
                      const plan_paths* path, const float* goal, int* arrival) {
    int at;
    float value = plan_cost_trail(cost, c0, path->mean, path->horizon, &path->trail, goal, &at);
    if (arrival) *arrival = at;
    if (!isfinite(value)) return value;
    if (d->quantile > 0.0f) value = quantile(d, cost, c0, path, goal);
    if (d->price > 0.0f)
        value +=
            d->price * spread(d, cost, path, cost->mode == FIRM_MODE_REACH ? at : path->horizon);
    // what is too large for a float is as bad as what is not finite
    return isfinite(value) ? value : INFINITY;
}
