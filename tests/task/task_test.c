// task_test.c - typed tasks: distances by hand, texts that read back, texts that are
// refused.
#include "task/task.h"

#include "check.h"

// An arm of two joints and a point beside it: two angles, two positions.
static task_typed arm(void) {
    return (task_typed){
        .name = "arm",
        .image = 224,
        .period_ms = 40,
        .controls = 5,
        .horizon = 5,
        .action_dim = 2,
        .action_low = -0.5f,
        .action_high = 1.25f,
        .action_clamped = 1,
        .config_dim = 6,
        .pairs = 2,
        .chi_dim = 3,
        .config_name = {"a_sin", "a_cos", "b_sin", "b_cos", "x", "y"},
        .distances = 2,
        .distance = {{"elbow", "rad", 0.1f, {.angle = 1, .first = 2}},
                     {"the point", "m", 0.25f, {.first = 4, .count = 2, .scale = 0.5f}}},
        .cost = TASK_COST_MAX,
        .ranges = 1,
        .visible = {{4, -1, 0.5f}},
        .points = 2,
        .point = {{.name = "hand",
                   .chain = 1,
                   .x = {0, 10, 0, 20, 0, 0, 5},
                   .y = {10, 0, 20, 0},
                   .w = {0, 0, 0, 0, 0, 0, 1}},
                  {.name = "seen",
                   .x = {0, 0, 0, 0, 2, 0, 4},
                   .y = {0, 0, 0, 0, 0, 2, 6},
                   .w = {0, 0, 0, 0, 0, 1, 2}}},
        .situation_dim = 3,
        .situation = {{2, {TASK_GOAL, 4}, {TASK_CONFIG, 4}, 4},
                      {1, {TASK_CHI, 2}, {TASK_ZERO, 0}, 0.5f},
                      {-1, {TASK_CONFIG, 0}, {TASK_CHI, 1}, 1}}};
}

// The arm's point pushes a plate at angle b.
static task_typed pusher(void) {
    task_typed t = arm();
    t.config_dim = 8;
    snprintf(t.config_name[6], TASK_NAME, "plate_x");
    snprintf(t.config_name[7], TASK_NAME, "plate_y");
    memset(t.point, 0, sizeof t.point);
    t.points = 0;
    t.push = (nn_push){.boxes = 2,
                       .angle = 2,
                       .agent = {4, 5},
                       .block = {6, 7},
                       .scale = 0.5f,
                       .motion = {0.1f, 0.02f, 1, -0.5f},
                       .radius = 0.05f,
                       .centre = {0.25f, -1},
                       .soft = 0.02f,
                       .deep = 0.05f,
                       .unit = 0.1f,
                       .arm = 0.2f,
                       .far = 0.35f,
                       .box = {{0, 0.5f, 1, 2}, {3, 4, 5, 6}}};
    return t;
}

static const float half_turn[] = {0, 1, 1, 0, 0.5f, -0.5f};  // a = 0, b = 90 degrees
static const float straight[] = {0, 1, 0, 1, 0.2f, -0.1f};   // a = b = 0

TEST(task, distances_by_hand) {
    task_typed t = arm();
    float d[2];
    task_measure(&t, half_turn, straight, d);
    EXPECT_NEAR(d[0], 1.5707964, 1e-6);  // a quarter of a turn
    EXPECT_NEAR(d[1], 0.25, 1e-6);       // half of the distance 0.5
    EXPECT_NEAR(task_tolerance_units(&t, half_turn, straight), 15.707964, 1e-4);
    EXPECT_NEAR(task_cost_value(&t, half_turn, straight), 15.707964 * 15.707964, 1e-2);
    t.cost = TASK_COST_SUM;
    EXPECT_NEAR(task_cost_value(&t, half_turn, straight), 2 + 0.25, 1e-6);
    // the largest decides, wherever it stands
    t.distance[0].tolerance = 100;
    EXPECT_NEAR(task_tolerance_units(&t, half_turn, straight), 1, 1e-6);
    float broken[6] = {0, 1, 0, 1, NAN, 0};
    EXPECT(isinf(task_tolerance_units(&t, broken, straight)));
}

TEST(task, free_coordinates_cost_nothing) {
    task_typed t = arm();
    float d[2], wild[6] = {0, 1, NAN, 7, 0.2f, INFINITY};
    const uint8_t all[6] = {1, 1, 1, 1, 1, 1}, one[6] = {1, 1, 0, 0, 1, 0}, pair[6] = {0, 0, 1, 1};
    task_measure_given(&t, all, half_turn, straight, d);
    EXPECT_NEAR(d[0], 1.5707964, 1e-6);
    EXPECT_NEAR(d[1], 0.25, 1e-6);
    // the free numbers of the goal may be anything
    task_measure_given(&t, one, half_turn, wild, d);
    EXPECT(d[0] == 0);
    EXPECT_NEAR(d[1], 0.5 * 0.3, 1e-6);
    EXPECT_NEAR(task_tolerance_units_given(&t, one, half_turn, wild), 0.6, 1e-6);
    EXPECT_NEAR(task_cost_value_given(&t, one, half_turn, wild), 0.36, 1e-6);
    task_measure_given(&t, pair, half_turn, straight, d);
    EXPECT_NEAR(d[0], 1.5707964, 1e-6);
    EXPECT(d[1] == 0);
    t.cost = TASK_COST_SUM;
    EXPECT_NEAR(task_cost_value_given(&t, one, half_turn, wild), 0.09, 1e-6);
    EXPECT_NEAR(task_cost_value_given(&t, pair, half_turn, straight), 2, 1e-6);
}

// The first angle of the arm is in no distance: wherever it is, nothing costs more.
TEST(task, coordinates_that_no_distance_names_cost_nothing) {
    task_typed t = arm();
    const float turned[] = {1, 0, 1, 0, 0.5f, -0.5f};
    EXPECT_INT(task_priced(&t), 0x3c);
    for (int kind = 0; kind < 2; kind++) {
        t.cost = kind ? TASK_COST_MAX : TASK_COST_SUM;
        EXPECT_NEAR(task_cost_value(&t, turned, straight), task_cost_value(&t, half_turn, straight),
                    0);
        EXPECT_NEAR(task_tolerance_units(&t, turned, half_turn), 0, 0);
        EXPECT_NEAR(task_cost_value(&t, turned, half_turn), 0, 0);
    }
    t.distance[1].rule = (task_rule){.first = 0, .count = 6, .scale = 1};
    t.cost = TASK_COST_SUM;
    EXPECT_INT(task_priced(&t), 0x3f);
    EXPECT_NEAR(task_cost_value(&t, turned, half_turn), 2, 1e-6);
}

TEST(task, places_and_situations_by_hand) {
    task_typed t = arm();
    float xy[4], out[3], chi[] = {7, 8, 9};
    // the hand: 10 along a = 0, then 20 along a + b = 90 degrees; the point at depth 2 - 0.5
    task_project(&t, half_turn, xy);
    EXPECT_NEAR(xy[0], 10 * 1 + 20 * 0 + 5, 1e-5);
    EXPECT_NEAR(xy[1], 10 * 0 + 20 * 1, 1e-5);
    EXPECT_NEAR(xy[2], (2 * 0.5 + 4) / 1.5, 1e-5);
    EXPECT_NEAR(xy[3], (2 * -0.5 + 6) / 1.5, 1e-5);
    task_situation(&t, half_turn, chi, straight, out);
    EXPECT_NEAR(out[0], 2 * (0.2 - 0.5) / 4, 1e-6);
    EXPECT_NEAR(out[1], 18, 1e-6);
    EXPECT_NEAR(out[2], 8, 1e-6);
    EXPECT_INT(task_situation_reads_chi(&t), 1);
    t.situation_dim = 1;
    EXPECT_INT(task_situation_reads_chi(&t), 0);
    EXPECT_INT(task_is_visible(&t, half_turn), 1);
    float aside[6] = {0, 1, 0, 1, 0.51f, 0};
    EXPECT_INT(task_is_visible(&t, aside), 0);
    aside[4] = NAN;
    EXPECT_INT(task_is_visible(&t, aside), 0);
}

static int same(const task_typed* a, const task_typed* b) {
    char text[2][TASK_TEXT];
    return task_write(a, text[0], TASK_TEXT) && task_write(b, text[1], TASK_TEXT) &&
           strcmp(text[0], text[1]) == 0;
}

TEST(task, texts_read_back) {
    char text[TASK_TEXT], small[40];
    task_typed t = arm(), back;
    firm_error err;
    EXPECT(task_write(&t, text, sizeof text));
    EXPECT(strstr(text, "the point = norm x y, 0.5 m, 0.25\n"));
    EXPECT(strstr(text, "elbow = angle b, rad, 0.100000001\n"));
    REQUIRE_OK(task_read("text", text, &back, &err), err);
    EXPECT(same(&t, &back));
    EXPECT(memcmp(&t, &back, sizeof t) == 0);
    EXPECT(!strstr(text, "horizon"));  // 5 is what texts without it mean
    t.horizon = 4;
    EXPECT(task_write(&t, text, sizeof text) && strstr(text, "controls = 5\nhorizon = 4\n"));
    REQUIRE_OK(task_read("text", text, &back, &err), err);
    EXPECT(memcmp(&t, &back, sizeof t) == 0);
    // comments and spaces mean nothing
    char spaced[TASK_TEXT] = "; a task\n\n";
    for (char* line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        strcat(spaced, " ");
        strcat(spaced, line);
        strcat(spaced, "  ; as it is\r\n");
    }
    REQUIRE_OK(task_read("text", spaced, &back, &err), err);
    EXPECT(memcmp(&t, &back, sizeof t) == 0);
    EXPECT(!task_write(&t, small, sizeof small));
}

// a name that was lost, as in a file that somebody forged: what a file says wrongly is its format
TEST(task, texts_of_impossible_tasks_are_refused) {
    char text[TASK_TEXT];
    task_typed t = arm(), back;
    firm_error err = {0};
    EXPECT(task_write(&t, text, sizeof text));
    char* name = strstr(text, "name = ");
    EXPECT(name);
    if (!name) return;
    name[7] = '!';
    EXPECT(task_read("forged", text, &back, &err) == FIRM_E_FORMAT);
    EXPECT(err.status == FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "forged: a task's name has 1 to 47 letters"));
}

TEST(task, what_is_pushed_reads_back) {
    char text[TASK_TEXT];
    task_typed t = pusher(), back;
    firm_error err;
    EXPECT(task_write(&t, text, sizeof text));
    EXPECT(strstr(text, "[push]\nagent = x y\nblock = plate_x plate_y b\nscale = 0.5\n"));
    EXPECT(strstr(text, "[box]\n1 = 0 0.5 1 2\n2 = 3 4 5 6\n"));
    REQUIRE_OK(task_read("text", text, &back, &err), err);
    EXPECT(memcmp(&t, &back, sizeof t) == 0);
    // lengths that are not given follow the agent's size
    char* lengths = strstr(text, "lengths");
    memmove(lengths, strchr(lengths, '\n') + 1, strlen(strchr(lengths, '\n')));
    REQUIRE_OK(task_read("text", text, &back, &err), err);
    EXPECT_NEAR(back.push.soft, 0.02, 1e-8);
    EXPECT_NEAR(back.push.unit, 0.1, 1e-8);
    EXPECT_NEAR(back.push.far, 0.35, 1e-7);
    const nn_push push = task_push(&t);
    EXPECT_INT(nn_push_features(&push), 6 * 8);
    t.push = (nn_push){0};
    EXPECT_INT(task_expect("f", &t, &back, &err), FIRM_OK);  // older than the section
    t = pusher();
    t.push.motion[0] = 1;
    EXPECT_INT(task_expect("f", &t, &back, &err), FIRM_E_TASK);
}

// Replaces the first `what` of a task's good text; it must be refused with `sentence`.
static void refused_of(task_typed t, int line, const char* what, const char* by,
                       const char* sentence) {
    char text[TASK_TEXT], changed[2 * TASK_TEXT];
    task_typed back;
    firm_error err = {0};
    CHECK(task_write(&t, text, sizeof text), "no room");
    const char* at = strstr(text, what);
    if (!at) {
        test_fail(__FILE__, line, "'%s' is not in the text", what);
        return;
    }
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, by, at + strlen(what));
    if (task_read("arm.txt", changed, &back, &err) == FIRM_OK)
        test_fail(__FILE__, line, "'%s' for '%s' was read", by, what);
    else if (!strstr(err.message, sentence) || !strstr(err.message, "arm.txt"))
        test_fail(__FILE__, line, "'%s' is not in '%s'", sentence, err.message);
}

static void refused(int line, const char* what, const char* by, const char* sentence) {
    refused_of(arm(), line, what, by, sentence);
}

TEST(task, bad_pushes_are_refused) {
    static const char* const bad[][3] = {
        {"agent = x y", "agent = x", "two positions"},
        {"agent = x y", "agent = x z", "two positions"},
        {"agent = x y\n", "", "[push] agent"},
        {"motion = 0.100000001 0.0199999996 1 -0.5\n", "", "[push] motion"},
        {"plate_y b\n", "plate_y c\n", "an angle"},
        {"scale = 0.5", "scale = 0", "above 0"},
        {"scale = 0.5", "scale = inf", "a number"},
        {"scale = 0.5", "scale = 0.5\nscale = 0.5", "said once"},
        {"centre = 0.25 -1", "centre = 0.25", "two numbers"},
        {"lengths = 0.0199999996", "lengths = -1", "above 0"},
        {"1 = 0 0.5 1 2\n2 = 3 4 5 6\n", "", "[box]"},
        {"1 = 0 0.5 1 2", "1 = 0 0.5 1 -2", "above 0"},
        {"2 = 3 4 5 6", "3 = 3 4 5 6", "its number in order"},
        {"2 = 3 4 5 6", "2 = 3 4 5", "four numbers"},
        {"2 = 3 4 5 6", "2 = 3 4 5 6\n3 = 0 0 1 1\n4 = 0 0 1 1\n5 = 0 0 1 1", "from 1 to 4"},
        {"controls = 5", "controls = 21", "up to 20 controls"},
        {"count = 2", "count = 1", "two numbers move the agent"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused_of(pusher(), __LINE__, bad[i][0], bad[i][1], bad[i][2]);
}

TEST(task, bad_texts_are_refused) {
    refused(__LINE__, "image = 224", "image = 2", "side: 2; use 64 to 512");
    refused(__LINE__, "image = 224", "image = 528", "side: 528; use 64 to 512");
    refused(__LINE__, "image = 224", "image = 100", "100 pixels is no multiple of 16; use 96");
    refused(__LINE__, "controls = 5", "controls = 101", "controls of a macro action: 101");
    refused(__LINE__, "controls = 5", "controls = 5\nhorizon = 0", "horizon: 0; use 1 to 20");
    refused(__LINE__, "controls = 5", "controls = 5\nhorizon = 21", "horizon: 21; use 1 to 20");
    refused(__LINE__, "controls = 5", "controls = 30\nhorizon = 17",
            "17 macro actions of 30 controls are 510 controls; use at most 500");
    refused(__LINE__, "image = 224", "image = 224 px", "whole number of pixels");
    refused(__LINE__, "image = 224\n", "", "[task] image");
    refused(__LINE__, "image = 224", "image = 224\nimage = 224", "said once");
    refused(__LINE__, "image = 224", "picture = 224", "no such key");
    refused(__LINE__, "cost = max", "cost = most", "sum or max");
    refused(__LINE__, "name = arm", "name = an arm", "letters");
    refused(__LINE__, "count = 2", "count = 33", "use 1 to 32");
    refused(__LINE__, "low = -0.5", "low = 2", "must be smaller");
    refused(__LINE__, "low = -0.5", "low = nan", "a number");
    refused(__LINE__, "x = position", "x = place", "angle or position");
    refused(__LINE__, "y = position", "y = angle", "angles first");
    refused(__LINE__, "norm x y", "norm y x", "follow each other");
    refused(__LINE__, "norm x y", "norm", "norm NAMES");
    refused(__LINE__, "angle b", "angle c", "angle NAME");
    refused(__LINE__, "angle b", "angle a b", "angle NAME");
    refused(__LINE__, ", 0.25\n", ", 0\n", "above 0");
    refused(__LINE__, ", 0.25\n", ", -1\n", "TOLERANCE");
    refused(__LINE__, ", 0.25\n", ", 0.25, 1\n", "TOLERANCE");
    refused(__LINE__, "x = -1 0.5", "x = 1 0.5", "empty");
    refused(__LINE__, "x = -1 0.5", "a = -1 0.5", "coordinate");
    refused(__LINE__, "hand = chain", "hand = arc", "plain or chain");
    refused(__LINE__, "0 10 0 20 0 0 5", "0 10 0 20 0 0", "three rows");
    refused(__LINE__, "goal:x", "goal:z", "two coordinates");
    refused(__LINE__, "chi:2", "chi:3", "refers to nothing");
    refused(__LINE__, "chi:2 0 0.5", "chi:2 0 0", "divides by 0");
    refused(__LINE__, "2 = 1 chi", "3 = 1 chi", "its number in order");
    refused(__LINE__, "[distance]", "[distance", "neither [section]");
    char many[1024] = "[distance]\n";
    for (int i = 2; i <= TASK_MAX_DISTANCE; i++)
        snprintf(many + strlen(many), 40, "number %d = angle a, rad, 1\n", i);
    strcat(many, "[visible]");
    refused(__LINE__, "[visible]", many, "TOLERANCE");
    // whatever the length
    char text[TASK_TEXT] = "", long_line[6000];
    task_typed t;
    firm_error err;
    EXPECT_INT(task_read("x", text, &t, &err), FIRM_E_FORMAT);
    memset(long_line, 'a', sizeof long_line - 1);
    long_line[sizeof long_line - 1] = 0;
    EXPECT_INT(task_read("x", long_line, &t, &err), FIRM_E_FORMAT);
    memcpy(long_line, "k = ", 4);
    EXPECT_INT(task_read("x", long_line, &t, &err), FIRM_E_FORMAT);
}

TEST(task, wrong_names_are_refused) {
    static const struct {
        int coordinate;
        const char *name, *sentence;
    } bad[] = {{5, "x", "two coordinates are called x"},
               {5, "y!", "letters, digits"},
               {4, "", "letters, digits"},
               {0, "c_sin", "NAME_sin and NAME_cos"},
               {0, "place", "angles come before positions"},
               {3, "b_cas", "NAME_sin and NAME_cos"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        task_typed t = arm();
        firm_error err = {0};
        snprintf(t.config_name[bad[i].coordinate], TASK_NAME, "%s", bad[i].name);
        EXPECT_INT(task_check(&t, "arm", &err), FIRM_E_VALUE);
        EXPECT(strstr(err.message, bad[i].sentence));
    }
}

TEST(task, another_task_gets_a_sentence) {
    task_typed a = arm(), b = arm();
    firm_error err = {0};
    EXPECT_INT(task_expect("f", &a, &b, &err), FIRM_OK);
    b.distance[1].tolerance *= 1.01f;
    EXPECT_INT(task_expect("f", &a, &b, &err), FIRM_E_TASK);
    EXPECT(strstr(err.message, "in another way"));
    snprintf(b.name, sizeof b.name, "leg");
    EXPECT_INT(task_expect("f", &a, &b, &err), FIRM_E_TASK);
    EXPECT(strstr(err.message, "for the task arm, not for leg"));
}
