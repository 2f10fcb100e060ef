// lewm_gpu.c - LeWM's GPU planner, by libfirm-cuda.so (gpu_library.h), and as a device (world.h).
#include "plan/lewm_gpu.h"

#include "plan/gpu_library.h"
#include "plan/lewm_weights.h"

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

int64_t lewm_gpu_macs(const lewm_model* m, int horizon) {
    const lewm_shape* s = &m->shape;
    const int64_t w = s->width, inner = s->predictor_heads * s->predictor_head, c = s->context,
                  d = s->predictor_depth, keys = w * 2 * inner,
                  rest = w * inner + inner * w + 2 * w * s->predictor_mlp;
    int64_t macs = 0;
    for (int t = 0; t < horizon; t++) {
        const int64_t tokens = t < c ? 1 : c;  // computed in this step
        macs += (int64_t)lewm_action_dim(m) * s->action_hidden +
                (int64_t)s->action_hidden * s->action_mlp + s->action_mlp * w +
                w * d * LEWM_CHUNKS * w;
        macs += tokens * d * keys + (tokens * (d - 1) + 1) * rest + 2 * w * s->projector;
        // scores and mixing: token k sees k + 1
        for (int64_t k = t < c ? t : 0; k <= (t < c ? t : c - 1); k++)
            macs += 2 * inner * (k + 1) * (t < c || k == c - 1 ? d : d - 1);
    }
    return macs;
}
