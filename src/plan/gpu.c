// gpu.c - the GPU planner of a model, by libfirm-cuda.so (gpu_library.h).
#include "plan/gpu.h"

#include "plan/gpu_library.h"
#include "plan/weights.h"

firm_status plan_gpu_for_model(const firm_model* m, const plan_options* options,
                               const plan_gpu_choice* choice, plan_gpu** out, firm_error* err) {
    plan_weights w;
    *out = NULL;
    firm_status status = plan_weights_take(m, &w, err);
    plan_gpu_setup setup = {.task = &m->task,
                            .shape = w.shape,
                            .weights = &w.net,
                            .options = *options,
                            .precision = choice->precision,
                            .way = choice->way,
                            .searches = choice->searches,
                            .device = choice->device};
    if (status == FIRM_OK) status = plan_gpu_create(&setup, out, err);
    plan_weights_free(&w);
    return status;
}

firm_status plan_gpu_create(const plan_gpu_setup* setup, plan_gpu** out, firm_error* err) {
    const gpu_library* library = gpu_library_load(err);
    *out = NULL;
    return library ? library->planner->create(setup, out, err) : FIRM_E_UNAVAILABLE;
}

firm_status plan_gpu_peak(plan_precision precision, double* gflops, firm_error* err) {
    const gpu_library* library = gpu_library_load(err);
    *gflops = 0;
    return library ? library->planner->peak(precision, gflops, err) : FIRM_E_UNAVAILABLE;
}

// who has a plan_gpu has loaded the library
static const gpu_planner* planner(void) {
    return gpu_library_load(NULL)->planner;
}

void plan_gpu_free(plan_gpu* g) {
    if (g) planner()->free(g);
}
size_t plan_gpu_bytes(const plan_gpu* g) {
    return planner()->bytes(g);
}
const char* plan_gpu_device(const plan_gpu* g) {
    return planner()->device(g);
}
const char* plan_gpu_way_name(const plan_gpu* g) {
    return planner()->way_name(g);
}
firm_status plan_gpu_solve(plan_gpu* g, int count, const plan_problem* problem, int iterations,
                           int all, plan_answer* answer, firm_error* err) {
    return planner()->solve(g, count, problem, iterations, all, answer, err);
}
firm_status plan_gpu_rollout(plan_gpu* g, int n, int horizon, const float* c0, const float* m0,
                             const float* u, float* c_out, int* nonfinite, firm_error* err) {
    return planner()->rollout(g, n, horizon, c0, m0, u, c_out, nonfinite, err);
}
firm_status plan_gpu_draw(plan_gpu* g, uint64_t seed, uint64_t solve, int iteration,
                          const float* mean, const float* spread, float* u, firm_error* err) {
    return planner()->draw(g, seed, solve, iteration, mean, spread, u, err);
}
firm_status plan_gpu_fit(plan_gpu* g, const float* u, const float* c, const float* goal,
                         float* mean, float* spread, plan_answer* answer, firm_error* err) {
    return planner()->fit(g, u, c, goal, mean, spread, answer, err);
}
firm_status plan_gpu_clocks(plan_gpu* g, const plan_problem* problem, int iterations, int room,
                            const char** name, double* cycles, int* count, firm_error* err) {
    return planner()->clocks(g, problem, iterations, room, name, cycles, count, err);
}
firm_status plan_gpu_phases(plan_gpu* g, int count, const plan_problem* problem, int iterations,
                            double ms[3], firm_error* err) {
    return planner()->phases(g, count, problem, iterations, ms, err);
}
