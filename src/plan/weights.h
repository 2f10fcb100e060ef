// weights.h - a model's transition as the planners want it, on whichever device they run.
#ifndef PLAN_WEIGHTS_H
#define PLAN_WEIGHTS_H

#include "model/model.h"
#include "plan/net.h"

typedef struct plan_weights {
    plan_net_shape shape;
    plan_net_weights net;  // points into the model and into this struct
    float* bounds;  // owned: (2, macro action) lowest and highest, of a task that clamps; or NULL
    float* still;   // owned: a fiber head that adds nothing, for the no-fiber ablation; or NULL
} plan_weights;

// The model must outlive *out; *out must not be moved. Free it also after a failure.
firm_status plan_weights_take(const firm_model* m, plan_weights* out, firm_error* err);
void plan_weights_free(plan_weights* w);

#endif
