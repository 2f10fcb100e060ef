// state.c - what follows from a state: its task's own functions, or what stands for those it lacks.
#include <math.h>

#include "env/env.h"

int env_fits(const env_spec* spec, const double* state) {
    if (spec->state->fits) return spec->state->fits(spec, state);
    for (int i = 0; i < spec->state->dim; i++)
        if (!isfinite(state[i])) return 0;
    return 1;
}

int env_erratic(const env_spec* spec, const double* state) {
    return spec->state->erratic && spec->state->erratic(spec, state);
}

void env_config(const env_spec* spec, const double* state, float* c) {
    spec->state->config(spec, state, c);
}

void env_chi(const env_spec* spec, const double* state, const double* before,
             const double* macro_before, float* chi) {
    if (spec->state->chi) {
        spec->state->chi(spec, state, before, macro_before, chi);
        return;
    }
    float now[FIRM_MAX_CONFIG], then[FIRM_MAX_CONFIG];
    env_config(spec, state, now);
    env_config(spec, before, then);
    for (int i = 0; i < spec->task.config_dim; i++) chi[i] = now[i] - then[i];
}

int env_rare(const env_spec* spec, const double* state, const double* before) {
    return spec->state->rare && spec->state->rare(spec, state, before);
}

int env_success(const env_spec* spec, const double* state, const double* goal_state) {
    if (spec->state->success) return spec->state->success(spec, state, goal_state);
    float now[FIRM_MAX_CONFIG], goal[FIRM_MAX_CONFIG];
    env_config(spec, state, now);
    env_config(spec, goal_state, goal);
    return task_tolerance_units(&spec->task, now, goal) < 1;
}
