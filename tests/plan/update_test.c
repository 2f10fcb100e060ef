// update_test.c - the update rules against answers by hand and known optima: a quadratic world, and
// one with a narrow deep valley beside a wide shallow one.
#include "plan/update.h"

#include "check.h"
#include "core/clock.h"
#include "core/rng.h"
#include "toys.h"

enum { D = ECHO_HORIZON * ECHO_ACTION, N = 300, K = 30 };
static const float goal[ECHO_CONFIG] = {0.7f, -1.2f, 0.1f, 2.0f};
static const float zero[ECHO_CONFIG] = {0};
static const plan_solver_kind rules[] = {PLAN_CEM, PLAN_MPPI, PLAN_ICEM};
enum { RULES = 3 };

static plan_setup setup_of(echo* e, firm_mode mode, plan_solver_kind rule) {
    plan_setup s = echo_setup(e, mode);
    s.options.solver = rule;
    s.options.temperature = 0.5f;
    s.options.colour = 2.5f;
    s.options.decay = 1.25f;
    s.options.momentum = 0.1f;
    s.options.carry = 0.3f;
    s.options.patience = 0;
    return s;
}

static plan_solver* make(const plan_setup* setup) {
    plan_solver* s = NULL;
    firm_error err = {0};
    if (plan_solver_create(setup, &s, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return s;
}

// ---- known optima -------------------------------------------------------------------------------

TEST(plan, every_rule_finds_the_optimum_of_a_quadratic) {
    for (int r = 0; r < RULES; r++)
        for (int mode = 0; mode < 2; mode++) {
            echo e = {0};
            plan_setup setup = setup_of(&e, (firm_mode)mode, rules[r]);
            plan_solver* s = make(&setup);
            if (!s) return;
            plan_result result;
            plan_solver_solve(s, zero, goal, 0, &result);
            for (int j = 0; j < D; j++) EXPECT_NEAR(result.plan[j], goal[j], mode ? 0.1 : 0.02);
            EXPECT_INT(result.arrival, 2);
            plan_solver_free(s);
        }
}

// Two valleys along the first number: at -1 as deep as 1, at 2 as deep as 4 and five times as
// narrow. The other numbers want to be 0.
static float valleys(const void* context, const float* state, const float* to) {
    (void)context, (void)to;
    float a = state[0] + 1, b = (state[0] - 2) * 5, rest = 0;
    for (int j = 1; j < ECHO_CONFIG; j++) rest += state[j] * state[j];
    return rest - 1 / (1 + a * a) - 4 / (1 + b * b);
}

TEST(plan, every_rule_finds_the_deeper_valley) {
    for (int r = 0; r < RULES; r++) {
        int deep = 0;
        for (uint64_t seed = 0; seed < 10; seed++) {
            echo e = {0};
            plan_setup setup = setup_of(&e, FIRM_MODE_CONTRACT, rules[r]);
            setup.world.price.cost = valleys;
            setup.options.spread = 2;
            setup.seed = seed;
            plan_solver* s = make(&setup);
            if (!s) return;
            plan_result result;
            plan_solver_solve(s, zero, goal, 0, &result);
            int at_deep = fabsf(result.plan[0] - 2) < 0.1f;
            deep += at_deep;
            EXPECT(at_deep || fabsf(result.plan[0] + 1) < 0.3f);  // in one of the two
            for (int j = 1; j < D; j++) EXPECT_NEAR(result.plan[j], 0, 0.1);
            plan_solver_free(s);
        }
        EXPECT(deep >= 8);
    }
}

// ---- mppi by hand -------------------------------------------------------------------------------

static double squared(const float* u) {
    double sum = 0;
    for (int j = 0; j < D; j++) sum += pow((double)u[j] - (double)goal[j], 2);
    return sum;
}

// The second iteration's candidate 0 is the first one's weighted mean.
TEST(plan, mppi_weighs_all_candidates) {
    static float seen[2 * N + 1][D];
    echo e = {.seen = seen[0], .seen_room = 2 * N + 1};
    plan_setup setup = setup_of(&e, FIRM_MODE_CONTRACT, PLAN_MPPI);
    setup.options.iterations = 2;
    plan_solver* s = make(&setup);
    if (!s) return;
    plan_result result;
    plan_solver_solve(s, zero, goal, 0, &result);
    double cost[N], best = INFINITY, last = 0, sum = 0, squares = 0, mean[D] = {0}, dev[D] = {0};
    int rank[N];
    for (int i = 0; i < N; i++) cost[i] = squared(seen[i]), best = fmin(best, cost[i]);
    for (int i = 0; i < N; i++) {
        rank[i] = 0;
        for (int k = 0; k < N; k++) rank[i] += cost[k] < cost[i];
        if (rank[i] == K - 1) last = cost[i];
    }
    for (int i = 0; i < N; i++) {
        double w = exp(-(cost[i] - best) / (0.5 * (last - best)));
        sum += w, squares += w * w;
        for (int j = 0; j < D; j++) mean[j] += w * (double)seen[i][j];
    }
    for (int j = 0; j < D; j++) mean[j] /= sum;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < D; j++)
            dev[j] += exp(-(cost[i] - best) / (0.5 * (last - best))) *
                      pow((double)seen[i][j] - mean[j], 2) / (sum - squares / sum);
    float noise[D];
    rng_fill_normal(5, RNG_STREAM(RNG_PLAN, 0), ((uint64_t)1 << 32) | (1 << 16), noise, D);
    for (int j = 0; j < D; j++) {
        EXPECT_NEAR(seen[N][j], mean[j], 1e-5);
        EXPECT_NEAR(seen[N + 1][j], mean[j] + sqrt(dev[j]) * (double)noise[j], 1e-5);
    }
    plan_solver_free(s);
}

// ---- icem ---------------------------------------------------------------------------------------

TEST(plan, icem_tries_fewer_candidates_later) {
    plan_options o = {.solver = PLAN_ICEM, .decay = 1.25f, .carry = 0.3f};
    EXPECT_INT(plan_update_candidates(&o, 0, 300, 30), 300);
    EXPECT_INT(plan_update_candidates(&o, 1, 300, 30), 240);
    EXPECT_INT(plan_update_candidates(&o, 2, 300, 30), 192);
    EXPECT_INT(plan_update_candidates(&o, 20, 300, 30), 60);  // twice the elites
    EXPECT_INT(plan_update_candidates(&o, 20, 40, 30), 40);
    EXPECT_INT(plan_update_kept(&o, 30), 9);
    o.solver = PLAN_CEM;
    EXPECT_INT(plan_update_candidates(&o, 20, 300, 30), 300);
    EXPECT_INT(plan_update_kept(&o, 30), 0);
    // and so does a solve
    echo e = {0};
    plan_setup setup = setup_of(&e, FIRM_MODE_CONTRACT, PLAN_ICEM);
    setup.options.iterations = 3;
    plan_solver* s = make(&setup);
    if (!s) return;
    plan_result result;
    plan_solver_solve(s, zero, goal, 0, &result);
    EXPECT_INT(e.rows, 300 + 240 + 192);  // the best candidate is the plan: no more
    EXPECT_NEAR(result.cost, squared(result.plan), 1e-5);
    plan_solver_free(s);
}

// Deviation 1 at every control; neighbours alike, the more the redder; white noise is not.
TEST(plan, coloured_noise_has_unit_deviation) {
    enum { CONTROLS = 25, DRAWS = 4000 };
    static const struct {
        float colour;
        double least, most;
    } cases[] = {{0, -0.1, 0.1}, {1, 0.4, 0.9}, {2.5f, 0.9, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        plan_options o = {
            .solver = PLAN_ICEM, .mode = FIRM_MODE_CONTRACT, .colour = cases[c].colour};
        plan_actions a = {.dim = 2, .controls = 5, .deviation = {1, 1}};
        int terms = plan_colour_terms(&o, CONTROLS);
        EXPECT_INT(terms, 26);
        float basis[CONTROLS * 26], mean[2 * CONTROLS], spread[2 * CONTROLS];
        plan_colour_basis(&o, CONTROLS, basis);
        for (int j = 0; j < 2 * CONTROLS; j++) mean[j] = 0.5f, spread[j] = 1;
        plan_proposal p = {.options = &o,
                           .actions = &a,
                           .seed = 3,
                           .horizon = 5,
                           .mean = mean,
                           .spread = spread,
                           .basis = basis,
                           .terms = terms};
        double sum = 0, square[3] = {0}, next = 0, across = 0;
        for (int i = 1; i <= DRAWS; i++) {
            float u[2 * CONTROLS];
            plan_propose(&p, i, u);
            for (int j = 0; j < 2 * CONTROLS; j++) sum += ((double)u[j] - 0.5) / CONTROLS / 2;
            for (int k = 0; k < 3; k++) square[k] += pow((double)u[24 * k] - 0.5, 2) / DRAWS;
            next += ((double)u[20] - 0.5) * ((double)u[22] - 0.5) / DRAWS;
            across += ((double)u[20] - 0.5) * ((double)u[21] - 0.5) / DRAWS;
        }
        EXPECT_NEAR(sum / DRAWS, 0, 0.05);
        for (int k = 0; k < 3; k++) EXPECT_NEAR(square[k], 1, 0.1);
        EXPECT_NEAR(across, 0, 0.1);
        EXPECT(next >= cases[c].least && next <= cases[c].most);
    }
}

// ---- what every rule keeps ----------------------------------------------------------------------

TEST(plan, every_rule_gives_the_same_plan_for_any_threads) {
    static const int counts[] = {1, 2, 5};
    toy_net t = toy_net_make((plan_net_shape){4, 0, 12, 2, 40, 64, 2, 0}, 3);
    plan_net* net;
    firm_error err;
    float m0[12] = {0.5f, -0.5f};
    REQUIRE_OK(plan_net_create(&t.shape, &t.weights, PLAN_FP32, &net, &err), err);
    for (int r = 1; r < RULES; r++)
        for (int mode = 0; mode < 2; mode++) {
            float plan[20];
            for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
                plan_learned* l;
                echo e = {0};
                plan_setup setup = setup_of(&e, (firm_mode)mode, rules[r]);
                setup.options.candidates = 101;
                setup.options.iterations = 4;
                setup.options.horizon_max = 8;
                REQUIRE_OK(pool_create(counts[i], &setup.threads, &err), err);
                REQUIRE_OK(plan_learned_create(net, setup.threads, &l, &err), err);
                plan_learned_start(l, zero, m0);
                setup.world.model = plan_learned_model(l);
                plan_solver* s = make(&setup);
                if (!s) return;
                plan_result result;
                for (int solve = 0; solve < 3; solve++) {
                    plan_solver_solve(s, zero, goal, 0, &result);
                    plan_solver_advance(s, 1);
                }
                size_t bytes = (size_t)result.horizon * ECHO_ACTION * sizeof(float);
                if (i == 0) memcpy(plan, result.plan, bytes);
                EXPECT_INT(memcmp(plan, result.plan, bytes), 0);
                plan_solver_free(s);
                plan_learned_free(l);
                pool_free(setup.threads);
            }
        }
    plan_net_free(net);
    toy_net_free(&t);
}

// A clock that only batches move on, 5 ms each: how busy the machine is does not matter.
static int64_t pretended_ns;
static plan_model quick;

static int64_t pretended_now(void) {
    return pretended_ns;
}

static int slow_rollout(void* context, int worker, int n, int horizon, const float* u, float* c) {
    pretended_ns += 5000000;
    return quick.rollout(context, worker, n, horizon, u, c);
}

TEST(plan, every_rule_is_anytime) {
    pretended_ns = 1000000000;
    clock_pretend(pretended_now);
    for (int r = 1; r < RULES; r++)
        for (int mode = 0; mode < 2; mode++) {
            echo e = {0};
            plan_setup setup = setup_of(&e, (firm_mode)mode, rules[r]);
            quick = setup.world.model;
            setup.world.model.rollout = slow_rollout;
            setup.options.iterations = 400;
            setup.options.candidates = 60;
            plan_solver* s = make(&setup);
            if (!s) break;
            plan_result result;
            int64_t deadline = clock_ns() + 120000000;
            plan_solver_solve(s, zero, goal, deadline, &result);
            EXPECT_INT(result.late, 1);
            EXPECT(result.iterations >= 1 && result.iterations <= 24);
            EXPECT(squared(result.plan) < squared(zero));
            plan_solver_solve(s, zero, goal, 1, &result);  // long past
            EXPECT_INT(result.iterations, 0);
            for (int j = 0; j < D; j++) EXPECT(isfinite(result.plan[j]));
            plan_solver_free(s);
        }
    clock_pretend(NULL);
}

TEST(plan, rules_drop_what_is_not_finite) {
    for (int r = 1; r < RULES; r++) {
        echo e = {.bad_every = 3};
        plan_setup setup = setup_of(&e, FIRM_MODE_CONTRACT, rules[r]);
        plan_solver* s = make(&setup);
        if (!s) return;
        plan_result result;
        plan_solver_solve(s, zero, goal, 0, &result);
        EXPECT(result.nonfinite > 100);
        for (int j = 0; j < D; j++) EXPECT_NEAR(result.plan[j], goal[j], 0.05);
        plan_solver_free(s);
        e = (echo){.bad_every = 1};
        s = make(&setup);
        if (!s) return;
        plan_solver_solve(s, zero, goal, 0, &result);
        for (int j = 0; j < D; j++) EXPECT_NEAR(result.plan[j], 0, 0);
        plan_solver_free(s);
    }
}

TEST(plan, rules_with_settings_out_of_range_are_refused) {
    echo e = {0};
    plan_solver* s;
    firm_error err;
    plan_setup bad = setup_of(&e, FIRM_MODE_CONTRACT, PLAN_MPPI);
    bad.options.temperature = 0;
    EXPECT_INT(plan_solver_create(&bad, &s, &err), FIRM_E_VALUE);
    bad = setup_of(&e, FIRM_MODE_CONTRACT, PLAN_ICEM);
    bad.options.decay = 0.5f;
    EXPECT_INT(plan_solver_create(&bad, &s, &err), FIRM_E_VALUE);
    bad.options.solver = (plan_solver_kind)3;
    EXPECT_INT(plan_solver_create(&bad, &s, &err), FIRM_E_VALUE);
}
