// schedule_test.c - every row of the paper's training tables stands in a task's settings, and
// stages mean what their keys say. (TwoRoom's rows: train_test.c.)
#include "check.h"
#include "core/mem.h"
#include "env/env.h"
#include "eval/settings.h"
#include "train/frontend.h"

typedef struct row {
    const char *name, *objective;
    int sources, updates;
    struct {
        const char* parameter;
        double rate;  // learning rate of that parameter, times 1e4
    } module[2];
} row;

static void check_rows(const char* task, const row* rows, int count, int segments) {
    firm_error err;
    config* c;
    stage s;
    REQUIRE_OK(settings_load(&env_find(task)->task, NULL, NULL, 0, &c, &err), err);
    for (int i = 0; i < count; i++) {
        int at = 0;
        while (stage_read(c, at, NULL, &s) && strcmp(s.name, rows[i].name) != 0) at++;
        EXPECT_TEXT(s.name, rows[i].name);
        EXPECT_TEXT(s.objective, rows[i].objective);
        EXPECT_INT(s.sources, rows[i].sources);
        EXPECT_INT(s.updates, rows[i].updates);
        for (int k = 0; k < 2 && rows[i].module[k].parameter; k++) {
            EXPECT(stage_trains(&s, rows[i].module[k].parameter));
            EXPECT_NEAR(1e4 * s.adamw.rate * stage_factor(&s, rows[i].module[k].parameter),
                        rows[i].module[k].rate, 1e-3 * rows[i].module[k].rate);
        }
        stage_read(c, at, "I", &s);
        EXPECT_INT(s.sources, SOURCE_I);
    }
    EXPECT_INT(config_int(c, "train", "segments"), segments);
    config_free(c);
}

enum { F = SOURCE_F, I = SOURCE_I, FI = SOURCE_F | SOURCE_I, FIS = SOURCE_F | SOURCE_I | SOURCE_S };

TEST(train, reacher_schedule_is_the_papers) {
    static const row rows[] = {
        {"encoder", "geometry", FI, 500, {{"tokenizer.", 2}}},
        {"encoder-fine", "geometry", FI, 2000, {{"tokenizer.", 0.5}}},
        {"physical", "physical", FI, 1500, {{"grounder.trunk.", 2}}},
        {"configuration", "ground", FI, 2000, {{"grounder.trunk.", 0.5}, {"grounder.config.", 5}}},
        {"horizon", "ground", FI, 3000, {{"grounder.trunk.", 2}, {"grounder.config.", 2}}},
        {"residual", "ground", FI, 3000, {{"grounder.config.", 1}, {"grounder.residual.", 5}}},
        {"history", "dynamics", F, 500, {{"history.", 2}}},
        {"rollout-i", "rollout", I, 4000, {{"transition.", 3}, {"fiber.", 3}}},
        {"rollout-i-fine", "rollout", I, 2000, {{"transition.", 1}}},
        {"rollout-fi", "rollout", FI, 3000, {{"transition.", 1}}},
    };
    check_rows("reacher", rows, 10, 16384);
}

TEST(train, cube_schedule_is_the_papers) {
    static const row rows[] = {
        {"tokenizer", "picture", FI, 500, {{"tokenizer.", 2}}},
        {"grounder", "ground", FI, 1500, {{"grounder.", 3}}},
        {"joint", "ground", FI, 1000, {{"tokenizer.", 0.1}, {"grounder.", 1}}},
        {"height", "ground", FI, 2000, {{"tokenizer.", 0.05}, {"grounder.", 0.5}}},
        {"history", "dynamics", F, 1000, {{"history.", 3}}},
        {"rollout-fi", "rollout", FI, 3000, {{"transition.", 1}, {"fiber.", 1}}},
    };
    check_rows("cube", rows, 6, 4096);
}

TEST(train, pusht_schedule_is_the_papers) {
    static const row rows[] = {
        {"rollout-1", "rollout", FI, 5000, {{0}}},
        {"rollout-2", "rollout", FI, 3000, {{0}}},
        {"rollout-3", "rollout", FI, 3000, {{0}}},
        {"rollout-4", "rollout", FI, 5000, {{0}}},
        {"rollout-5", "rollout", FI, 10000, {{0}}},
        {"rollout-6", "rollout", FI, 3000, {{0}}},
        {"tokenizer", "ground", FI, 500, {{"tokenizer.", 1}}},
        {"grounder", "ground", FI, 2000, {{"grounder.", 3}}},
        {"refinement", "rollout", FIS, 2000, {{"history.", 0.05}, {"transition.", 0.3}}},
    };
    if (env_find("pusht"))
        check_rows("pusht", rows, 9, 16384);
    else
        test_skip("built without Chipmunk");
}

// the loss contract, row by row
TEST(train, loss_contract_is_the_papers) {
    static const struct {
        const char *task, *source;
        loss_weights w;
    } rows[] = {
        {"tworoom", "F", {2, 2, 0.5f, 0.5f, 0.5f, 0, 0, TAIL_TERMINAL, 0, 0}},
        {"tworoom", "I", {2, 2, 1.0f, 0.5f, 0, 0, 0, TAIL_TERMINAL, 0, 0}},
        {"reacher", "F", {2, 2, 0.5f, 0.5f, 0.5f, 1, 1, TAIL_CHORD_SQUARED, 0, 0}},
        {"reacher", "I", {2, 2, 0.5f, 0.5f, 0.5f, 1, 1, TAIL_CHORD_SQUARED, 0, 0}},
        {"pusht", "F", {2, 2, 0.5f, 0.5f, 0.5f, 0, 0, TAIL_TERMINAL, 0, 0}},
        {"pusht", "I", {2, 2, 1.0f, 0.5f, 0, 0, 0, TAIL_TERMINAL, 0, 0}},
        {"pusht", "SR", {2, 2, 1.0f, 0.5f, 0.5f, 0, 0, TAIL_TERMINAL, 0, 0}},
        {"cube", "F", {2, 2, 0.5f, 0.5f, 0.5f, 0, 0, TAIL_TERMINAL, 0, 0}},
        {"cube", "I", {2, 2, 1.0f, 0.5f, 0, 0, 0, TAIL_TERMINAL, 0, 0}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const env_spec* env = env_find(rows[i].task);
        firm_error err;
        config* c;
        loss_weights w;
        if (!env) continue;
        REQUIRE_OK(settings_load(&env->task, NULL, NULL, 0, &c, &err), err);
        REQUIRE_OK(loss_read(c, env, rows[i].source, &w, &err), err);
        EXPECT(memcmp(&w, &rows[i].w, sizeof w) == 0);
        config_free(c);
    }
}

TEST(train, modules_and_their_rates) {
    firm_error err;
    config* c;
    stage s;
    const char* set[] = {"stage.grounder.modules=grounder.config grounder:0.5, tokenizer:0.1",
                         "stage.history.modules=history:fast"};
    REQUIRE_OK(settings_load(&env_find("tworoom")->task, NULL, set, 2, &c, &err), err);
    EXPECT(stage_read(c, 1, NULL, &s));
    EXPECT_INT(s.modules, 3);
    EXPECT_NEAR(stage_factor(&s, "grounder.config.out.weight"), 1, 0);
    EXPECT_NEAR(stage_factor(&s, "grounder.norm.gamma"), 0.5, 1e-7);
    EXPECT_NEAR(stage_factor(&s, "tokenizer.position"), 0.1, 1e-7);
    EXPECT(stage_trains(&s, "tokenizer.") && !stage_trains(&s, "history."));
    EXPECT(stage_read(c, 2, NULL, &s));
    EXPECT_INT(s.modules, 0);  // refused by stage_check
    config_free(c);
}

TEST(train, balanced_order_shows_both_kinds_alike) {
    enum { N = 50 };
    uint8_t rare[N] = {0};
    int *order, rows, seen[N] = {0}, first = 0;
    firm_error err;
    for (int i = 0; i < N; i += 5) rare[i] = 1;  // 10 of 50
    REQUIRE_OK(balanced_order(rare, N, &order, &rows, &err), err);
    EXPECT_INT(rows, 80);
    for (int i = 0; i < rows; i++) {
        seen[order[i]]++;
        first += rare[order[i]];
    }
    EXPECT_INT(first, 40);
    for (int i = 0; i < N; i++) EXPECT_INT(seen[i], rare[i] ? 4 : 1);
    mem_free(order);
    memset(rare, 0, sizeof rare);
    REQUIRE_OK(balanced_order(rare, N, &order, &rows, &err), err);
    EXPECT(order == NULL && rows == N);
}

// a bright pixel goes where the turned keypoint is expected
TEST(train, pictures_turn_as_keypoints_do) {
    static uint8_t frame[ENV_FRAME_BYTES], turned[ENV_FRAME_BYTES];
    int kinds = 0, told[3][3] = {{0}};
    for (int64_t n = 0; n < 64; n++) {
        int x = 70 + (int)(n * 7 % 60), y = 80 + (int)(n * 11 % 60);
        memset(frame, 0, sizeof frame);
        frame[(y * ENV_IMAGE + x) * 3 + 1] = 255;
        turning t = turning_of(n);
        turn_frame(&t, ENV_IMAGE, frame, turned);
        double px = (x + 0.5) / 112 - 1, py = (y + 0.5) / 112 - 1;
        double wx = t.xx * px + t.xy * py + t.dx / 112.0;
        double wy = t.yx * px + t.yy * py + t.dy / 112.0;
        int u = (int)lround((wx + 1) * 112 - 0.5), v = (int)lround((wy + 1) * 112 - 0.5), lit = 0;
        EXPECT_INT(turned[(v * ENV_IMAGE + u) * 3 + 1], 255);
        for (int i = 0; i < ENV_FRAME_BYTES; i++) lit += turned[i] != 0;
        EXPECT_INT(lit, 1);
        EXPECT_INT(abs(t.xx * t.yy - t.xy * t.yx), 1);
        kinds += !told[t.xx + 1][t.yx + 1];
        told[t.xx + 1][t.yx + 1] = 1;
    }
    EXPECT_INT(kinds, 4);
}
