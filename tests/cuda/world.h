// world.h - a small data set and model, and the training graphs of every objective with what fills
// them: what the tests of the GPU's executor and trainer run on both devices.
#ifndef TESTS_CUDA_WORLD_H
#define TESTS_CUDA_WORLD_H

#include "train/frontend.h"

typedef struct world {
    const env_spec* env;
    config* settings;
    episodes* data;
    branches* inter;
    train_set set;
    firm_model* model;
    pool* p;
    float* start;  // the model's weights as they were
    // stand for what frozen modules say
    history_cache cache_f, cache_i;
    token_cache tokens;
} world;

// narrow: the smoke settings; else TwoRoom's own, with few segments. 1 on success; a failure is
// reported.
int world_open(world* w, int narrow);
void world_close(world* w);
void world_restart(world* w);  // weights as they were

typedef struct job {
    const char* name;
    nn_part part[2];
    int parts;
    frontend_graph front;
    rollout_graph roll[2];
    frontend_batch front_batch;
    rollout_batch roll_batch[2];
} job;

// Each of: picture, ground (tokenizer refined), dynamics, rollout (factual and intervention), pool
// (picture, its pairs picked from a table of frames).
enum { JOBS = 5 };
int job_open(job* j, world* w, int kind, int batch);
void job_close(job* j);

// The device, or 0 where there is none (the test counts as skipped).
int device_open(nn_device* d, nn_precision precision);

#endif
