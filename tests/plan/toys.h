// toys.h - small models and tasks with known answers for the planner's tests.
#ifndef TESTS_PLAN_TOYS_H
#define TESTS_PLAN_TOYS_H

#include "plan/cem.h"
#include "plan/typed.h"

// A net of random weights; the arrays belong to the toy.
typedef struct toy_net {
    plan_net_shape shape;
    plan_net_weights weights;
    float* memory;
} toy_net;

toy_net toy_net_make(plan_net_shape shape, uint64_t seed);
void toy_net_free(toy_net* t);
// The same rollout in double precision, plain loops: c_out (n, horizon, config).
void toy_net_rollout(const toy_net* t, int n, int horizon, const float* c0, const float* m0,
                     const float* u, double* c_out);

// A task whose final configuration is the plan itself: 2 numbers per control, 1 control per macro
// action, horizon 2; config = (u00, u01, u10, u11), so the best plan is the goal.
enum { ECHO_CONFIG = 4, ECHO_ACTION = 2, ECHO_HORIZON = 2 };
typedef struct echo {
    float* seen;  // records every candidate of every call in order, when given
    int seen_rows, seen_room;
    int bad_every;  // every n-th candidate comes back as NaN; 0: none
    int rows;       // rows so far
    int sleep_ms;   // per call
} echo;

extern const task_typed echo_task;
plan_setup echo_setup(echo* e, firm_mode mode);

int64_t test_malloc_count(
    void);  // calls of malloc and its kin in this process; -1 under sanitizers

#endif
