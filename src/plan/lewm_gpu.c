// lewm_gpu.c - LeWM's GPU planner as a device (world.h) and, in a build without CUDA, its refusals.
#include "plan/lewm_gpu.h"

static firm_status solve(void* context, int count, const plan_problem* problem, int iterations,
                         int all, plan_answer* answer, firm_error* err) {
    return lewm_gpu_solve(context, count, problem, iterations, all, answer, err);
}

plan_device lewm_gpu_device_of(lewm_gpu* g) {
    return (plan_device){.context = g, .solve = g ? solve : NULL};
}

#ifndef FIRM_CUDA
static firm_status refuse(firm_error* err) {
    return FAIL(err, FIRM_E_UNAVAILABLE,
                "this program was built without CUDA; build it with `make cuda`, or use --device "
                "cpu");
}

firm_status lewm_gpu_create(const lewm_gpu_setup* setup, lewm_gpu** out, firm_error* err) {
    (void)setup;
    *out = NULL;
    return refuse(err);
}

// without a lewm_gpu nobody can come here
void lewm_gpu_free(lewm_gpu* g) {
    (void)g;
}
size_t lewm_gpu_bytes(const lewm_gpu* g) {
    (void)g;
    return 0;
}
const char* lewm_gpu_device(const lewm_gpu* g) {
    (void)g;
    return "none";
}
int lewm_gpu_whole(const lewm_gpu* g) {
    (void)g;
    return 0;
}
firm_status lewm_gpu_solve(lewm_gpu* g, int count, const plan_problem* problem, int iterations,
                           int all, plan_answer* answer, firm_error* err) {
    (void)g, (void)count, (void)problem, (void)iterations, (void)all, (void)answer;
    return refuse(err);
}
firm_status lewm_gpu_rollout(lewm_gpu* g, int n, int horizon, const float* z0, const float* u,
                             float* path, int* nonfinite, firm_error* err) {
    (void)g, (void)n, (void)horizon, (void)z0, (void)u, (void)path, (void)nonfinite;
    return refuse(err);
}
#endif
