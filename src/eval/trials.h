// trials.h - start and goal pairs for an evaluation, drawn from recordings the model was not
// trained on.
//
// A trial starts at row t of an episode with two earlier rows (three frames and two actions of
// history) and aims at row t + offset of the same episode, whose picture must show all that moves
// (task_is_visible): nobody can be asked to reach what a goal image does not show. All arms of an
// evaluation run the same trials; the hash of start and goal state proves it.
#ifndef EVAL_TRIALS_H
#define EVAL_TRIALS_H

#include "data/episodes.h"
#include "data/split.h"
#include "data/trial_set.h"

enum { TRIAL_BEFORE = FIRM_HISTORY - 1 };  // rows of history before the start

typedef struct eval_trial {
    int64_t start, goal;  // rows of eval_trials.data
    int64_t row;          // the start's row in the data set it was drawn from
    int draw;             // its place in the draw
    uint64_t hash;        // of the start and the goal state
    int solved;           // the start already satisfies the task's success test
} eval_trial;

typedef struct eval_trials {
    const episodes* data;  // borrowed
    int count, offset;
    eval_trial* trial;  // (count) by start row
} eval_trials;

typedef struct trial_options {
    int count, offset;
    uint64_t seed;
    int unsolved;             // only pairs that are not solved at the start
    const data_split* split;  // validation episodes only; NULL: every episode (fresh ones)
    int training;             // of the split's training episodes instead: never for an evaluation
    const uint8_t* taken;     // (episodes) 1: left alone; NULL: none is
    int fewer;                // where there are fewer pairs than asked for, all of them
    trial_draw drawn;         // noted in a set
} trial_options;

// Draws distinct pairs; one whose goal cannot be seen is passed over. Fewer eligible ones than
// asked for: FIRM_E_VALUE with how many there are.
firm_status eval_trials_draw(const episodes* data, const trial_options* opt, eval_trials** out,
                             firm_error* err);
// Whether the picture of a row shows all that moves.
int eval_goal_visible(const episodes* data, int64_t row);
void eval_trials_free(eval_trials* t);
uint64_t eval_trials_hash(const eval_trials* t);  // of all pairs, to compare evaluations

// The trials just drawn with `opt` from the validation episodes of a data set, split with
// `split_seed`, as a set that can be written and taken elsewhere.
firm_status eval_trials_pack(const eval_trials* t, const trial_options* opt, uint64_t split_seed,
                             trial_set** out, firm_error* err);
// The `count` trials of a set that were drawn first (0: all of them): those that drawing so few
// from the data set itself gives. Borrows the set.
firm_status eval_trials_take(const trial_set* set, int count, eval_trials** out, firm_error* err);
// Reads a set, and checks on top that its trials are what its hash and `unsolved` say. training: a
// set of training moments is wanted, which an evaluation refuses; and the other way round.
firm_status eval_trials_read(const char* path, const env_spec* spec, int training, trial_set** out,
                             firm_error* err);

// Episodes for `trials` pairs, collected now with a seed of their own. count 0: about two a trial,
// 200 at least, so that most trials come from episodes of their own.
firm_status eval_fresh_episodes(const env_spec* spec, int trials, int count, uint64_t seed, pool* p,
                                episodes** out, firm_error* err);

// Refuses data that the model has learned from: `provenance` (firm_model) may name the seed and
// hash of the training file as "data_seed=N" and "data_hash=H" (hexadecimal). fresh: the episodes
// were collected for this evaluation, so none of them may stem from that seed. Otherwise a file
// with the same seed must be the same file, or its split would hide training episodes among the
// validation ones.
firm_status eval_check_held_out(const char* provenance, const episodes* data, int fresh,
                                firm_error* err);

#endif
