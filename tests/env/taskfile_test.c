// taskfile_test.c - task files: what they say, and what is refused.
#include "env/taskfile.h"

#include "check.h"

#define TASK "[task]\nname = robot\nimage = camera\naction = motor\nperiod_ms = 50\n"
#define ACTION "[action]\ncount = 2\n"
#define CONFIG                                        \
    "[config] ; in order\nshoulder = angle qpos[0]\n" \
    "tip_x = (xpos[0] - 0.2) / 0.4\ntip_y = xpos[1]\n"
#define DISTANCE                                      \
    "[distance]\njoint = angle shoulder, rad, 0.05\n" \
    "tip = norm tip_x tip_y, 0.4 m, 0.02\n"

TEST(env, taskfile_says_what_columns_mean) {
    taskfile f;
    firm_error err = {0};
    REQUIRE_OK(taskfile_read_text("robot.ini", TASK ACTION CONFIG DISTANCE, &f, &err), err);
    EXPECT_TEXT(f.task.name, "robot");
    EXPECT_INT(f.task.image, 224);
    EXPECT_INT(f.task.period_ms, 50);
    EXPECT_INT(f.task.controls, 5);
    EXPECT_INT(f.task.action_dim, 2);
    EXPECT_NEAR(f.task.action_low, -1, 0);
    EXPECT_NEAR(f.task.action_high, 1, 0);
    EXPECT_INT(f.task.cost, TASK_COST_MAX);
    EXPECT_INT(f.task.config_dim, 4);
    EXPECT_INT(f.task.pairs, 1);
    EXPECT_INT(f.task.chi_dim, 4);
    EXPECT_TEXT(f.task.config_name[1], "shoulder_cos");
    EXPECT_TEXT(f.task.config_name[2], "tip_x");
    EXPECT_INT(f.task.distances, 2);
    EXPECT_NEAR(f.task.distance[1].rule.scale, 0.4, 1e-7);
    EXPECT_TEXT(f.image, "camera");
    EXPECT_TEXT(f.action, "motor");
    EXPECT_TEXT(f.time, "");
    EXPECT_INT(f.refs, 3);
    EXPECT_TEXT(f.ref[2].name, "xpos");
    EXPECT_INT(f.ref[2].index, 1);
    float c[4];
    taskfile_config(&f, (double[]){0.5, 0.6, -0.25}, c);
    EXPECT_NEAR(c[0], sin(0.5), 1e-7);
    EXPECT_NEAR(c[1], cos(0.5), 1e-7);
    EXPECT_NEAR(c[2], 1, 1e-6);
    EXPECT_NEAR(c[3], -0.25, 0);
}

TEST(env, taskfile_of_a_model) {
    taskfile f;
    firm_error err = {0};
    const char* text =
        "[task]\nname = mass\npixels = 128\nperiod_ms = 100\ncost = sum\n"
        "[simulator]\nxml = models/mass.xml\ncamera = fixed\nactuators = t1 t2\nhide = target\n"
        "episode = 60\n[start]\nroot_x = -0.2 0.3\n"
        "[config]\nx = qpos(root_x) / 0.3\ny = qpos(root_y) / 0.3\n"
        "[distance]\nmass = norm x y, 0.3 m, 0.02\n";
    REQUIRE_OK(taskfile_read_text("some/where/mass.ini", text, &f, &err), err);
    EXPECT_TEXT(f.simulator.xml, "some/where/models/mass.xml");
    EXPECT_TEXT(f.simulator.camera, "fixed");
    EXPECT_INT(f.simulator.actuators.count, 2);
    EXPECT_TEXT(f.simulator.actuators.name[1], "t2");
    EXPECT_TEXT(f.simulator.hide.name[0], "target");
    EXPECT_INT(f.simulator.episode, 60);
    EXPECT_TEXT(f.simulator.start[0].joint, "root_x");
    EXPECT_NEAR(f.simulator.start[0].high, 0.3, 0);
    EXPECT_INT(f.task.image, 128);
    EXPECT_TEXT(f.ref[1].of, "root_y");
    REQUIRE_OK(taskfile_finish(&f, 2, &err), err);
    EXPECT_INT(f.task.action_dim, 2);
    EXPECT_INT(f.task.action_clamped, 1);
    EXPECT_INT(taskfile_finish(&f, 33, &err), FIRM_E_VALUE);
    REQUIRE_OK(taskfile_read_text("mass.ini", text, &f, &err), err);
    EXPECT_TEXT(f.simulator.xml, "models/mass.xml");
}

TEST(env, taskfile_refusals) {
    static const char* const bad[][2] = {
        {"", "has no [config]"},
        {"name = x\n", "line 1 of the task: [] name wants to be left out"},
        {TASK ACTION DISTANCE, "line 9 of the task: [distance] joint wants"},
        {TASK ACTION "[distance]\n" CONFIG, "use 1 to"},
        {TASK CONFIG DISTANCE, "the task does not say [action] count"},
        {TASK "image = b\n" ACTION CONFIG DISTANCE,
         "line 6 of the task: [task] image wants to be said once"},
        {TASK "chi = 3\n" ACTION CONFIG DISTANCE, "it follows from the coordinates"},
        {TASK "pixels = 32\n" ACTION CONFIG DISTANCE, "64 to 512"},
        {TASK "colour = red\n" ACTION CONFIG DISTANCE, "there is no such key"},
        {TASK "image = two words\n", "line 6"},
        {TASK ACTION "[config]\nx = qpos[\n" DISTANCE, "line 9 of the task: [config] x: no index"},
        {TASK ACTION "[config]\nx = angle\n" DISTANCE, ""},
        {TASK ACTION "[config]\nx = y\na = angle b\n" DISTANCE, "angles first"},
        {TASK ACTION "[config]\nx = a\nx = b\n[distance]\nd = norm x, 1 m, 1\n",
         "two coordinates are called x"},
        {TASK ACTION CONFIG "[distance]\nd = norm tip_x, 0 m, 0.1\n", "coordinates that are not"},
        {TASK ACTION CONFIG "[distance]\nd = norm tip_x, 1 m, 0\n", "tolerance"},
        {TASK ACTION CONFIG DISTANCE "[start]\nj = 0 1\n", "belong to a MuJoCo model"},
        {TASK ACTION CONFIG DISTANCE "[simulator]\ncamera = x\n", "belong to a MuJoCo model"},
        {TASK CONFIG DISTANCE "[simulator]\nxml = a.xml\ncamera = c\n", "name columns of recorded"},
        {"[task]\nname = r\nperiod_ms = 1\n" CONFIG DISTANCE "[simulator]\nxml = a.xml\n",
         "needs a camera"},
        {"[task]\nname = r\nperiod_ms = 1\n" CONFIG DISTANCE
         "[simulator]\nxml = a.xml\ncamera = c\nview = 0 0 0 1 2 3\n",
         "not both"},
        {"[task]\nname = r\nperiod_ms = 1\n" CONFIG DISTANCE
         "[simulator]\nxml = a.xml\nview = 0 0 0 0 2 3\n",
         "six numbers"},
        {"[task]\nname = r\nperiod_ms = 1\n" ACTION CONFIG DISTANCE
         "[simulator]\nxml = a.xml\ncamera = c\n",
         "leave [action] out"},
        {"[start]\nj = 1 0\n", "the least and the largest"},
        {"[start]\nj = 0 1\nj = 0 1\n", "line 3 of the task: [start] j wants to be said once"},
        {"[task\n", "line 1 of the task: neither"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        taskfile f;
        firm_error err = {0};
        if (taskfile_read_text("robot.ini", bad[i][0], &f, &err) == FIRM_OK)
            test_fail(__FILE__, __LINE__, "case %zu was accepted", i);
        else if (!strstr(err.message, bad[i][1]) || !strstr(err.message, "robot.ini"))
            test_fail(__FILE__, __LINE__, "case %zu: '%s' instead of '%s'", i, err.message,
                      bad[i][1]);
    }
}

TEST(env, taskfile_on_disk) {
    char path[600];
    snprintf(path, sizeof path, "%s/robot.ini", test_temp_dir());
    taskfile f;
    firm_error err = {0};
    EXPECT_INT(taskfile_read(path, &f, &err), FIRM_E_MISSING);
    FILE* to = fopen(path, "wb");
    fwrite(TASK "\0" ACTION, 1, sizeof TASK + sizeof ACTION, to);
    fclose(to);
    EXPECT_INT(taskfile_read(path, &f, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "is no text"));
    to = fopen(path, "wb");
    fputs(TASK ACTION CONFIG DISTANCE, to);
    fclose(to);
    REQUIRE_OK(taskfile_read(path, &f, &err), err);
    EXPECT_INT(f.formulas, 3);
}
