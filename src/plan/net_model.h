// net_model.h - from a model's parameters to the planner's net.
#ifndef PLAN_NET_MODEL_H
#define PLAN_NET_MODEL_H

#include "model/model.h"
#include "plan/net.h"

// Packs a copy of the model's transition; the model may change or go.
firm_status plan_net_of_model(const firm_model* m, plan_precision precision, plan_net** out,
                              firm_error* err);

#endif
