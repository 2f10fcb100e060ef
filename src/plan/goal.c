// goal.c - a controller's goals: pictures, and named numbers of which some may be left free.
#include <math.h>
#include <string.h>

#include "plan/controller_internal.h"

static void set_goal(firm_controller* c, int partial) {
    c->has_goal = 1;
    c->has_truth = 0;
    c->partial = partial;
    controller_drop_plan(c);
}

firm_status firm_controller_goal(firm_controller* c, const uint8_t* rgb) {
    if (!c) return FIRM_E_USAGE;
    controller_begin(c);
    if (!rgb)
        return FAIL(&c->error, FIRM_E_USAGE, "the goal image is NULL; give %d x %d x 3 bytes",
                    c->m->task.image, c->m->task.image);
    TRY(controller_failed(c, c->world.sight.goal(c->world.sight.context, rgb, c->goal),
                          "looking at the goal image"));
    set_goal(c, 0);
    return FIRM_OK;
}

// ---- named numbers ------------------------------------------------------------------------------

static int is_named(const uint8_t* given, int i) {
    return !given || given[i];
}

// A sine and a cosine: both or neither, and not both 0. Any length will do.
static firm_status take_pair(firm_controller* c, const uint8_t* given, int i, float* pair) {
    const char *sin = c->m->task.config_name[i], *cos = c->m->task.config_name[i + 1];
    if (is_named(given, i) != is_named(given, i + 1))
        return FAIL(&c->error, FIRM_E_USAGE,
                    "the goal gives one of %s and %s; give both numbers of an angle, or neither",
                    sin, cos);
    if (!is_named(given, i)) return FIRM_OK;
    double length = hypot(pair[0], pair[1]);
    if (!(length > 1e-6))
        return FAIL(&c->error, FIRM_E_VALUE,
                    "the goal's %s and %s are both 0; give the sine and cosine of an angle", sin,
                    cos);
    pair[0] = (float)(pair[0] / length);
    pair[1] = (float)(pair[1] / length);
    return FIRM_OK;
}

static firm_status take_numbers(firm_controller* c, const float* values, const uint8_t* given,
                                float* goal) {
    const task_typed* task = &c->m->task;
    for (int i = 0; i < task->config_dim; i++) {
        goal[i] = is_named(given, i) ? values[i] : 0;
        if (!isfinite(goal[i]))
            return FAIL(&c->error, FIRM_E_VALUE,
                        "the goal's %s is not finite; give a number, or leave it free",
                        task->config_name[i]);
    }
    for (int i = 0; i < 2 * task->pairs; i += 2) TRY(take_pair(c, given, i, goal + i));
    return FIRM_OK;
}

firm_status firm_controller_goal_config(firm_controller* c, const float* values,
                                        const uint8_t* given) {
    if (!c) return FIRM_E_USAGE;
    controller_begin(c);
    const int dim = c->m->task.config_dim;
    TRY(controller_named(c));
    if (!values) return FAIL(&c->error, FIRM_E_USAGE, "the goal's numbers are NULL; give %d", dim);
    int named = 0;
    float goal[FIRM_MAX_CONFIG];
    for (int i = 0; i < dim; i++) named += is_named(given, i);
    if (named == 0)
        return FAIL(&c->error, FIRM_E_USAGE,
                    "the goal leaves every coordinate free; give one at least");
    if (named < dim && plan_solver_on_device(c->solver))
        return FAIL(&c->error, FIRM_E_UNAVAILABLE,
                    "searches of the contract mode on a GPU know whole goals only; give all "
                    "coordinates, or plan in reach mode or on the CPU");
    TRY(take_numbers(c, values, given, goal));
    memcpy(c->goal, goal, (size_t)dim * sizeof *goal);
    for (int i = 0; i < dim; i++) c->named[i] = (uint8_t)is_named(given, i);
    set_goal(c, named < dim);
    return FIRM_OK;
}

firm_status controller_named(firm_controller* c) {
    if (c->world.price.named) return FIRM_OK;
    return FAIL(&c->error, FIRM_E_UNAVAILABLE,
                "the states of this model have no named coordinates; give goals as pictures");
}

const uint8_t* controller_given(const firm_controller* c) {
    return c->partial && !c->has_truth ? c->named : NULL;
}

void controller_aim(const firm_controller* c, const float* now, float* goal) {
    const uint8_t* given = controller_given(c);
    const float* wanted = c->has_truth ? c->truth_goal : c->goal;
    for (int i = 0; i < c->world.model.state; i++)
        goal[i] = is_named(given, i) ? wanted[i] : now[i];
}
