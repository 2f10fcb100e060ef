// defaults_test.c - settings that nobody wrote: what the rules choose, for whom, and that a model
// can be made of them whatever the task.
#include "eval/defaults.h"

#include "check.h"
#include "core/mem.h"
#include "env/env.h"
#include "eval/settings.h"
#include "model/model.h"
#include "train/shape.h"

// A task of plain positions after so many angles, all of them priced.
static task_typed some_task(int image, int config, int pairs, int actions) {
    task_typed t = {.name = "nobody",
                    .image = image,
                    .controls = 5,
                    .horizon = 5,
                    .action_dim = actions,
                    .action_low = -1,
                    .action_high = 1,
                    .config_dim = config,
                    .pairs = pairs,
                    .chi_dim = config,
                    .distances = 1,
                    .distance = {{"all", "1", 0.1f, {.count = config, .scale = 1}}}};
    for (int i = 0; i < config; i++)
        snprintf(t.config_name[i], TASK_NAME,
                 i >= 2 * pairs ? "x%d"
                 : i % 2        ? "a%d_cos"
                                : "a%d_sin",
                 i >= 2 * pairs ? i : i / 2);
    return t;
}

TEST(eval, defaults_by_rule) {
    static const struct {
        int image, grid, pool, grounds;
    } pictures[] = {{64, 8, 1, 3000},  {96, 6, 1, 3000},  {128, 8, 1, 3000}, {160, 10, 1, 1960},
                    {192, 6, 1, 1361}, {224, 7, 1, 1000}, {240, 15, 3, 871}, {256, 8, 1, 765},
                    {384, 12, 2, 600}, {512, 16, 2, 600}};
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++) {
        task_typed t = some_task(pictures[i].image, 3, 0, 2);
        defaults d = defaults_choose(&t);
        EXPECT_INT(d.grid, pictures[i].grid);
        EXPECT_INT(d.pool, pictures[i].pool);
        EXPECT_INT(d.ground_updates, pictures[i].grounds);
        // two freedoms are learned soon, one angle sooner
        t = some_task(pictures[i].image, 2, 0, 2);
        d = defaults_choose(&t);
        EXPECT_INT(d.ground_updates, pictures[i].grounds > 1500 ? 1500 : pictures[i].grounds);
        t = some_task(pictures[i].image, 2, 1, 1);
        d = defaults_choose(&t);
        EXPECT_INT(d.ground_updates, 750);
    }
    static const int rollouts[][2] = {{500, 2000}, {750, 3000}, {1000, 4000}, {1000, 4000}};
    for (int freedoms = 1; freedoms <= 4; freedoms++) {
        task_typed t = some_task(96, freedoms, 0, 1);
        defaults d = defaults_choose(&t);
        EXPECT_INT(d.warm_updates, rollouts[freedoms - 1][0]);
        EXPECT_INT(d.rollout_updates, rollouts[freedoms - 1][1]);
    }
    task_typed arm = some_task(224, 14, 7, 7);
    arm.controls = 2;
    arm.horizon = 10;
    defaults d = defaults_choose(&arm);
    EXPECT_INT(d.grounder_hidden, 768);
    EXPECT_INT(d.ground_updates, 1500);
    EXPECT_INT(d.rollout_updates, 2000);
    EXPECT_INT(d.lag, 20);
    EXPECT_INT(d.horizon, 10);
    EXPECT_INT(d.horizon_most, 40);
    EXPECT_INT(d.candidates, 448);
}

// Whatever the picture and the coordinates, the settings are read and a model can be made of them.
TEST(eval, defaults_make_models) {
    static const int tasks[][4] = {
        {64, 1, 0, 1}, {80, 32, 16, 32}, {128, 5, 1, 2}, {208, 3, 0, 1}, {512, 12, 2, 3}};
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        task_typed t = some_task(tasks[i][0], tasks[i][1], tasks[i][2], tasks[i][3]);
        firm_error err = {0};
        config* c;
        model_shape shape;
        firm_model* m;
        REQUIRE_OK(settings_load(&t, NULL, NULL, 0, &c, &err), err);
        model_shape_read(c, &shape);
        REQUIRE_OK(model_create(&t, &shape, 1, 1, &m, &err), err);
        plan_options options;
        for (int mode = 0; mode < 2; mode++) {
            settings_plan(c, (firm_mode)mode, &options);
            REQUIRE_OK(plan_options_check(&options, &err), err);
        }
        EXPECT_TEXT(config_member(c, "stage.*", 4), "rollout-fi");
        EXPECT_TEXT(config_text(c, "loss.I", "displacement_kind"), tasks[i][2] ? "rel" : "emb");
        firm_model_free(m);
        config_free(c);
    }
}

TEST(eval, defaults_are_for_tasks_without_settings) {
    task_typed unknown = some_task(128, 2, 0, 2);
    const task_typed* known = &env_find("tworoom")->task;
    EXPECT_INT(settings_are_chosen(&unknown, NULL), 1);
    EXPECT_INT(settings_are_chosen(&unknown, "my.ini"), 1);
    EXPECT_INT(settings_are_chosen(&unknown, "smoke"), 0);
    EXPECT_INT(settings_are_chosen(known, NULL), 0);
    EXPECT_INT(settings_are_chosen(known, "my.ini"), 0);
    EXPECT_INT(settings_are_chosen(known, "defaults"), 1);

    firm_error err = {0};
    config *own, *asked;
    static const char* const set[] = {"model.grounder_hidden=64"};
    REQUIRE_OK(settings_load(known, NULL, NULL, 0, &own, &err), err);
    EXPECT_INT(config_int(own, "stage.rollout-f", "updates"), 3000);
    REQUIRE_OK(settings_load(known, "defaults", set, 1, &asked, &err), err);
    EXPECT_INT(config_int(asked, "stage.rollout-f", "updates"), 750);
    EXPECT_INT(config_int(asked, "model", "grounder_hidden"), 64);
    // the resolved settings say all of it, and read back
    char* text = config_dump(asked);
    config* back;
    REQUIRE_OK(settings_from_text("tworoom", text, &back, &err), err);
    EXPECT(config_hash(back) == config_hash(asked));
    EXPECT(strstr(text, "reach_horizon_max = 16") != NULL);
    mem_free(text);
    config_free(back);
    config_free(asked);
    config_free(own);
}

TEST(eval, defaults_are_said_in_few_lines) {
    task_typed t = some_task(128, 3, 1, 2);
    char text[DEFAULTS_TEXT];
    defaults d = defaults_choose(&t);
    int lines = 1;
    defaults_say(&t, &d, text);
    for (const char* at = text; *at; at++) lines += *at == '\n';
    EXPECT_INT(lines, 5);
    EXPECT(strstr(text, "settings of nobody, chosen"));
    EXPECT(strstr(text, "8 x 8 cells, 2250 updates"));
}
