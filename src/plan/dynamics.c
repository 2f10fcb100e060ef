// dynamics.c - the learned transition behind the solver's plan_model, on the CPU or a GPU.
#include "plan/dynamics.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"

// ---- actions ------------------------------------------------------------------------------------

plan_actions plan_actions_of(const task_typed* task, int controls, const float* mean,
                             const float* deviation) {
    plan_actions a = {.dim = task->action_dim,
                      .controls = controls,
                      .boxed = task->action_clamped,
                      .low = task->action_low,
                      .high = task->action_high};
    for (int i = 0; i < task->action_dim; i++) {
        a.mean[i] = mean[i];
        a.deviation[i] = deviation[i];
    }
    return a;
}

void plan_actions_raw(const plan_actions* a, const float* u, int controls, float* raw) {
    for (int t = 0; t < controls; t++)
        for (int i = 0; i < a->dim; i++)
            raw[t * a->dim + i] = u[t * a->dim + i] * a->deviation[i] + a->mean[i];
}

// ---- learned ------------------------------------------------------------------------------------

struct plan_learned {
    const plan_net* net;
    plan_net_shape shape;
    int workers;
    size_t stride;  // bytes of one worker's scratch
    char* scratch;
    float c0[FIRM_MAX_CONFIG];
    float* m0;  // (fiber)
};

firm_status plan_learned_create(const plan_net* net, int workers, plan_learned** out,
                                firm_error* err) {
    *out = NULL;
    plan_learned* l = mem_calloc(1, sizeof *l);
    if (!l) return FAIL(err, FIRM_E_MEMORY, "no memory for the planner's dynamics");
    l->net = net;
    plan_net_shape_get(net, &l->shape);
    l->workers = workers;
    l->stride = (plan_net_scratch_bytes(net) + 4095) / 4096 * 4096;
    // zeroed, so that the pages are there before the first solve
    l->scratch = mem_calloc((size_t)workers, l->stride);
    l->m0 = mem_calloc((size_t)l->shape.fiber + 1, sizeof(float));
    if (!l->scratch || !l->m0) {
        plan_learned_free(l);
        return FAIL(err, FIRM_E_MEMORY, "no memory for %d planner threads", workers);
    }
    *out = l;
    return FIRM_OK;
}

void plan_learned_free(plan_learned* l) {
    if (!l) return;
    mem_free(l->scratch);
    mem_free(l->m0);
    mem_free(l);
}

void plan_learned_start(plan_learned* l, const float* c0, const float* m0) {
    memcpy(l->c0, c0, (size_t)l->shape.config * sizeof(float));
    if (l->shape.fiber) memcpy(l->m0, m0, (size_t)l->shape.fiber * sizeof(float));
}

static int learned_rollout(void* context, int worker, int n, int horizon, const float* u,
                           float* c_out) {
    plan_learned* l = context;
    return plan_net_rollout(l->net, l->scratch + (size_t)worker * l->stride, n, horizon, l->c0,
                            l->m0, u, c_out);
}

plan_model plan_learned_model(plan_learned* l) {
    return (plan_model){.context = l,
                        .config = l->shape.config,
                        .action = l->shape.action,
                        .lanes = plan_net_lanes(l->net),
                        .workers = l->workers,
                        .rollout = learned_rollout};
}

// ---- learned, on a GPU --------------------------------------------------------------------------

firm_status plan_learned_gpu_create(plan_gpu* gpu, const plan_net_shape* shape,
                                    plan_learned_gpu** out, firm_error* err) {
    *out = NULL;
    plan_learned_gpu* l = mem_calloc(1, sizeof *l);
    if (l) l->m0 = mem_calloc((size_t)shape->fiber + 1, sizeof(float));
    if (!l || !l->m0) {
        mem_free(l);
        return FAIL(err, FIRM_E_MEMORY, "no memory for the planner's dynamics");
    }
    l->gpu = gpu;
    l->config = shape->config;
    l->action = shape->action;
    l->fiber = shape->fiber;
    *out = l;
    return FIRM_OK;
}

void plan_learned_gpu_free(plan_learned_gpu* l) {
    if (!l) return;
    mem_free(l->m0);
    mem_free(l);
}

void plan_learned_gpu_start(plan_learned_gpu* l, const float* c0, const float* m0) {
    memcpy(l->c0, c0, (size_t)l->config * sizeof(float));
    if (l->fiber) memcpy(l->m0, m0, (size_t)l->fiber * sizeof(float));
}

static int gpu_rollout(void* context, int worker, int n, int horizon, const float* u,
                       float* c_out) {
    (void)worker;
    plan_learned_gpu* l = context;
    int nonfinite = n;
    l->status = plan_gpu_rollout(l->gpu, n, horizon, l->c0, l->m0, u, c_out, &nonfinite, NULL);
    for (int i = 0; i < n * horizon * l->config && l->status != FIRM_OK; i++) c_out[i] = NAN;
    return nonfinite;
}

plan_model plan_learned_gpu_model(plan_learned_gpu* l) {
    return (plan_model){.context = l,
                        .config = l->config,
                        .action = l->action,
                        .lanes = 1,
                        .workers = 1,
                        .whole = 1,
                        .rollout = gpu_rollout};
}
