// library.cuh - the tables of libfirm-cuda.so (gpu_library.h), each made where its functions are.
#ifndef PLAN_CUDA_LIBRARY_CUH
#define PLAN_CUDA_LIBRARY_CUH

#include <stddef.h>
#include <stdint.h>

extern "C" {
#include "plan/gpu_library.h"
}

extern const gpu_planner cuda_planner;                                                  // gpu.cu
extern const gpu_lewm_planner cuda_lewm_planner;                                        // lewm.cu
firm_status cuda_plan_peak(plan_precision precision, double* gflops, firm_error* err);  // peak.cu

#endif
