// sims.h - many simulators of one task in step: what the Python environments run on.
//
// A task that needs an engine beside libc lives in a shared library of its own (sims_library.c),
// loaded when it is asked for. Simulators run over a thread pool, one thread each; the results do
// not depend on the number of threads.
#ifndef PYTHON_SIMS_H
#define PYTHON_SIMS_H

#include "env/env.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sims sims;

// What a library of simulators exports: the task of that name, NULL if it has none.
typedef const env_spec* (*sims_find_fn)(const char* task);
#define SIMS_FIND "firm_sims_find"

// The task of that name: from `library`, or without one (NULL) built in or a plug-in's path. It
// stays while the process lives.
firm_status sims_task(const char* task, const char* library, const env_spec** out, firm_error* err);

// `threads` 0: all cores. The caller frees *out.
firm_status sims_create(const env_spec* spec, int count, int threads, sims** out, firm_error* err);
void sims_free(sims* s);
int sims_count(const sims* s);
size_t sims_frame_bytes(const sims* s);

// mask (count): 0 leaves a simulator alone; NULL: all. Each draws a random start, and another
// random state as its goal, one that the start does not solve already: seed (count).
firm_status sims_reset(sims* s, const uint8_t* mask, const uint64_t* seed, firm_error* err);
// The public setter of one simulator, and its goal. Nullable: state, goal, (state dim) each.
firm_status sims_set(sims* s, int i, const double* state, const double* goal, firm_error* err);
// One control: action (count, action_dim).
firm_status sims_step(sims* s, const uint8_t* mask, const float* action, firm_error* err);

// Nullable: frames (count, image, image, 3); state, goal (count, state dim); config (count,
// config_dim); distance (count, distances) to the goal; success (count).
typedef struct sims_view {
    uint8_t* frames;
    double *state, *goal;
    float *config, *distance;
    uint8_t* success;
} sims_view;
firm_status sims_look(sims* s, const uint8_t* mask, const sims_view* out, firm_error* err);
// The picture of any state, by simulator i, which stays where it is.
firm_status sims_picture(sims* s, const double* state, uint8_t* rgb, firm_error* err);

#ifdef __cplusplus
}
#endif
#endif
