// line_test.c - the reach search on a line: one number moves by the action, at most 1 a macro step.
// What a solve remembers for the next one shows in its horizon; and ways between points of a
// support by hand.
#include "check.h"
#include "plan/cem.h"
#include "plan/typed.h"

enum { ROOM = 1 << 16 };

typedef struct line {
    float start;
    float* first;  // (ROOM) first action of every candidate, in order; may be NULL
    int count;
} line;

static const task_typed line_task = {.name = "line",
                                     .action_dim = 1,
                                     .config_dim = 1,
                                     .distances = 1,
                                     .distance = {{"place", "1", 0.5f, {.count = 1, .scale = 1}}},
                                     .cost = TASK_COST_SUM};

static int line_rollout(void* context, int worker, int n, int horizon, const float* u,
                        float* c_out) {
    (void)worker;
    line* l = context;
    for (int i = 0; i < n; i++) {
        float at = l->start;
        if (l->first && l->count < ROOM) l->first[l->count++] = u[i * horizon];
        for (int k = 0; k < horizon; k++) c_out[i * horizon + k] = at += u[i * horizon + k];
    }
    return 0;
}

static plan_setup line_setup(line* l) {
    static plan_typed typed = {.task = &line_task};
    plan_setup s = {.seed = 3};
    s.options = (plan_options){.mode = FIRM_MODE_REACH,
                               .candidates = 64,
                               .iterations = 6,
                               .elites = 8,
                               .horizon = 4,
                               .replan = 1,
                               .spread = 1,
                               .horizon_max = 24,
                               .knots = 2,
                               .box = 1,
                               .wide_share = 0.25f,
                               .wide_spread = 4,
                               .floor = 0.05f,
                               .keep = 4,
                               .price = 0.2f,
                               .running = 0.05f,
                               .arrive = 0.7f};
    s.actions =
        (plan_actions){.dim = 1, .controls = 1, .deviation = {1}, .boxed = 1, .low = -1, .high = 1};
    s.world.model = (plan_model){
        .context = l, .state = 1, .action = 1, .lanes = 1, .workers = 1, .rollout = line_rollout};
    s.world.price = plan_typed_price(&typed);
    return s;
}

// From 0 to 9 at most 1 a step: nine steps, less the 0.35 at which a plan arrives. After two
// executed macro actions the shifted plan arrives two earlier, and the next solve looks two further
// than that.
TEST(plan, executed_macro_actions_bring_the_arrival_closer) {
    line l = {0};
    plan_setup setup = line_setup(&l);
    plan_solver* s;
    firm_error err;
    plan_result r;
    const float goal = 9;
    float c0 = 0;
    REQUIRE_OK(plan_solver_create(&setup, &s, &err), err);
    plan_solver_solve(s, &c0, &goal, 0, &r);
    int arrival = r.arrival;
    EXPECT(arrival >= 9 && arrival <= 12);
    EXPECT_INT(r.horizon, 16);  // 4 and 8 do not arrive
    EXPECT_NEAR(r.path[arrival], goal, 0.35);
    l.start = c0 = r.path[2];
    plan_solver_advance(s, 2);
    plan_solver_solve(s, &c0, &goal, 0, &r);
    EXPECT_INT(r.horizon, arrival - 2 + 2);
    EXPECT(r.arrival <= arrival - 2);
    // near the goal the horizon is the first one again, never shorter
    arrival = r.arrival;
    l.start = c0 = r.path[arrival - 1];
    plan_solver_advance(s, arrival - 1);
    plan_solver_solve(s, &c0, &goal, 0, &r);
    EXPECT_INT(r.horizon, 4);
    plan_solver_free(s);
}

// Wide candidates are noise alone, and its start does not depend on the horizon: equal ones would
// mean that a longer horizon begins with the noise of the shorter one.
TEST(plan, a_longer_horizon_draws_new_noise) {
    static float first[ROOM];
    line l = {.first = first};
    plan_setup setup = line_setup(&l);
    plan_solver* s;
    firm_error err;
    plan_result r;
    const float c0 = 0, goal = 9;
    setup.actions.boxed = 0;  // clipped ones would be equal by chance
    setup.options.wide_spread = 0.01f;
    setup.options.spread = 0.01f;
    setup.options.floor = 0;
    setup.options.horizon_max = 8;
    REQUIRE_OK(plan_solver_create(&setup, &s, &err), err);
    plan_solver_solve(s, &c0, &goal, 0, &r);
    int n = setup.options.candidates, again = setup.options.iterations * n, equal = 0;
    EXPECT_INT(l.count, 2 * again);  // four, then eight macro steps
    for (int i = n - 16; i < n; i++) equal += first[i] == first[again + i];
    EXPECT_INT(equal, 0);
    plan_solver_free(s);
}

// One macro step, so that a path is its action: the fan goes from the best candidate of the last
// iteration to the worst, evenly over the ranks.
TEST(plan, the_fan_spans_all_ranks) {
    enum { N = 64, FAN = 4 };
    static float first[ROOM];
    line l = {.first = first};
    plan_setup setup = line_setup(&l);
    plan_solver* s;
    firm_error err;
    plan_result r;
    const float c0 = 0, goal = 0.3f;
    setup.options.mode = FIRM_MODE_CONTRACT;
    setup.options.iterations = setup.options.horizon = 1;
    setup.fan = FAN;
    REQUIRE_OK(plan_solver_create(&setup, &s, &err), err);
    plan_solver_solve(s, &c0, &goal, 0, &r);
    EXPECT_INT(r.fan, FAN);
    for (int i = 0; i < FAN && r.fan == FAN; i++) {
        float end = r.fan_path[2 * i + 1];
        int rank = 0;
        for (int k = 0; k < N; k++) rank += fabsf(first[k] - goal) < fabsf(end - goal);
        EXPECT_INT(rank, i * (N - 1) / (FAN - 1));
        EXPECT_NEAR(r.fan_path[2 * i], 0, 0);
    }
    plan_solver_free(s);
}

// ---- support ------------------------------------------------------------------------------------

// The way from 0 to 4 is looked at in 1, 2 and 3: with a gap of the support at one of them, that
// one lies 1 from the nearest point, which is a radius of 0.5 and one more.
TEST(plan, support_looks_at_three_points_of_a_way) {
    for (int gap = 1; gap <= 3; gap++) {
        float point[4], way[2] = {4, 8};
        int count = 0;
        for (int x = 0; x <= 4; x++)
            if (x != gap) point[count++] = (float)x;
        plan_support* s;
        firm_error err;
        float c0 = 0;
        REQUIRE_OK(plan_support_create(point, count, 1, 0, 0.5f, &s, &err), err);
        EXPECT_NEAR(plan_support_stray(s, &c0, way, 1), 1, 1e-6);
        // the second step ends 4 from the last point: 7 radii outside count as 4
        EXPECT_NEAR(plan_support_stray(s, &c0, way, 2), 5, 1e-6);
        plan_support_free(s);
    }
}
