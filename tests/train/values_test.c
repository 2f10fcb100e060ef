// values_test.c - numbers of training that only show in results otherwise: how far the support
// reaches, what each source of a stage weighs, and which rows of metrics.csv a resumed run keeps.
#include "check.h"
#include "core/file.h"
#include "core/mem.h"
#include "eval/settings.h"
#include "small.h"
#include "train/run.h"

static int open_tworoom(small* f, const char* set) {
    small_options o = {.task = "tworoom",
                       .settings = "smoke",
                       .set = {"train.segments=16", "train.held_out=8", set},
                       .episodes = 60,
                       .anchors = 8,
                       .per_anchor = 2};
    return small_collect(f, &o) && small_open(f, &(train_options){.seed = 5}, 1) &&
           small_model(f, 5);
}

// Of the 16384 training configurations that measure the cover, 16 lie beyond the radius: one in a
// thousand, counted here by hand.
TEST(train, support_leaves_one_in_a_thousand_outside) {
    enum { CHECKS = 16384, POINTS = 64 };
    small f;
    firm_error err;
    if (!open_tworoom(&f, NULL)) return;
    REQUIRE_OK(support_fill(&f.set, f.model, POINTS, &err), err);
    const pairs* p = train_pairs(&f.set, PACK_F, 1);
    int outside = 0, fewer = 0;
    EXPECT_INT(f.set.frame_pool, 0);  // all rows are drawn from, and the records are not added
    for (int i = 0; i < CHECKS; i++) {
        const float* c = p->config + 4 * train_pick(0, 0xFFFE, 1, i, p->count);
        float least = 1e9f;
        for (int k = 0; k < POINTS; k++) {
            const float* at = f.model->support + 2 * k;
            least = fminf(least, (c[0] - at[0]) * (c[0] - at[0]) + (c[1] - at[1]) * (c[1] - at[1]));
        }
        outside += sqrtf(least) > f.model->support_radius;
        fewer += sqrtf(least) > 0.999f * f.model->support_radius;
    }
    EXPECT(outside <= 16 && fewer >= 17);  // equal ones lie on either side
    small_close(&f);
}

// A rollout stage adds up its sources with their weights; of a pixel stage they share one.
TEST(train, sources_weigh_what_the_stage_says) {
    small f;
    firm_error err;
    if (!open_tworoom(&f, "stage.grounder.sources=FI")) return;
    train_options opt = {.seed = 5};
    train_run_state run = {.settings = f.settings, .opt = &opt, .set = f.set, .model = f.model};
    stage s;
    int rollouts = 0, pixels = 0;
    for (int i = 0; stage_read(f.settings, i, NULL, &s); i++) {
        stage_work w;
        int rollout = strcmp(s.objective, "rollout") == 0, ground = strcmp(s.name, "grounder") == 0;
        if (s.sources != 3 || !(rollout || ground)) continue;
        s.weight[PACK_F] = 0.8f;
        s.weight[PACK_I] = 0.3f;
        firm_status st = stage_begin(&run, &s, 0, &w, &err);
        EXPECT_INT(st, FIRM_OK);
        EXPECT_INT(w.parts, 2);
        EXPECT_NEAR(w.part[0].weight, rollout ? 0.8 : 0.4, 1e-7);
        EXPECT_NEAR(w.part[1].weight, rollout ? 0.3 : 0.15, 1e-7);
        stage_end(&run, &w);
        rollouts += rollout;
        pixels += !rollout;
    }
    EXPECT(rollouts > 0 && pixels > 0);
    run_drop_caches(&run);
    small_close(&f);
}

// A run that goes on after update 20 of its second stage keeps the rows up to that one, with it.
TEST(train, a_resumed_run_keeps_the_rows_before_it) {
    char folder[512], path[600], *text;
    size_t n;
    firm_error err;
    config* settings;
    train_options opt = {.folder = folder};
    train_run_state run = {.opt = &opt};
    REQUIRE_OK(settings_load(&env_find("tworoom")->task, "smoke", NULL, 0, &settings, &err), err);
    snprintf(folder, sizeof folder, "%s/metrics", test_temp_dir());
    snprintf(path, sizeof path, "%s/metrics.csv", folder);
    REQUIRE_OK(file_make_dirs(folder, &err), err);
    run.settings = settings;
    REQUIRE_OK(metrics_open(&run, 0, 0, &err), err);
    fputs("tokenizer,10,a\ntokenizer,20,b\ngrounder,10,c\ngrounder,20,d\ngrounder,30,e\n",
          run.metrics);
    fclose(run.metrics);
    opt.resume = 1;
    REQUIRE_OK(metrics_open(&run, 1, 20, &err), err);
    fputs("grounder,30,f\n", run.metrics);
    fclose(run.metrics);
    REQUIRE_OK(file_read_all(path, &text, &n, &err), err);
    const char* rows = strchr(text, '\n');
    EXPECT(strncmp(text, "stage,update,loss,", 18) == 0);
    EXPECT_TEXT(rows ? rows + 1 : "",
                "tokenizer,10,a\ntokenizer,20,b\ngrounder,10,c\ngrounder,20,d\ngrounder,30,f\n");
    mem_free(text);
    config_free(settings);
}
