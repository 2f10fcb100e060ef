// eval.h - a whole evaluation: trials, arms, statistics, as the JSON object of `firm eval --json`.
#ifndef EVAL_EVAL_H
#define EVAL_EVAL_H

#include "eval/arms.h"
#include "io/config.h"
#include "io/json.h"

typedef struct eval_params {
    const env_spec* spec;
    const firm_model* model;  // nullable, if no arm needs it
    const char* model_path;   // for the record; nullable
    const firm_model* lewm;   // of LeWM, for the arm lewm; nullable
    const char* lewm_path;
    const config* settings;  // [plan] and the split's seed
    const episodes*
        data;  // recorded episodes of which the validation part is used; NULL: fresh ones
    // trials read from a file, instead of data; offset, seed and unsolved below are then its own
    const trial_set* set;
    firm_mode mode;
    firm_solver solver;
    int trials, offset;
    int episodes;   // fresh ones to collect where there are no data; 0: as many as the trials need
    uint64_t seed;  // of fresh episodes, the draw of trials and the planner
    const uint64_t* planner_seed;  // of the planner's noise alone; NULL: seed
    int unsolved;
    trial_draw draw;                      // a named one has its own seed; of a set it is the set's
    const char* arms;                     // "firm,oracle-dynamics"
    int threads;                          // 0: all cores
    double deadline_ms;                   // per decision; 0: none
    double seconds;                       // for all arms together; 0: no limit
    int candidates, iterations, horizon;  // 0: as in the settings
    const char* pieces;  // folder of trials shared with other processes (pieces.h); NULL: none
    int traces;                           // the first so many trials of the first arm are recorded
    firm_device device;                   // where the learned arms plan
    firm_precision precision;
    int batch;  // on a GPU, contract mode, no ensemble: trials that run together; 0: as many as fit
} eval_params;

// *result (caller deletes) has the keys of the design; *traces (nullable, caller deletes) is an
// array of recorded episodes.
firm_status eval_run(const eval_params* p, cJSON** result, cJSON** traces, firm_error* err);

// eval_check_held_out for every member of the model.
firm_status eval_check_model(const firm_model* m, const episodes* data, int fresh, firm_error* err);

// The planner's settings of a mode with the params' overrides, checked.
firm_status eval_plan_options(const config* settings, firm_mode mode, int candidates,
                              int iterations, int horizon, plan_options* out, firm_error* err);

#endif
