// gpu.c - the GPU planner of a model and, in a build without CUDA, its refusals.
#include "plan/gpu.h"

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

#ifndef FIRM_CUDA
static firm_status refuse(firm_error* err) {
    return FAIL(err, FIRM_E_UNAVAILABLE,
                "this program was built without CUDA; build it with `make cuda`, or use --device "
                "cpu");
}

firm_status plan_gpu_create(const plan_gpu_setup* setup, plan_gpu** out, firm_error* err) {
    (void)setup;
    *out = NULL;
    return refuse(err);
}

firm_status plan_gpu_peak(plan_precision precision, double* gflops, firm_error* err) {
    (void)precision;
    *gflops = 0;
    return refuse(err);
}

// without a plan_gpu nobody can come here
void plan_gpu_free(plan_gpu* g) {
    (void)g;
}
size_t plan_gpu_bytes(const plan_gpu* g) {
    (void)g;
    return 0;
}
const char* plan_gpu_device(const plan_gpu* g) {
    (void)g;
    return "none";
}
const char* plan_gpu_way_name(const plan_gpu* g) {
    (void)g;
    return "none";
}
firm_status plan_gpu_solve(plan_gpu* g, int count, const plan_problem* problem, int iterations,
                           int all, plan_answer* answer, firm_error* err) {
    (void)g, (void)count, (void)problem, (void)iterations, (void)all, (void)answer;
    return refuse(err);
}
firm_status plan_gpu_rollout(plan_gpu* g, int n, int horizon, const float* c0, const float* m0,
                             const float* u, float* c_out, int* nonfinite, firm_error* err) {
    (void)g, (void)n, (void)horizon, (void)c0, (void)m0, (void)u, (void)c_out, (void)nonfinite;
    return refuse(err);
}
firm_status plan_gpu_draw(plan_gpu* g, uint64_t seed, uint64_t solve, int iteration,
                          const float* mean, const float* spread, float* u, firm_error* err) {
    (void)g, (void)seed, (void)solve, (void)iteration, (void)mean, (void)spread, (void)u;
    return refuse(err);
}
firm_status plan_gpu_fit(plan_gpu* g, const float* u, const float* c, const float* goal,
                         float* mean, float* spread, plan_answer* answer, firm_error* err) {
    (void)g, (void)u, (void)c, (void)goal, (void)mean, (void)spread, (void)answer;
    return refuse(err);
}
firm_status plan_gpu_clocks(plan_gpu* g, const plan_problem* problem, int iterations, int room,
                            const char** name, double* cycles, int* count, firm_error* err) {
    (void)g, (void)problem, (void)iterations, (void)room, (void)name, (void)cycles, (void)count;
    return refuse(err);
}
firm_status plan_gpu_phases(plan_gpu* g, int count, const plan_problem* problem, int iterations,
                            double ms[3], firm_error* err) {
    (void)g, (void)count, (void)problem, (void)iterations, (void)ms;
    return refuse(err);
}
#endif
