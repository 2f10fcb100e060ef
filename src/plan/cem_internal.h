// cem_internal.h - the solver's memory, shared by its parts: cem.c (solves), iterate.c (one
// iteration) and update.c (the update rules).
#ifndef PLAN_CEM_INTERNAL_H
#define PLAN_CEM_INTERNAL_H

#include "plan/cem.h"
#include "plan/doubt.h"
#include "plan/pace.h"
#include "plan/propose.h"

// Best candidates, best first.
typedef struct elite_set {
    int count;
    float* u;           // (elites, longest * action), rows of fixed stride
    float* c;           // (elites, longest * state)
    float* value;       // (elites) cost
    int* arrival;       // (elites)
    plan_trail* trail;  // (elites)
} elite_set;

struct plan_solver {
    plan_setup setup;
    plan_options now;  // of this iteration: setup.options, or fewer candidates under a deadline
    plan_cost cost;
    plan_doubt doubt;
    int longest;       // horizon that memory is taken for
    uint64_t solve;    // number of the next solve, part of the noise key
    int have_plan;     // elites hold (shifted) plans of the last solve
    int horizon;       // of the current or last solve
    int arrival;       // of the last plan, minus what was executed; 0: did not arrive
    int cut;           // the deadline ended the last search before it arrived
    double spare_ns;   // of this solve's time: planned for nothing
    plan_pace pace;    // of batches of candidates
    plan_watch watch;  // NULL: nobody
    void* watching;    // its context

    float *mean, *spread;  // (longest * action)
    float* u;              // (candidates, horizon, action)
    float* c;              // (candidates, horizon, state)
    float* each;           // (candidates, members, horizon, state), or NULL: nothing is doubted
    float* value;         // (candidates + elites): the candidates' costs, then those of kept elites
    int *arrive, *order;  // (candidates), (candidates + elites)
    plan_trail* trail;    // (candidates)
    double* weight;       // (candidates + elites) of the mppi rule
    float* basis;         // (longest * controls, terms) of coloured noise
    int terms;
    elite_set best, last;  // of this iteration, of the one before
    float *plan, *path, *fan_path;
    float *c0, *goal;  // (state)
    plan_proposal proposal;
    plan_recalled recalled;  // for the next solve; count 0: none
    plan_phases phases;
    int nonfinite_piece[1 << 10];
    int pieces;
    firm_error error;  // why the last solve failed
    char* memory;
    size_t bytes;
};

// Draws, predicts and prices s->now.candidates candidates, and fits the proposals to the best.
// `given` elites of the last solve enter as candidates, `kept` of the last iteration compete.
void plan_iterate(plan_solver* s, int iteration, int given, int kept, plan_result* r);
// Predicts `count` candidates from number `from` on; returns how many are not finite.
int plan_predict(plan_solver* s, int worker, int from, int count, const float* u, float* c);
// The cost of the path c, predicted as number i, that follows a recording.
float plan_cost_of(const plan_solver* s, int i, const float* c, const plan_trail* trail,
                   int* arrival);
// The recording that the mean of the proposals follows: the best candidate's.
plan_trail plan_mean_trail(const plan_solver* s);
// Leaves the last iteration's own candidates in s->order, best first: elites kept from before are
// taken out. Returns how many have a finite cost; they come first.
int plan_rank_candidates(plan_solver* s);
// Candidates per thread of a batch, in units of the model's lanes.
int plan_units(const plan_solver* s, int candidates);
// Ids in the order of (value, id): no allocation, and ties have one answer. Costs are never NaN.
void plan_sort_ids(const float* value, int* id, int n);

#endif
