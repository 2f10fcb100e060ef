// world.h - a small data set and model of a task, and the training graphs of its stages with what
// fills them: what the tests of the GPU's executor and trainer run on both devices.
#ifndef TESTS_CUDA_WORLD_H
#define TESTS_CUDA_WORLD_H

#include "env/env.h"
#include "train/run.h"
#include "train/small.h"

typedef struct world {
    small small;
    const env_spec* env;
    train_options opt;
    train_run_state run;  // caches stand for what frozen modules say
    firm_model* model;    // the run's, with no weight that is zero
    float* start;         // its weights as they were
    pool* p;
    stage stage[MAX_STAGES];  // of the settings; of those with the same graphs only the first
    int stages;
} world;

typedef enum world_size { WIDE, NARROW } world_size;  // the task's own model, or the smoke one's

// pool: pixel stages pick from a table of so many pairs of frames; 0: from all there are, or as the
// task needs it. 1 on success; 0 where the task is not built in (the test counts as skipped) or
// after a failure, which is reported.
int world_open(world* w, const char* task, world_size size, int pool);
void world_close(world* w);
void world_restart(world* w);  // weights as they were

typedef struct job {
    char name[80];  // "tworoom tokenizer"
    world* w;
    stage_work work;  // its parts are what is run
} job;

// Graphs and samples of a stage, with tokens made up. The first source has `batch` samples, each
// other one three more, or one more where there are but few.
int job_open(job* j, world* w, int stage, int batch);
void job_close(job* j);

#endif
