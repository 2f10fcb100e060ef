// cem.h - the planner's search: proposals (propose.h), an update rule (update.h), and a horizon
// with replanning. The modes are presets of these.
//
// contract (the paper and its baseline): candidates = mean + spread * noise, independent per raw
// coordinate, candidate 0 = mean; mean and unbiased spread of the elites; the final elite mean is
// returned. Every solve starts from mean 0. All of this with the rule cem, the default.
// reach: earliest-arrival cost, proposals that are smooth in time, a share of wide ones around
// zero, elites kept between iterations and, shifted, between solves, a horizon that grows until the
// goal is in reach; the best candidate is returned.
//
// Noise depends on (seed, solve number, iteration, candidate) alone, and a candidate's rollout not
// on its neighbours, so a plan is the same bits for any number of threads. All memory is taken at
// creation; a solve does not allocate, log or touch files.
#ifndef PLAN_CEM_H
#define PLAN_CEM_H

#include <stdint.h>

#include "core/blob.h"
#include "core/pool.h"
#include "plan/cost.h"
#include "plan/dynamics.h"
#include "plan/options.h"

typedef struct plan_solver plan_solver;

typedef struct plan_setup {
    plan_world world;  // its contexts must outlive the solver, as must the pool
    plan_options options;
    plan_actions actions;
    pool* threads;  // NULL: the caller alone; world.model.workers >= its threads
    uint64_t seed;
    int fan;  // candidates of the last iteration kept for display
} plan_setup;

// Pointers stay valid until the next call on the same solver.
typedef struct plan_result {
    firm_status status;       // a device may fail; there is no plan then
    const firm_error* error;  // why, if it failed; else NULL
    int empty;                // nothing was predicted and no plan was in hand: the plan is zero
    int late;                 // the deadline cut the search short, or was missed
    int nonfinite;            // candidates dropped because their prediction was not finite
    int iterations;           // finished
    int64_t rows;             // candidates x macro steps predicted
    double ms;
    float cost;        // of the plan; contract: of the mean that is returned. +inf if not evaluated
    float elite_cost;  // contract: mean cost of the last elites, the figure the baseline reports
    int arrival;       // macro step at which the plan arrives, 1 .. horizon
    int horizon;
    const float* plan;  // (horizon, action) standardised
    const float* path;  // (horizon + 1, state), from now
    int fan;
    const float* fan_path;  // (fan, horizon + 1, state), best first, evenly over the ranks; or NULL
} plan_result;

// Where the time of searches on the CPU went since the solver was made, in nanoseconds. roll: what
// the world does, with drawing and pricing where it predicts piece by piece. fit: one thread alone.
typedef struct plan_phases {
    int64_t draw, roll, price, fit;
} plan_phases;

// What an iteration tried, for those who watch. Valid during the call.
typedef struct plan_look {
    int iteration, candidates, horizon;
    int finite;        // candidates whose cost is finite: the first so many of `order`
    int elites;        // the first so many of these may have made the next proposals
    const int* order;  // (candidates) their numbers, best first
    const float* u;    // (candidates, horizon, action) standardised
} plan_look;
typedef void (*plan_watch)(void* context, const plan_look* look);

firm_status plan_solver_create(const plan_setup* setup, plan_solver** out, firm_error* err);
void plan_solver_free(plan_solver* s);
size_t plan_solver_bytes(const plan_solver* s);

// Searches a plan from the state c0 (the world's own start must have been set to match) to goal.
// deadline_ns: an absolute clock_ns() time, 0 for none. It is read between iterations; another one
// starts only if, by the pace of recent ones (pace.h), it should end in time. When few whole
// iterations fit, they try fewer candidates, and when not even that fits, a shorter horizon. With
// no time at all the plan in hand (or the zero plan) comes back, its path not evaluated.
void plan_solver_solve(plan_solver* s, const float* c0, const float* goal, int64_t deadline_ns,
                       plan_result* result);
// Reach mode: recorded sequences that the next solve tries; they must stay until it ends.
void plan_solver_recall(plan_solver* s, const plan_recalled* recalled);
const plan_phases* plan_solver_phases(const plan_solver* s);
// The whole search runs on the world's device. It knows whole goals alone.
int plan_solver_on_device(const plan_solver* s);
// Tells that `macros` macro actions of the last plan were executed; reach mode starts from the
// rest.
void plan_solver_advance(plan_solver* s, int macros);
// A contract search in two parts, for many at once on one device: what to solve, and what came back
// after `ms`.
void plan_solver_pose(plan_solver* s, const float* c0, const float* goal, plan_problem* problem);
void plan_solver_accept(plan_solver* s, const plan_answer* answer, int iterations, double ms,
                        plan_result* result);
// The state between two solves, and the last result: counted, saved or restored (core/blob.h). How
// fast this machine is, for deadlines, is no part of it.
void plan_solver_walk(plan_solver* s, blob* b, plan_result* result);
// From now on watch is called after every iteration. Searches on a device cannot be watched, so
// their candidates are then drawn and priced here. NULL: nobody watches any more.
void plan_solver_watch(plan_solver* s, plan_watch watch, void* context);
void plan_solver_forget(plan_solver* s);                // drops the plan in hand: a new goal
void plan_solver_reset(plan_solver* s, uint64_t seed);  // forgets everything and restarts the noise

#endif
