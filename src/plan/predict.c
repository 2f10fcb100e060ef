// predict.c - what a controller knows and expects: the present configuration, and what would come
// of a plan of the caller's.
#include <math.h>
#include <string.h>

#include "plan/controller_internal.h"

static firm_status need_frame(firm_controller* c) {
    if (controller_has_seen(c)) return FIRM_OK;
    return FAIL(&c->error, FIRM_E_USAGE,
                "no frame was seen; give the camera's with firm_controller_push");
}

firm_status firm_controller_config(firm_controller* c, float* config) {
    if (!c) return FIRM_E_USAGE;
    controller_begin(c);
    if (!config)
        return FAIL(&c->error, FIRM_E_USAGE,
                    "there is nowhere to put the configuration: it is NULL");
    TRY(need_frame(c));
    TRY(controller_named(c));
    memcpy(config, controller_now(c), (size_t)c->world.price.named * sizeof *config);
    return FIRM_OK;
}

static firm_status take_plan(firm_controller* c, const float* plan, int macros) {
    const int numbers = macros * c->world.model.action, dim = c->actions.dim;
    for (int i = 0; i < numbers; i++) {
        if (!isfinite(plan[i]))
            return FAIL(&c->error, FIRM_E_VALUE,
                        "number %d of control %d of the plan is not finite", i % dim, i / dim);
        c->trial[i] = (plan[i] - c->actions.mean[i % dim]) / c->actions.deviation[i % dim];
    }
    return FIRM_OK;
}

static firm_status roll_out(firm_controller* c, int macros) {
    const int dim = c->world.model.state;
    const plan_model* model = &c->world.model;
    TRY(controller_start(c));
    memcpy(c->path, controller_now(c), (size_t)dim * sizeof *c->path);
    model->rollout(model->context, 0, 1, macros, c->trial, c->path + dim);
    return c->world.sight.status(c->world.sight.context);
}

firm_status firm_controller_predict(firm_controller* c, const float* plan, int macros, float* path,
                                    float* distance) {
    if (!c) return FIRM_E_USAGE;
    controller_begin(c);
    const task_typed* task = &c->m->task;
    if (!plan || macros < 1 || macros > c->longest)
        return FAIL(&c->error, FIRM_E_USAGE,
                    "a plan of %d macro actions cannot be predicted; give 1 to %d, of %d controls "
                    "of %d numbers each",
                    plan ? macros : 0, c->longest, task->controls, task->action_dim);
    if (distance && !c->has_goal)
        return FAIL(&c->error, FIRM_E_USAGE,
                    "distances need a goal and there is none; set one, or ask for the path alone");
    TRY(need_frame(c));
    TRY(take_plan(c, plan, macros));
    TRY(controller_failed(c, roll_out(c, macros), "predicting"));
    size_t numbers = (size_t)((macros + 1) * c->world.price.named);
    if (path) memcpy(path, c->path, numbers * sizeof *path);
    const plan_price* price = &c->world.price;
    if (distance && price->given) price->given(price->context, controller_given(c));
    if (distance) controller_aim(c, controller_now(c), c->aim);
    for (int k = 0; k <= macros && distance; k++)
        price->measure(price->context, c->path + k * price->state, c->aim,
                       distance + k * price->distances);
    return FIRM_OK;
}
