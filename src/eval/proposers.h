// proposers.h - planners behind the makers of data (data/planner.h): controllers of a learned model
// as pilots and imaginers, and the solver on a simulator.
#ifndef EVAL_PROPOSERS_H
#define EVAL_PROPOSERS_H

#include "data/planned.h"
#include "data/planner.h"
#include "model/model.h"

typedef struct pilots {
    data_pilot* pilot;  // (count)
    int count;
} pilots;

// `count` of them with one thread each, which make contract plans by the model's own settings. The
// model must outlive them.
firm_status pilots_open(const firm_model* model, firm_device device, firm_precision precision,
                        int count, pilots* out, firm_error* err);
// PLANNED_DEPTHS of them, with all, half and a quarter of the contract's iterations. candidates 0:
// the contract's.
firm_status pilots_open_depths(const firm_model* model, int candidates, int threads, pilots* out,
                               firm_error* err);
void pilots_free(pilots* p);

extern const data_searcher proposers_search;

typedef struct imaginers {
    data_imaginer* by;  // (count)
    int count;
} imaginers;

// Contract searches of `guide`, by its own settings but for what is not 0, judged by `teacher`,
// which may be the same. Both must outlive them.
typedef struct imaginer_setup {
    const firm_model *guide, *teacher;
    int candidates, iterations;
    firm_device device;
    firm_precision precision;
} imaginer_setup;
firm_status imaginers_open(const imaginer_setup* setup, int count, imaginers* out, firm_error* err);
void imaginers_free(imaginers* m);

#endif
