// dynamics.h - FIRM's learned transition as a plan_model (world.h), on the CPU or a GPU. Actions
// are standardised: raw = u * deviation + mean per raw action coordinate, with the training set's
// statistics.
#ifndef PLAN_DYNAMICS_H
#define PLAN_DYNAMICS_H

#include "core/pool.h"
#include "plan/gpu.h"
#include "plan/net.h"
#include "plan/world.h"
#include "task/task.h"

// How a macro action is made of raw controls.
typedef struct plan_actions {
    int dim, controls;  // numbers in a raw control, controls in a macro action
    float mean[FIRM_MAX_ACTION], deviation[FIRM_MAX_ACTION];
    int boxed;  // candidates of the reach mode stay within low .. high (raw units)
    float low, high;
} plan_actions;

// The standardisation and bounds of a task; boxed when the task clamps actions itself.
plan_actions plan_actions_of(const task_typed* task, const float* mean, const float* deviation);
// u (controls, dim) standardised -> raw (controls, dim), both for any number of controls.
void plan_actions_raw(const plan_actions* a, const float* u, int controls, float* raw);

// The learned transition, on the threads of a pool (NULL: the caller alone). Net and pool must
// outlive it.
typedef struct plan_learned plan_learned;
firm_status plan_learned_create(const plan_net* net, pool* threads, plan_learned** out,
                                firm_error* err);
void plan_learned_free(plan_learned* l);
void plan_learned_start(plan_learned* l, const float* c0, const float* m0);  // copies
plan_model plan_learned_model(plan_learned* l);

// The learned transition on a GPU; one thread. The plan_gpu must outlive it.
typedef struct plan_learned_gpu {
    plan_gpu* gpu;
    int config, action, fiber;
    float c0[FIRM_MAX_CONFIG];
    float* m0;           // (fiber)
    firm_status status;  // of the last rollout; after a failure all its predictions are NaN
} plan_learned_gpu;
firm_status plan_learned_gpu_create(plan_gpu* gpu, const plan_net_shape* shape,
                                    plan_learned_gpu** out, firm_error* err);
void plan_learned_gpu_free(plan_learned_gpu* l);
void plan_learned_gpu_start(plan_learned_gpu* l, const float* c0, const float* m0);  // copies
plan_model plan_learned_gpu_model(plan_learned_gpu* l);
plan_device plan_gpu_device_of(plan_gpu* gpu);  // whole searches on it

#endif
