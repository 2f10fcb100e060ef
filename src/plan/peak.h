// peak.h - how fast this machine multiplies matrices: what the planner's speed is compared with.
#ifndef PLAN_PEAK_H
#define PLAN_PEAK_H

#include "core/pool.h"
#include "core/status.h"

// The best single-precision product rate of our own large products on the pool's threads, one
// single-threaded product per thread at a time, over a few square sizes. A machine shared with
// others shows its peak only now and then: take the best of several calls. About 0.2 s each.
firm_status plan_measure_peak(pool* threads, double* gflops, firm_error* err);

#endif
