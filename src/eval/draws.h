// draws.h - three draws of trials that never meet, with seeds in the section [trials]:
//
//   study    the tables' trials: the first `study_trials` pairs of the validation episodes at each
//            offset, drawn with study_seed, those solved at the start among them
//   tuning   for choosing settings: pairs of validation episodes in which no study trial lies,
//            drawn with tuning_seed
//   fresh    for what is claimed first: pairs of episodes that are collected for it with fresh_seed
//
// A figure of the study or of fresh trials is computed once, after the settings were chosen by
// tuning trials.
#ifndef EVAL_DRAWS_H
#define EVAL_DRAWS_H

#include "eval/trials.h"
#include "io/config.h"

#define EVAL_DRAWS "tuning|study|fresh"

extern const config_key draw_keys[];
extern const int draw_key_count;

trial_draw eval_draw_of(const char* name);  // NULL: TRIAL_ANY
const char* eval_draw_name(trial_draw draw);
uint64_t eval_draw_seed(trial_draw draw, const config* settings);  // of a named one

// Gives *opt (whose count, offset, unsolved and split are set) the draw's seed, and the episodes
// that it must leave alone: *taken, to be freed with mem_free once the trials are drawn. data:
// where the trials come from; NULL: fresh episodes. Refuses what would let draws overlap.
firm_status eval_draw_begin(trial_draw draw, const config* settings, const episodes* data,
                            trial_options* opt, uint8_t** taken, firm_error* err);

#endif
