// gpu.h - the contract search and the transition's rollouts on a CUDA GPU.
//
// Candidates are drawn with the same Philox keys as on the CPU (propose.c), predicted, priced,
// ranked and refitted on the device; the host sends a start and a goal and gets a plan. Two ways:
//   layered  one kernel per matrix product, any GPU from compute capability 8.0, any shape, one
//            search or many at once (src/plan/cuda/layered.cu)
//   batch    the same for many searches at once: large tiles, LayerNorm folded into the products
//            (src/plan/cuda/batch.cu); on compute capability 9.0 all macro steps in one kernel
//            (src/plan/cuda/fused.cu); with float32 it is the layered way
//   cluster  one kernel for a whole search, the weights held in the registers and shared memory of
//            clusters of 16 multiprocessors; compute capability 9.0, the tasks' usual shape, one
//            search at a time (src/plan/cuda/cluster_kernel.cu)
// A row's arithmetic in the first two does not depend on the rows beside it, so many searches at
// once give the same bits as one after the other in the same way. Same inputs, same GPU: same bits.
//
// The code is in libfirm-cuda.so (gpu_library.h); without it every create fails with
// FIRM_E_UNAVAILABLE.
#ifndef PLAN_GPU_H
#define PLAN_GPU_H

#include "plan/net.h"
#include "plan/options.h"
#include "plan/precision.h"
#include "plan/world.h"
#include "task/task.h"

// AUTO: cluster for one search where it can be taken, else layered; batch for several.
typedef enum plan_gpu_way {
    PLAN_GPU_AUTO,
    PLAN_GPU_LAYERED,
    PLAN_GPU_BATCH,
    PLAN_GPU_CLUSTER
} plan_gpu_way;

typedef struct plan_gpu plan_gpu;

typedef struct plan_gpu_setup {
    const task_typed* task;  // names the cost
    plan_net_shape shape;
    const plan_net_weights* weights;  // copied
    plan_options options;             // sizes the memory: candidates, longest horizon, elites
    plan_precision precision;
    plan_gpu_way way;
    int searches;  // most that are solved at once, at least 1
    int device;    // index of the GPU
    int variant;   // fused, bfloat16: for bench/plan_cuda.c, which names them; 0 but there
} plan_gpu_setup;

// The setup's members that a user chooses.
typedef struct plan_gpu_choice {
    plan_precision precision;
    plan_gpu_way way;
    int searches, device;
} plan_gpu_choice;

// For a model's transition: the setup's spec, shape and weights.
firm_status plan_gpu_for_model(const firm_model* m, const plan_options* options,
                               const plan_gpu_choice* choice, plan_gpu** out, firm_error* err);

// Fails with one clear sentence: no driver or GPU, one that is too old, not enough of its memory,
// or the cluster way asked for where it cannot be taken.
firm_status plan_gpu_create(const plan_gpu_setup* setup, plan_gpu** out, firm_error* err);
void plan_gpu_free(plan_gpu* g);
size_t plan_gpu_bytes(const plan_gpu* g);          // device memory
const char* plan_gpu_device(const plan_gpu* g);    // "NVIDIA H200"
const char* plan_gpu_way_name(const plan_gpu* g);  // "layered", "batch", "fused", "cluster"

// Contract searches of `iterations` iterations, `count` of them (at most setup.searches).
// value and paths come back only with `all`. No allocation of ours. A problem's now is c0 and its
// memory m0.
firm_status plan_gpu_solve(plan_gpu* g, int count, const plan_problem* problem, int iterations,
                           int all, plan_answer* answer, firm_error* err);

// Rolls n <= candidates candidates out like plan_net_rollout, horizon <= the longest.
firm_status plan_gpu_rollout(plan_gpu* g, int n, int horizon, const float* c0, const float* m0,
                             const float* u, float* c_out, int* nonfinite, firm_error* err);

// For tests: the candidates (candidates, horizon, action) that an iteration draws around the mean
// and spread, and what is fitted to candidates u with predictions c.
firm_status plan_gpu_draw(plan_gpu* g, uint64_t seed, uint64_t solve, int iteration,
                          const float* mean, const float* spread, float* u, firm_error* err);
firm_status plan_gpu_fit(plan_gpu* g, const float* u, const float* c, const float* goal,
                         float* mean, float* spread, plan_answer* answer, firm_error* err);

// For bench/plan_cuda.c: where a cluster search's time goes, in cycles of one multiprocessor by
// part; of the fused kernel's variant 1 likewise, first of one warpgroup, then of the other. Zero
// parts in the other ways.
firm_status plan_gpu_clocks(plan_gpu* g, const plan_problem* problem, int iterations, int room,
                            const char** name, double* cycles, int* count, firm_error* err);

// Likewise of `count` searches at once, in milliseconds on the device: candidates drawn, predicted,
// and priced, ranked and refitted. Not for the cluster way.
firm_status plan_gpu_phases(plan_gpu* g, int count, const plan_problem* problem, int iterations,
                            double ms[3], firm_error* err);

// The best rate of a large cuBLASLt product with such operands, GFLOP/s.
firm_status plan_gpu_peak(plan_precision precision, double* gflops, firm_error* err);

#endif
