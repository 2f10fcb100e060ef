// cost.c - the two costs of a predicted path; see cost.h for the equations.
#include "plan/cost.h"

#include <math.h>

static int finite_path(const float* path, int n) {
    for (int i = 0; i < n; i++)
        if (!isfinite(path[i])) return 0;
    return 1;
}

static float reach(const plan_cost* cost, const float* c0, const float* path, int horizon,
                   const float* goal, int* arrival) {
    float best = INFINITY, sum = 0.0f, sum_at_best = 0.0f;
    int at = 1;
    for (int k = 1; k <= horizon; k++) {
        float d = task_tolerance_units_given(cost->task, cost->given,
                                             path + (k - 1) * cost->task->config_dim, goal);
        float value = d + cost->price * (float)(d <= cost->arrive ? k : horizon);
        sum += d;
        if (value < best) {
            best = value;
            at = k;
            sum_at_best = sum;
        }
    }
    if (arrival) *arrival = at;
    float stray = cost->support ? cost->stray * plan_support_stray(cost->support, c0, path, at) : 0;
    return best + cost->running * sum_at_best / (float)at + stray;
}

static int closest(const plan_cost* cost, const float* path, int horizon, const float* goal) {
    const task_typed* task = cost->task;
    int at = 1;
    float best = INFINITY;
    for (int k = 1; k <= horizon; k++) {
        float d =
            task_tolerance_units_given(task, cost->given, path + (k - 1) * task->config_dim, goal);
        if (d < best) best = d, at = k;
    }
    return at;
}

float plan_cost_path(const plan_cost* cost, const float* c0, const float* path, int horizon,
                     const float* goal, int* arrival) {
    const task_typed* task = cost->task;
    if (arrival) *arrival = 1;
    if (!finite_path(path, horizon * task->config_dim)) return INFINITY;
    if (cost->mode == FIRM_MODE_REACH) return reach(cost, c0, path, horizon, goal, arrival);
    if (arrival) *arrival = closest(cost, path, horizon, goal);
    return task_cost_value_given(task, cost->given, path + (horizon - 1) * task->config_dim, goal);
}
