// bench.h - parts of `firm bench` that other commands use.
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/cli.h"
#include "plan/options.h"

// Adds the keys of `firm bench plan` to j.
firm_status bench_plan(const args* a, const env_spec* spec, cJSON* j, firm_error* err);

// Median time of `repeats` solves through the public controller, in ms, with random weights of the
// settings' shape when model is NULL.
firm_status bench_solve_ms(const env_spec* spec, const firm_model* model, const config* settings,
                           const firm_controller_params* p, int repeats, double* ms,
                           firm_error* err);

#endif
