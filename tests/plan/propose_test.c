// propose_test.c - which candidates are what: hand-made fits show each kind by its value. The mean
// and spread are chosen such that one kind of proposal cannot be mistaken for another.
#include "plan/propose.h"

#include "check.h"

enum { N = 20, DIM = 2, CONTROLS = 5, HORIZON = 3, NUMBERS = HORIZON * CONTROLS * DIM };

static plan_options options(void) {
    return (plan_options){.mode = FIRM_MODE_REACH,
                          .candidates = N,
                          .knots = 5,
                          .box = 1,
                          .wide_share = 0.2f,
                          .wide_spread = 2};
}

static void fill(float* u, int n, float value) {
    for (int i = 0; i < n; i++) u[i] = value;
}

// Six of twenty candidates are recorded, before the four wide ones; five sequences are known. An
// iteration goes on with the sequence after the last one's.
TEST(plan, recorded_sequences_take_turns_over_iterations) {
    enum { LIBRARY = 5, LENGTH = 25 * DIM };
    plan_options o = options();
    plan_actions a = {.dim = DIM, .controls = CONTROLS};
    float library[LIBRARY * LENGTH], zero[NUMBERS] = {0}, u[NUMBERS];
    o.recorded = 0.3f;
    for (int k = 0; k < LIBRARY; k++) fill(library + k * LENGTH, LENGTH, 100.0f + (float)k);
    static const int first[4] = {0, 1, 2, 3};  // 6 t modulo 5
    for (int t = 0; t < 4; t++)
        for (int i = 10; i < 16; i++) {
            plan_proposal p = {.options = &o,
                               .actions = &a,
                               .iteration = t,
                               .horizon = HORIZON,
                               .mean = zero,
                               .spread = zero,
                               .recorded = {LIBRARY, LENGTH, library, NULL}};
            plan_propose(&p, i, u);
            EXPECT_INT(u[0] - 100, (first[t] + i - 10) % LIBRARY);
        }
}

// A fit of mean 100 and no spread: candidate 0 and the narrow ones are the mean, the last four of
// twenty lie around zero.
TEST(plan, the_last_share_of_candidates_is_wide) {
    plan_options o = options();
    plan_actions a = {.dim = DIM, .controls = CONTROLS};
    float mean[NUMBERS], none[NUMBERS] = {0}, u[NUMBERS];
    fill(mean, NUMBERS, 100);
    for (int i = 0; i < N; i++) {
        plan_proposal p = {.options = &o,
                           .actions = &a,
                           .seed = 7,
                           .horizon = HORIZON,
                           .mean = mean,
                           .spread = none};
        plan_propose(&p, i, u);
        for (int j = 0; j < NUMBERS; j++)
            if (i < 16)
                EXPECT_NEAR(u[j], 100, 0);
            else
                EXPECT(fabsf(u[j]) < 20);
    }
}

// The noise of a candidate depends on its key alone, so a wide one is the narrow one of spread 1
// times the wide spread.
TEST(plan, wide_proposals_have_the_wide_spread) {
    plan_options o = options(), narrow = o;
    plan_actions a = {.dim = DIM, .controls = CONTROLS};
    float zero[NUMBERS] = {0}, one[NUMBERS], u[NUMBERS], v[NUMBERS], size = 0;
    narrow.wide_share = 0;
    fill(one, NUMBERS, 1);
    plan_proposal p = {.actions = &a, .seed = 7, .horizon = HORIZON, .mean = zero, .spread = one};
    for (int i = 16; i < N; i++) {
        p.options = &o;
        plan_propose(&p, i, u);
        p.options = &narrow;
        plan_propose(&p, i, v);
        for (int j = 0; j < NUMBERS; j++) {
            EXPECT_NEAR(u[j], 2 * v[j], 1e-6);
            size += fabsf(v[j]) / (4 * NUMBERS);
        }
    }
    EXPECT(size > 0.3f && size < 1.2f);  // and there is noise at all
}

// Bounds -1 .. 1 of which half is used; raw = 0.5 u + 0.1.
TEST(plan, proposals_stay_in_their_share_of_the_box) {
    plan_options o = options();
    plan_actions a = {.dim = DIM,
                      .controls = CONTROLS,
                      .mean = {0.1f, 0.1f},
                      .deviation = {0.5f, 0.5f},
                      .boxed = 1,
                      .low = -1,
                      .high = 1};
    float mean[NUMBERS], none[NUMBERS] = {0}, u[NUMBERS];
    o.box = 0.5f;
    fill(mean, NUMBERS, 3);
    plan_proposal p = {
        .options = &o, .actions = &a, .horizon = HORIZON, .mean = mean, .spread = none};
    plan_propose(&p, 1, u);
    EXPECT_NEAR(u[0], 0.8, 1e-6);  // (0.5 - 0.1) / 0.5
    fill(mean, NUMBERS, -3);
    plan_propose(&p, 1, u);
    EXPECT_NEAR(u[NUMBERS - 1], -1.2, 1e-6);  // (-0.5 - 0.1) / 0.5
    o.mode = FIRM_MODE_CONTRACT;              // the paper's search knows no box
    plan_propose(&p, 0, u);
    EXPECT_NEAR(u[0], -3, 0);
}
