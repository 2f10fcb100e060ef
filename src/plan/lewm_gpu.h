// lewm_gpu.h - LeWM's contract searches and rollouts on a CUDA GPU.
//
// Candidates are drawn with the CPU's Philox keys, predicted, priced, ranked and refitted on the
// device. One iteration is a captured graph; between iterations the host does nothing. Savings are
// those of the CPU (lewm_net.h), but keys and values are computed, for every token; and queries of
// the last block, too. Many searches at once are rows of the same products.
//
// The code is in libfirm-cuda.so (gpu_library.h); without it every create fails with
// FIRM_E_UNAVAILABLE.
#ifndef PLAN_LEWM_GPU_H
#define PLAN_LEWM_GPU_H

#include "model/lewm/lewm.h"
#include "plan/options.h"
#include "plan/precision.h"
#include "plan/world.h"

typedef struct lewm_gpu lewm_gpu;

typedef struct lewm_gpu_setup {
    const lewm_model* model;  // copied
    plan_options options;     // sizes the memory: candidates, longest horizon, elites
    plan_precision precision;
    int searches;  // most that are solved at once, at least 1
    int device;    // index of the GPU
    int in_turn;   // tests: product by product, also where a rollout can be one kernel
} lewm_gpu_setup;

firm_status lewm_gpu_create(const lewm_gpu_setup* setup, lewm_gpu** out, firm_error* err);
void lewm_gpu_free(lewm_gpu* g);
size_t lewm_gpu_bytes(const lewm_gpu* g);        // device memory
const char* lewm_gpu_device(const lewm_gpu* g);  // "NVIDIA H200"
int lewm_gpu_whole(const lewm_gpu* g);           // one search's rollouts are one kernel

// Contract searches (world.h); a problem's memory is not read.
firm_status lewm_gpu_solve(lewm_gpu* g, int count, const plan_problem* problem, int iterations,
                           int all, plan_answer* answer, firm_error* err);
plan_device lewm_gpu_device_of(lewm_gpu* g);
// Like lewm_net_rollout; n <= candidates, horizon <= the longest.
firm_status lewm_gpu_rollout(lewm_gpu* g, int n, int horizon, const float* z0, const float* u,
                             float* path, int* nonfinite, firm_error* err);
// Multiply-adds of one rollout with a model, but for the queries of the last block.
int64_t lewm_gpu_macs(const lewm_model* m, int horizon);

#endif
