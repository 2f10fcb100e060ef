// worlds.c - see worlds.h.
#include "plan/worlds.h"

firm_status plan_world_open(const plan_world_setup* setup, plan_world* out, firm_error* err) {
    return (setup->model->lewm ? plan_world_lewm : plan_world_firm)(setup, out, err);
}
