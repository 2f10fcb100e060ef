// controller.h - what the evaluation needs of a controller beyond the public API.
#ifndef PLAN_CONTROLLER_H
#define PLAN_CONTROLLER_H

#include "model/model.h"
#include "plan/cem.h"
#include "plan/gpu.h"
#include "plan/options.h"

// The public create with planner options of the caller's choice (NULL: from the model's own
// settings), and on a GPU that is shared with other controllers (NULL: one of its own, if
// params->device says so). The shared one must be made for the same model, no ensemble, and options
// and outlive the controller.
firm_status controller_create_with(const firm_model* model, const firm_controller_params* params,
                                   const plan_options* options, plan_gpu* shared,
                                   firm_controller** out, firm_error* err);

// What plans: "cpu" or the GPU's name; the instruction set or the GPU planner's way.
const char* controller_device(const firm_controller* ctl);
const char* controller_way(const firm_controller* ctl);
// Milliseconds of the last search alone, without perception.
double controller_search_ms(const firm_controller* ctl);
const plan_phases* controller_phases(const firm_controller* ctl);

// Searches of many controllers at once (contract mode, shared GPU, no ensemble): where one is due,
// pose states the problem and accept takes the answer, so that the next act only hands out the
// plan. seconds of `ms` are what act will report.
int controller_due(const firm_controller* ctl);
firm_status controller_pose(firm_controller* ctl, plan_problem* problem);
void controller_accept(firm_controller* ctl, const plan_answer* answer, double ms);

// oracle-config: the next act uses these true configurations instead of the grounded ones.
// history (3, config_dim), oldest first; goal (config_dim). Cleared by the next push or goal.
void controller_set_truth(firm_controller* ctl, const float* history, const float* goal);

// From now on watch sees what every search tries, iteration by iteration (plan_solver_watch).
void controller_watch(firm_controller* ctl, plan_watch watch, void* context);

// What the model expects of `count` plans of `macros` macro actions from the latest frames: plan
// (count, macros x controls, action_dim) raw -> path (count, macros + 1, config_dim), and how far
// apart an ensemble's members are after each macro action: spread (count, macros), their mean
// distance from their mean in tolerance units, 0 of a single model. What is not finite stays so.
firm_status controller_predict_many(firm_controller* ctl, int count, int macros, const float* plan,
                                    float* path, float* spread);

// Configuration of the latest frame and of the goal as grounded from pixels: (config_dim) each.
const float* controller_config(const firm_controller* ctl);
const float* controller_goal_config(const firm_controller* ctl);

#endif
