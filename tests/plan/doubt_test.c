// doubt_test.c - what an ensemble's members disagree on, priced: values by hand, and a search that
// can reach its goal in two ways, of which the members agree on one.
#include "plan/doubt.h"

#include "check.h"
#include "plan/cem.h"
#include "plan/ensemble.h"
#include "plan/typed.h"

enum { MEMBERS = 3, STEPS = 2 };

static const task_typed line_task = {.name = "line",
                                     .action_dim = 2,
                                     .config_dim = 1,
                                     .distances = 1,
                                     .distance = {{"place", "1", 0.5f, {.count = 1, .scale = 1}}},
                                     .cost = TASK_COST_SUM};

// ---- values -------------------------------------------------------------------------------------

// Members at 1, 2 and 6 after the last step, so at 3 in the mean; the goal is 5. After the first
// step they are farther apart.
static const float mean[STEPS] = {1, 3}, each[MEMBERS * STEPS] = {-1, 1, -1, 2, 5, 6};
static const plan_paths paths = {.mean = mean, .each = each, .horizon = STEPS};

static float value(firm_mode mode, float price, float quantile, int* arrival) {
    plan_typed typed = {.task = &line_task};
    const plan_cost cost = {.by = plan_typed_price(&typed), .mode = mode};
    const plan_doubt doubt = {.members = MEMBERS, .price = price, .quantile = quantile};
    const float c0 = 0, goal = 5;
    return plan_doubt_cost(&doubt, &cost, &c0, &paths, &goal, arrival);
}

TEST(plan, doubt_contract_by_hand) {
    int arrival = 0;
    EXPECT_NEAR(value(FIRM_MODE_CONTRACT, 0, 0, &arrival), 4, 0);  // (3 - 5)^2
    EXPECT_INT(arrival, 2);
    // spread (4 + 1 + 9) / 3; with price 1 the mean of the members' costs, (16 + 9 + 1) / 3
    EXPECT_NEAR(value(FIRM_MODE_CONTRACT, 1, 0, NULL), 26.0 / 3, 1e-6);
    EXPECT_NEAR(value(FIRM_MODE_CONTRACT, 0.5f, 0, NULL), 4 + 7.0 / 3, 1e-6);
    EXPECT_NEAR(value(FIRM_MODE_CONTRACT, 0, 1, NULL), 16, 0);
    EXPECT_NEAR(value(FIRM_MODE_CONTRACT, 0, 0.5f, NULL), 9, 0);
    EXPECT_NEAR(value(FIRM_MODE_CONTRACT, 0, 0.75f, NULL), 12.5, 1e-6);
    EXPECT_NEAR(value(FIRM_MODE_CONTRACT, 1, 0.5f, NULL), 9 + 14.0 / 3, 1e-6);
}

// units of 0.5; without prices a path costs its nearest step
TEST(plan, doubt_reach_by_hand) {
    int arrival = 0;
    EXPECT_NEAR(value(FIRM_MODE_REACH, 0, 0, &arrival), 4, 0);
    EXPECT_INT(arrival, 2);
    EXPECT_NEAR(value(FIRM_MODE_REACH, 1, 0, NULL), 4 + (4 + 2 + 6) / 3.0, 1e-6);
    EXPECT_NEAR(value(FIRM_MODE_REACH, 0, 1, NULL), 8, 0);
    // the third member's nearest step is its first
    EXPECT_NEAR(value(FIRM_MODE_REACH, 0, 1e-6f, NULL), 0, 1e-4);
}

TEST(plan, doubt_drops_what_is_not_finite) {
    plan_typed typed = {.task = &line_task};
    const plan_cost cost = {.by = plan_typed_price(&typed), .mode = FIRM_MODE_CONTRACT};
    const plan_doubt doubt = {.members = 2, .price = 1000};
    const float c0 = 0, goal = 0, far[2] = {1e30f, -1e30f}, none[1] = {NAN}, middle[1] = {0};
    plan_paths path = {.mean = none, .each = far, .horizon = 1};
    EXPECT(isinf(plan_doubt_cost(&doubt, &cost, &c0, &path, &goal, NULL)));
    path.mean = middle;  // a finite mean of members that are too far apart to be squared
    EXPECT(isinf(plan_doubt_cost(&doubt, &cost, &c0, &path, &goal, NULL)));
}

TEST(plan, doubt_asked_of_ensembles_alone) {
    EXPECT(!plan_doubt_asked(&(plan_doubt){.members = 3}));
    EXPECT(!plan_doubt_asked(&(plan_doubt){.members = 0, .price = 1, .quantile = 1}));
    EXPECT(plan_doubt_asked(&(plan_doubt){.members = 2, .price = 0.1f}));
    EXPECT(plan_doubt_asked(&(plan_doubt){.members = 2, .quantile = 0.5f}));
}

// ---- a search -----------------------------------------------------------------------------------

// Moves by a + (1 + lean) b: the mean of members that lean -1, 0 and 1 moves by a + b, and they
// agree on a alone.
static int lean_rollout(void* context, int worker, int n, int horizon, const float* u,
                        float* c_out) {
    (void)worker;
    const float lean = *(const float*)context;
    for (int i = 0; i < n; i++) {
        float at = 0;
        for (int k = 0; k < horizon; k++, u += 2) *c_out++ = at += u[0] + (1 + lean) * u[1];
    }
    return 0;
}

typedef struct found {
    float a, b, cost;
} found;

static found search(firm_mode mode, float price, float quantile, int whole) {
    static float lean[MEMBERS] = {-1, 0, 1};
    plan_model model[MEMBERS];
    plan_ensemble* e = NULL;
    plan_solver* s = NULL;
    plan_result r;
    firm_error err = {0};
    found f = {0};
    for (int k = 0; k < MEMBERS; k++)
        model[k] = (plan_model){.context = &lean[k],
                                .state = 1,
                                .action = 2,
                                .lanes = 1,
                                .workers = 1,
                                .whole = whole,
                                .rollout = lean_rollout};
    if (plan_ensemble_create(model, MEMBERS, 0, 200, 1, &e, &err) != FIRM_OK) return f;
    plan_typed typed = {.task = &line_task};
    plan_setup setup = {
        .seed = 3, .world = {.model = plan_ensemble_model(e), .price = plan_typed_price(&typed)}};
    setup.options = (plan_options){.mode = mode,
                                   .candidates = 200,
                                   .iterations = 20,
                                   .elites = 20,
                                   .horizon = 1,
                                   .horizon_max = 1,
                                   .replan = 1,
                                   .spread = 1,
                                   .knots = 2,
                                   .box = 1,
                                   .floor = 0.01f,
                                   .arrive = 0.1f,
                                   .ensemble_price = price,
                                   .ensemble_quantile = quantile};
    setup.actions = (plan_actions){.dim = 2, .controls = 1, .deviation = {1, 1}};
    const float c0 = 0, goal = 1.5f;
    if (plan_solver_create(&setup, &s, &err) == FIRM_OK) {
        plan_solver_solve(s, &c0, &goal, 0, &r);
        f.a = r.plan[0], f.b = r.plan[1], f.cost = r.cost;
    } else {
        test_fail(__FILE__, __LINE__, "%s", err.message);
    }
    plan_solver_free(s);
    plan_ensemble_free(e);
    return f;
}

TEST(plan, doubt_keeps_a_search_to_what_members_agree_on) {
    for (int mode = 0; mode < 2; mode++)
        for (int whole = 0; whole < 2; whole++) {
            found trusting = search((firm_mode)mode, 0, 0, whole),
                  priced = search((firm_mode)mode, 10, 0, whole),
                  worst = search((firm_mode)mode, 0, 1, whole);
            EXPECT_NEAR(trusting.a + trusting.b, 1.5, 0.1);
            EXPECT(fabsf(trusting.b) > 0.4f);
            EXPECT_NEAR(priced.a, 1.5, 0.2);
            EXPECT_NEAR(priced.b, 0, 0.1);
            EXPECT_NEAR(worst.a, 1.5, 0.2);
            EXPECT_NEAR(worst.b, 0, 0.1);
        }
}

// pieces and one call give the same bits, and the cost of the plan counts the spread, too
TEST(plan, doubt_same_in_pieces_and_as_a_whole) {
    found a = search(FIRM_MODE_CONTRACT, 2, 0.5f, 0), b = search(FIRM_MODE_CONTRACT, 2, 0.5f, 1);
    EXPECT(memcmp(&a, &b, sizeof a) == 0);
    const double middle = (a.a + a.b - 1.5) * (a.a + a.b - 1.5);
    double own[3], low, spread = 2.0 / 3 * a.b * a.b;
    for (int k = 0; k < 3; k++) own[k] = pow(a.a + k * (double)a.b - 1.5, 2);
    low = fmin(own[0], own[2]);
    double median = fmax(low, fmin(fmax(own[0], own[2]), middle));
    EXPECT_NEAR(a.cost, median + 2 * spread, 1e-4);
}
