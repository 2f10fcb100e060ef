// golden_test.c - what the shipped models plan on one moment of each task: the controller's start,
// the planner's own copy of the transition, costs, straying, recorded sequences found, and the
// plans of a small contract search and a small reach search.
//
// Three iterations of 64 candidates: rounding moves a plan by little, and does not yet change which
// candidates are best.
#include "check.h"
#include "core/mem.h"
#include "env/env.h"
#include "golden_values.h"
#include "plan/cost.h"
#include "plan/net_model.h"
#include "plan/perceive.h"
#include "plan/recall.h"
#include "plan/typed.h"

#define TOLERANCE 2e-4
#define PLAN_TOLERANCE 2e-3  // of searched plans: rounding grows from iteration to iteration
#define WHOLE 0.01           // of counts

enum { STEPS = ENV_HORIZON, SHOWN = 4 };

typedef struct scene {
    golden_moment moment;
    firm_model* m;
    plan_net* net;
    golden_values g;
    float c0[FIRM_MAX_CONFIG], goal[FIRM_MAX_CONFIG], chi[TASK_MAX_CHI];
    float* fiber;
} scene;

// ---- the start ----------------------------------------------------------------------------------

static void perceive(scene* x) {
    perception* p = NULL;
    firm_error err = {0};
    const firm_model* m = x->m;
    REQUIRE_OK(perception_create(m, NULL, NULL, &p, &err), err);
    for (int i = 0; i < GOLDEN_FRAMES; i++)
        EXPECT_INT(perception_push(p, golden_frame(&x->moment, i),
                                   i ? x->moment.action[i - 1] : NULL, i == 1),
                   FIRM_OK);
    EXPECT_INT(perception_state(p, NULL, x->c0, x->fiber), FIRM_OK);
    EXPECT_INT(perception_ground(p, golden_frame(&x->moment, GOLDEN_FRAMES), x->goal), FIRM_OK);
    perception_chi(p, x->chi);
    perception_free(p);
    golden_expect(&x->g, "start", x->c0, x->m->task.config_dim, TOLERANCE);
    golden_expect(&x->g, "goal", x->goal, x->m->task.config_dim, TOLERANCE);
    golden_expect_digest(&x->g, "fiber", x->fiber, m->shape.fiber, TOLERANCE);
    golden_expect(&x->g, "chi", x->chi, x->m->task.chi_dim, TOLERANCE);
}

// ---- a fixed plan -------------------------------------------------------------------------------

static void predict(scene* x) {
    const int dim = x->m->task.config_dim;
    float u[STEPS * ENV_CONTROLS * FIRM_MAX_ACTION], path[STEPS * FIRM_MAX_CONFIG];
    int arrival;
    golden_actions(&x->m->task, u);
    void* scratch = mem_alloc(plan_net_scratch_bytes(x->net));
    EXPECT_INT(plan_net_rollout(x->net, scratch, 1, STEPS, x->c0, x->fiber, u, path), 0);
    mem_free(scratch);
    golden_expect(&x->g, "after_one", path, dim, TOLERANCE);
    golden_expect(&x->g, "after_five", path + (STEPS - 1) * dim, dim, TOLERANCE);
    plan_typed typed = {.task = &x->m->task};
    plan_cost cost = {.by = plan_typed_price(&typed), .mode = FIRM_MODE_CONTRACT};
    golden_expect_one(&x->g, "fixed_contract_cost",
                      plan_cost_path(&cost, x->c0, path, STEPS, x->goal, &arrival), TOLERANCE);
    golden_expect_one(&x->g, "fixed_contract_arrival", arrival, WHOLE);
    cost = (plan_cost){.by = plan_typed_price(&typed),
                       .mode = FIRM_MODE_REACH,
                       .price = 0.2f,
                       .running = 0.05f,
                       .arrive = 0.7f};
    golden_expect_one(&x->g, "fixed_reach_cost",
                      plan_cost_path(&cost, x->c0, path, STEPS, x->goal, &arrival), TOLERANCE);
    golden_expect_one(&x->g, "fixed_reach_arrival", arrival, WHOLE);
}

// a way out of the data: every coordinate runs off
static void stray(scene* x) {
    const firm_model* m = x->m;
    const int dim = x->m->task.config_dim;
    float way[STEPS * FIRM_MAX_CONFIG], sum[STEPS];
    plan_support* s;
    firm_error err;
    if (!m->support) return;
    REQUIRE_OK(plan_support_create(m->support, m->support_count, dim, x->m->task.pairs,
                                   m->support_radius, &s, &err),
               err);
    for (int k = 0; k < STEPS; k++) {
        for (int i = 0; i < dim; i++)
            way[k * dim + i] = x->c0[i] + (i % 2 ? -0.12f : 0.12f) * (float)(k + 1);
        sum[k] = plan_support_stray(s, x->c0, way, k + 1);
    }
    golden_expect(&x->g, "stray", sum, STEPS, TOLERANCE);
    golden_expect_one(&x->g, "radius", m->support_radius, TOLERANCE);
    plan_support_free(s);
}

static void recall(scene* x) {
    const firm_model* m = x->m;
    const int length = ENV_SPAN * x->m->task.action_dim;
    plan_recalled found;
    plan_recall* r;
    firm_error err;
    if (!m->recorded) return;
    plan_actions a = plan_actions_of(&x->m->task, m->stats.action_mean, m->stats.action_std);
    REQUIRE_OK(plan_recall_create(m, &a, &(plan_recall_size){SHOWN, ENV_HORIZON, 0}, &r, &err),
               err);
    plan_recall_find(r, x->c0, x->chi, x->goal, &found);
    EXPECT_INT(found.count, SHOWN);
    for (int i = 0; i < SHOWN; i++) {
        char name[24];
        snprintf(name, sizeof name, "recorded%d", i);
        golden_expect_digest(&x->g, name, found.plan + i * length, length, TOLERANCE);
    }
    plan_recall_free(r);
}

// ---- searches -----------------------------------------------------------------------------------

static void search(scene* x, firm_mode mode, const char* what) {
    firm_controller* c;
    firm_error err;
    firm_step step;
    char name[32];
    firm_controller_params p = firm_controller_params_default();
    p.mode = mode, p.candidates = 64, p.elites = 8, p.iterations = 3, p.seed = 7, p.threads = 1;
    REQUIRE_OK(firm_controller_create(x->m, &p, &c, &err), err);
    for (int i = 0; i < GOLDEN_FRAMES; i++)
        EXPECT_INT(firm_controller_push(c, golden_frame(&x->moment, i),
                                        i ? x->moment.action[i - 1] : NULL),
                   FIRM_OK);
    EXPECT_INT(firm_controller_goal(c, golden_frame(&x->moment, GOLDEN_FRAMES)), FIRM_OK);
    EXPECT_INT(firm_controller_act(c, 0, &step), FIRM_OK);
#define NAMED(part) (snprintf(name, sizeof name, "%s_" part, what), name)
    golden_expect_one(&x->g, NAMED("horizon"), step.horizon, WHOLE);
    golden_expect_one(&x->g, NAMED("iterations"), step.iterations, WHOLE);
    golden_expect_one(&x->g, NAMED("arrival"), step.arrival, WHOLE);
    golden_expect_one(&x->g, NAMED("cost"), step.cost, PLAN_TOLERANCE);
    golden_expect(&x->g, NAMED("action"), step.action, x->m->task.action_dim, PLAN_TOLERANCE);
    golden_expect_digest(&x->g, NAMED("plan"), step.plan,
                         step.horizon * ENV_CONTROLS * x->m->task.action_dim, PLAN_TOLERANCE);
    golden_expect(&x->g, NAMED("end"), step.path + step.horizon * x->m->task.config_dim,
                  x->m->task.config_dim, PLAN_TOLERANCE);
    golden_expect(&x->g, NAMED("distance"), step.distance_planned, x->m->task.distances,
                  PLAN_TOLERANCE);
#undef NAMED
    firm_controller_free(c);
}

static void expect_golden(const char* task) {
    scene x = {0};
    if (golden_moment_open(&x.moment, task) && (x.m = golden_model(task))) {
        firm_error err = {0};
        x.fiber = mem_calloc((size_t)x.m->shape.fiber, sizeof *x.fiber);
        EXPECT_INT(plan_net_of_model(x.m, PLAN_FP32, &x.net, &err), FIRM_OK);
        if (x.fiber && x.net && golden_begin(&x.g, "plans", task)) {
            perceive(&x);
            predict(&x);
            stray(&x);
            recall(&x);
            search(&x, FIRM_MODE_CONTRACT, "contract");
            search(&x, FIRM_MODE_REACH, "reach");
        }
        golden_end(&x.g);
        mem_free(x.fiber);
        plan_net_free(x.net);
        firm_model_free(x.m);
    }
    golden_moment_close(&x.moment);
}

TEST(plan, golden_plans_of_tworoom) {
    expect_golden("tworoom");
}
TEST(plan, golden_plans_of_pusht) {
    expect_golden("pusht");
}
TEST(plan, golden_plans_of_reacher) {
    expect_golden("reacher");
}
TEST(plan, golden_plans_of_cube) {
    expect_golden("cube");
}
