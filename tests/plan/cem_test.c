// cem_test.c - the solver against hand-made answers: the contract's arithmetic, known optima,
// threads, deadlines, allocations, non-finite candidates, the fan.
#include "plan/cem.h"

#include "check.h"
#include "core/clock.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/simd.h"
#include "tasks.h"
#include "toys.h"

enum { D = ECHO_HORIZON * ECHO_ACTION, N = 300, K = 30 };
static const float goal[ECHO_CONFIG] = {0.7f, -1.2f, 0.1f, 2.0f};
static const float zero[ECHO_CONFIG] = {0};

static plan_solver* make(const plan_setup* setup) {
    plan_solver* s = NULL;
    firm_error err = {0};
    if (plan_solver_create(setup, &s, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return s;
}

// the documented noise of a candidate in contract mode
static void noise(uint64_t solve, int iteration, int candidate, float* out) {
    rng_fill_normal(5, RNG_STREAM(RNG_PLAN, solve),
                    ((uint64_t)iteration << 32) | ((uint64_t)candidate << 16), out, D);
}

static double squared(const float* u) {
    double sum = 0;
    for (int j = 0; j < D; j++) sum += (double)(u[j] - goal[j]) * (double)(u[j] - goal[j]);
    return sum;
}

// mean and deviation of the 30 best of 300, divisor 29, by selection in plain loops
static void fit_by_hand(float u[N][D], double* mean, double* deviation, double* cost) {
    int taken[N] = {0}, elite[K];
    *cost = 0;
    for (int k = 0; k < K; k++) {
        int best = -1;
        for (int i = 0; i < N; i++)
            if (!taken[i] && (best < 0 || squared(u[i]) < squared(u[best]))) best = i;
        taken[best] = 1;
        elite[k] = best;
        *cost += squared(u[best]) / K;
    }
    for (int j = 0; j < D; j++) {
        mean[j] = deviation[j] = 0;
        for (int k = 0; k < K; k++) mean[j] += u[elite[k]][j] / (double)K;
        for (int k = 0; k < K; k++) deviation[j] += pow(u[elite[k]][j] - mean[j], 2) / 29.0;
        deviation[j] = sqrt(deviation[j]);
    }
}

TEST(plan, contract_by_hand) {
    static float seen[3 * N + 1][D];
    static float first[N][D], second[N][D];
    echo e = {.seen = seen[0], .seen_room = 3 * N + 1};
    plan_setup setup = echo_setup(&e, FIRM_MODE_CONTRACT);
    setup.options.iterations = 2;
    plan_solver* s = make(&setup);
    if (!s) return;
    plan_result r;
    plan_solver_solve(s, zero, goal, 0, &r);
    EXPECT_INT(e.seen_rows, 2 * N + 1);  // and the final mean, once
    EXPECT_INT(r.iterations, 2);
    EXPECT_INT(r.rows, 2 * N * ECHO_HORIZON);

    for (int i = 0; i < N; i++) {
        noise(0, 0, i, first[i]);
        for (int j = 0; j < D; j++) {
            if (i == 0) first[i][j] = 0;  // candidate 0 is the mean
            EXPECT_NEAR(seen[i][j], first[i][j], 0);
        }
    }
    double mean[D], deviation[D], cost;
    fit_by_hand(first, mean, deviation, &cost);
    for (int i = 0; i < N; i++) {
        noise(0, 1, i, second[i]);
        for (int j = 0; j < D; j++) {
            second[i][j] = (float)(i == 0 ? mean[j] : mean[j] + deviation[j] * second[i][j]);
            EXPECT_NEAR(seen[N + i][j], second[i][j], 2e-6);
        }
    }
    fit_by_hand(second, mean, deviation, &cost);
    for (int j = 0; j < D; j++) {
        EXPECT_NEAR(r.plan[j], mean[j], 2e-6);
        EXPECT_NEAR(seen[2 * N][j], r.plan[j], 0);
        EXPECT_NEAR(r.path[ECHO_HORIZON * ECHO_CONFIG + j], r.plan[j], 0);
        EXPECT_NEAR(r.path[j], 0, 0);
    }
    EXPECT_NEAR(r.elite_cost, cost, 1e-5);
    EXPECT_NEAR(r.cost, squared(r.plan), 1e-5);
    // the next solve starts from zero again, with other noise
    e.seen_rows = 0;
    plan_solver_solve(s, zero, goal, 0, &r);
    noise(1, 0, 1, first[1]);
    for (int j = 0; j < D; j++) {
        EXPECT_NEAR(seen[0][j], 0, 0);
        EXPECT_NEAR(seen[1][j], first[1][j], 0);
    }
    plan_solver_free(s);
}

TEST(plan, both_modes_find_the_optimum) {
    for (int mode = 0; mode < 2; mode++) {
        echo e = {0};
        plan_setup setup = echo_setup(&e, (firm_mode)mode);
        setup.options.patience = 0;
        plan_solver* s = make(&setup);
        if (!s) return;
        plan_result r;
        plan_solver_solve(s, zero, goal, 0, &r);
        for (int j = 0; j < D; j++) EXPECT_NEAR(r.plan[j], goal[j], mode ? 0.1 : 0.01);
        EXPECT_INT(r.arrival, 2);
        EXPECT_INT(r.late, 0);
        EXPECT_INT(r.nonfinite, 0);
        plan_solver_free(s);
    }
}

static void expect_same_plan(plan_precision precision) {
    static const int counts[] = {1, 2, 3, 8, 16};
    toy_net t = toy_net_make((plan_net_shape){2, 0, 12, 10, 40, 64, 2, 0}, 3);
    plan_net* net;
    firm_error err;
    REQUIRE_OK(plan_net_create(&t.shape, &t.weights, precision, &net, &err), err);
    float m0[12] = {0.5f, -0.5f}, c0[2] = {0.1f, -0.2f}, to[2] = {0.8f, 0.3f}, one[2] = {1, 1},
          none[2] = {0};
    const task_typed tworoom = test_task("tworoom");
    plan_typed typed = {.task = &tworoom};
    for (int mode = 0; mode < 2; mode++) {
        float plan[2][100], path[22];
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            int threads = counts[i];
            plan_learned* l;
            echo e = {0};
            plan_setup setup = echo_setup(&e, (firm_mode)mode);
            setup.world.price = plan_typed_price(&typed);
            setup.actions = plan_actions_of(&tworoom, none, one);
            setup.options.horizon = 5;
            setup.options.horizon_max = 10;
            setup.options.knots = 4;
            setup.options.iterations = 4;
            setup.options.candidates = 101;
            REQUIRE_OK(pool_create(threads, &setup.threads, &err), err);
            REQUIRE_OK(plan_learned_create(net, setup.threads, &l, &err), err);
            plan_learned_start(l, c0, m0);
            setup.world.model = plan_learned_model(l);
            plan_solver* s = make(&setup);
            if (!s) return;
            plan_result r;
            for (int solve = 0; solve < 3; solve++) {
                plan_solver_solve(s, c0, to, 0, &r);
                plan_solver_advance(s, 1);
            }
            size_t bytes = (size_t)r.horizon * 10 * sizeof(float);
            memcpy(plan[threads > 1], r.plan, bytes);
            if (threads == 1) memcpy(path, r.path, (size_t)(r.horizon + 1) * 2 * sizeof(float));
            EXPECT_INT(memcmp(plan[0], plan[threads > 1], bytes), 0);
            EXPECT_INT(memcmp(path, r.path, (size_t)(r.horizon + 1) * 2 * sizeof(float)), 0);
            plan_solver_free(s);
            plan_learned_free(l);
            pool_free(setup.threads);
        }
    }
    plan_net_free(net);
    toy_net_free(&t);
}

TEST(plan, same_plan_for_any_threads) {
    expect_same_plan(PLAN_FP32);
    if (simd_best_bf16() != SIMD_PLAIN)
        expect_same_plan(PLAN_BF16);
    else
        test_skip("the processor has no bfloat16 instructions");
}

TEST(plan, seed_and_reset) {
    echo e = {0};
    plan_setup setup = echo_setup(&e, FIRM_MODE_REACH);
    setup.options.iterations = 3;
    plan_solver* s = make(&setup);
    if (!s) return;
    plan_result r;
    float plan[2][D];
    for (int round = 0; round < 2; round++) {
        plan_solver_reset(s, 77);
        for (int i = 0; i < 3; i++) {
            plan_solver_solve(s, zero, goal, 0, &r);
            plan_solver_advance(s, 1);
        }
        memcpy(plan[round], r.plan, sizeof plan[round]);
    }
    EXPECT_INT(memcmp(plan[0], plan[1], sizeof plan[0]), 0);
    plan_solver_reset(s, 78);
    plan_solver_solve(s, zero, goal, 0, &r);
    EXPECT(memcmp(plan[0], r.plan, sizeof plan[0]) != 0);
    plan_solver_free(s);
}

TEST(plan, past_deadline_gives_the_plan_in_hand) {
    for (int mode = 0; mode < 2; mode++) {
        echo e = {0};
        plan_setup setup = echo_setup(&e, (firm_mode)mode);
        plan_solver* s = make(&setup);
        if (!s) return;
        plan_result r;
        plan_solver_solve(s, zero, goal, 1, &r);  // long past
        EXPECT_INT(r.late, 1);
        EXPECT_INT(r.iterations, 0);
        EXPECT_INT(e.rows, 0);
        for (int j = 0; j < D; j++) EXPECT_NEAR(r.plan[j], 0, 0);
        for (int j = 0; j < (ECHO_HORIZON + 1) * ECHO_CONFIG; j++) EXPECT(isfinite(r.path[j]));

        plan_solver_solve(s, zero, goal, 0, &r);
        float last[D];
        memcpy(last, r.plan, sizeof last);
        plan_solver_advance(s, 1);
        plan_solver_solve(s, zero, goal, 1, &r);
        EXPECT_INT(r.late, 1);
        if (mode == FIRM_MODE_REACH)
            for (int j = 0; j < ECHO_ACTION; j++) EXPECT_NEAR(r.plan[j], last[ECHO_ACTION + j], 0);
        for (int j = 0; j < D; j++) EXPECT(isfinite(r.plan[j]));
        plan_solver_free(s);
    }
}

TEST(plan, deadline_stops_between_iterations) {
    for (int mode = 0; mode < 2; mode++) {
        echo e = {.sleep_ms = 5};
        plan_setup setup = echo_setup(&e, (firm_mode)mode);
        setup.options.iterations = 400;
        setup.options.patience = 0;
        setup.options.candidates = 60;  // one piece: one call, one sleep
        plan_solver* s = make(&setup);
        if (!s) return;
        plan_result r;
        int64_t deadline = clock_ns() + 120000000;
        plan_solver_solve(s, zero, goal, deadline, &r);
        EXPECT_INT(r.late, 1);
        EXPECT(r.iterations >= 1 && r.iterations <= 24);
        // a busy machine may stretch one iteration, never many
        EXPECT(clock_ns() < deadline + 100000000);
        EXPECT(squared(r.plan) < squared(zero));
        plan_solver_free(s);
    }
}

TEST(plan, solve_does_not_allocate) {
    toy_net t = toy_net_make((plan_net_shape){2, 0, 12, 10, 40, 64, 2, 0}, 3);
    plan_net* net;
    plan_learned* l;
    firm_error err;
    float m0[12] = {0}, c0[2] = {0}, to[2] = {0.5f, 0.5f}, one[2] = {1, 1}, none[2] = {0};
    REQUIRE_OK(plan_net_create(&t.shape, &t.weights, PLAN_FP32, &net, &err), err);
    const task_typed tworoom = test_task("tworoom");
    plan_typed typed = {.task = &tworoom};
    for (int mode = 0; mode < 2; mode++) {
        echo e = {0};
        plan_setup setup = echo_setup(&e, (firm_mode)mode);
        setup.world.price = plan_typed_price(&typed);
        setup.actions = plan_actions_of(&tworoom, none, one);
        setup.options.iterations = 3;
        setup.options.horizon_max = 8;
        setup.fan = 20;
        REQUIRE_OK(pool_create(2, &setup.threads, &err), err);
        REQUIRE_OK(plan_learned_create(net, setup.threads, &l, &err), err);
        setup.world.model = plan_learned_model(l);
        plan_solver* s = make(&setup);
        if (!s) return;
        int64_t counted = mem_count(), mallocs = test_malloc_count();
        plan_result r;
        for (int i = 0; i < 5; i++) {
            plan_learned_start(l, c0, m0);
            plan_solver_solve(s, c0, to, clock_ns() + 10000000000, &r);
            plan_solver_advance(s, 1);
        }
        plan_solver_reset(s, 9);
        EXPECT_INT(mem_count() - counted, 0);
        EXPECT_INT(test_malloc_count() - mallocs, 0);
        plan_solver_free(s);
        plan_learned_free(l);
        pool_free(setup.threads);
    }
    plan_net_free(net);
    toy_net_free(&t);
}

TEST(plan, malloc_is_counted) {
    int64_t before = test_malloc_count();
    if (before < 0) {
        test_skip("a sanitizer owns malloc");
        return;
    }
    void* volatile p = malloc(10);
    void* volatile q = mem_alloc(10);
    EXPECT(test_malloc_count() >= before + 2);
    free(p);
    mem_free(q);
}

TEST(plan, nonfinite_candidates_are_dropped) {
    for (int mode = 0; mode < 2; mode++) {
        echo e = {.bad_every = 3};
        plan_setup setup = echo_setup(&e, (firm_mode)mode);
        setup.options.patience = 0;
        setup.options.iterations = 20;
        setup.fan = 30;
        plan_solver* s = make(&setup);
        if (!s) return;
        plan_result r;
        plan_solver_solve(s, zero, goal, 0, &r);
        EXPECT_INT(r.nonfinite, 20 * N / 3);
        for (int j = 0; j < D; j++) EXPECT_NEAR(r.plan[j], goal[j], mode ? 0.15 : 0.02);
        EXPECT_INT(r.fan, 30);
        for (int j = 0; j < r.fan * (ECHO_HORIZON + 1) * ECHO_CONFIG; j++)
            EXPECT(isfinite(r.fan_path[j]));
        plan_solver_free(s);

        e = (echo){.bad_every = 1};  // nothing is finite
        s = make(&setup);
        if (!s) return;
        plan_solver_solve(s, zero, goal, 0, &r);
        EXPECT_INT(r.nonfinite, 20 * N);
        EXPECT_INT(r.fan, 0);
        EXPECT(isinf(r.cost));
        for (int j = 0; j < D; j++) EXPECT_NEAR(r.plan[j], 0, 0);
        plan_solver_free(s);
    }
}

TEST(plan, fan_goes_over_the_ranks) {
    echo e = {0};
    plan_setup setup = echo_setup(&e, FIRM_MODE_CONTRACT);
    setup.options.iterations = 1;
    setup.fan = 5;
    plan_solver* s = make(&setup);
    if (!s) return;
    plan_result r;
    plan_solver_solve(s, zero, goal, 0, &r);
    EXPECT_INT(r.fan, 5);
    double last = -1;
    for (int i = 0; i < r.fan; i++) {
        const float* path = r.fan_path + i * (ECHO_HORIZON + 1) * ECHO_CONFIG;
        for (int j = 0; j < ECHO_CONFIG; j++) EXPECT_NEAR(path[j], 0, 0);
        double cost = squared(path + ECHO_HORIZON * ECHO_CONFIG);
        EXPECT(cost > last);
        last = cost;
    }
    EXPECT(last > 10 * squared(r.plan));  // the last of the fan is the worst candidate
    plan_solver_free(s);
}

TEST(plan, solver_create_fails_cleanly) {
    echo e = {0};
    firm_error err;
    plan_solver* s;
    plan_setup setup = echo_setup(&e, FIRM_MODE_CONTRACT);
    plan_setup bad = setup;
    bad.options.elites = 301;
    EXPECT_INT(plan_solver_create(&bad, &s, &err), FIRM_E_VALUE);
    bad = setup;
    bad.world.model.action = 3;
    EXPECT_INT(plan_solver_create(&bad, &s, &err), FIRM_E_TASK);
    bad = setup;
    bad.fan = 301;
    EXPECT_INT(plan_solver_create(&bad, &s, &err), FIRM_E_USAGE);
    bad = setup;
    bad.actions.deviation[1] = 0;
    EXPECT_INT(plan_solver_create(&bad, &s, &err), FIRM_E_VALUE);
    EXPECT(s == NULL);
    for (int64_t n = 0; n < 2; n++) {
        mem_fail_after(n);
        firm_status status = plan_solver_create(&setup, &s, &err);
        mem_fail_after(-1);
        EXPECT_INT(status, FIRM_E_MEMORY);
        EXPECT(s == NULL);
    }
    s = make(&setup);
    EXPECT(plan_solver_bytes(s) > 0);
    plan_solver_free(s);
    plan_solver_free(NULL);
}

// Fewer or more candidates: the share of elites stays, in the controller, eval and intervene alike.
TEST(plan, candidates_keep_the_share_of_elites) {
    static const struct {
        int candidates, elites, keep;
    } cases[] = {{300, 30, 10}, {600, 60, 10}, {125, 13, 10}, {64, 7, 7}, {10, 2, 2}, {2, 2, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plan_options o = {.candidates = 300, .elites = 30, .keep = 10};
        plan_options_candidates(&o, cases[i].candidates);
        EXPECT_INT(o.candidates, cases[i].candidates);
        EXPECT_INT(o.elites, cases[i].elites);
        EXPECT_INT(o.keep, cases[i].keep);
    }
}
