// typed.c - see typed.h.
#include "plan/typed.h"

static float cost(const void* context, const float* c, const float* goal) {
    const plan_typed* t = context;
    return task_cost_value_given(t->task, t->given, c, goal);
}

static float units(const void* context, const float* c, const float* goal) {
    const plan_typed* t = context;
    return task_tolerance_units_given(t->task, t->given, c, goal);
}

static void measure(const void* context, const float* c, const float* goal, float* distance) {
    const plan_typed* t = context;
    task_measure_given(t->task, t->given, c, goal, distance);
}

static float stray(const void* context, const float* c0, const float* path, int steps) {
    const plan_typed* t = context;
    return plan_support_stray(t->support, c0, path, steps);
}

static int beyond(const void* context, int first, int steps, const float* end, int later,
                  float* state) {
    const plan_typed* t = context;
    return plan_recall_beyond(t->recall, first, steps, end, later, state);
}

static void take_given(void* context, const uint8_t* given) {
    ((plan_typed*)context)->given = given;
}

plan_price plan_typed_price(plan_typed* t) {
    return (plan_price){.context = t,
                        .state = t->task->config_dim,
                        .named = t->task->config_dim,
                        .distances = t->task->distances,
                        .cost = cost,
                        .units = units,
                        .measure = measure,
                        .stray = t->support ? stray : NULL,
                        .beyond = t->recall ? beyond : NULL,
                        .given = take_given};
}
