// pack_test.c - a pack holds what the stages read: the same records, pairs and frames, with frames
// drawn again or unpacked; a run from it ends with the same weights; damage is noticed.
#define _GNU_SOURCE  // memmem
#include "check.h"
#include "core/file.h"
#include "core/mem.h"
#include "env/env.h"
#include "small.h"

typedef struct packs {
    small s;
    char path[3][600];  // with states; with pictures; with pictures, made of the first
} packs;

static int open_packs(packs* w) {
    firm_error err;
    small_options few = {
        .task = "tworoom",
        .settings = "smoke",
        .set = {"train.frame_pool=40", "stage.grounder.sources=FI", "stage.grounder.lag=7",
                "stage.tokenizer.batch=4", "stage.grounder.batch=8", "stage.history.batch=4",
                "stage.grounder.posture=0.5"},
        .episodes = 60,
        .anchors = 12,
        .per_anchor = 4};
    if (!small_collect(&w->s, &few)) return 0;
    train_inputs in = small_inputs(&w->s);
    train_inputs first = {.pack = w->path[0]};
    for (int i = 0; i < 3; i++) {
        snprintf(w->path[i], sizeof w->path[i], "%s/pack-%d.h5", test_temp_dir(), i);
        cJSON* made = NULL;
        firm_status st = train_pack(w->s.settings, w->s.env, i < 2 ? &in : &first,
                                    &(train_options){.threads = 2}, i > 0, w->path[i], &made, &err);
        cJSON_Delete(made);
        if (st == FIRM_OK) continue;
        test_fail(__FILE__, __LINE__, "%s", err.message);
        small_close(&w->s);
        return 0;
    }
    return 1;
}

static int same_frame(const train_set* a, int64_t scene_a, const train_set* b, int64_t scene_b) {
    static uint8_t one[ENV_FRAME_BYTES], two[ENV_FRAME_BYTES];
    return train_frame(a, 0, scene_a, one) == FIRM_OK &&
           train_frame(b, 0, scene_b, two) == FIRM_OK && memcmp(one, two, sizeof one) == 0;
}

TEST(train, pack_holds_what_stages_read) {
    packs w;
    firm_error err;
    if (!open_packs(&w)) return;
    train_options opt = {.seed = 5};
    train_inputs in = small_inputs(&w.s);
    train_set from, packed;
    REQUIRE_OK(train_set_open(w.s.settings, w.s.env, &in, &opt, 1, &from, &err), err);
    for (int i = 0; i < 3; i++) {
        REQUIRE_OK(train_set_open(w.s.settings, w.s.env, &(train_inputs){.pack = w.path[i]}, &opt,
                                  1, &packed, &err),
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
            EXPECT(memcmp(a->chi, b->chi, (size_t)(2 * a->count) * sizeof *a->chi) == 0);
            for (int j = 0; j < 2 * a->count; j += 3)
                EXPECT(same_frame(&from, a->scene[j], &packed, b->scene[j]));
        }
        train_set_close(&packed);
    }
    // settings that would have chosen other samples are refused
    REQUIRE_OK(config_set(w.s.settings, "train.segments=63", &err), err);
    EXPECT_INT(train_set_open(w.s.settings, w.s.env, &(train_inputs){.pack = w.path[0]}, &opt, 1,
                              &packed, &err),
               FIRM_E_VALUE);
    EXPECT(strstr(err.message, "segments 64") && strstr(err.message, "segments 63"));
    train_set_close(&packed);
    train_set_close(&from);
    small_close(&w.s);
}

static char* model_of(const packs* w, const train_inputs* in, const char* name, size_t* n) {
    char folder[600], path[700];
    firm_error err;
    snprintf(folder, sizeof folder, "%s/%s", test_temp_dir(), name);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    train_options opt = {.seed = 5, .folder = folder, .threads = 2};
    char* bytes = NULL;
    if (train_run(w->s.settings, w->s.env, in, &opt, NULL, &err) != FIRM_OK ||
        file_read_all(path, &bytes, n, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return bytes;
}

TEST(train, pack_trains_the_same_model) {
    packs w;
    if (!open_packs(&w)) return;
    size_t n = 0, k = 0;
    train_inputs in = small_inputs(&w.s);
    char* plain = model_of(&w, &in, "plain", &n);
    for (int i = 0; i < 2; i++) {
        char* packed = model_of(&w, &(train_inputs){.pack = w.path[i]}, i ? "drawn" : "states", &k);
        EXPECT(plain && packed && n == k && memcmp(plain, packed, n) == 0);
        mem_free(packed);
    }
    mem_free(plain);
    small_close(&w.s);
}

// A pack of a version whose pairs had no chi is told from a damaged one.
TEST(train, packs_without_chi_are_refused) {
    packs w;
    firm_error err;
    char *bytes, path[600];
    size_t n;
    file_writer f;
    pack p;
    if (!open_packs(&w)) return;
    snprintf(path, sizeof path, "%s/older.h5", test_temp_dir());
    REQUIRE_OK(file_read_all(w.path[0], &bytes, &n, &err), err);
    char* name = memmem(bytes, n, "pairs_F_1_chi", 13);
    EXPECT(name != NULL);
    if (name) name[12] = 'j';
    REQUIRE_OK(file_open_write(&f, path, &err), err);
    REQUIRE_OK(file_put(&f, bytes, n, &err), err);
    REQUIRE_OK(file_commit(&f, &err), err);
    EXPECT_INT(pack_read(path, w.s.env, &p, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message,
                  "older.h5 lacks the column pairs_F_1_chi of a pack of this version; "
                  "make it again with `firm pack`"));
    mem_free(bytes);
    small_close(&w.s);
}

// any flipped byte is refused, or makes no difference to what is read
TEST(train, damaged_packs_are_refused) {
    packs w;
    firm_error err;
    if (!open_packs(&w)) return;
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
            firm_status st = pack_read(path, w.s.env, &p, &err);
            refused += st != FIRM_OK;
            if (st == FIRM_OK) pack_free(&p);
        }
        if (refused < 22) test_fail(__FILE__, __LINE__, "only %d of 24 were refused", refused);
        mem_free(bytes);
    }
    pack p;
    EXPECT_INT(pack_read(w.path[0], env_find("reacher"), &p, &err), FIRM_E_TASK);
    small_close(&w.s);
}
