// net_model.c - the planner's net of a model.
#include "plan/net_model.h"

#include "plan/weights.h"

firm_status plan_net_of_model(const firm_model* m, plan_precision precision, plan_net** out,
                              firm_error* err) {
    plan_weights w;
    *out = NULL;
    firm_status st = plan_weights_take(m, &w, err);
    if (st == FIRM_OK) st = plan_net_create(&w.shape, &w.net, precision, out, err);
    plan_weights_free(&w);
    return st;
}
