// controller_internal.h - the controller's memory, shared by its parts: controller.c (life, frames,
// acting), goal.c (goals), predict.c (plans of the caller's), save.c (its state as bytes),
// controllers.c (many in step).
#ifndef PLAN_CONTROLLER_INTERNAL_H
#define PLAN_CONTROLLER_INTERNAL_H

#include "plan/cem.h"
#include "plan/controller.h"
#include "plan/worlds.h"

struct firm_controller {
    const firm_model* m;
    plan_options options;
    const firm_controller* like;  // whose weights it shares; NULL: it has its own
    pool* threads;
    plan_world world;
    plan_solver* solver;
    plan_actions actions;

    // states: the latest frame and the goal as encoded; the true ones, if told; the next search's
    float *state, *goal, *truth, *truth_goal, *aim;  // (state) each
    uint8_t* named;                                  // (state) what the goal names, if `partial`
    int partial;
    float strange;  // of the latest frame, see strange.h
    int has_goal, has_truth;
    int longest;          // horizon that memory is taken for
    float* raw;           // (longest * controls, action_dim) the plan in hand, raw units
    float *trial, *path;  // a plan to predict, standardised, and its states
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
const float* controller_now(const firm_controller* c);  // (state) where a search starts
// The world predicts from the latest frames.
firm_status controller_start(firm_controller* c);
// The goal (state) of the next search: where it is free, the coordinates of now.
void controller_aim(const firm_controller* c, const float* now, float* goal);
// Whether the world's states are named coordinates; else a sentence.
firm_status controller_named(firm_controller* c);
// (state) coordinates that this goal names, NULL: all.
const uint8_t* controller_given(const firm_controller* c);

#endif
