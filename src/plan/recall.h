// recall.h - recorded action sequences, looked up by the moment and by what is wanted of it.
//
// A search that has to grasp before anything moves finds nothing by noise: all its candidates cost
// the same. What was done in a similar moment (env_spec.situation) and led to where we want to go
// is a better first guess, and one whose outcome was seen, not only predicted.
#ifndef PLAN_RECALL_H
#define PLAN_RECALL_H

#include "model/model.h"
#include "plan/dynamics.h"

typedef struct plan_recall plan_recall;

// The sequences of a model that has some, for a task that has situations; up to `most` at a time.
firm_status plan_recall_create(const firm_model* m, const plan_actions* actions, int most,
                               plan_recall** out, firm_error* err);
void plan_recall_free(plan_recall* r);
size_t plan_recall_bytes(const plan_recall* r);

// Finds the sequences whose recorded moment and whose place after 1 to 5 macro actions are most
// like this moment and this goal, each sequence once, most similar first. *plan: (count,
// span * action_dim) standardised, valid until the next call. Returns count <= most. No
// allocation.
int plan_recall_find(plan_recall* r, const float* c, const float* chi, const float* goal,
                     const float** plan);

#endif
