// support_test.c - straying from the training data: nearest points, ways between steps, and that a
// search with a model that walks through walls goes around them once it must stay where the data
// are.
#include "check.h"
#include "core/mem.h"
#include "core/rng.h"
#include "plan/cost.h"
#include "plan/typed.h"
#include "tasks.h"

// What a step at c costs, from the distances to all points.
static float stray_by_hand(const float* point, int count, int dim, float radius, const float* c) {
    float least = 1e9f;
    for (int k = 0; k < count; k++) {
        float d = 0;
        for (int i = 0; i < dim; i++)
            d += (c[i] - point[k * dim + i]) * (c[i] - point[k * dim + i]);
        if (d < least) least = d;
    }
    float d = sqrtf(least) / radius - 1;
    return d < 0 ? 0 : d > 4 ? 4 : d;
}

// Paths through scattered points, most of their steps outside or about half of them inside. Where a
// step was found inside is where the next is looked for first; it must not show.
static void expect_stray(int count, int dim, float radius, int least_inside) {
    enum { POINTS = 800, DIMS = 5, STEPS = 7, PATHS = 100 };
    static float point[POINTS * DIMS];
    rng r = rng_start(1, RNG_STREAM(RNG_TEST, 9));
    for (int i = 0; i < count * dim; i++) point[i] = (float)rng_uniform(&r, -1, 1);
    firm_error err;
    plan_support* s;
    REQUIRE_OK(plan_support_create(point, count, dim, 1, radius, &s, &err), err);
    int inside = 0, outside = 0;
    for (int n = 0; n < PATHS; n++) {
        float path[STEPS * DIMS], sum = 0;
        for (int i = 0; i < STEPS * dim; i++) path[i] = (float)rng_uniform(&r, -1.1, 1.1);
        for (int k = 0; k < STEPS; k++) {
            const float* c = path + k * dim;
            float one = plan_support_stray(s, c, c, 1);
            EXPECT_NEAR(one, stray_by_hand(point, count, dim, radius, c), 1e-4);
            sum += one;
            inside += one == 0;
            outside += one > 0;
        }
        EXPECT_NEAR(plan_support_stray(s, path, path, STEPS), sum, 0);
    }
    EXPECT(inside >= least_inside && outside > 100);
    // a point of the support itself never strays
    EXPECT_NEAR(plan_support_stray(s, point, point + (count - 1) * dim, 1), 0, 0);
    plan_support_free(s);
}

TEST(plan, support_finds_the_nearest_point) {
    expect_stray(301, 5, 0.05f, 0);
}

TEST(plan, support_of_a_path_is_that_of_its_steps) {
    expect_stray(777, 3, 0.12f, 100);
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
    const task_typed tworoom = test_task("tworoom");
    plan_typed typed = {.task = &tworoom};
    plan_cost cost = {
        .by = plan_typed_price(&typed), .mode = FIRM_MODE_REACH, .price = 0.2f, .arrive = 0.7f};
    float start[2] = {-0.42f, 0}, through[2] = {0.5f, 0};
    int arrival;
    float free_cost = plan_cost_path(&cost, start, through, 1, through, &arrival);
    EXPECT_NEAR(free_cost, 0.2, 1e-5);
    typed.support = s;
    cost.by = plan_typed_price(&typed);
    cost.stray = 10;
    EXPECT_NEAR(plan_cost_path(&cost, start, through, 1, through, &arrival),
                free_cost + 10 * plan_support_stray(s, start, through, 1), 1e-4);
    plan_support_free(s);
}
