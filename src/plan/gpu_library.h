// gpu_library.h - libfirm-cuda.so: the GPU planners as one table of functions, in a library of its
// own.
//
// Everything but that library is the same file with and without CUDA. It is loaded when a GPU is
// first asked for, and stays: from the folder of whoever asks (libfirm.so or the program), else
// from where the system looks for libraries.
#ifndef PLAN_GPU_LIBRARY_H
#define PLAN_GPU_LIBRARY_H

#include "plan/gpu.h"
#include "plan/lewm_gpu.h"

#define GPU_LIBRARY_FILE "libfirm-cuda.so.0"
#define GPU_LIBRARY_ENTRY "firm_cuda_planners"

// The functions of gpu.h, in its order.
typedef struct gpu_planner {
    firm_status (*create)(const plan_gpu_setup* setup, plan_gpu** out, firm_error* err);
    void (*free)(plan_gpu* g);
    size_t (*bytes)(const plan_gpu* g);
    const char* (*device)(const plan_gpu* g);
    const char* (*way_name)(const plan_gpu* g);
    firm_status (*solve)(plan_gpu* g, int count, const plan_problem* problem, int iterations,
                         int all, plan_answer* answer, firm_error* err);
    firm_status (*rollout)(plan_gpu* g, int n, int horizon, const float* c0, const float* m0,
                           const float* u, float* c_out, int* nonfinite, firm_error* err);
    firm_status (*draw)(plan_gpu* g, uint64_t seed, uint64_t solve, int iteration,
                        const float* mean, const float* spread, float* u, firm_error* err);
    firm_status (*fit)(plan_gpu* g, const float* u, const float* c, const float* goal, float* mean,
                       float* spread, plan_answer* answer, firm_error* err);
    firm_status (*clocks)(plan_gpu* g, const plan_problem* problem, int iterations, int room,
                          const char** name, double* cycles, int* count, firm_error* err);
    firm_status (*phases)(plan_gpu* g, int count, const plan_problem* problem, int iterations,
                          double ms[3], firm_error* err);
    firm_status (*peak)(plan_precision precision, double* gflops, firm_error* err);
} gpu_planner;

// The functions of lewm_gpu.h, in its order.
typedef struct gpu_lewm_planner {
    firm_status (*create)(const lewm_gpu_setup* setup, lewm_gpu** out, firm_error* err);
    void (*free)(lewm_gpu* g);
    size_t (*bytes)(const lewm_gpu* g);
    const char* (*device)(const lewm_gpu* g);
    int (*whole)(const lewm_gpu* g);
    firm_status (*solve)(lewm_gpu* g, int count, const plan_problem* problem, int iterations,
                         int all, plan_answer* answer, firm_error* err);
    firm_status (*rollout)(lewm_gpu* g, int n, int horizon, const float* z0, const float* u,
                           float* path, int* nonfinite, firm_error* err);
} gpu_lewm_planner;

// Both sides must be of one build: the version, and the sizes of all that crosses.
enum { GPU_LIBRARY_SIZES = 13 };
typedef struct gpu_library_build {
    int version;
    size_t size[GPU_LIBRARY_SIZES];
} gpu_library_build;

typedef struct gpu_library {
    gpu_library_build build;  // stays first
    const gpu_planner* planner;
    const gpu_lewm_planner* lewm;
} gpu_library;

typedef const gpu_library* (*gpu_library_entry)(void);

#define GPU_LIBRARY_BUILD                                                             \
    {                                                                                 \
        FIRM_VERSION, {                                                               \
            sizeof(gpu_library), sizeof(gpu_planner), sizeof(gpu_lewm_planner),       \
                sizeof(plan_gpu_setup), sizeof(lewm_gpu_setup), sizeof(plan_options), \
                sizeof(plan_problem), sizeof(plan_answer), sizeof(plan_net_shape),    \
                sizeof(plan_net_weights), sizeof(task_typed), sizeof(lewm_model),     \
                sizeof(firm_error)                                                    \
        }                                                                             \
    }

// The loaded library, or NULL and one sentence that says what to do.
const gpu_library* gpu_library_load(firm_error* err);

#endif
