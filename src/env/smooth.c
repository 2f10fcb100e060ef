// smooth.c - straight lines between random actions.
#include "env/smooth.h"

#include <string.h>

enum { LONGEST = 12 };  // controls of a line
#define LEAST_SPREAD 0.5
#define MOST_SPREAD 1.5

static void draw_point(const env_smooth* s, rng* r, float* out) {
    const task_typed* t = &s->base.spec->task;
    const double middle = 0.5 * ((double)t->action_low + (double)t->action_high),
                 half = 0.5 * ((double)t->action_high - (double)t->action_low);
    for (int i = 0; i < t->action_dim; i++) {
        const double share = s->spread * rng_uniform(r, -1.0, 1.0);
        out[i] = (float)(middle + half * (share < -1 ? -1 : share > 1 ? 1 : share));
    }
}

void env_smooth_reset(env* e, rng* r) {
    env_smooth* s = (env_smooth*)e;
    e->spec->sim->reset(e, r);
    s->spread = rng_uniform(r, LEAST_SPREAD, MOST_SPREAD);
    s->at = s->span = 0;
    draw_point(s, r, s->to);
}

void env_smooth_act(env* e, rng* r, float* action) {
    env_smooth* s = (env_smooth*)e;
    if (s->at == s->span) {
        memcpy(s->from, s->to, sizeof s->from);
        draw_point(s, r, s->to);
        s->span = 1 + (int)rng_below(r, LONGEST);
        s->at = 0;
    }
    const float share = (float)++s->at / (float)s->span;
    for (int i = 0; i < e->spec->task.action_dim; i++)
        action[i] = s->from[i] + share * (s->to[i] - s->from[i]);
}
