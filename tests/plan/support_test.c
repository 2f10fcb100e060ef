// support_test.c - straying from the training data: nearest points, ways between steps, and that a
// search with a model that walks through walls goes around them once it must stay where the data
// are.
#include "check.h"
#include "core/mem.h"
#include "core/rng.h"
#include "plan/cost.h"

TEST(plan, support_finds_the_nearest_point) {
    enum { COUNT = 301, DIM = 5 };
    static float point[COUNT * DIM];
    rng r = rng_start(1, RNG_STREAM(RNG_TEST, 9));
    for (int i = 0; i < COUNT * DIM; i++) point[i] = (float)rng_uniform(&r, -1, 1);
    firm_error err;
    plan_support* s;
    REQUIRE_OK(plan_support_create(point, COUNT, DIM, 1, 0.05f, &s, &err), err);
    for (int trial = 0; trial < 50; trial++) {
        float c[DIM], least = 1e9f;
        for (int i = 0; i < DIM; i++) c[i] = (float)rng_uniform(&r, -1, 1);
        for (int k = 0; k < COUNT; k++) {
            float d = 0;
            for (int i = 0; i < DIM; i++)
                d += (c[i] - point[k * DIM + i]) * (c[i] - point[k * DIM + i]);
            if (d < least) least = d;
        }
        float want = sqrtf(least) / 0.05f - 1;
        want = want < 0 ? 0 : want > 4 ? 4 : want;
        EXPECT_NEAR(plan_support_stray(s, c, c, 1), want, 1e-4);
    }
    // a point of the support itself never strays
    EXPECT_NEAR(plan_support_stray(s, point, point + (COUNT - 1) * DIM, 1), 0, 0);
    plan_support_free(s);
}

// where a step was found inside is where the next is looked for first; it must not show
TEST(plan, support_of_a_path_is_that_of_its_steps) {
    enum { COUNT = 777, DIM = 3, STEPS = 7 };
    static float point[COUNT * DIM];
    rng r = rng_start(2, RNG_STREAM(RNG_TEST, 9));
    for (int i = 0; i < COUNT * DIM; i++) point[i] = (float)rng_uniform(&r, -1, 1);
    firm_error err;
    plan_support* s;
    REQUIRE_OK(plan_support_create(point, COUNT, DIM, 1, 0.12f, &s, &err), err);
    int inside = 0, outside = 0;
    for (int trial = 0; trial < 100; trial++) {
        float path[STEPS * DIM], sum = 0;
        for (int i = 0; i < STEPS * DIM; i++) path[i] = (float)rng_uniform(&r, -1.1, 1.1);
        for (int k = 0; k < STEPS; k++) {
            float one = plan_support_stray(s, path, path + k * DIM, 1);
            sum += one;
            inside += one == 0;
            outside += one > 0;
        }
        EXPECT_NEAR(plan_support_stray(s, path, path, STEPS), sum, 0);
    }
    EXPECT(inside > 100 && outside > 100);
    plan_support_free(s);
}

// two rooms of points with a gap between them
static plan_support* two_strips(void) {
    float point[200];
    for (int i = 0; i < 100; i++) {
        point[2 * i] = (i < 50 ? -0.5f : 0.5f) + 0.002f * (float)(i % 50);
        point[2 * i + 1] = 0;
    }
    plan_support* s = NULL;
    firm_error err;
    EXPECT_INT(plan_support_create(point, 100, 2, 0, 0.02f, &s, &err), FIRM_OK);
    return s;
}

TEST(plan, support_looks_between_steps) {
    plan_support* s = two_strips();
    if (!s) return;
    float left[2] = {-0.42f, 0}, right[2] = {0.5f, 0}, near[2] = {-0.45f, 0};
    // both ends lie inside, the way does not
    EXPECT(plan_support_stray(s, left, right, 1) > 3);
    EXPECT_NEAR(plan_support_stray(s, left, near, 1), 0, 0);
    // counted per step, and only up to the steps asked for
    float path[4] = {-0.45f, 0, 0.5f, 0};
    EXPECT_NEAR(plan_support_stray(s, left, path, 1), 0, 0);
    EXPECT(plan_support_stray(s, left, path, 2) > 3);
    plan_support_free(s);
}

TEST(plan, straying_costs) {
    plan_support* s = two_strips();
    if (!s) return;
    plan_cost cost = {
        .spec = env_find("tworoom"), .mode = FIRM_MODE_REACH, .price = 0.2f, .arrive = 0.7f};
    float start[2] = {-0.42f, 0}, through[2] = {0.5f, 0};
    int arrival;
    float free_cost = plan_cost_path(&cost, start, through, 1, through, &arrival);
    EXPECT_NEAR(free_cost, 0.2, 1e-5);
    cost.support = s;
    cost.stray = 10;
    EXPECT_NEAR(plan_cost_path(&cost, start, through, 1, through, &arrival),
                free_cost + 10 * plan_support_stray(s, start, through, 1), 1e-4);
    plan_support_free(s);
}
