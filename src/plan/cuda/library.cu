// library.cu - the table that libfirm-cuda.so hands out, and the only name it exports.
#include "plan/cuda/planners.cuh"

extern "C" __attribute__((visibility("default"))) const gpu_library* firm_cuda_planners(void) {
    static const gpu_library table = {
        GPU_LIBRARY_BUILD,
        {cuda_plan_create, cuda_plan_free, cuda_plan_bytes, cuda_plan_device, cuda_plan_way_name,
         cuda_plan_solve, cuda_plan_rollout, cuda_plan_draw, cuda_plan_fit, cuda_plan_clocks,
         cuda_plan_phases, cuda_plan_peak},
        {cuda_lewm_create, cuda_lewm_free, cuda_lewm_bytes, cuda_lewm_device, cuda_lewm_whole,
         cuda_lewm_solve, cuda_lewm_rollout}};
    return &table;
}
