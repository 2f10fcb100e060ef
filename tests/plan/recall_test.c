// recall_test.c - recorded sequences are found by moment and goal, nearest first, each once.
#include "plan/recall.h"

#include <math.h>

#include "check.h"
#include "core/mem.h"
#include "core/rng.h"
#include "env/env.h"

enum { COUNT = 200, DIM = 2, CONFIG = 3, MOST = 40, LENGTH = ENV_SPAN * DIM };

// a toy task: where to go as seen from the start, and one number of chi
#define AWAY(i) \
    { 1, {TASK_GOAL, i}, {TASK_CONFIG, i}, 1 }
static const task_typed toy = {
    .name = "toy",
    .controls = ENV_CONTROLS,
    .horizon = ENV_HORIZON,
    .action_dim = DIM,
    .config_dim = CONFIG,
    .chi_dim = 1,
    .situation_dim = CONFIG + 1,
    .situation = {AWAY(0), AWAY(1), AWAY(2), {1, {TASK_CHI, 0}, {TASK_ZERO, 0}, 1}}};

static float path[COUNT * (ENV_HORIZON + 1) * CONFIG], chi[COUNT], controls[COUNT * LENGTH];

static firm_model recordings(void) {
    rng g = rng_start(5, RNG_STREAM(RNG_TEST, 0));
    for (size_t i = 0; i < sizeof path / sizeof *path; i++) path[i] = rng_gauss(&g);
    for (int i = 0; i < COUNT; i++) chi[i] = rng_gauss(&g);
    for (int i = 0; i < COUNT * LENGTH; i++) controls[i] = (float)(i / LENGTH);  // its own number
    return (firm_model){.task = toy,
                        .recorded = controls,
                        .recorded_path = path,
                        .recorded_chi = chi,
                        .recorded_count = COUNT};
}

static float nearest(int sequence, const float* c, float x, const float* goal) {
    float best = INFINITY;
    const float* at = path + sequence * (ENV_HORIZON + 1) * CONFIG;
    for (int k = 1; k <= ENV_HORIZON; k++) {
        float sum = (chi[sequence] - x) * (chi[sequence] - x);
        for (int i = 0; i < CONFIG; i++) {
            float d = (at[k * CONFIG + i] - at[i]) - (goal[i] - c[i]);
            sum += d * d;
        }
        best = fminf(best, sum);
    }
    return best;
}

TEST(plan, recall_finds_the_nearest_sequences) {
    firm_model m = recordings();
    firm_error err;
    plan_recall* r;
    plan_actions a = {.dim = DIM, .controls = ENV_CONTROLS, .mean = {1, 1}, .deviation = {2, 2}};
    REQUIRE_OK(plan_recall_create(&m, &a, MOST, &r, &err), err);
    EXPECT(plan_recall_bytes(r) > COUNT * LENGTH * sizeof(float));
    rng g = rng_start(6, RNG_STREAM(RNG_TEST, 0));
    for (int round = 0; round < 20; round++) {
        float c[CONFIG], goal[CONFIG], x = rng_gauss(&g);
        const float* plan;
        for (int i = 0; i < CONFIG; i++) c[i] = rng_gauss(&g), goal[i] = rng_gauss(&g);
        EXPECT_INT(plan_recall_find(r, c, &x, goal, &plan), MOST);
        int seen[COUNT] = {0}, before = -1;
        for (int i = 0; i < MOST; i++) {
            int which = (int)(2 * plan[i * LENGTH] + 1.5f);  // raw = 2 u + 1
            EXPECT(which >= 0 && which < COUNT);
            if (which < 0 || which >= COUNT) break;
            EXPECT(plan[i * LENGTH] == plan[i * LENGTH + LENGTH - 1]);
            EXPECT_INT(seen[which]++, 0);
            if (i) EXPECT(nearest(before, c, x, goal) <= nearest(which, c, x, goal));
            before = which;
        }
        // nothing that was left out is nearer
        for (int i = 0; i < COUNT; i++)
            if (!seen[i]) EXPECT(nearest(i, c, x, goal) >= nearest(before, c, x, goal));
    }
    // in a recorded moment with its own place as the goal, the sequence itself comes first
    const float* plan;
    const float* at = path + 7 * (ENV_HORIZON + 1) * CONFIG;
    plan_recall_find(r, at, &chi[7], at + 3 * CONFIG, &plan);
    EXPECT_NEAR(2 * plan[0] + 1, 7, 1e-5);
    plan_recall_free(r);
}

TEST(plan, recall_knows_what_it_lacks) {
    firm_model m = recordings();
    firm_error err;
    plan_recall* r;
    plan_actions a = {.dim = DIM, .controls = ENV_CONTROLS, .deviation = {1, 1}};
    REQUIRE_OK(plan_recall_create(&m, &a, 10 * COUNT, &r, &err), err);
    const float *plan, zero[CONFIG] = {0};
    EXPECT_INT(plan_recall_find(r, zero, zero, zero, &plan), COUNT);  // no more than there are
    plan_recall_free(r);
    m.recorded = NULL;
    EXPECT_INT(plan_recall_create(&m, &a, MOST, &r, &err), FIRM_E_VALUE);
    EXPECT(r == NULL && strstr(err.message, "train.recorded"));
}
