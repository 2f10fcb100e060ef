// ensemble.c - the mean of several models' predictions, with room for them taken at creation.
//
// The sum runs over the members in their order and over each candidate alone, so a prediction is
// the same bits wherever the candidate stands and whichever thread predicts it.
#include "plan/ensemble.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"

// Candidates of one block on the CPU: as many as the solver hands a thread at a time.
enum { BLOCK = 96 };

struct plan_ensemble {
    plan_model* model;  // (count)
    int count, pairs;
    int block;      // candidates predicted at a time
    int longest;    // macro steps that the scratch has room for
    size_t stride;  // bytes of one worker's scratch
    char* scratch;  // (workers) another member's prediction: (block, longest, config)
};

firm_status plan_ensemble_create(const plan_model* model, int count, int pairs, int candidates,
                                 int longest, plan_ensemble** out, firm_error* err) {
    *out = NULL;
    for (int i = 1; i < count; i++)
        CHECK(model[i].state == model->state && model[i].action == model->action &&
                  model[i].whole == model->whole && model[i].workers == model->workers &&
                  model[i].lanes == model->lanes,
              "member %d of an ensemble is of another kind than the first", i + 1);
    plan_ensemble* e = mem_calloc(1, sizeof *e);
    if (!e) return FAIL(err, FIRM_E_MEMORY, "no memory for an ensemble");
    e->count = count;
    e->pairs = pairs;
    e->longest = longest;
    e->block = model->whole           ? candidates
               : model->lanes < BLOCK ? BLOCK / model->lanes * model->lanes
                                      : model->lanes;
    size_t bytes = (size_t)e->block * (size_t)(longest * model->state) * sizeof(float);
    e->stride = (bytes + 4095) / 4096 * 4096;
    e->scratch = mem_calloc((size_t)model->workers, e->stride);
    e->model = mem_calloc((size_t)count, sizeof *e->model);
    if (!e->scratch || !e->model) {
        plan_ensemble_free(e);
        return FAIL(err, FIRM_E_MEMORY, "no memory for an ensemble of %d models", count);
    }
    memcpy(e->model, model, (size_t)count * sizeof *model);
    *out = e;
    return FIRM_OK;
}

void plan_ensemble_free(plan_ensemble* e) {
    if (!e) return;
    mem_free(e->scratch);
    mem_free(e->model);
    mem_free(e);
}

size_t plan_ensemble_bytes(const plan_ensemble* e) {
    return sizeof *e + (size_t)e->count * sizeof *e->model + (size_t)e->model->workers * e->stride;
}

// From the sum of `count` configurations to their mean. Returns whether it is finite; it is not as
// soon as one of them was not.
static int finish(float* c, int count, int config, int pairs) {
    int finite = 1;
    for (int i = 0; i < config; i++) c[i] /= (float)count;
    for (int i = 0; i < 2 * pairs; i += 2) {
        // as in the transition: the tiny number keeps a pair of zeros from becoming 0 / 0
        float length = sqrtf(c[i] * c[i] + c[i + 1] * c[i + 1] + 1e-12f);
        c[i] /= length;
        c[i + 1] /= length;
    }
    for (int i = 0; i < config; i++) finite &= isfinite(c[i]) != 0;
    return finite;
}

void plan_ensemble_mean(const float* c, int count, int config, int pairs, float* mean) {
    memcpy(mean, c, (size_t)config * sizeof *mean);
    if (count == 1) return;
    for (int k = 1; k < count; k++)
        for (int i = 0; i < config; i++) mean[i] += c[k * config + i];
    finish(mean, count, config, pairs);
}

// Member k's paths (n, path) into each (n, members, path).
static void keep_each(const plan_ensemble* e, int k, int n, size_t path, const float* from,
                      float* each) {
    for (int i = 0; i < n; i++)
        memcpy(each + (size_t)(i * e->count + k) * path, from + (size_t)i * path,
               path * sizeof *each);
}

static int predict_block(plan_ensemble* e, int worker, int n, int horizon, const float* u,
                         float* c_out, float* each) {
    float* other = (float*)(void*)(e->scratch + (size_t)worker * e->stride);
    const int config = e->model->state;
    const size_t path = (size_t)(horizon * config), numbers = (size_t)n * path;
    e->model[0].rollout(e->model[0].context, worker, n, horizon, u, c_out);
    if (each) keep_each(e, 0, n, path, c_out, each);
    for (int k = 1; k < e->count; k++) {
        e->model[k].rollout(e->model[k].context, worker, n, horizon, u, other);
        if (each) keep_each(e, k, n, path, other, each);
        for (size_t i = 0; i < numbers; i++) c_out[i] += other[i];
    }
    int nonfinite = 0;
    for (int i = 0; i < n; i++) {
        int finite = 1;
        for (int t = 0; t < horizon; t++, c_out += config)
            finite &= finish(c_out, e->count, config, e->pairs);
        nonfinite += !finite;
    }
    return nonfinite;
}

static int rollout_each(void* context, int worker, int n, int horizon, const float* u, float* c_out,
                        float* each) {
    plan_ensemble* e = context;
    const size_t us = (size_t)(horizon * e->model->action),
                 cs = (size_t)(horizon * e->model->state);
    int nonfinite = 0;
    CHECK(horizon <= e->longest, "%d macro steps asked of an ensemble for %d", horizon, e->longest);
    for (int from = 0; from < n; from += e->block) {
        int count = n - from < e->block ? n - from : e->block;
        nonfinite += predict_block(e, worker, count, horizon, u + (size_t)from * us,
                                   c_out + (size_t)from * cs,
                                   each ? each + (size_t)(from * e->count) * cs : NULL);
    }
    return nonfinite;
}

static int ensemble_rollout(void* context, int worker, int n, int horizon, const float* u,
                            float* c_out) {
    return rollout_each(context, worker, n, horizon, u, c_out, NULL);
}

plan_model plan_ensemble_model(plan_ensemble* e) {
    plan_model m = *e->model;
    m.context = e;
    m.rollout = ensemble_rollout;
    m.members = e->count;
    m.rollout_each = rollout_each;
    return m;
}
