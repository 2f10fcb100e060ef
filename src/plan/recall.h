// recall.h - recorded action sequences, looked up by the moment and by what is wanted of it.
//
// A search that has to grasp before anything moves finds nothing by noise: all its candidates cost
// the same. What was done in a similar moment (env_spec.situation) and led to where we want to go
// is a better first guess, and one whose outcome was seen, not only predicted.
//
// Recordings are moments a macro action apart, one episode (or segment) after the other. A moment
// is named by its number; the next one of its episode has the next number.
#ifndef PLAN_RECALL_H
#define PLAN_RECALL_H

#include "model/model.h"
#include "plan/dynamics.h"
#include "plan/world.h"

typedef struct plan_recall plan_recall;

typedef struct plan_recall_size {
    int most;    // sequences found at a time
    int length;  // macro actions of each; beyond a recording's end the mean action
    int ahead;   // macro actions after a moment among which the goal is looked for; at least those
                 // of a segment
} plan_recall_size;

// The recordings of a model that has some, for a task that has situations.
firm_status plan_recall_create(const firm_model* m, const plan_actions* actions,
                               const plan_recall_size* size, plan_recall** out, firm_error* err);
void plan_recall_free(plan_recall* r);
size_t plan_recall_bytes(const plan_recall* r);

// Finds the sequences whose first moment and whose place after 1 to `ahead` macro actions are most
// like this moment and this goal, each first moment once, most similar first. The pointers stay
// valid until the next call. No allocation.
void plan_recall_find(plan_recall* r, const float* c, const float* chi, const float* goal,
                      plan_recalled* out);
// As in plan_sight and plan_price.
int plan_recall_follow(const plan_recall* r, int first, int later, float* u);
int plan_recall_beyond(const plan_recall* r, int first, int steps, const float* end, int later,
                       float* state);

#endif
