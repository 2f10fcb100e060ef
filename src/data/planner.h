// planner.h - what makers of data ask of a planner. Data come before plans in the flow of folders,
// so the planner is handed in as a table of functions: eval/proposers.h fills these in.
#ifndef DATA_PLANNER_H
#define DATA_PLANNER_H

#include "env/env.h"

// A controller of one thread that makes contract plans: the calls of firm_controller in firm.h.
typedef struct data_pilot {
    void* ctx;
    void (*reset)(void* ctx, uint64_t seed);
    firm_status (*push)(void* ctx, const uint8_t* rgb, const float* action);
    firm_status (*goal)(void* ctx, const uint8_t* rgb);
    // The next plan is made from these instead of what the frames show: (FIRM_HISTORY, config_dim)
    // and (config_dim).
    void (*truth)(void* ctx, const float* history, const float* goal);
    firm_status (*act)(void* ctx, firm_step* step);
} data_pilot;

// A contract search of one thread through a simulator that its caller runs.
typedef struct data_search_setup {
    const env_spec* spec;
    const float *mean, *std;  // (action_dim) of recorded actions
    int candidates, iterations, elites;
    // What comes of n candidates: raw (n, span, action_dim) -> path (n, horizon, config_dim), NaN
    // where the simulation broke down; returns how many did. All candidates of an iteration come in
    // one call, at last the plan alone.
    int (*simulate)(void* arg, int n, const float* raw, float* path);
    void* arg;
} data_search_setup;

typedef struct data_searcher {
    firm_status (*open)(const data_search_setup* setup, void** search, firm_error* err);
    // From the configuration `now` to `goal`.
    void (*solve)(void* search, uint64_t seed, const float* now, const float* goal);
    // What candidates are ranked by; not finite for a path that is not.
    float (*cost)(void* search, const float* now, const float* path, const float* goal);
    void (*free)(void* search);  // NULL is fine
} data_searcher;

#endif
