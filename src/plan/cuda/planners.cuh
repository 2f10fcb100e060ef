// planners.cuh - the functions behind gpu_library.h.
#ifndef PLAN_CUDA_PLANNERS_CUH
#define PLAN_CUDA_PLANNERS_CUH

#include <stddef.h>
#include <stdint.h>

extern "C" {
#include "plan/gpu_library.h"

firm_status cuda_plan_create(const plan_gpu_setup* setup, plan_gpu** out, firm_error* err);
void cuda_plan_free(plan_gpu* g);
size_t cuda_plan_bytes(const plan_gpu* g);
const char* cuda_plan_device(const plan_gpu* g);
const char* cuda_plan_way_name(const plan_gpu* g);
firm_status cuda_plan_solve(plan_gpu* g, int count, const plan_problem* problem, int iterations,
                            int all, plan_answer* answer, firm_error* err);
firm_status cuda_plan_rollout(plan_gpu* g, int n, int horizon, const float* c0, const float* m0,
                              const float* u, float* c_out, int* nonfinite, firm_error* err);
firm_status cuda_plan_draw(plan_gpu* g, uint64_t seed, uint64_t solve, int iteration,
                           const float* mean, const float* spread, float* u, firm_error* err);
firm_status cuda_plan_fit(plan_gpu* g, const float* u, const float* c, const float* goal,
                          float* mean, float* spread, plan_answer* answer, firm_error* err);
firm_status cuda_plan_clocks(plan_gpu* g, const plan_problem* problem, int iterations, int room,
                             const char** name, double* cycles, int* count, firm_error* err);
firm_status cuda_plan_phases(plan_gpu* g, int count, const plan_problem* problem, int iterations,
                             double ms[3], firm_error* err);
firm_status cuda_plan_peak(plan_precision precision, double* gflops, firm_error* err);

firm_status cuda_lewm_create(const lewm_gpu_setup* setup, lewm_gpu** out, firm_error* err);
void cuda_lewm_free(lewm_gpu* g);
size_t cuda_lewm_bytes(const lewm_gpu* g);
const char* cuda_lewm_device(const lewm_gpu* g);
int cuda_lewm_whole(const lewm_gpu* g);
firm_status cuda_lewm_solve(lewm_gpu* g, int count, const plan_problem* problem, int iterations,
                            int all, plan_answer* answer, firm_error* err);
firm_status cuda_lewm_rollout(lewm_gpu* g, int n, int horizon, const float* z0, const float* u,
                              float* path, int* nonfinite, firm_error* err);
}

#endif
