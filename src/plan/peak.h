// peak.h - how fast this machine multiplies matrices, and how close the planner comes to it.
#ifndef PLAN_PEAK_H
#define PLAN_PEAK_H

#include "core/pool.h"
#include "plan/cem.h"

// The best single-precision product rate OpenBLAS reaches on the pool's threads, one
// single-threaded product per thread at a time, over a few square sizes. A machine shared with
// others shows its peak only now and then: take the best of several calls. About 0.2 s each.
firm_status plan_measure_peak(pool* threads, double* gflops, firm_error* err);

typedef struct plan_speed {
    int threads, rounds, iterations;
    double ms_per_solve;  // best of the rounds
    double ms_median;
    double gflops;  // multiply-adds of the rollouts counted as two, over the whole solve's time
    double peak_gflops;  // best of the rounds
    double fraction_of_peak;
    int64_t allocations;  // during all solves
} plan_speed;

// Alternates peak measurements and solves, so that both see the same weather. macs: multiply-adds
// of one candidate and macro step (plan_net_macs). The model's start must be set.
firm_status plan_measure_speed(plan_solver* solver, pool* threads, const float* c0,
                               const float* goal, int64_t macs, int rounds, plan_speed* out,
                               firm_error* err);

#endif
