// mixed.c - the four kinds of action sequences of mixed interventions.
#include "data/mixed.h"

#include <math.h>

enum { MOST_KNOTS = 8, FEWEST_KNOTS = 3 };

static void independent(rng* g, int controls, float* z) {
    for (int t = 0; t < controls; t++) z[t] = rng_gauss(g);
}

// Straight lines between random points; the first is at the first control, the last at the last.
static void smooth(rng* g, int knots, int controls, float* z) {
    float point[MOST_KNOTS];
    for (int i = 0; i < knots; i++) point[i] = rng_gauss(g);
    for (int t = 0; t < controls; t++) {
        float at = controls > 1 ? (float)t * (float)(knots - 1) / (float)(controls - 1) : 0;
        int i = (int)at < knots - 1 ? (int)at : knots - 2;
        float share = at - (float)i;
        z[t] = (1 - share) * point[i] + share * point[i + 1];
    }
}

static float within(const env_spec* spec, float a) {
    return spec->task.action_clamped
               ? fminf(fmaxf(a, spec->task.action_low), spec->task.action_high)
               : a;
}

void mixed_actions(const env_spec* spec, int kind, const float* mean, const float* std,
                   const float* recorded, int controls, rng* g, float* action) {
    const int dim = spec->task.action_dim, around = kind == 3;
    const float spread = kind == 0 ? 1
                         : around  ? (float)rng_uniform(g, 0.1, 1)
                                   : (float)rng_uniform(g, 0.5, 2);
    const int knots = FEWEST_KNOTS + (int)rng_below(g, MOST_KNOTS - FEWEST_KNOTS + 1);
    for (int k = 0; k < dim; k++) {
        float z[TASK_MAX_SPAN];
        if (kind < 2)
            independent(g, controls, z);
        else
            smooth(g, knots, controls, z);
        for (int t = 0; t < controls; t++) {
            float from = around ? recorded[t * dim + k] : mean[k];
            action[t * dim + k] = within(spec, from + spread * std[k] * z[t]);
        }
    }
}
