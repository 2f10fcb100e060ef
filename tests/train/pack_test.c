// pack_test.c - a pack holds what the stages read: the same records, pairs and frames, with frames
// drawn again or unpacked; a run from it ends with the same weights; damage is noticed.
#include "check.h"
#include "core/file.h"
#include "core/mem.h"
#include "plan/settings.h"
#include "train/run.h"

typedef struct world {
    const env_spec* env;
    config* settings;
    episodes* data;
    branches* inter;
    char path[2][600];  // packs with states and with pictures
} world;

static const char* const overrides[] = {"train.frame_pool=40", "stage.grounder.sources=FI",
                                        "stage.grounder.lag=7"};

static int open_world(world* w) {
    firm_error err;
    *w = (world){.env = env_find("tworoom")};
    int ok = settings_load(w->env, "smoke", overrides, 3, &w->settings, &err) == FIRM_OK &&
             episodes_collect(w->env, &(collect_options){.episodes = 60, .seed = 3}, NULL, &w->data,
                              &err) == FIRM_OK &&
             branches_collect(w->data, &(intervene_options){.anchors = 12, .per_anchor = 4}, NULL,
                              &w->inter, &err) == FIRM_OK;
    train_inputs in = {.data = w->data, .interventions = w->inter};
    for (int i = 0; i < 2 && ok; i++) {
        snprintf(w->path[i], sizeof w->path[i], "%s/pack-%d.h5", test_temp_dir(), i);
        cJSON* made = NULL;
        ok = train_pack(w->settings, w->env, &in, &(train_options){.threads = 2}, i, w->path[i],
                        &made, &err) == FIRM_OK;
        cJSON_Delete(made);
    }
    if (!ok) test_fail(__FILE__, __LINE__, "%s", err.message);
    return ok;
}

static void close_world(world* w) {
    branches_free(w->inter);
    episodes_free(w->data);
    config_free(w->settings);
}

static int same_frame(const train_set* a, int64_t scene_a, const train_set* b, int64_t scene_b) {
    static uint8_t one[ENV_FRAME_BYTES], two[ENV_FRAME_BYTES];
    return train_frame(a, 0, scene_a, one) == FIRM_OK &&
           train_frame(b, 0, scene_b, two) == FIRM_OK && memcmp(one, two, sizeof one) == 0;
}

TEST(train, pack_holds_what_stages_read) {
    world w;
    firm_error err;
    if (!open_world(&w)) return;
    train_options opt = {.seed = 5};
    train_set from, packed;
    REQUIRE_OK(
        train_set_open(w.settings, w.env, &(train_inputs){.data = w.data, .interventions = w.inter},
                       &opt, 1, &from, &err),
        err);
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(train_set_open(w.settings, w.env, &(train_inputs){.pack = w.path[i]}, &opt, 1,
                                  &packed, &err),
                   err);
        for (int k = 0; k < PACK_SOURCES; k++) {
            const records *a = &from.data.set[k], *b = &packed.data.set[k];
            EXPECT_INT(b->count, a->count);
            if (b->count != a->count || !a->count) continue;
            EXPECT(memcmp(a->config, b->config, (size_t)a->count * 12 * sizeof(float)) == 0);
            EXPECT(memcmp(a->chi, b->chi, (size_t)a->count * 12 * sizeof(float)) == 0);
            EXPECT(memcmp(a->action, b->action, (size_t)a->count * 50 * sizeof(float)) == 0);
            for (int j = 0; j < 6; j++) EXPECT(same_frame(&from, a->seen[j], &packed, b->seen[j]));
        }
        EXPECT_INT(packed.data.lists, from.data.lists);
        EXPECT_INT(from.data.lists, 4);  // held, F 1 row apart, F and I 7 rows apart
        for (int k = 0; k < from.data.lists; k++) {
            const pairs *a = &from.data.list[k].p, *b = &packed.data.list[k].p;
            EXPECT_INT(b->count, a->count);
            EXPECT_INT(packed.data.list[k].lag, from.data.list[k].lag);
            for (int j = 0; j < 2 * a->count; j += 3)
                EXPECT(same_frame(&from, a->scene[j], &packed, b->scene[j]));
        }
        train_set_close(&packed);
    }
    // settings that would have chosen other samples are refused
    REQUIRE_OK(config_set(w.settings, "train.segments=63", &err), err);
    EXPECT_INT(train_set_open(w.settings, w.env, &(train_inputs){.pack = w.path[0]}, &opt, 1,
                              &packed, &err),
               FIRM_E_VALUE);
    EXPECT(strstr(err.message, "segments 64") && strstr(err.message, "segments 63"));
    train_set_close(&packed);
    train_set_close(&from);
    close_world(&w);
}

static char* model_of(const world* w, const train_inputs* in, const char* name, size_t* n) {
    char folder[600], path[700];
    firm_error err;
    snprintf(folder, sizeof folder, "%s/%s", test_temp_dir(), name);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    train_options opt = {.seed = 5, .folder = folder, .threads = 2};
    char* bytes = NULL;
    if (train_run(w->settings, w->env, in, &opt, NULL, &err) != FIRM_OK ||
        file_read_all(path, &bytes, n, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return bytes;
}

TEST(train, pack_trains_the_same_model) {
    world w;
    if (!open_world(&w)) return;
    size_t n = 0, k = 0;
    char* plain =
        model_of(&w, &(train_inputs){.data = w.data, .interventions = w.inter}, "plain", &n);
    for (int i = 0; i < 2; i++) {
        char* packed = model_of(&w, &(train_inputs){.pack = w.path[i]}, i ? "drawn" : "states", &k);
        EXPECT(plain && packed && n == k && memcmp(plain, packed, n) == 0);
        mem_free(packed);
    }
    mem_free(plain);
    close_world(&w);
}

// any flipped byte is refused, or makes no difference to what is read
TEST(train, damaged_packs_are_refused) {
    world w;
    firm_error err;
    if (!open_world(&w)) return;
    char path[600];
    snprintf(path, sizeof path, "%s/damaged.h5", test_temp_dir());
    for (int i = 0; i < 2; i++) {
        char* bytes;
        size_t n;
        int refused = 0;
        REQUIRE_OK(file_read_all(w.path[i], &bytes, &n, &err), err);
        for (int at = 0; at < 24; at++) {
            file_writer f;
            size_t where = (size_t)((double)n * (at + 0.5) / 24);
            while (where < n - 1 && !bytes[where]) where++;  // HDF5 leaves room unused
            bytes[where] ^= 0x10;
            REQUIRE_OK(file_open_write(&f, path, &err), err);
            REQUIRE_OK(file_put(&f, bytes, at == 23 ? n / 2 : n, &err), err);
            REQUIRE_OK(file_commit(&f, &err), err);
            bytes[where] ^= 0x10;
            pack p;
            firm_status st = pack_read(path, w.env, &p, &err);
            refused += st != FIRM_OK;
            if (st == FIRM_OK) pack_free(&p);
        }
        if (refused < 22) test_fail(__FILE__, __LINE__, "only %d of 24 were refused", refused);
        mem_free(bytes);
    }
    pack p;
    EXPECT_INT(pack_read(w.path[0], env_find("reacher"), &p, &err), FIRM_E_TASK);
    close_world(&w);
}
