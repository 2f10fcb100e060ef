// smooth.h - the policy of tasks that bring none: random actions that change smoothly.
//
// Points uniform in the bounds of actions, times a spread of 0.5 to 1.5 that is drawn once an
// episode, and clamped, are joined by straight lines of 1 to 12 controls. Some stretches jump,
// others sweep: a model sees fast and slow motion, strong and weak actions.
#ifndef ENV_SMOOTH_H
#define ENV_SMOOTH_H

#include "env/env.h"

// An environment of a simulator that uses the policy begins with this.
typedef struct env_smooth {
    env base;
    float from[FIRM_MAX_ACTION], to[FIRM_MAX_ACTION];
    int at, span;  // controls done of the line from `from` to `to`, and all of them
    double spread;
} env_smooth;

void env_smooth_reset(env* e, rng* r);  // the simulator's reset, then a new episode
void env_smooth_act(env* e, rng* r, float* action);

#endif
