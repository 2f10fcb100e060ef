// reach_test.c - the reach mode: its cost by hand, its settings, and a goal behind a wall that the
// contract does not reach; the same loop on the true TwoRoom.
#include "check.h"
#include "core/mem.h"
#include "env/env.h"
#include "eval/oracle.h"
#include "eval/settings.h"
#include "plan/cem.h"
#include "plan/peak.h"
#include "plan/propose.h"
#include "toys.h"

// TwoRoom configurations from pixels
static void at(float* c, double x, double y) {
    env_config(env_find("tworoom"), (double[]){x, y}, c);
}

TEST(plan, cost_by_hand) {
    const env_spec* spec = env_find("tworoom");
    float goal[2], path[3][2];
    at(goal, 50, 50);
    at(path[0], 50, 98);  // 3 tolerances away
    at(path[1], 50, 58);  // 0.5
    at(path[2], 50, 52);  // 0.125
    int arrival = 0;
    plan_typed typed = {.task = &spec->task};
    plan_cost cost = {.by = plan_typed_price(&typed), .mode = FIRM_MODE_CONTRACT};
    EXPECT_NEAR(plan_cost_path(&cost, path[0], path[0], 3, goal, &arrival), pow(2.0 / 112, 2),
                1e-7);
    EXPECT_INT(arrival, 3);
    // a dear step: arrive at 2 (0.5 + 2 * 0.6), running mean (3 + 0.5) / 2
    cost = (plan_cost){.by = plan_typed_price(&typed),
                       .mode = FIRM_MODE_REACH,
                       .price = 0.6f,
                       .running = 0.1f,
                       .arrive = 0.7f};
    EXPECT_NEAR(plan_cost_path(&cost, path[0], path[0], 3, goal, &arrival), 1.7 + 0.175, 1e-5);
    EXPECT_INT(arrival, 2);
    // a cheap one: 0.125 + 3 * 0.1, mean 3.625 / 3
    cost.price = 0.1f;
    EXPECT_NEAR(plan_cost_path(&cost, path[0], path[0], 3, goal, &arrival), 0.425 + 0.1 * 3.625 / 3,
                1e-5);
    EXPECT_INT(arrival, 3);
    // a path that does not arrive pays for the whole horizon
    EXPECT_NEAR(plan_cost_path(&cost, path[0], path[0], 1, goal, &arrival), 3 + 0.1 + 0.3, 1e-5);
    at(path[1], 50, 82);  // 2
    at(path[2], 50, 90);
    EXPECT_NEAR(plan_cost_path(&cost, path[0], path[0], 3, goal, &arrival), 2 + 0.3 + 0.25, 1e-5);
    EXPECT_INT(arrival, 2);
    path[2][1] = NAN;
    EXPECT(isinf(plan_cost_path(&cost, path[0], path[0], 3, goal, &arrival)));
    cost.mode = FIRM_MODE_CONTRACT;
    EXPECT(isinf(plan_cost_path(&cost, path[0], path[0], 3, goal, NULL)));
}

TEST(plan, options_from_config) {
    config* c;
    firm_error err;
    plan_options o;
    REQUIRE_OK(settings_load(NULL, NULL, NULL, 0, &c, &err), err);
    settings_plan(c, FIRM_MODE_CONTRACT, &o);
    EXPECT_INT(o.candidates, 300);
    EXPECT_INT(o.iterations, 30);
    EXPECT_INT(o.elites, 30);
    EXPECT_INT(o.horizon, 5);
    EXPECT_INT(o.replan, 5);
    EXPECT_NEAR(o.spread, 1, 0);
    EXPECT_INT(plan_options_check(&o, &err), FIRM_OK);
    REQUIRE_OK(config_set(c, "plan.reach_horizon=7", &err), err);
    REQUIRE_OK(config_set(c, "plan.reach_price=0.25", &err), err);
    settings_plan(c, FIRM_MODE_REACH, &o);
    EXPECT_INT(o.horizon, 7);
    EXPECT_INT(o.replan, 1);
    EXPECT_NEAR(o.price, 0.25, 0);
    EXPECT_INT(plan_options_check(&o, &err), FIRM_OK);
    EXPECT(config_set(c, "plan.reach_candidates=-3", &err) != FIRM_OK);
    o.keep = o.elites + 1;
    EXPECT_INT(plan_options_check(&o, &err), FIRM_E_VALUE);
    config_free(c);
}

// Walks from start to goal in closed loop; returns the controls needed, 0 if over budget.
static int walk(firm_mode mode, const double* start, const double* goal_state, int budget,
                uint64_t seed) {
    const env_spec* spec = env_find("tworoom");
    firm_error err = {0};
    config* c = NULL;
    env* world = NULL;
    eval_oracle* oracle = NULL;
    plan_solver* solver = NULL;
    float mean[2] = {0.05f, -0.02f}, deviation[2] = {0.83f, 0.85f}, goal[2], c0[2];
    plan_setup setup = {.actions = plan_actions_of(&spec->task, mean, deviation), .seed = seed};
    int arrived = 0;
    if (settings_load(NULL, NULL, NULL, 0, &c, &err) == FIRM_OK)
        settings_plan(c, mode, &setup.options);
    if (env_create(spec, &world, &err) == FIRM_OK &&
        eval_oracle_create(spec, &setup.actions, 1, &oracle, &err) == FIRM_OK) {
        setup.world = eval_oracle_world(oracle);
        plan_solver_create(&setup, &solver, &err);
    }
    if (!solver) test_fail(__FILE__, __LINE__, "%s", err.message);
    env_config(spec, goal_state, goal);
    if (world) spec->sim->state_set(world, start);
    for (int done = 0; solver && done < budget && !arrived;) {
        double state[2];
        plan_result r;
        spec->sim->state_get(world, state);
        env_config(spec, state, c0);
        eval_oracle_start(oracle, state);
        plan_solver_solve(solver, c0, goal, 0, &r);
        for (int k = 0; k < 5 * setup.options.replan && done < budget && !arrived; k++) {
            float raw[2];
            plan_actions_raw(&setup.actions, r.plan + 2 * k, 1, raw);
            if (mode == FIRM_MODE_REACH)
                EXPECT(fabsf(raw[0]) <= 1.00001f && fabsf(raw[1]) <= 1.00001f);
            spec->sim->step(world, raw);
            spec->sim->state_get(world, state);
            done++;
            if (env_success(spec, state, goal_state)) arrived = done;
        }
        // the simulator is the model: what was predicted is what happened
        if (!arrived && mode == FIRM_MODE_REACH && done < budget) {
            env_config(spec, state, c0);
            EXPECT_NEAR(r.path[2], c0[0], 1e-6);
            EXPECT_NEAR(r.path[3], c0[1], 1e-6);
        }
        plan_solver_advance(solver, setup.options.replan);
    }
    plan_solver_free(solver);
    eval_oracle_free(oracle);
    env_free(world);
    config_free(c);
    return arrived;
}

// Recorded sequences come before the wide ones, cut or continued with zeros to the horizon, and in
// turn: every iteration goes on where the one before ended.
TEST(plan, recorded_sequences_are_proposed) {
    enum { N = 20, DIM = 2, CONTROLS = 5, LENGTH = 25 * DIM, LIBRARY = 3 };
    plan_options o = {.mode = FIRM_MODE_REACH,
                      .candidates = N,
                      .knots = 5,
                      .box = 1,
                      .wide_share = 0.2f,
                      .wide_spread = 2,
                      .recorded = 0.3f};
    plan_actions a = {.dim = DIM, .controls = CONTROLS};
    float library[LIBRARY * LENGTH], zero[7 * CONTROLS * DIM] = {0}, u[7 * CONTROLS * DIM];
    for (int i = 0; i < LIBRARY * LENGTH; i++) library[i] = 100.0f + (float)i;
    for (int horizon = 3; horizon <= 7; horizon += 4) {
        int seen[LIBRARY] = {0}, next = 2 * 6 % LIBRARY;
        for (int i = 0; i < N; i++) {
            plan_proposal p = {.options = &o,
                               .actions = &a,
                               .seed = 3,
                               .iteration = 2,
                               .horizon = horizon,
                               .mean = zero,
                               .spread = zero,
                               .recorded = {LIBRARY, LENGTH, library, NULL}};
            plan_propose(&p, i, u);
            int which = ((int)u[0] - 100) / LENGTH, n = horizon * CONTROLS * DIM;
            EXPECT_INT(u[0] >= 100, i >= 10 && i < 16);
            if (u[0] < 100) continue;
            int take = n < LENGTH ? n : LENGTH;
            seen[which]++;
            EXPECT_INT(which, next++ % LIBRARY);
            EXPECT(memcmp(u, library + which * LENGTH, (size_t)take * sizeof *u) == 0);
            for (int j = take; j < n; j++) EXPECT(u[j] == 0);
            p.recorded.count = 0;  // a model without any: noise instead
            plan_propose(&p, i, u);
            EXPECT(u[0] < 100);
        }
        EXPECT(seen[0] == 2 && seen[1] == 2 && seen[2] == 2);
    }
}

TEST(plan, reach_goes_round_the_wall) {
    // the goal is 40 px away, but behind the wall: up to the door, through it and down again
    double start[2] = {90, 160}, goal[2] = {135, 160};
    for (uint64_t seed = 0; seed < 3; seed++) {
        int controls = walk(FIRM_MODE_REACH, start, goal, 150, seed);
        EXPECT(controls > 35 && controls < 100);
        EXPECT_INT(walk(FIRM_MODE_CONTRACT, start, goal, 150, seed), 0);
    }
}

TEST(plan, reach_is_quick_in_the_open) {
    double start[2] = {30, 30}, goal[2] = {90, 90};
    int controls = walk(FIRM_MODE_REACH, start, goal, 100, 1);
    EXPECT(controls > 0 && controls <= 15);  // 60 px at 5 px per control, less the tolerance
}

TEST(plan, peak_is_measured) {
    pool* threads;
    firm_error err;
    double peak = 0;
    REQUIRE_OK(pool_create(2, &threads, &err), err);
    REQUIRE_OK(plan_measure_peak(threads, &peak, &err), err);
    EXPECT(peak > 0.05);
    pool_free(threads);
}
