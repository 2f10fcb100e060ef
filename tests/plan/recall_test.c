// recall_test.c - recorded sequences are found by moment and goal, nearest first, each once; whole
// episodes can be followed to their end and no further.
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

static const plan_recall_size size = {.most = MOST, .length = ENV_HORIZON};
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

// Squared distance of a moment that led to `places` configurations, the moment's own first.
static float nearest(const float* at, int places, float own, const float* c, float x,
                     const float* goal) {
    float best = INFINITY;
    for (int k = 1; k <= places; k++) {
        float sum = (own - x) * (own - x);
        for (int i = 0; i < CONFIG; i++) {
            float d = (at[k * CONFIG + i] - at[i]) - (goal[i] - c[i]);
            sum += d * d;
        }
        best = fminf(best, sum);
    }
    return best;
}

static float nearest_segment(int sequence, const float* c, float x, const float* goal) {
    return nearest(path + sequence * (ENV_HORIZON + 1) * CONFIG, ENV_HORIZON, chi[sequence], c, x,
                   goal);
}

TEST(plan, recall_finds_the_nearest_sequences) {
    firm_model m = recordings();
    firm_error err;
    plan_recall* r;
    plan_recalled found;
    plan_actions a = {.dim = DIM, .controls = ENV_CONTROLS, .mean = {1, 1}, .deviation = {2, 2}};
    REQUIRE_OK(plan_recall_create(&m, &a, &size, &r, &err), err);
    EXPECT(plan_recall_bytes(r) > COUNT * LENGTH * sizeof(float));
    rng g = rng_start(6, RNG_STREAM(RNG_TEST, 0));
    for (int round = 0; round < 20; round++) {
        float c[CONFIG], goal[CONFIG], x = rng_gauss(&g);
        for (int i = 0; i < CONFIG; i++) c[i] = rng_gauss(&g), goal[i] = rng_gauss(&g);
        plan_recall_find(r, c, &x, goal, &found);
        EXPECT_INT(found.count, MOST);
        EXPECT_INT(found.length, LENGTH);
        int seen[COUNT] = {0}, before = -1;
        for (int i = 0; i < MOST; i++) {
            const float* plan = found.plan + i * LENGTH;
            int which = (int)(2 * plan[0] + 1.5f);  // raw = 2 u + 1
            EXPECT(which >= 0 && which < COUNT);
            if (which < 0 || which >= COUNT) break;
            EXPECT(plan[0] == plan[LENGTH - 1]);
            EXPECT_INT(found.trail[i].first, which * (ENV_HORIZON + 1));
            EXPECT_INT(seen[which]++, 0);
            if (i)
                EXPECT(nearest_segment(before, c, x, goal) <= nearest_segment(which, c, x, goal));
            before = which;
        }
        // nothing that was left out is nearer
        for (int i = 0; i < COUNT; i++)
            if (!seen[i])
                EXPECT(nearest_segment(i, c, x, goal) >= nearest_segment(before, c, x, goal));
    }
    // in a recorded moment with its own place as the goal, the sequence itself comes first
    const float* at = path + 7 * (ENV_HORIZON + 1) * CONFIG;
    plan_recall_find(r, at, &chi[7], at + 3 * CONFIG, &found);
    EXPECT_NEAR(2 * found.plan[0] + 1, 7, 1e-5);
    plan_recall_free(r);
}

TEST(plan, recall_knows_what_it_lacks) {
    firm_model m = recordings();
    firm_error err;
    plan_recall* r;
    plan_actions a = {.dim = DIM, .controls = ENV_CONTROLS, .deviation = {1, 1}};
    REQUIRE_OK(
        plan_recall_create(&m, &a, &(plan_recall_size){.most = 10 * COUNT, .length = 1}, &r, &err),
        err);
    plan_recalled found;
    const float zero[CONFIG] = {0};
    plan_recall_find(r, zero, zero, zero, &found);
    EXPECT_INT(found.count, COUNT);  // no more than there are
    plan_recall_free(r);
    m.recorded = NULL;
    EXPECT_INT(plan_recall_create(&m, &a, &size, &r, &err), FIRM_E_VALUE);
    EXPECT(r == NULL && strstr(err.message, "train.recorded"));
}

// ---- whole episodes -----------------------------------------------------------------------------

// Moments of two episodes, of 12 and 7 macro actions; the last moment of each has none. Every
// control of a moment is its number.
enum { FIRST = 12, SECOND = 7, MOMENTS = FIRST + 1 + SECOND + 1, MACRO = ENV_CONTROLS * DIM };
static float left[MOMENTS], moment_controls[MOMENTS * MACRO];

static firm_model episodes_of(void) {
    firm_model m = recordings();
    for (int i = 0; i < MOMENTS; i++) left[i] = (float)(i <= FIRST ? FIRST - i : MOMENTS - 1 - i);
    for (int i = 0; i < MOMENTS * MACRO; i++) moment_controls[i] = (float)(i / MACRO);
    m.recorded = moment_controls;
    m.recorded_left = left;
    m.recorded_count = MOMENTS;
    return m;
}

TEST(plan, recall_finds_moments_of_episodes) {
    enum { AHEAD = 9, STEPS = 6 };
    firm_model m = episodes_of();
    firm_error err;
    plan_recall* r;
    plan_recalled found;
    plan_actions a = {.dim = DIM, .controls = ENV_CONTROLS, .deviation = {1, 1}};
    REQUIRE_OK(plan_recall_create(&m, &a, &(plan_recall_size){6, STEPS, AHEAD}, &r, &err), err);
    rng g = rng_start(8, RNG_STREAM(RNG_TEST, 0));
    for (int round = 0; round < 50; round++) {
        float c[CONFIG], goal[CONFIG], x = rng_gauss(&g), distance[MOMENTS];
        for (int i = 0; i < CONFIG; i++) c[i] = rng_gauss(&g), goal[i] = rng_gauss(&g);
        plan_recall_find(r, c, &x, goal, &found);
        EXPECT_INT(found.count, 6);
        for (int i = 0; i < MOMENTS; i++)
            distance[i] = nearest(path + i * CONFIG, left[i] < AHEAD ? (int)left[i] : AHEAD, chi[i],
                                  c, x, goal);
        for (int i = 0; i < found.count; i++) {
            int first = found.trail[i].first, nearer = 0;
            for (int k = 0; k < MOMENTS; k++) nearer += distance[k] < distance[first];
            EXPECT_INT(nearer, i);
            // its controls, then the mean action
            for (int k = 0; k < STEPS; k++)
                EXPECT(found.plan[(i * STEPS + k) * MACRO] ==
                       (k < left[first] ? (float)(first + k) : 0));
        }
    }
    plan_recall_free(r);
}

TEST(plan, recall_follows_an_episode_to_its_end) {
    firm_model m = episodes_of();
    m.task.pairs = 1;  // c: an angle and a position
    for (int i = 0; i < MOMENTS; i++) {
        path[i * CONFIG] = sinf(0.3f * (float)i);
        path[i * CONFIG + 1] = cosf(0.3f * (float)i);
        path[i * CONFIG + 2] = (float)(i * i);
    }
    firm_error err;
    plan_recall* r;
    plan_actions a = {.dim = DIM, .controls = ENV_CONTROLS, .deviation = {1, 1}};
    REQUIRE_OK(plan_recall_create(&m, &a, &(plan_recall_size){6, 5, 9}, &r, &err), err);
    float u[MACRO], state[CONFIG], end[CONFIG] = {sinf(2), cosf(2), 100};
    EXPECT_INT(plan_recall_follow(r, 3, 8, u), 1);
    EXPECT_NEAR(u[MACRO - 1], 11, 0);
    EXPECT_INT(plan_recall_follow(r, 3, 9, u), 0);
    EXPECT_INT(plan_recall_follow(r, FIRST, 0, u), 0);
    EXPECT_INT(plan_recall_follow(r, MOMENTS, 0, u), 0);
    // from moment 3 on: after 2 macro actions we are at `end`, after 6 the angle has turned by 4
    // times 0.3 more, and the position went on from 25 to 81
    EXPECT_INT(plan_recall_beyond(r, 3, 2, end, 6, state), 1);
    EXPECT_NEAR(state[0], sin(2 + 1.2), 1e-5);
    EXPECT_NEAR(state[1], cos(2 + 1.2), 1e-5);
    EXPECT_NEAR(state[2], 100 + 81 - 25, 1e-4);
    EXPECT_INT(plan_recall_beyond(r, 3, 2, end, 9, state), 1);
    EXPECT_INT(plan_recall_beyond(r, 3, 2, end, 10, state), 0);
    EXPECT_INT(plan_recall_beyond(r, MOMENTS, 2, end, 3, state), 0);
    plan_recall_free(r);
}
