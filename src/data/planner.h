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

// Contract searches of one thread in the imagination: one model's search picks action sequences,
// and a teacher says what comes of them. From recorded frames to goals as numbers.
typedef struct data_imaginer {
    void* ctx;
    int candidates, iterations;  // of a search
    // A moment's frames, and past (FIRM_HISTORY - 1, action_dim) the actions between them.
    firm_status (*see)(void* ctx, uint64_t seed, uint8_t* const rgb[FIRM_HISTORY],
                       const float* past);
    // Searches a way from there to `goal` (config_dim). Of every iteration `keep` candidates go to
    // action (iterations x keep + 1, span, action_dim), raw, best first, half of them from the
    // elites (searched_rank); the plan comes last. made (iterations x keep + 1): 1 if it is there.
    firm_status (*search)(void* ctx, const float* goal, int keep, float* action, uint8_t* made);
    // What the teacher expects of `count` of them: path (count, points, config_dim) and spread
    // (count, horizon), the members' mean distance from their mean in tolerance units.
    firm_status (*expect)(void* ctx, int count, const float* action, float* path, float* spread);
} data_imaginer;

#endif
