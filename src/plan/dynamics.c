// dynamics.c - the learned transition behind the solver's plan_model, on the CPU or a GPU.
#include "plan/dynamics.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "core/clock.h"
#include "core/meet.h"
#include "core/mem.h"
#include "plan/net_claims.h"

// ---- actions ------------------------------------------------------------------------------------

plan_actions plan_actions_of(const task_typed* task, const float* mean, const float* deviation) {
    plan_actions a = {.dim = task->action_dim,
                      .controls = task->controls,
                      .boxed = task->action_clamped,
                      .low = task->action_low,
                      .high = task->action_high};
    for (int i = 0; i < task->action_dim; i++) {
        a.mean[i] = mean[i];
        a.deviation[i] = deviation[i];
    }
    return a;
}

void plan_actions_raw(const plan_actions* a, const float* u, int controls, float* raw) {
    for (int t = 0; t < controls; t++)
        for (int i = 0; i < a->dim; i++)
            raw[t * a->dim + i] = u[t * a->dim + i] * a->deviation[i] + a->mean[i];
}

// ---- learned ------------------------------------------------------------------------------------

struct plan_learned {
    const plan_net* net;
    plan_net_shape shape;
    pool* threads;
    int workers;              // threads of the pool
    int teams;                // 1: teams may be formed: every thread has a core of its own
    size_t stride;            // bytes of one thread's scratch
    char* scratch;            // (workers)
    meet* at;                 // (workers) where the members of a team meet, by team
    plan_net_claims* claims;  // (workers)
    float c0[FIRM_MAX_CONFIG];
    float* m0;  // (fiber)
    // the rollout at work
    plan_net_job job;
    int members, teams_at_work;
    plan_net_paces paces;
    plan_net_rest* rest;  // of threads that work by themselves
    atomic_int nonfinite;
};

firm_status plan_learned_create(const plan_net* net, pool* threads, plan_learned** out,
                                firm_error* err) {
    *out = NULL;
    plan_learned* l = mem_calloc(1, sizeof *l);
    if (!l) return FAIL(err, FIRM_E_MEMORY, "no memory for the planner's dynamics");
    size_t workers = (size_t)pool_threads(threads);
    l->net = net;
    plan_net_shape_get(net, &l->shape);
    l->threads = threads;
    l->teams = (int)workers <= pool_cores();
    l->stride = (plan_net_scratch_bytes(net) + 4095) / 4096 * 4096;
    // zeroed, so that the pages are there before the first solve
    l->scratch = mem_calloc(workers, l->stride);
    l->m0 = mem_calloc((size_t)l->shape.fiber + 1, sizeof(float));
    l->at = mem_calloc(workers, sizeof *l->at);
    l->claims = mem_calloc(workers, sizeof *l->claims);
    if (!l->scratch || !l->m0 || !l->at || !l->claims) {
        plan_learned_free(l);
        return FAIL(err, FIRM_E_MEMORY, "no memory for %zu planner threads", workers);
    }
    firm_status status = plan_net_rest_create(net, &l->rest, err);
    if (status != FIRM_OK) {
        plan_learned_free(l);
        return status;
    }
    for (; l->workers < (int)workers; l->workers++) meet_init(&l->at[l->workers]);
    *out = l;
    return FIRM_OK;
}

void plan_learned_free(plan_learned* l) {
    if (!l) return;
    plan_net_rest_free(l->rest);
    mem_free(l->claims);
    mem_free(l->at);
    mem_free(l->scratch);
    mem_free(l->m0);
    mem_free(l);
}

void plan_learned_start(plan_learned* l, const float* c0, const float* m0) {
    memcpy(l->c0, c0, (size_t)l->shape.config * sizeof(float));
    if (l->shape.fiber) memcpy(l->m0, m0, (size_t)l->shape.fiber * sizeof(float));
}

// The job of candidates from .. to - 1.
static plan_net_job part_of(const plan_learned* l, int from, int to) {
    plan_net_job job = l->job;
    job.n = to - from;
    job.u += (size_t)from * (size_t)(job.horizon * l->shape.action);
    job.c_out += (size_t)from * (size_t)(job.horizon * l->shape.config);
    return job;
}

// A member's part of its team's candidates, in whole units and as even as these allow; threads
// beyond the last team have none.
static void roll_member(void* arg, int item, int worker) {
    (void)item;
    plan_learned* l = arg;
    int of = worker / l->members, unit = plan_net_lanes(l->net), n = l->job.n;
    if (of >= l->teams_at_work) return;
    int64_t units = (n + unit - 1) / unit;
    int from = (int)(units * of / l->teams_at_work) * unit;
    int to = (int)(units * (of + 1) / l->teams_at_work) * unit;
    plan_net_job job = part_of(l, from, to < n ? to : n);
    plan_net_team team = {.members = l->members,
                          .scratch = l->scratch + (size_t)(of * l->members) * l->stride,
                          .at = &l->at[of],
                          .claims = l->claims + of * l->members};
    int bad = plan_net_rollout_share(l->net, &job, &team, worker % l->members);
    atomic_fetch_add(&l->nonfinite, bad);
}

// A thread by itself, but for the rest that all share.
static void roll_alone(void* arg, int item, int worker) {
    (void)item;
    plan_learned* l = arg;
    int bad = plan_net_rest_share(l->rest, l->scratch + (size_t)worker * l->stride, NULL);
    atomic_fetch_add(&l->nonfinite, bad);
}

static int learned_rollout(void* context, int worker, int n, int horizon, const float* u,
                           float* c_out) {
    (void)worker;
    plan_learned* l = context;
    int unit = plan_net_lanes(l->net), units = (n + unit - 1) / unit;
    l->job = (plan_net_job){n, horizon, l->c0, l->m0, u, c_out};
    l->members = l->teams ? plan_net_members(l->net, &l->paces, l->workers, n) : 1;
    atomic_store(&l->nonfinite, 0);
    int64_t begun = clock_ns();
    if (l->members == 1) {
        plan_net_pieces pieces = plan_net_cut(l->net, l->workers, n);
        plan_net_rest_begin(l->rest, &l->job, &pieces);
        if (pieces.count == 1)
            roll_alone(l, 0, 0);
        else
            pool_each(l->threads, roll_alone, l);
        atomic_fetch_add(&l->nonfinite, plan_net_rest_nonfinite(l->rest));
    } else {
        l->teams_at_work = l->workers / l->members < units ? l->workers / l->members : units;
        for (int i = 0; i < l->teams_at_work; i++) meet_expect(&l->at[i], l->members);
        pool_each(l->threads, roll_member, l);
    }
    if (l->teams)
        plan_net_paced(&l->paces, l->net, l->workers, l->members, &l->job, clock_ns() - begun);
    return atomic_load(&l->nonfinite);
}

// Up to four units of candidates cost hardly more than one on as many threads.
plan_model plan_learned_model(plan_learned* l) {
    int side = l->workers < 4 ? l->workers : 4;
    return (plan_model){.context = l,
                        .state = l->shape.config,
                        .action = l->shape.action,
                        .lanes = plan_net_lanes(l->net) * side,
                        .workers = 1,
                        .whole = 1,
                        .rollout = learned_rollout};
}

// ---- learned, on a GPU --------------------------------------------------------------------------

firm_status plan_learned_gpu_create(plan_gpu* gpu, const plan_net_shape* shape,
                                    plan_learned_gpu** out, firm_error* err) {
    *out = NULL;
    plan_learned_gpu* l = mem_calloc(1, sizeof *l);
    if (l) l->m0 = mem_calloc((size_t)shape->fiber + 1, sizeof(float));
    if (!l || !l->m0) {
        mem_free(l);
        return FAIL(err, FIRM_E_MEMORY, "no memory for the planner's dynamics");
    }
    l->gpu = gpu;
    l->config = shape->config;
    l->action = shape->action;
    l->fiber = shape->fiber;
    *out = l;
    return FIRM_OK;
}

void plan_learned_gpu_free(plan_learned_gpu* l) {
    if (!l) return;
    mem_free(l->m0);
    mem_free(l);
}

void plan_learned_gpu_start(plan_learned_gpu* l, const float* c0, const float* m0) {
    memcpy(l->c0, c0, (size_t)l->config * sizeof(float));
    if (l->fiber) memcpy(l->m0, m0, (size_t)l->fiber * sizeof(float));
}

static int gpu_rollout(void* context, int worker, int n, int horizon, const float* u,
                       float* c_out) {
    (void)worker;
    plan_learned_gpu* l = context;
    int nonfinite = n;
    l->status = plan_gpu_rollout(l->gpu, n, horizon, l->c0, l->m0, u, c_out, &nonfinite, NULL);
    for (int i = 0; i < n * horizon * l->config && l->status != FIRM_OK; i++) c_out[i] = NAN;
    return nonfinite;
}

plan_model plan_learned_gpu_model(plan_learned_gpu* l) {
    return (plan_model){.context = l,
                        .state = l->config,
                        .action = l->action,
                        .lanes = 1,
                        .workers = 1,
                        .whole = 1,
                        .rollout = gpu_rollout};
}

static firm_status gpu_solve(void* context, int count, const plan_problem* problem, int iterations,
                             int all, plan_answer* answer, firm_error* err) {
    return plan_gpu_solve(context, count, problem, iterations, all, answer, err);
}

plan_device plan_gpu_device_of(plan_gpu* gpu) {
    return (plan_device){.context = gpu, .solve = gpu ? gpu_solve : NULL};
}
