// net_model.c - the planner's net of a model: its transition's parameters by name, and the bounds
// that the task puts on actions.
#include "plan/net_model.h"

#include <stdio.h>

#include "core/mem.h"

static const float* weight(const firm_model* m, const char* prefix, const char* part) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s", prefix, part);
    int entry = nn_store_find(m->store, name);
    CHECK(entry >= 0, "the model has no parameter %s", name);
    return m->store->value + m->store->entry[entry].offset;
}

static plan_net_spatial spatial_weights(const firm_model* m) {
    return (plan_net_spatial){.block = {.ln_scale = weight(m, "transition.spatial.norm", "gamma"),
                                        .ln_shift = weight(m, "transition.spatial.norm", "beta"),
                                        .w1 = weight(m, "transition.spatial.up", "weight"),
                                        .b1 = weight(m, "transition.spatial.up", "bias"),
                                        .w2 = weight(m, "transition.spatial.down", "weight"),
                                        .b2 = weight(m, "transition.spatial.down", "bias")},
                              .w_s = weight(m, "transition.spatial.extra", "weight"),
                              .w_v = weight(m, "transition.spatial.velocity", "weight"),
                              .b_v = weight(m, "transition.spatial.velocity", "bias"),
                              .mean = {m->stats.action_mean[0], m->stats.action_mean[1]},
                              .std = {m->stats.action_std[0], m->stats.action_std[1]}};
}

firm_status plan_net_of_model(const firm_model* m, plan_net** out, firm_error* err) {
    *out = NULL;
    const model_shape* s = &m->shape;
    int macro = MODEL_CONTROLS * m->env->action_dim, dim = m->env->action_dim;
    if (s->blocks > PLAN_MAX_BLOCKS)
        return FAIL(err, FIRM_E_VALUE, "a transition of %d blocks; the planner takes up to %d",
                    s->blocks, PLAN_MAX_BLOCKS);
    plan_net_shape shape = {m->env->config_dim, m->env->pairs, s->fiber,  macro,
                            s->hidden,          s->inner,      s->blocks, s->spatial};
    float low[MODEL_CONTROLS * FIRM_MAX_ACTION], high[MODEL_CONTROLS * FIRM_MAX_ACTION];
    for (int i = 0; i < macro; i++) {
        low[i] =
            (m->env->action_low - m->stats.action_mean[i % dim]) / m->stats.action_std[i % dim];
        high[i] =
            (m->env->action_high - m->stats.action_mean[i % dim]) / m->stats.action_std[i % dim];
    }
    plan_net_weights w = {.w_in = weight(m, "transition.in", "weight"),
                          .b_in = weight(m, "transition.in", "bias"),
                          .ln_scale = weight(m, "transition.norm", "gamma"),
                          .ln_shift = weight(m, "transition.norm", "beta"),
                          .w_c = weight(m, "transition.config", "weight"),
                          .b_c = weight(m, "transition.config", "bias"),
                          .w_m = weight(m, "transition.fiber", "weight"),
                          .b_m = weight(m, "transition.fiber", "bias")};
    if (m->env->action_clamped) {
        w.u_low = low;
        w.u_high = high;
    }
    if (s->spatial) w.spatial = spatial_weights(m);
    for (int i = 0; i < s->blocks; i++) {
        char prefix[48];
#define PART(what) (snprintf(prefix, sizeof prefix, "transition.block%d." what, i), prefix)
        w.block[i].ln_scale = weight(m, PART("norm"), "gamma");
        w.block[i].ln_shift = weight(m, PART("norm"), "beta");
        w.block[i].w1 = weight(m, PART("up"), "weight");
        w.block[i].b1 = weight(m, PART("up"), "bias");
        w.block[i].w2 = weight(m, PART("down"), "weight");
        w.block[i].b2 = weight(m, PART("down"), "bias");
#undef PART
    }
    float* still = NULL;  // the no-fiber ablation: the fiber head adds nothing
    if (s->no_fiber) {
        still = mem_calloc((size_t)(s->hidden + 1) * (size_t)s->fiber, sizeof *still);
        if (!still) return FAIL(err, FIRM_E_MEMORY, "no memory for a controller");
        w.w_m = w.b_m = still;
    }
    firm_status st = plan_net_create(&shape, &w, out, err);
    mem_free(still);
    return st;
}
