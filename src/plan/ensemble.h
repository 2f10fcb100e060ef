// ensemble.h - several models as one plan_model, which predicts the mean of their predictions.
//
// A search finds every candidate that a model is too hopeful about. Models trained apart are wrong
// in different places, so a plan that is good by their mean is more often good in truth.
#ifndef PLAN_ENSEMBLE_H
#define PLAN_ENSEMBLE_H

#include "plan/dynamics.h"

typedef struct plan_ensemble plan_ensemble;

// Of `count` models of one task, all on the CPU with as many workers or all whole; their contexts
// must outlive it and are started by their owner. pairs: leading (sin, cos) pairs of c. Predicts up
// to `longest` macro steps and, where the models are whole, up to `candidates` candidates.
firm_status plan_ensemble_create(const plan_model* model, int count, int pairs, int candidates,
                                 int longest, plan_ensemble** out, firm_error* err);
void plan_ensemble_free(plan_ensemble* e);
size_t plan_ensemble_bytes(const plan_ensemble* e);
plan_model plan_ensemble_model(plan_ensemble* e);

// The mean of c (count, config), pairs brought back to unit length; a single one as it is.
void plan_ensemble_mean(const float* c, int count, int config, int pairs, float* mean);

#endif
