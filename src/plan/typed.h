// typed.h - the price of worlds whose states are configurations: the task's typed distances. FIRM
// and the true simulator share it.
#ifndef PLAN_TYPED_H
#define PLAN_TYPED_H

#include "plan/recall.h"
#include "plan/support.h"
#include "plan/world.h"
#include "task/task.h"

typedef struct plan_typed {
    const task_typed* task;
    const uint8_t* given;         // (config_dim) coordinates that goals name; NULL: all
    const plan_support* support;  // where the training data lie; NULL: anywhere
    const plan_recall* recall;    // recordings that a path may follow; NULL: none
} plan_typed;

// *t must outlive the price.
plan_price plan_typed_price(plan_typed* t);

#endif
