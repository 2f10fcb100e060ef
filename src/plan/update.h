// update.h - the update rules of a search: how the next proposals are fitted to this iteration's
// candidates, and what else belongs to a rule.
//
//   cem    mean and unbiased deviation of the elites (the paper and its baseline)
//   mppi   mean and deviation of all candidates, weighted by exp(-(J - J_0) / (t (J_K - J_0))),
//          with J_0 the best cost, J_K that of the last elite and t the temperature. The scale of
//          the costs cancels.
//   icem   cem with noise that is coloured in time (propose.h), elites that compete again in the
//          next iteration, fewer candidates from iteration to iteration, a fit that moves by a
//          share only; the best candidate is the plan
//
// The modes choose the rest: contract looks a fixed horizon ahead and returns what the rule says,
// reach grows the horizon, keeps elites between solves and returns the best candidate.
#ifndef PLAN_UPDATE_H
#define PLAN_UPDATE_H

#include "plan/cem_internal.h"

// Fits mean and spread to the ranked candidates: s->order over (candidates + kept), best first, and
// s->best. Without a finite candidate the fit stays.
void plan_update(plan_solver* s, int kept);
// Candidates of the iteration-th iteration, of `candidates`; `elites` of them become elites.
int plan_update_candidates(const plan_options* o, int iteration, int candidates, int elites);
// Elites that compete again in the next iteration of the contract mode.
int plan_update_kept(const plan_options* o, int elites);
// The plan is the best candidate, not the mean.
int plan_update_takes_best(const plan_options* o);

#endif
