// watch_test.c - what those who watch a search see, that it changes no plan, and the outcomes of
// many plans at once.
#include "check.h"
#include "core/mem.h"
#include "members.h"
#include "plan/cem.h"
#include "toys.h"

enum { D = ECHO_HORIZON * ECHO_ACTION, N = 40, ELITES = 8, ITERATIONS = 4 };
static const float goal[ECHO_CONFIG] = {0.7f, -1.2f, 0.1f, 2.0f};
static const float zero[ECHO_CONFIG] = {0};

typedef struct watcher {
    int calls, device;
    double best[ITERATIONS];  // cost of the best candidate
    float mean[D];            // of the last iteration's elites
} watcher;

static double squared(const float* u) {
    double sum = 0;
    for (int j = 0; j < D; j++) sum += (double)(u[j] - goal[j]) * (double)(u[j] - goal[j]);
    return sum;
}

// Ranked by cost, every candidate once, those that are not finite last.
static void look(void* context, const plan_look* l) {
    watcher* w = context;
    int seen[N] = {0};
    double last = 0;
    EXPECT_INT(l->iteration, w->calls);
    EXPECT_INT(l->candidates, N);
    EXPECT_INT(l->horizon, ECHO_HORIZON);
    EXPECT_INT(l->elites, ELITES);
    EXPECT(l->finite >= N - N / 4 && l->finite <= N);
    memset(w->mean, 0, sizeof w->mean);
    for (int i = 0; i < N; i++) {
        const float* u = l->u + l->order[i] * D;
        EXPECT_INT(seen[l->order[i]]++, 0);
        if (i < l->finite) EXPECT(squared(u) >= last - 1e-4);
        if (i < l->finite) last = squared(u);
        for (int j = 0; j < D && i < l->elites; j++) w->mean[j] += u[j] / ELITES;
    }
    if (w->calls < ITERATIONS) w->best[w->calls++] = squared(l->u + l->order[0] * D);
}

static plan_solver* solver(echo* e) {
    plan_solver* s = NULL;
    firm_error err = {0};
    plan_setup setup = echo_setup(e, FIRM_MODE_CONTRACT);
    setup.options.iterations = ITERATIONS;
    setup.options.candidates = N;
    setup.options.elites = ELITES;
    setup.fan = 6;
    if (plan_solver_create(&setup, &s, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return s;
}

TEST(plan, watched_searches_show_what_they_try) {
    for (int bad = 0; bad < 2; bad++) {
        echo e = {.bad_every = bad ? 7 : 0}, f = e;
        watcher w = {0};
        plan_result seen, unseen;
        plan_solver *s = solver(&e), *t = solver(&f);
        plan_solver_watch(s, look, &w);
        plan_solver_solve(s, zero, goal, 0, &seen);
        plan_solver_solve(t, zero, goal, 0, &unseen);
        EXPECT_INT(w.calls, ITERATIONS);
        EXPECT(w.best[ITERATIONS - 1] < 0.5 * w.best[0]);
        EXPECT(seen.cost == unseen.cost && memcmp(seen.plan, unseen.plan, sizeof zero) == 0);
        EXPECT(seen.fan == 6 && unseen.fan == 6 &&
               memcmp(seen.fan_path, unseen.fan_path, 6 * 3 * sizeof zero) == 0);
        for (int j = 0; j < D; j++) EXPECT_NEAR(seen.plan[j], w.mean[j], 1e-5);
        plan_solver_watch(s, NULL, NULL);
        plan_solver_solve(s, zero, goal, 0, &seen);
        EXPECT_INT(w.calls, ITERATIONS);
        plan_solver_free(t);
        plan_solver_free(s);
    }
}

static firm_status never(void* context, int count, const plan_problem* p, int iterations, int all,
                         plan_answer* a, firm_error* err) {
    static float plan[D], path[ECHO_HORIZON * ECHO_CONFIG];
    (void)count, (void)p, (void)iterations, (void)all, (void)err;
    ++*(int*)context;
    *a = (plan_answer){.plan = plan, .path = path};
    return FIRM_OK;
}

// A search on a device shows nothing of its iterations, so a watched one is no such search.
TEST(plan, watched_searches_leave_the_device) {
    echo e = {0};
    watcher w = {0};
    int device = 0;
    plan_solver* s = NULL;
    plan_result r;
    firm_error err = {0};
    plan_setup setup = echo_setup(&e, FIRM_MODE_CONTRACT);
    setup.options.iterations = ITERATIONS;
    setup.options.candidates = N;
    setup.options.elites = ELITES;
    setup.world.device = (plan_device){&device, never};
    REQUIRE_OK(plan_solver_create(&setup, &s, &err), err);
    const int tried = device;
    plan_solver_solve(s, zero, goal, 0, &r);
    EXPECT_INT(device, tried + 1);
    plan_solver_watch(s, look, &w);
    EXPECT(!plan_solver_on_device(s));
    plan_solver_solve(s, zero, goal, 0, &r);
    EXPECT_INT(device, tried + 1);
    EXPECT_INT(w.calls, ITERATIONS);
    plan_solver_free(s);
}

// Many plans at once end where they end one by one, more of them than a search has candidates.
TEST(plan, many_plans_are_predicted_as_one_by_one) {
    enum {
        PLANS = 450,
        MACROS = 3,
        NUMBERS = MACROS * ENV_CONTROLS * 2,
        STATES = (MACROS + 1) * 2
    };
    static float plan[PLANS][NUMBERS], path[PLANS][STATES], spread[PLANS][MACROS];
    uint8_t* rgb = malloc(MEMBER_PICTURE);
    rng r = rng_start(3, RNG_STREAM(RNG_TEST, 0));
    for (int i = 0; i < PLANS; i++)
        for (int k = 0; k < NUMBERS; k++) plan[i][k] = rng_gauss(&r);
    for (int members = 1; members < 3; members++) {
        firm_model* m = members > 1 ? member_pair("tworoom", 5, 6) : member_lively("tworoom", 5);
        firm_controller* ctl = member_controller(m, FIRM_MODE_CONTRACT, 1, FIRM_DEVICE_CPU);
        EXPECT_INT(controller_predict_many(ctl, PLANS, MACROS, plan[0], path[0], spread[0]),
                   FIRM_E_USAGE);  // nothing was seen
        member_show(ctl, rgb);
        EXPECT_INT(controller_predict_many(ctl, PLANS, MACROS, plan[0], path[0], spread[0]),
                   FIRM_OK);
        for (int i = 0; i < PLANS; i += 13) {
            float alone[STATES];
            EXPECT_INT(firm_controller_predict(ctl, plan[i], MACROS, alone, NULL), FIRM_OK);
            EXPECT(memcmp(alone, path[i], sizeof alone) == 0);
            for (int k = 0; k < MACROS; k++)
                EXPECT(members > 1 ? spread[i][k] > 0 : spread[i][k] == 0);
        }
        firm_controller_free(ctl);
        firm_model_free(m);
    }
    free(rgb);
}
