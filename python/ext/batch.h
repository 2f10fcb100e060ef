// batch.h - a model asked about many frames at once: configurations, and what would come of plans.
// Works through firm.h alone, with one controller per thread.
#ifndef PYTHON_BATCH_H
#define PYTHON_BATCH_H

#include "firm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct batch batch;

// The model's typed task as text, whichever version wrote its file; 0: it does not fit.
int model_typed(const firm_model* model, char* out, size_t room);

// For plans of up to `macros` macro actions. threads 0: all cores. The model must outlive it.
firm_status batch_create(const firm_model* model, int macros, int threads, batch** out,
                         firm_error* err);
void batch_free(batch* b);
int batch_macros(const batch* b);

// frames (count, H, W, 3) -> config (count, config_dim).
firm_status batch_ground(batch* b, const uint8_t* frames, int count, float* config,
                         firm_error* err);

// frames (count, seen, H, W, 3), the latest last; history (count, seen - 1, action_dim), the
// controls between them; plan (count, macros * controls, action_dim). Goals: one picture each, or
// one for all, or numbers for all; none: distance is NULL.
typedef struct batch_question {
    int count, seen, macros;
    const uint8_t* frames;
    const float *history, *plan;
    const uint8_t* goal;  // (count, H, W, 3), or (H, W, 3) with one_goal; nullable
    int one_goal;
    const float* goal_values;  // (config_dim), nullable
    const uint8_t* goal_given;
} batch_question;
// path (count, macros + 1, config_dim); distance (count, macros + 1, distance_dim), nullable.
firm_status batch_predict(batch* b, const batch_question* q, float* path, float* distance,
                          firm_error* err);

#ifdef __cplusplus
}
#endif
#endif
