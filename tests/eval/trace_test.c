// trace_test.c - what a trace says of its goal: words for the rings, and the outline of what is
// pushed there.
#include "eval/trace.h"

#include <math.h>

#include "check.h"
#include "report/trace.h"

static int begin(eval_trace* t, const char* task, const double* goal) {
    static uint8_t rgb[224 * 224 * 3];
    firm_error err;
    const env_spec* spec = env_find(task);
    if (!spec) {
        test_skip("the task is not in this build");
        return 0;
    }
    if (eval_trace_begin(t, spec, "reach", "firm", 0, goal, rgb, &err) == FIRM_OK) return 1;
    test_fail(__FILE__, __LINE__, "%s", err.message);
    return 0;
}

static const cJSON* get(const eval_trace* t, const char* key) {
    return cJSON_GetObjectItemCaseSensitive(t->json, key);
}

static void expect_name(const eval_trace* t, int i, const char* want) {
    const cJSON* name = cJSON_GetArrayItem(get(t, "goal_names"), i);
    EXPECT_TEXT(cJSON_IsString(name) ? name->valuestring : "", want);
}

TEST(eval, trace_names_the_goals_parts) {
    const double room[] = {100, 60};
    const double block[] = {100, 200, 300, 250, 0.5, 0, 0};
    eval_trace t = {0};
    if (begin(&t, "tworoom", room)) {
        EXPECT_INT(cJSON_GetArraySize(get(&t, "goal_names")), 1);
        expect_name(&t, 0, "goal");
        EXPECT(!get(&t, "goal_outline") && !get(&t, "scenery"));
        eval_trace_free(&t);
    }
    if (begin(&t, "pusht", block)) {
        EXPECT_INT(cJSON_GetArraySize(get(&t, "goal_names")), 2);
        expect_name(&t, 0, "agent's goal");
        expect_name(&t, 1, "block's goal");
        // the green T's centre of gravity: 45 along its stem from (256, 256), turned by 45 degrees
        const cJSON* at = get(&t, "scenery_xy");
        EXPECT_NEAR(cJSON_GetArrayItem(at, 0)->valuedouble, (256 - 45 / sqrt(2)) * 224 / 512, 1e-2);
        EXPECT_NEAR(cJSON_GetArrayItem(at, 1)->valuedouble, (256 + 45 / sqrt(2)) * 224 / 512, 1e-2);
        eval_trace_free(&t);
    }
}

// Distance of a point from the T's outline, in its own frame.
static double off_outline(double x, double y) {
    static const double turn[][2] = {{-60, 0},  {60, 0},    {60, 30},  {15, 30},
                                     {15, 120}, {-15, 120}, {-15, 30}, {-60, 30}};
    double least = INFINITY;
    for (int i = 0; i < 8; i++) {
        const double *a = turn[i], *b = turn[(i + 1) % 8];
        double dx = b[0] - a[0], dy = b[1] - a[1],
               s = ((x - a[0]) * dx + (y - a[1]) * dy) / (dx * dx + dy * dy);
        s = fmax(0, fmin(1, s));
        least = fmin(least, hypot(x - a[0] - s * dx, y - a[1] - s * dy));
    }
    return least;
}

TEST(eval, trace_outlines_the_pushed_block) {
    const double angle = 2.5, goal[] = {100, 200, 300, 250, angle, 0, 0};
    eval_trace t = {0};
    if (!begin(&t, "pusht", goal)) return;
    const cJSON* line;
    double length = 0;
    cJSON_ArrayForEach(line, get(&t, "goal_outline")) {
        double own[3][2];
        EXPECT_INT(cJSON_GetArraySize(line), 2);
        for (int k = 0; k < 2; k++) {
            const cJSON* p = cJSON_GetArrayItem(line, k);
            double x = cJSON_GetArrayItem(p, 0)->valuedouble * 512 / 224 - goal[2],
                   y = cJSON_GetArrayItem(p, 1)->valuedouble * 512 / 224 - goal[3];
            own[k][0] = cos(angle) * x + sin(angle) * y;
            own[k][1] = cos(angle) * y - sin(angle) * x;
            EXPECT(off_outline(own[k][0], own[k][1]) < 0.05);
        }
        // no line crosses the block
        own[2][0] = (own[0][0] + own[1][0]) / 2, own[2][1] = (own[0][1] + own[1][1]) / 2;
        EXPECT(off_outline(own[2][0], own[2][1]) < 0.05);
        length += hypot(own[1][0] - own[0][0], own[1][1] - own[0][1]);
    }
    // once around; the 30 that both boxes end at are there twice
    EXPECT_NEAR(length, 480 + 30, 0.5);
    eval_trace_free(&t);
}
