// members.c - small ensembles, what their controllers do, and what their members say alone.
#include "members.h"

#include "core/mem.h"
#include "core/rng.h"
#include "env/env.h"
#include "model/files.h"
#include "plan/net_model.h"
#include "plan/perceive.h"
#include "tasks.h"

firm_model* member_lively(const char* task, uint64_t seed) {
    firm_model* m = NULL;
    firm_error err = {0};
    model_shape shape = small_shape();
    const task_typed typed = test_task(task);
    if (model_create(&typed, &shape, 0, seed, &m, &err) != FIRM_OK) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
    for (int i = 0; i < m->store->entries; i++) {
        const nn_entry* e = &m->store->entry[i];
        rng r = rng_start(seed, RNG_STREAM(RNG_TEST, rng_hash_text(e->name) >> 16));
        for (size_t j = 0; j < e->count; j++)
            m->store->value[e->offset + j] += 0.2f * rng_gauss(&r);
    }
    return m;
}

firm_model* member_pair(const char* task, uint64_t first, uint64_t second) {
    firm_model* m = member_lively(task, first);
    m->member[m->members++] = member_lively(task, second);
    return m;
}

firm_controller* member_controller(const firm_model* m, firm_mode mode, int threads,
                                   firm_device device) {
    firm_controller* ctl = NULL;
    firm_error err = {0};
    firm_controller_params p = firm_controller_params_default();
    p.mode = mode, p.threads = threads, p.device = device, p.seed = 11;
    p.candidates = 200, p.iterations = 3, p.elites = 20;
    if (firm_controller_create(m, &p, &ctl, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "no controller: %s", err.message);
    return ctl;
}

static void draw_picture(uint8_t* rgb, uint64_t seed) {
    rng r = rng_start(seed, RNG_STREAM(RNG_TEST, 0));
    for (int i = 0; i < MEMBER_PICTURE; i++) rgb[i] = (uint8_t)rng_u32(&r);
}

void member_show(firm_controller* ctl, uint8_t* rgb) {
    static const float still[FIRM_MAX_ACTION];
    draw_picture(rgb, 1);
    EXPECT_INT(firm_controller_goal(ctl, rgb), FIRM_OK);
    for (uint64_t k = 0; k < 3; k++) {
        draw_picture(rgb, 2 + k);
        EXPECT_INT(firm_controller_push(ctl, rgb, k ? still : NULL), FIRM_OK);
    }
}

member_deeds member_run(const firm_model* m, firm_mode mode, int threads, firm_device device) {
    member_deeds d;
    memset(&d, 0, sizeof d);
    firm_controller* ctl = member_controller(m, mode, threads, device);
    if (!ctl) return d;
    uint8_t* rgb = malloc(MEMBER_PICTURE);
    member_show(ctl, rgb);
    for (int i = 0; i < MEMBER_ACTS; i++) {
        firm_step step;
        EXPECT_INT(firm_controller_act(ctl, 0, &step), FIRM_OK);
        EXPECT(step.nonfinite == 0);
        d.solves += step.solved;
        d.cost = step.cost;
        memcpy(d.action[i], step.action, sizeof step.action);
        memcpy(d.path, step.path, (size_t)(2 * m->task.config_dim) * sizeof(float));
        draw_picture(rgb, 20 + (uint64_t)i);
        EXPECT_INT(firm_controller_push(ctl, rgb, step.action), FIRM_OK);
    }
    memcpy(d.config, controller_config(ctl), (size_t)m->task.config_dim * sizeof(float));
    memcpy(d.goal, controller_goal_config(ctl), (size_t)m->task.config_dim * sizeof(float));
    free(rgb);
    firm_controller_free(ctl);
    return d;
}

// Where the model alone starts from these pictures (or from the truth) and what it predicts for the
// plan: (1 + horizon, config_dim).
static void alone(const firm_model* m, uint8_t* rgb, const float* truth, const float* plan,
                  int horizon, float* path, float* goal) {
    static const float still[FIRM_MAX_ACTION];
    firm_error err = {0};
    perception* eyes = NULL;
    plan_net* net = NULL;
    float fiber[8], u[ENV_HORIZON * ENV_CONTROLS * FIRM_MAX_ACTION];
    REQUIRE_OK(perception_create(m, NULL, NULL, &eyes, &err), err);
    REQUIRE_OK(plan_net_of_model(m, PLAN_FP32, &net, &err), err);
    draw_picture(rgb, 1);
    EXPECT_INT(perception_ground(eyes, rgb, goal), FIRM_OK);
    for (uint64_t k = 0; k < 3; k++) {
        draw_picture(rgb, 2 + k);
        EXPECT_INT(perception_push(eyes, rgb, k ? still : NULL, k == 2), FIRM_OK);
    }
    EXPECT(m->shape.fiber <= 8 && horizon <= ENV_HORIZON);
    EXPECT_INT(perception_state(eyes, truth, path, fiber), FIRM_OK);
    model_standardise(m, plan, horizon * ENV_CONTROLS, u);
    void* scratch = mem_alloc(plan_net_scratch_bytes(net));
    EXPECT_INT(
        plan_net_rollout(net, scratch, 1, horizon, path, fiber, u, path + m->task.config_dim), 0);
    mem_free(scratch);
    plan_net_free(net);
    perception_free(eyes);
}

static void unit(float* c, int pairs) {
    for (int p = 0; p < pairs; p++) {
        float length = hypotf(c[2 * p], c[2 * p + 1]);
        c[2 * p] /= length, c[2 * p + 1] /= length;
    }
}

void member_copies(firm_mode mode, int threads, int solves, firm_device device) {
    firm_model *one = member_lively("tworoom", 5), *two = member_pair("tworoom", 5, 5),
               *other = member_pair("tworoom", 5, 6);
    member_deeds a = member_run(one, mode, threads, device),
                 b = member_run(two, mode, threads, device),
                 c = member_run(other, mode, threads, device);
    EXPECT_INT(a.solves, solves);
    EXPECT(memcmp(&a, &b, sizeof a) == 0);
    EXPECT(memcmp(a.action, c.action, sizeof a.action) != 0);
    firm_model_free(other);
    firm_model_free(two);
    firm_model_free(one);
}

void member_compare(const char* task, int with_truth, firm_device device, double tolerance) {
    enum { ROOM = (1 + ENV_HORIZON) * FIRM_MAX_CONFIG };
    firm_model* m = member_pair(task, 5, 6);
    const int dim = m->task.config_dim, pairs = m->task.pairs;
    uint8_t* rgb = malloc(MEMBER_PICTURE);
    firm_controller* ctl = member_controller(m, FIRM_MODE_CONTRACT, 1, device);
    if (!ctl) return;
    float truth[3 * FIRM_MAX_CONFIG], path[2][ROOM], goal[2][FIRM_MAX_CONFIG];
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < dim; k++) truth[i * dim + k] = 0.3f + 0.1f * (float)(i + k);
        unit(truth + i * dim, pairs);
    }
    firm_step step;
    member_show(ctl, rgb);
    if (with_truth) controller_set_truth(ctl, truth, truth);
    EXPECT_INT(firm_controller_act(ctl, 0, &step), FIRM_OK);
    for (int k = 0; k < 2; k++)
        alone(k ? m->member[0] : m, rgb, with_truth ? truth : NULL, step.plan, step.horizon,
              path[k], goal[k]);
    double worst = 0, spread = 0;
    for (int t = 0; t <= step.horizon; t++) {
        float mean[FIRM_MAX_CONFIG];
        for (int i = 0; i < dim; i++) {
            mean[i] = 0.5f * (path[0][t * dim + i] + path[1][t * dim + i]);
            spread = test_worse(spread, fabs(path[0][t * dim + i] - path[1][t * dim + i]));
        }
        unit(mean, pairs);
        for (int i = 0; i < dim; i++)
            worst = test_worse(worst, fabs((double)step.path[t * dim + i] - mean[i]));
    }
    EXPECT_NEAR(worst, 0, tolerance);
    EXPECT(spread > 0.01 && isfinite(spread));
    float mean[FIRM_MAX_CONFIG];
    for (int i = 0; i < dim; i++) mean[i] = 0.5f * (goal[0][i] + goal[1][i]);
    unit(mean, pairs);
    for (int i = 0; i < dim; i++) {
        EXPECT_NEAR(controller_goal_config(ctl)[i], mean[i], 1e-6);
        if (with_truth) EXPECT_NEAR(step.path[i], truth[2 * dim + i], 0);
    }
    free(rgb);
    firm_controller_free(ctl);
    firm_model_free(m);
}
