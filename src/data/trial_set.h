// trial_set.h - the trials of an evaluation as a small file, so that another machine needs no data
// set.
//
// The same file also carries moments of training episodes to a machine without the data set
// (`training`), for attempts to learn from; it says so, and no evaluation takes it.
//
// A trial is a start (three rows of history and the two actions between them) and a goal state of
// the same recorded episode. The set also keeps what else an evaluation asks of the data: which
// data set it was and how it was split, so that training data can be refused, and the action
// statistics of its training part.
#ifndef DATA_TRIAL_SET_H
#define DATA_TRIAL_SET_H

#include "data/episodes.h"

enum {
    TRIAL_ROWS = FIRM_HISTORY + 1,     // history, oldest first, then the goal
    TRIAL_ACTIONS = FIRM_HISTORY - 1,  // between the rows of the history
    TRIAL_SET_MAX = 1000000,           // trials
    TRIAL_OFFSET_MAX = 100000          // rows from start to goal
};

// What trials were drawn for (eval/draws.h).
typedef enum trial_draw { TRIAL_ANY, TRIAL_TUNING, TRIAL_STUDY, TRIAL_FRESH } trial_draw;

typedef struct trial_set {
    // Trial i as an "episode" of TRIAL_ROWS rows, so that frames and simulators take them as they
    // take recordings; seed and hash are the data set's.
    episodes* rows;
    int count, offset;
    int64_t* row;      // (count) the start's row in the data set, ascending
    int32_t* episode;  // (count) the episode it lies in
    int32_t* draw;     // (count) its place in the draw: fewer trials are those drawn first
    int unsolved;      // only pairs not solved at the start were drawn
    int training;      // of training episodes: moments to learn from, not trials
    trial_draw drawn;  // for tuning, for the study, fresh, or for nothing in particular
    uint64_t seed;     // of the draw
    uint64_t split_seed;
    uint64_t trials_hash;  // as in the JSON of an evaluation
    float action_mean[FIRM_MAX_ACTION], action_std[FIRM_MAX_ACTION];
} trial_set;

// An empty set for `count` trials.
firm_status trial_set_create(const env_spec* spec, int count, trial_set** out, firm_error* err);
void trial_set_free(trial_set* s);

// source: the data set the rows were taken from; where it has pictures of its own, those of the
// trials' rows are written too.
firm_status trial_set_write(const trial_set* s, const episodes* source, const char* path,
                            firm_error* err);
// Every number is checked; trials_hash is the caller's to compare.
firm_status trial_set_read(const char* path, const env_spec* spec, trial_set** out,
                           firm_error* err);

#endif
