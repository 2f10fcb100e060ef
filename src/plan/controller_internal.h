// controller_internal.h - the controller's memory, shared by its parts: controller.c (life, frames,
// acting), goal.c (goals), predict.c (plans of the caller's), save.c (its state as bytes),
// controllers.c (many in step).
#ifndef PLAN_CONTROLLER_INTERNAL_H
#define PLAN_CONTROLLER_INTERNAL_H

#include "plan/cem.h"
#include "plan/controller.h"
#include "plan/ensemble.h"
#include "plan/perceive.h"
#include "plan/recall.h"

// One model at work.
typedef struct member {
    perception* eyes;
    float* fiber;             // (fiber)
    plan_net *net, *own_net;  // on the CPU: in use; to be freed
    plan_learned* learned;
    plan_gpu *gpu, *own_gpu;  // on a GPU: in use; to be freed
    plan_learned_gpu* learned_gpu;
} member;

struct firm_controller {
    const firm_model* m;
    plan_options options;
    const firm_controller* like;  // whose weights it shares; NULL: it has its own
    pool* threads;
    member member[1 + MODEL_MEMBERS];  // the model itself, then its further members
    int members;
    plan_ensemble* ensemble;  // NULL: a single model
    plan_support* support;
    plan_solver* solver;
    plan_actions actions;

    plan_model model;  // what they predict together

    // as grounded: the latest frame and the goal
    float config[FIRM_MAX_CONFIG], goal[FIRM_MAX_CONFIG];
    uint8_t named[FIRM_MAX_CONFIG];  // coordinates that the goal names, if `partial`
    int partial;
    float aim[FIRM_MAX_CONFIG];  // of the next search
    float strange;               // of the latest frame, see strange.h
    float truth[MODEL_HISTORY * FIRM_MAX_CONFIG], truth_goal[FIRM_MAX_CONFIG];
    int has_goal, has_truth;
    plan_recall* recall;  // NULL: the search does without recorded sequences
    int longest;          // horizon that memory is taken for
    float* raw;           // (longest * controls, action_dim) the plan in hand, raw units
    float *trial, *path;  // a plan to predict, standardised, and its configurations
    plan_result result;
    int given, ready;  // controls handed out of the plan; controls before the next solve
    int fan;
    uint32_t weights_sum;  // tells models apart
    double accepted_ms;    // of a search made elsewhere and not yet reported; 0: none
    firm_error error;      // why the last call failed
};

uint32_t controller_weights_sum(const firm_model* m);  // checksum of all members' weights
// What the caller's struct says, which may be of an older header or of a newer one. NULL: defaults.
firm_status controller_params_take(const firm_controller_params* given, firm_controller_params* p,
                                   firm_error* err);
// Binds threads to the cores of params.
firm_status controller_bind(pool* threads, const firm_controller_params* p, firm_error* err);
// On the CPU, with the weights of `like` (nullable), a controller of the same model that must
// outlive it.
firm_status controller_create_like(const firm_model* model, const firm_controller_params* params,
                                   const firm_controller* like, firm_controller** out,
                                   firm_error* err);
// A new call: whatever an earlier one complained of is over.
void controller_begin(firm_controller* c);
// The sentence of a failure that has none of its own.
firm_status controller_failed(firm_controller* c, firm_status status, const char* doing);
int controller_has_seen(const firm_controller* c);  // a frame, at least
void controller_drop_plan(firm_controller* c);
// The members' mean of what each says of a picture: each (members, config_dim).
void controller_mean(const firm_controller* c, const float* each, float* mean);
const float* controller_now(const firm_controller* c);  // (config_dim) where a search starts
// Every member predicts from the latest frames.
firm_status controller_start(firm_controller* c);
// The goal of the next search: where it is free, the coordinates of now.
void controller_aim(const firm_controller* c, const float* now, float* goal);
// (config_dim) coordinates that this goal names, NULL: all.
const uint8_t* controller_given(const firm_controller* c);

#endif
