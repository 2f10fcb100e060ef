// golden_test.c - activations of the shipped models on one moment of each task: tokens,
// configurations, belief, fiber, what is read of chi, and five steps of the transition. Gradient
// checks cannot tell a wrong sign in a module from a right one; these weights can.
//
// Plain C, AVX2 and AVX-512 differ by up to 4e-6 (1 + size of a number); a sign, an index or a
// scale moves these numbers by a hundredth and more.
#include "../plan/golden_values.h"
#include "../plan/pictures.h"
#include "check.h"
#include "env/env.h"
#include "nn/exec.h"

#define TOLERANCE 2e-4

typedef struct activations {
    const golden_moment* moment;
    const firm_model* m;
    float u[ENV_HORIZON * ENV_CONTROLS * FIRM_MAX_ACTION];
    nn_id image[GOLDEN_FRAMES + 1], action[MODEL_HISTORY - 1], macro[ENV_HORIZON];
    nn_id tokens[MODEL_HISTORY], config[GOLDEN_FRAMES + 1], belief, fiber, chi;
    nn_id path[ENV_HORIZON], last_fiber;
} activations;

static firm_status fill(void* ctx, const nn_feed* feed) {
    const activations* a = ctx;
    int dim = a->m->task.action_dim, macro = ENV_CONTROLS * dim;
    for (int i = 0; i <= GOLDEN_FRAMES; i++)
        memcpy(nn_feed_bytes(feed, a->image[i]), golden_frame(a->moment, i), PICTURES_BYTES);
    for (int i = 0; i + 1 < MODEL_HISTORY; i++)
        model_standardise(a->m, a->moment->action[i], 1, nn_feed_real(feed, a->action[i]));
    for (int k = 0; k < ENV_HORIZON; k++)
        memcpy(nn_feed_real(feed, a->macro[k]), a->u + k * macro, (size_t)macro * sizeof *a->u);
    return FIRM_OK;
}

// everything that a controller computes of three frames, a goal and five macro actions
static void build(nn_graph* g, activations* a) {
    const firm_model* m = a->m;
    for (int i = 0; i <= GOLDEN_FRAMES; i++) {
        a->image[i] = nn_image(g, "image", PICTURES_SIDE);
        nn_id still = model_tokens(g, m, a->image[i], NN_NONE);
        a->config[i] = model_ground(g, m, still);
        nn_output(g, a->config[i]);
        if (i == GOLDEN_FRAMES) continue;
        a->tokens[i] = i ? model_tokens(g, m, a->image[i], a->image[i - 1]) : still;
        nn_output(g, a->tokens[i]);
    }
    for (int i = 0; i + 1 < MODEL_HISTORY; i++)
        a->action[i] = nn_input1(g, "action", m->task.action_dim);
    a->belief = model_belief(g, m, a->tokens, a->action);
    a->fiber = model_fiber(g, m, a->belief, a->config);
    a->chi =
        m->shape.reading ? model_reading(g, m, a->config[MODEL_HISTORY - 1], a->fiber) : a->fiber;
    nn_output(g, a->belief);
    nn_output(g, a->fiber);
    if (a->chi != a->fiber) nn_output(g, a->chi);
    nn_id c = a->config[MODEL_HISTORY - 1], fiber = a->fiber;
    for (int k = 0; k < ENV_HORIZON; k++) {
        a->macro[k] = nn_input1(g, "u", ENV_CONTROLS * m->task.action_dim);
        model_transition(g, m, a->macro[k], &c, &fiber);
        a->path[k] = c;
        nn_output(g, c);
    }
    a->last_fiber = fiber;
    nn_output(g, fiber);
}

static void compare(golden_values* g, const activations* a, const nn_exec* e) {
    const task_typed* task = &a->m->task;
    int tokens = model_token_count(a->m) * model_token_width(a->m);
    golden_expect_digest(g, "tokens", nn_exec_output(e, a->tokens[0]), tokens, TOLERANCE);
    golden_expect_digest(g, "tokens_of_change", nn_exec_output(e, a->tokens[2]), tokens, TOLERANCE);
    for (int i = 0; i <= GOLDEN_FRAMES; i++) {
        char name[24];
        snprintf(name, sizeof name, "config%d", i);
        golden_expect(g, name, nn_exec_output(e, a->config[i]), task->config_dim, TOLERANCE);
    }
    golden_expect_digest(g, "belief", nn_exec_output(e, a->belief), a->m->shape.belief, TOLERANCE);
    golden_expect_digest(g, "fiber", nn_exec_output(e, a->fiber), a->m->shape.fiber, TOLERANCE);
    if (a->chi != a->fiber)
        golden_expect(g, "chi", nn_exec_output(e, a->chi), task->chi_dim, TOLERANCE);
    golden_expect(g, "after_one", nn_exec_output(e, a->path[0]), task->config_dim, TOLERANCE);
    golden_expect(g, "after_five", nn_exec_output(e, a->path[ENV_HORIZON - 1]), task->config_dim,
                  TOLERANCE);
    golden_expect_digest(g, "fiber_after_five", nn_exec_output(e, a->last_fiber), a->m->shape.fiber,
                         TOLERANCE);
}

static void expect_golden(const char* task) {
    firm_model* m = NULL;
    golden_moment moment = {0};
    golden_values g = {0};
    nn_graph* graph = NULL;
    nn_exec* e = NULL;
    firm_error err = {0};
    if (golden_moment_open(&moment, task) && (m = golden_model(task))) {
        activations a = {.moment = &moment, .m = m};
        nn_exec_options one = {.batch = 1, .shard = 1, .lanes = 1};
        golden_actions(&m->task, a.u);
        firm_status st = nn_graph_create(m->store, &graph, &err);
        if (st == FIRM_OK) {
            build(graph, &a);
            st = nn_exec_create(graph, nn_backend_cpu(), &one, NULL, &e, &err);
        }
        if (st == FIRM_OK) st = nn_exec_forward(e, 1, fill, &a);
        EXPECT_INT(st, FIRM_OK);
        if (st == FIRM_OK && golden_begin(&g, "activations", task)) compare(&g, &a, e);
        golden_end(&g);
        nn_exec_free(e);
        nn_graph_free(graph);
        firm_model_free(m);
    }
    golden_moment_close(&moment);
}

TEST(model, golden_activations_of_tworoom) {
    expect_golden("tworoom");
}
TEST(model, golden_activations_of_pusht) {
    expect_golden("pusht");
}
TEST(model, golden_activations_of_reacher) {
    expect_golden("reacher");
}
TEST(model, golden_activations_of_cube) {
    expect_golden("cube");
}
