// proposals.h - what a search through a learned model would do at recorded moments: action
// sequences for interventions, so that a model learns where its own optimism is wrong.
//
// Goals are configurations of the moment's own episode: the one a plan ahead, and others of
// it in turn. Searches end after all, half or a quarter of their iterations, in turn, so that not
// only what they end with is seen. Nobody asks whether a goal was reached.
#ifndef EVAL_PROPOSALS_H
#define EVAL_PROPOSALS_H

#include "data/branches.h"
#include "model/model.h"

typedef struct proposals proposals;

// candidates 0: the contract's. The model and the episodes must outlive it.
firm_status proposals_open(const firm_model* model, const episodes* e, uint64_t seed,
                           int candidates, int threads, proposals** out, firm_error* err);
// An intervene_options.propose with the proposals as its ctx.
firm_status proposals_make(void* ctx, int64_t row, int number, float* action, firm_error* err);
void proposals_free(proposals* p);

#endif
