// small.h - a task's data and model in small: what the tests of training run on.
#ifndef TESTS_TRAIN_SMALL_H
#define TESTS_TRAIN_SMALL_H

#include "env/env.h"
#include "train/internal.h"

typedef struct small_options {
    const char *task, *settings;  // settings: a built-in config; NULL: the task's own
    const char* set[7];           // overrides, up to the first NULL
    int episodes, anchors, per_anchor;
    int structured;  // anchors of structured interventions; 0: none
    pool* p;         // where it is collected; NULL: here
} small_options;

typedef struct small {
    const env_spec* env;
    env* kept;  // keeps what all simulations of the task share, so that it is loaded once
    config* settings;
    episodes* data;
    branches *inter, *structured;
    train_set set;      // after small_open
    firm_model* model;  // after small_model
} small;

// Each returns 1, or 0 with nothing left to close: a failure is reported, a task that is not built
// in counts as skipped. A small world must stay where it is until it is closed.
int small_collect(small* s, const small_options* opt);
int small_settings(small* s, const small_options* opt);  // others, for the same data
int small_open(small* s, const train_options* opt, int workers);
int small_model(small* s, uint64_t seed);
void small_close(small* s);
train_inputs small_inputs(const small* s);

#endif
