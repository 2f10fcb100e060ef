// shipped.c - see shipped.h.
#include "shipped.h"

#include <math.h>

#include "check.h"
#include "core/mem.h"
#include "core/rng.h"
#include "env/env.h"
#include "eval/settings.h"
#include "plan/cem.h"
#include "plan/typed.h"

int shipped_open(shipped* s, const char* task) {
    char path[1024];
    firm_error err = {0};
    *s = (shipped){0};
    snprintf(path, sizeof path, "%s/models/%s.safetensors", test_source_dir(), task);
    if (firm_model_load(path, &s->model, &err) == FIRM_OK &&
        plan_weights_take(s->model, &s->weights, &err) == FIRM_OK &&
        plan_net_create(&s->weights.shape, &s->weights.net, PLAN_FP32, &s->net, &err) == FIRM_OK) {
        s->scratch = mem_alloc(plan_net_scratch_bytes(s->net));
        return 1;
    }
    test_fail(__FILE__, __LINE__, "%s", err.message);
    return 0;
}

void shipped_close(shipped* s) {
    mem_free(s->scratch);
    plan_net_free(s->net);
    plan_weights_free(&s->weights);
    firm_model_free(s->model);
}

// ---- searches -----------------------------------------------------------------------------------

const float search_start[SEARCH_STARTS][2] = {
    {-0.5f, 0.2f}, {0.6f, -0.4f}, {-0.3f, -0.6f}, {0.5f, 0.5f}};
const float search_goal[SEARCH_STARTS][2] = {
    {-0.2f, 0.1f}, {0.3f, 0.2f}, {-0.6f, -0.1f}, {0.4f, -0.1f}};

const float* search_fiber(int start) {
    static float m0[SEARCH_STARTS * SEARCH_FIBER];
    if (m0[0] == 0)
        rng_fill_normal(11, RNG_STREAM(RNG_TEST, 8), 0, m0, SEARCH_STARTS * SEARCH_FIBER);
    return m0 + start * SEARCH_FIBER;
}

plan_options contract_options(void) {
    return (plan_options){.mode = FIRM_MODE_CONTRACT,
                          .candidates = 300,
                          .iterations = 30,
                          .elites = 30,
                          .horizon = 5,
                          .replan = 5,
                          .spread = 1,
                          .horizon_max = 5};
}

double search_end(const shipped* s, int start, const float* plan) {
    float path[5 * 2];
    plan_net_rollout(s->net, s->scratch, 1, 5, search_start[start], search_fiber(start), plan,
                     path);
    return sqrt(task_cost_value(&s->model->task, path + 8, search_goal[start]));
}

int search_on_cpu(const shipped* s, const plan_net* net, const plan_options* options, int seeds,
                  search_ends* out) {
    plan_learned* learned = NULL;
    plan_solver* solver = NULL;
    pool* threads = NULL;
    firm_error err = {0};
    firm_status st = pool_create(0, &threads, &err);
    if (st == FIRM_OK) st = plan_learned_create(net, threads, &learned, &err);
    plan_typed typed = {.task = &s->model->task};
    if (st == FIRM_OK) {
        plan_setup setup = {
            .options = *options,
            .actions = plan_actions_of(&s->model->task, s->model->stats.action_mean,
                                       s->model->stats.action_std),
            .threads = threads,
            .world = {.model = plan_learned_model(learned), .price = plan_typed_price(&typed)}};
        st = plan_solver_create(&setup, &solver, &err);
    }
    if (st != FIRM_OK) test_fail(__FILE__, __LINE__, "%s", err.message);
    out->seeds = seeds;
    for (int i = 0; i < SEARCH_STARTS && st == FIRM_OK; i++)
        for (int k = 0; k < seeds; k++) {
            plan_result r;
            plan_learned_start(learned, search_start[i], search_fiber(i));
            plan_solver_reset(solver, search_seed(k));
            plan_solver_solve(solver, search_start[i], search_goal[i], 0, &r);
            out->distance[i][k] = search_end(s, i, r.plan);
        }
    plan_solver_free(solver);
    plan_learned_free(learned);
    pool_free(threads);
    return st == FIRM_OK;
}

search_verdict search_judge(const search_ends* cpu, const search_ends* other) {
    search_verdict v = {0};
    double variance = 0, n = SEARCH_STARTS * SEARCH_SEEDS, own[SEARCH_STARTS];
    for (int i = 0; i < SEARCH_STARTS; i++) {
        double mean = 0, sum = 0;
        for (int k = 0; k < cpu->seeds; k++) mean += cpu->distance[i][k] / cpu->seeds;
        for (int k = 0; k < cpu->seeds; k++) sum += pow(cpu->distance[i][k] - mean, 2);
        for (int k = 0; k < SEARCH_SEEDS; k++)
            v.worse += (other->distance[i][k] - cpu->distance[i][k]) / n;
        own[i] = sqrt(sum / (cpu->seeds - 1));
        variance += own[i] * own[i] / SEARCH_STARTS;
    }
    v.spread = sqrt(variance);
    v.allowed = 3 * v.spread * sqrt(2 / n);
    for (int i = 0; i < SEARCH_STARTS; i++) {
        double last = 0, far = 0;
        for (int k = 0; k < cpu->seeds; k++) last = test_worse(last, cpu->distance[i][k]);
        for (int k = 0; k < SEARCH_SEEDS; k++) far = test_worse(far, other->distance[i][k]);
        v.single = test_worse(v.single, (far - last) / fmax(own[i], v.spread));
    }
    return v;
}

int search_sound(const search_verdict* v) {
    double scale = test_tolerance_scale();
    return v->worse <= v->allowed * scale && v->single <= 3 * scale;
}
