// weights.c - finds the transition's parameters in a model by name.
#include "plan/weights.h"

#include <stdio.h>

#include "core/mem.h"

static const float* weight(const firm_model* m, const char* prefix, const char* part) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s", prefix, part);
    int entry = nn_store_find(m->store, name);
    CHECK(entry >= 0, "the model has no parameter %s", name);
    return m->store->value + m->store->entry[entry].offset;
}

static void take_block(const firm_model* m, int i, plan_net_block* b) {
    char prefix[48];
#define PART(what) (snprintf(prefix, sizeof prefix, "transition.block%d." what, i), prefix)
    b->ln_scale = weight(m, PART("norm"), "gamma");
    b->ln_shift = weight(m, PART("norm"), "beta");
    b->w1 = weight(m, PART("up"), "weight");
    b->b1 = weight(m, PART("up"), "bias");
    b->w2 = weight(m, PART("down"), "weight");
    b->b2 = weight(m, PART("down"), "bias");
#undef PART
}

static plan_net_spatial spatial_weights(const firm_model* m) {
    return (plan_net_spatial){.block = {.ln_scale = weight(m, "transition.spatial.norm", "gamma"),
                                        .ln_shift = weight(m, "transition.spatial.norm", "beta"),
                                        .w1 = weight(m, "transition.spatial.up", "weight"),
                                        .b1 = weight(m, "transition.spatial.up", "bias"),
                                        .w2 = weight(m, "transition.spatial.down", "weight"),
                                        .b2 = weight(m, "transition.spatial.down", "bias")},
                              .push = task_push(&m->task),
                              .w_s = weight(m, "transition.spatial.extra", "weight"),
                              .w_v = weight(m, "transition.spatial.velocity", "weight"),
                              .b_v = weight(m, "transition.spatial.velocity", "bias"),
                              .mean = {m->stats.action_mean[0], m->stats.action_mean[1]},
                              .std = {m->stats.action_std[0], m->stats.action_std[1]}};
}

firm_status plan_weights_take(const firm_model* m, plan_weights* out, firm_error* err) {
    const model_shape* s = &m->shape;
    int macro = m->task.controls * m->task.action_dim, dim = m->task.action_dim;
    *out = (plan_weights){0};
    if (s->blocks > PLAN_MAX_BLOCKS)
        return FAIL(err, FIRM_E_VALUE, "a transition of %d blocks; the planner takes up to %d",
                    s->blocks, PLAN_MAX_BLOCKS);
    out->shape = (plan_net_shape){m->task.config_dim, m->task.pairs, s->fiber,  macro,
                                  s->hidden,          s->inner,      s->blocks, s->spatial};
    out->net = (plan_net_weights){.w_in = weight(m, "transition.in", "weight"),
                                  .b_in = weight(m, "transition.in", "bias"),
                                  .ln_scale = weight(m, "transition.norm", "gamma"),
                                  .ln_shift = weight(m, "transition.norm", "beta"),
                                  .w_c = weight(m, "transition.config", "weight"),
                                  .b_c = weight(m, "transition.config", "bias"),
                                  .w_m = weight(m, "transition.fiber", "weight"),
                                  .b_m = weight(m, "transition.fiber", "bias")};
    for (int i = 0; i < s->blocks; i++) take_block(m, i, &out->net.block[i]);
    if (s->spatial) out->net.spatial = spatial_weights(m);
    if (m->task.action_clamped) {
        out->bounds = mem_alloc(2 * (size_t)macro * sizeof *out->bounds);
        if (!out->bounds) return FAIL(err, FIRM_E_MEMORY, "no memory for a controller");
        out->net.u_low = out->bounds;
        out->net.u_high = out->bounds + macro;
    }
    for (int i = 0; i < macro && out->bounds; i++) {
        float mean = m->stats.action_mean[i % dim], deviation = m->stats.action_std[i % dim];
        out->bounds[i] = (m->task.action_low - mean) / deviation;
        out->bounds[macro + i] = (m->task.action_high - mean) / deviation;
    }
    if (s->no_fiber) {
        out->still = mem_calloc((size_t)(s->hidden + 1) * (size_t)s->fiber, sizeof *out->still);
        if (!out->still) return FAIL(err, FIRM_E_MEMORY, "no memory for a controller");
        out->net.w_m = out->net.b_m = out->still;
    }
    return FIRM_OK;
}

void plan_weights_free(plan_weights* w) {
    mem_free(w->still);
    mem_free(w->bounds);
    w->still = w->bounds = NULL;
}
