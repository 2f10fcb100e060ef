// trace.h - records one episode of an arm as JSON: pictures, actions, plans and named distances,
// for the report's moving picture. The format is described in report/report.h.
#ifndef EVAL_TRACE_H
#define EVAL_TRACE_H

#include "env/env.h"
#include "io/json.h"

typedef struct eval_trace {
    const env_spec* spec;
    cJSON* json;    // owned; NULL: nothing is recorded
    cJSON* frames;  // inside json
    float goal[FIRM_MAX_CONFIG];
} eval_trace;

// Starts a record; the goal's state gives the ring that is drawn around it.
firm_status eval_trace_begin(eval_trace* t, const env_spec* spec, const char* mode, const char* arm,
                             int64_t start_row, const double* goal_state, const uint8_t* goal_rgb,
                             firm_error* err);
// One frame before control number `step`: what was seen, decided and planned. The state gives the
// true distance.
firm_status eval_trace_frame(eval_trace* t, int step, const double* state, const uint8_t* rgb,
                             const firm_step* decision, firm_error* err);
// The last frame, after which nothing is done. seen: the named distances the controller reads from
// it, NULL for arms that do not look.
firm_status eval_trace_last(eval_trace* t, int step, const double* state, const uint8_t* rgb,
                            const float* seen, firm_error* err);
firm_status eval_trace_end(eval_trace* t, int success, firm_error* err);
void eval_trace_free(eval_trace* t);

#endif
