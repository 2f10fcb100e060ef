// strange.c - see strange.h.
#include "plan/strange.h"

#include <math.h>

// Numbers that are not finite are as strange as can be.
static float larger(float a, float b) {
    if (!isfinite(b)) return INFINITY;
    return b > a ? b : a;
}

float plan_strange(const firm_model* m, const plan_support* support, const float* tokens,
                   const float* each, const float* mean) {
    float most = 0;
    if (m->token_stats) {
        float pooled[MODEL_TOKEN_WIDTH];
        model_pool_tokens(m, tokens, pooled);
        most = larger(most, model_token_distance(m, pooled) / m->token_radius);
    }
    if (support) most = larger(most, plan_support_radii(support, mean));
    for (int i = 0; i <= m->members && m->members; i++)
        most = larger(most, task_tolerance_units(&m->task, each + i * m->task.config_dim, mean));
    return most;
}
