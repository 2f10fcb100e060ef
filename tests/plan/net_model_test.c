// net_model_test.c - the planner's net of a model predicts what the model's own graph predicts, for
// every task: the same transition, written down twice.
#include "plan/net_model.h"

#include "check.h"
#include "core/mem.h"
#include "core/rng.h"
#include "env/env.h"
#include "eval/settings.h"
#include "nn/exec.h"
#include "train/shape.h"

enum { ROWS = 37, STEPS = 3 };

// A model of the task's real shape, every parameter away from its tidy start; NULL without it.
// more: a setting; NULL: none.
static firm_model* model_of(const task_typed* task, const char* more) {
    config* settings;
    firm_error err = {0};
    firm_model* m = NULL;
    model_shape shape;
    if (settings_load(task, NULL, &more, more != NULL, &settings, &err) == FIRM_OK) {
        model_shape_read(settings, &shape);
        config_free(settings);
        model_create(task, &shape, 0, 3, &m, &err);
    }
    if (!m) {
        test_fail(__FILE__, __LINE__, "%s: %s", task->name, err.message);
        return NULL;
    }
    for (int i = 0; i < m->store->entries; i++) {
        const nn_entry* e = &m->store->entry[i];
        if (e->init == NN_INIT_NORMAL) continue;
        rng r = rng_start(5, RNG_STREAM(RNG_TEST, rng_hash_text(e->name) >> 16));
        for (size_t j = 0; j < e->count; j++)
            m->store->value[e->offset + j] += 0.05f * rng_gauss(&r);
    }
    for (int i = 0; i < task->action_dim; i++) {
        m->stats.action_mean[i] = 0.01f * (float)(i + 1);
        m->stats.action_std[i] = 0.2f + 0.1f * (float)i;
    }
    return m;
}

typedef struct rolled {
    nn_id c, fiber, u[STEPS], out[STEPS];
    const float *c0, *m0, *actions;  // (ROWS, STEPS, action)
    int config, fibers, action;
} rolled;

static firm_status fill(void* ctx, const nn_feed* feed) {
    const rolled* r = ctx;
    for (int i = 0; i < feed->count; i++) {
        const float* u = r->actions + (feed->first + i) * STEPS * r->action;
        memcpy(nn_feed_real(feed, r->c) + i * r->config, r->c0, (size_t)r->config * sizeof(float));
        memcpy(nn_feed_real(feed, r->fiber) + i * r->fibers, r->m0,
               (size_t)r->fibers * sizeof(float));
        for (int k = 0; k < STEPS; k++)
            memcpy(nn_feed_real(feed, r->u[k]) + i * r->action, u + k * r->action,
                   (size_t)r->action * sizeof(float));
    }
    return FIRM_OK;
}

// c after every step by the model's graph on the reference backend
static void by_graph(const firm_model* m, rolled* r, float* c_out) {
    firm_error err = {0};
    nn_graph* g = NULL;
    nn_exec* e = NULL;
    REQUIRE_OK(nn_graph_create(m->store, &g, &err), err);
    nn_id c = r->c = nn_input1(g, "c", r->config), f = r->fiber = nn_input1(g, "m", r->fibers);
    for (int k = 0; k < STEPS; k++) {
        char name[32];
        snprintf(name, sizeof name, "u%d", k);
        r->u[k] = nn_input1(g, name, r->action);
        model_transition(g, m, r->u[k], &c, &f);
        nn_output(g, r->out[k] = c);
    }
    nn_exec_options opt = {.batch = ROWS, .shard = 8, .lanes = 1};
    REQUIRE_OK(nn_exec_create(g, nn_backend_ref(), &opt, NULL, &e, &err), err);
    EXPECT_INT(nn_exec_forward(e, ROWS, fill, r), FIRM_OK);
    for (int k = 0; k < STEPS; k++)
        for (int i = 0; i < ROWS; i++)
            memcpy(c_out + (i * STEPS + k) * r->config,
                   nn_exec_output(e, r->out[k]) + i * r->config, (size_t)r->config * sizeof(float));
    nn_exec_free(e);
    nn_graph_free(g);
}

static void compare(const task_typed* task, const char* more) {
    firm_model* m = model_of(task, more);
    if (!m) return;
    firm_error err = {0};
    rolled r = {.config = task->config_dim,
                .fibers = m->shape.fiber,
                .action = task->controls * task->action_dim};
    float c0[FIRM_MAX_CONFIG] = {0.6f, -0.8f, 0.8f, 0.6f, 0.3f, 0.1f};
    size_t numbers = (size_t)(ROWS * STEPS * r.action), out = (size_t)(ROWS * STEPS * r.config);
    float *m0 = calloc((size_t)r.fibers, sizeof *m0), *u = malloc(numbers * sizeof *u);
    float *got = malloc(out * sizeof *got), *want = malloc(out * sizeof *want);
    if (!m->shape.no_fiber) rng_fill_normal(4, RNG_STREAM(RNG_TEST, 1), 0, m0, r.fibers / 4 * 4);
    // within every task's bounds, which the planner applies and the graph does not
    rng_fill_normal(4, RNG_STREAM(RNG_TEST, 2), 0, u, (int)numbers);
    for (size_t i = 0; i < numbers; i++) u[i] = fmaxf(-2, fminf(2, u[i]));
    r.c0 = c0, r.m0 = m0, r.actions = u;
    by_graph(m, &r, want);

    plan_net* net = NULL;
    REQUIRE_OK(plan_net_of_model(m, PLAN_FP32, &net, &err), err);
    void* scratch = mem_alloc(plan_net_scratch_bytes(net));
    EXPECT_INT(plan_net_rollout(net, scratch, ROWS, STEPS, c0, m0, u, got), 0);
    double worst = 0;
    for (size_t i = 0; i < out; i++)
        worst = test_worse(worst, fabs((double)got[i] - (double)want[i]));
    if (!(worst <= 1e-5 * test_tolerance_scale()))
        test_fail(__FILE__, __LINE__, "%s %s: planner and graph differ by %.3g", task->name,
                  more ? more : "", worst);
    mem_free(scratch);
    plan_net_free(net);
    free(want), free(got), free(u), free(m0);
    firm_model_free(m);
}

TEST(plan, net_of_model_as_graph) {
    for (int i = 0; env_at(i); i++) compare(&env_at(i)->task, NULL);
    compare(&env_find("tworoom")->task, "model.no_fiber=true");
}

// A task of one's own that says what it pushes: other coordinates, controls and boxes than any of
// the built-in ones.
TEST(plan, net_of_a_model_that_pushes) {
    static const char text[] =
        "[task]\nname = broom\nimage = 96\nperiod_ms = 50\ncontrols = 4\ncost = sum\nchi = 2\n"
        "[action]\ncount = 3\nlow = -1\nhigh = 1\nclamped = no\n"
        "[config]\nhand = angle\nbin = angle\nbin_y = position\nbin_x = position\n"
        "lid = position\nx = position\ny = position\n"
        "[distance]\nbin = norm bin_y bin_x, 1 m, 0.1\n"
        "[push]\nagent = x y\nblock = bin_x bin_y bin\nscale = 0.5\nmotion = 0.02 0.1 0 0.8\n"
        "radius = 0.05\ncentre = 0.02 0.01\n"
        "[box]\n1 = 0 0 0.2 0.1\n2 = 0.1 0.2 0.05 0.1\n3 = -0.1 0.2 0.05 0.1\n";
    task_typed task;
    firm_error err = {0};
    REQUIRE_OK(task_read("broom", text, &task, &err), err);
    compare(&task, "model.spatial=64");
    // the features are part of the prediction
    firm_model* m = model_of(&task, "model.spatial=64");
    const nn_entry* w =
        &m->store->entry[nn_store_find(m->store, "transition.spatial.extra.weight")];
    EXPECT(w->dim[0] == 5 * (2 + 3 * 3) && w->dim[1] == 64);
    firm_model_free(m);
}
