// lewm_test.c - training LeWM on the CPU with tiny sizes: clips come from training episodes alone,
// a run resumed equals an uninterrupted one byte for byte, a batch is learnt by heart, runs of
// others are refused.
#include "train/lewm/lewm.h"

#include "check.h"
#include "core/file.h"
#include "core/mem.h"
#include "data/split.h"
#include "train/lewm/clips.h"

static const char* const tiny[] = {"lewm.patch=56",
                                   "lewm.width=16",
                                   "lewm.depth=1",
                                   "lewm.heads=2",
                                   "lewm.mlp=24",
                                   "lewm.projector=20",
                                   "lewm.predictor_depth=1",
                                   "lewm.predictor_heads=2",
                                   "lewm.predictor_head=8",
                                   "lewm.predictor_mlp=16",
                                   "lewm.action_mlp=16",
                                   "lewm.batch=6",
                                   "lewm.directions=16",
                                   "lewm.log_every=2",
                                   "lewm.checkpoint_every=3",
                                   "lewm.rate=1e-3"};
enum { TINY = sizeof tiny / sizeof *tiny };

static config* settings_of(const char* updates) {
    const char* all[TINY + 1];
    config* c = NULL;
    firm_error err = {0};
    memcpy(all, tiny, sizeof tiny);
    all[TINY] = updates;
    if (lewm_settings(NULL, all, TINY + 1, &c, &err) != FIRM_OK) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
    return c;
}

static episodes* some_episodes(void) {
    collect_options opt = {.episodes = 5, .seed = 3};
    episodes* e = NULL;
    firm_error err = {0};
    if (episodes_collect(env_find("tworoom"), &opt, NULL, &e, &err) != FIRM_OK) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
    return e;
}

static char* bytes_of(const char* folder, const char* name, size_t* n) {
    char path[600], *bytes = NULL;
    firm_error err = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (file_read_all(path, &bytes, n, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return bytes;
}

static const char* folder_of(const char* name) {
    static char path[8][512];
    static int next;
    snprintf(path[next %= 8], 512, "%s/%s", test_temp_dir(), name);
    return path[next++];
}

TEST(train, lewm_clips_are_of_training_episodes) {
    episodes* e = some_episodes();
    data_split split;
    firm_error err = {0};
    REQUIRE_OK(data_split_make(e, 0, &split, &err), err);
    clips c;
    clips_options opt = {.rows = 20, .controls = 5, .workers = 1};
    REQUIRE_OK(clips_open(e, &opt, &c, &err), err);
    int64_t clips_wanted = 0, rows = 0;
    for (int i = 0; i < split.train_count; i++) {
        int n = e->length[split.train[i]];
        if (n < 20) continue;
        rows += n;
        clips_wanted += n - 19;
    }
    EXPECT_INT(c.count, clips_wanted);
    EXPECT_INT(c.stored, rows);
    for (int64_t i = 0; i < c.count; i++) {
        int64_t first = c.row[c.start[i]], last = c.row[c.start[i] + 19];
        EXPECT_INT(last - first, 19);
        EXPECT_INT(episodes_of_row(e, first), episodes_of_row(e, last));
        EXPECT(!split.is_valid[episodes_of_row(e, first)]);
    }
    clips_close(&c);
    opt.most = e->length[split.train[0]] + 1;  // room for one episode
    REQUIRE_OK(clips_open(e, &opt, &c, &err), err);
    EXPECT_INT(c.stored, e->length[split.train[0]]);
    clips_close(&c);
    opt.most = 10;
    EXPECT_INT(clips_open(e, &opt, &c, &err), FIRM_E_VALUE);
    clips_close(&c);
    data_split_free(&split);
    episodes_free(e);
}

static void expect_same(const char* a, const char* b, const char* name) {
    size_t n[2];
    char *x = bytes_of(a, name, &n[0]), *y = bytes_of(b, name, &n[1]);
    if (!x || !y || n[0] != n[1] || memcmp(x, y, n[0]) != 0)
        test_fail(__FILE__, __LINE__, "%s/%s and %s/%s differ", a, name, b, name);
    mem_free(x);
    mem_free(y);
}

TEST(train, lewm_resumed_equals_uninterrupted) {
    episodes* e = some_episodes();
    firm_error err = {0};
    const char *whole = folder_of("lewm-whole"), *parts = folder_of("lewm-parts");
    config *four = settings_of("lewm.updates=4"), *seven = settings_of("lewm.updates=7");
    lewm_run_options opt = {.folder = whole, .seed = 5, .threads = 2, .device = "cpu"};
    cJSON* json = NULL;
    REQUIRE_OK(lewm_run(seven, e, &opt, &json, &err), err);
    EXPECT_INT((int)json_get(json, "updates", 0), 7);
    cJSON_Delete(json);
    // in three sittings, on one thread
    opt = (lewm_run_options){.folder = parts, .seed = 5, .threads = 1, .device = "cpu"};
    opt.until = 2;
    REQUIRE_OK(lewm_run(seven, e, &opt, NULL, &err), err);
    EXPECT_INT(lewm_run(seven, e, &opt, NULL, &err), FIRM_E_USAGE);  // there is a run already
    opt.resume = 1;
    EXPECT_INT(lewm_run(four, e, &opt, NULL, &err), FIRM_E_VALUE);  // other settings
    EXPECT(strstr(err.message, "other settings") != NULL);
    opt.until = 5;
    REQUIRE_OK(lewm_run(seven, e, &opt, NULL, &err), err);
    opt.until = 0;
    REQUIRE_OK(lewm_run(seven, e, &opt, NULL, &err), err);
    expect_same(whole, parts, "model.safetensors");
    for (int i = 2; i <= 6; i += 2) {  // seven updates in four parts
        char name[64];
        snprintf(name, sizeof name, "model-%d.safetensors", i);
        expect_same(whole, parts, name);
    }
    size_t n;
    char* text = bytes_of(parts, "metrics.csv", &n);
    int rows = 0;
    for (size_t i = 0; text && i < n; i++) rows += text[i] == '\n';
    EXPECT_INT(rows, 6);  // header, updates 2, 4, 5, 6 and 7
    mem_free(text);
    config_free(four);
    config_free(seven);
    episodes_free(e);
}

TEST(train, lewm_learns_a_batch_by_heart) {
    episodes* e = some_episodes();
    firm_error err = {0};
    config* c = settings_of(test_short() ? "lewm.updates=4" : "lewm.updates=60");
    REQUIRE_OK(config_set(c, "lewm.log_every=1", &err), err);
    REQUIRE_OK(config_set(c, "lewm.dropout=0", &err), err);
    REQUIRE_OK(config_set(c, "lewm.rate=3e-3", &err), err);
    lewm_run_options opt = {.folder = folder_of("lewm-heart"), .seed = 1, .device = "cpu"};
    REQUIRE_OK(lewm_run(c, e, &opt, NULL, &err), err);
    size_t n;
    char* text = bytes_of(opt.folder, "metrics.csv", &n);
    double first = 0, last = 0;
    for (char* row = text ? strchr(text, '\n') : NULL; row && row[1]; row = strchr(row + 1, '\n')) {
        double loss;
        long long update;
        if (sscanf(row + 1, "lewm,%lld,%lf", &update, &loss) != 2) break;
        if (update == 1) first = loss;
        last = loss;
    }
    EXPECT(isfinite(last) && first > 0);
    if (!test_short()) EXPECT(last < 0.8 * first);
    printf("  loss %.4f, then %.4f\n", first, last);
    lewm_model* m;
    char path[600];
    snprintf(path, sizeof path, "%s/model.safetensors", opt.folder);
    REQUIRE_OK(lewm_read(path, NULL, &m, &err), err);
    EXPECT_INT(m->shape.width, 16);
    EXPECT_INT((int)lewm_weight(m, "projector.norm.num_batches_tracked")[0], test_short() ? 4 : 60);
    lewm_free(m);
    mem_free(text);
    config_free(c);
    episodes_free(e);
}
