// space.c - typed configurations: what all tasks share once they can measure named distances.
// The planner minimises env_cost_value; gates, audits and plots speak in env_tolerance_units.
#include <math.h>

#include "env/env.h"

float env_tolerance_units(const env_spec* spec, const float* c, const float* goal) {
    float distance[ENV_MAX_DISTANCE];
    spec->measure(c, goal, distance);
    float worst = 0.0f;
    for (int i = 0; i < spec->distances; i++) {
        float units = distance[i] / spec->distance[i].tolerance;
        if (!(units >= 0.0f)) return INFINITY;  // not a number is infinitely far, never reached
        if (units > worst) worst = units;
    }
    return worst;
}

void env_measure_by_rule(const env_spec* spec, const float* c, const float* goal, float* distance) {
    for (int i = 0; i < spec->distances; i++) {
        const env_rule* r = &spec->rule[i];
        const float *a = c + r->first, *b = goal + r->first;
        if (r->angle) {
            distance[i] = fabsf(atan2f(a[0] * b[1] - a[1] * b[0], a[1] * b[1] + a[0] * b[0]));
            continue;
        }
        float sum = 0.0f;
        for (int k = 0; k < r->count; k++) sum += (a[k] - b[k]) * (a[k] - b[k]);
        distance[i] = r->scale * sqrtf(sum);
    }
}

float env_cost_value(const env_spec* spec, const float* c, const float* goal) {
    if (spec->cost == ENV_COST_MAX) {
        float units = env_tolerance_units(spec, c, goal);
        return units * units;
    }
    // sine-cosine pairs lie on the unit circle, so their squared difference is the squared chord
    float sum = 0.0f;
    for (int i = 0; i < spec->config_dim; i++) {
        float d = c[i] - goal[i];
        sum += d * d;
    }
    return sum;
}
