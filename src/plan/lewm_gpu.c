// lewm_gpu.c - LeWM's GPU planner, by libfirm-cuda.so (gpu_library.h), and as a device (world.h).
#include "plan/lewm_gpu.h"

#include "plan/gpu_library.h"

static firm_status solve(void* context, int count, const plan_problem* problem, int iterations,
                         int all, plan_answer* answer, firm_error* err) {
    return lewm_gpu_solve(context, count, problem, iterations, all, answer, err);
}

plan_device lewm_gpu_device_of(lewm_gpu* g) {
    return (plan_device){.context = g, .solve = g ? solve : NULL};
}

firm_status lewm_gpu_create(const lewm_gpu_setup* setup, lewm_gpu** out, firm_error* err) {
    const gpu_library* library = gpu_library_load(err);
    *out = NULL;
    return library ? library->lewm->create(setup, out, err) : FIRM_E_UNAVAILABLE;
}

// who has a lewm_gpu has loaded the library
static const gpu_lewm_planner* planner(void) {
    return gpu_library_load(NULL)->lewm;
}

void lewm_gpu_free(lewm_gpu* g) {
    if (g) planner()->free(g);
}
size_t lewm_gpu_bytes(const lewm_gpu* g) {
    return planner()->bytes(g);
}
const char* lewm_gpu_device(const lewm_gpu* g) {
    return planner()->device(g);
}
int lewm_gpu_whole(const lewm_gpu* g) {
    return planner()->whole(g);
}
firm_status lewm_gpu_solve(lewm_gpu* g, int count, const plan_problem* problem, int iterations,
                           int all, plan_answer* answer, firm_error* err) {
    return planner()->solve(g, count, problem, iterations, all, answer, err);
}
firm_status lewm_gpu_rollout(lewm_gpu* g, int n, int horizon, const float* z0, const float* u,
                             float* path, int* nonfinite, firm_error* err) {
    return planner()->rollout(g, n, horizon, z0, u, path, nonfinite, err);
}
