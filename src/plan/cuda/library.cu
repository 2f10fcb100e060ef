// library.cu - what libfirm-cuda.so hands out, by the only name it exports.
#include "plan/cuda/library.cuh"

extern "C" __attribute__((visibility("default"))) const gpu_library* firm_cuda_planners(void) {
    static const gpu_library table = {GPU_LIBRARY_BUILD, &cuda_planner, &cuda_lewm_planner};
    return &table;
}
