// controller.h - what the evaluation needs of a controller beyond the public API.
#ifndef PLAN_CONTROLLER_H
#define PLAN_CONTROLLER_H

#include "core/config.h"
#include "model/model.h"
#include "plan/options.h"

// The public create with planner options of the caller's choice (NULL: from the model's own
// settings).
firm_status controller_create_with(const firm_model* model, const firm_controller_params* params,
                                   const plan_options* options, firm_controller** out,
                                   firm_error* err);

// oracle-config: the next act uses these true configurations instead of the grounded ones.
// history (3, config_dim), oldest first; goal (config_dim). Cleared by the next push or goal.
void controller_set_truth(firm_controller* ctl, const float* history, const float* goal);

// Configuration of the latest frame and of the goal as grounded from pixels: (config_dim) each.
const float* controller_config(const firm_controller* ctl);
const float* controller_goal_config(const firm_controller* ctl);

#endif
