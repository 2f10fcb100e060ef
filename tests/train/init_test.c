// init_test.c - runs that begin with another run's weights and leave stages out.
#include <inttypes.h>

#include "check.h"
#include "core/file.h"
#include "core/mem.h"
#include "env/env.h"
#include "plan/recall.h"
#include "small.h"

static cJSON* train(const small* s, const train_inputs* in, train_options opt, const char* name) {
    char folder[600];
    firm_error err;
    cJSON* out = NULL;
    snprintf(folder, sizeof folder, "%s/%s", test_temp_dir(), name);
    opt.folder = folder;
    if (train_run(s->settings, s->env, in, &opt, &out, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return out;
}

// 1: every parameter with that prefix has the same bits in both models
static int same(const firm_model* a, const firm_model* b, const char* prefix) {
    int seen = 0;
    for (int i = 0; i < a->store->entries; i++) {
        const nn_entry* e = &a->store->entry[i];
        if (strncmp(e->name, prefix, strlen(prefix)) != 0) continue;
        seen = 1;
        if (memcmp(a->store->value + e->offset, b->store->value + e->offset,
                   e->count * sizeof(float)) != 0)
            return 0;
    }
    EXPECT(seen);
    return 1;
}

static firm_model* model_in(const char* name) {
    char path[600];
    firm_error err;
    firm_model* m = NULL;
    snprintf(path, sizeof path, "%s/%s/model.safetensors", test_temp_dir(), name);
    if (firm_model_load(path, &m, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return m;
}

TEST(train, a_run_can_begin_with_another_ones_weights) {
    small s;
    firm_error err;
    small_options few = {.task = "tworoom",
                         .settings = "smoke",
                         .set = {"train.frame_pool=40", "stage.tokenizer.batch=4",
                                 "stage.grounder.batch=8", "stage.history.batch=4"},
                         .episodes = 60,
                         .anchors = 12,
                         .per_anchor = 4};
    if (!small_collect(&s, &few)) return;
    train_inputs in = small_inputs(&s);
    char first[600], pack[600];
    snprintf(first, sizeof first, "%s/first/checkpoint.safetensors", test_temp_dir());
    snprintf(pack, sizeof pack, "%s/late.h5", test_temp_dir());
    cJSON_Delete(train(&s, &in, (train_options){.seed = 5, .threads = 2}, "first"));

    train_options opt = {.seed = 6, .threads = 2, .init = first, .from = "rollout-fi"};
    cJSON* late = train(&s, &in, opt, "late");
    EXPECT_INT(cJSON_GetArraySize(cJSON_GetObjectItem(late, "stages")), 1);
    // the figures are those of the stage that ran, not of the first one in the settings
    EXPECT(cJSON_GetObjectItem(late, "rollout_error") &&
           !cJSON_GetObjectItem(late, "grounder_error"));
    cJSON_Delete(late);
    firm_model *a = model_in("first"), *b = model_in("late");
    if (a && b) {
        EXPECT(same(a, b, "tokenizer.") && same(a, b, "grounder.") && same(a, b, "history."));
        EXPECT(!same(a, b, "transition."));
    }
    firm_model_free(a);
    firm_model_free(b);

    // with the first run's seed and nothing but the stages left out taken from it: the same model
    cJSON_Delete(train(&s, &in,
                       (train_options){.seed = 5, .threads = 2, .init = first, .from = "rollout-f"},
                       "again"));
    a = model_in("first");
    b = model_in("again");
    if (a && b) EXPECT(same(a, b, ""));
    firm_model_free(a);
    firm_model_free(b);

    // a pack for that stage alone has no pairs but the held-out ones, and gives the same model
    cJSON* made = NULL;
    REQUIRE_OK(train_pack(s.settings, s.env, &in, &opt, 0, pack, &made, &err), err);
    EXPECT(json_get(made, "pairs", -1) == 0);
    cJSON_Delete(made);
    // recorded sequences of it for a finished model: not where nothing says which moments are alike
    if ((a = model_in("late"))) {
        EXPECT_INT(train_add_recorded(a, s.env, pack, 9, &err), FIRM_E_VALUE);
        EXPECT(strstr(err.message, "which moments are alike"));
        snprintf(a->provenance, sizeof a->provenance, "data_hash=0");
        EXPECT_INT(train_add_recorded(a, s.env, pack, 9, &err), FIRM_E_VALUE);
        EXPECT(strstr(err.message, "other data"));
    }
    firm_model_free(a);
    cJSON_Delete(train(&s, &(train_inputs){.pack = pack}, opt, "packed"));
    a = model_in("late");
    b = model_in("packed");
    if (a && b) EXPECT(same(a, b, "transition."));
    firm_model_free(a);
    firm_model_free(b);

    // a run in two sittings
    opt = (train_options){.seed = 5, .threads = 2, .until = "history"};
    EXPECT(train(&s, &in, opt, "second") == NULL);
    opt.until = NULL;
    opt.resume = 1;
    cJSON_Delete(train(&s, &in, opt, "second"));
    a = model_in("first");
    b = model_in("second");
    if (a && b) EXPECT(same(a, b, "tokenizer.") && same(a, b, "transition."));
    firm_model_free(a);
    firm_model_free(b);

    opt = (train_options){.seed = 6, .threads = 2, .init = first};
    opt.from = "no-such-stage";
    opt.folder = test_temp_dir();
    EXPECT_INT(train_run(s.settings, s.env, &in, &opt, NULL, &err), FIRM_E_USAGE);
    EXPECT(strstr(err.message, "no-such-stage"));
    small_close(&s);
}

// smoke.ini with a stage for the reading
static const char* settings_that_read(void) {
    static const char more[] =
        "\n[stage.reading]\nobjective = read\nupdates = 60\nrate = 0.01\n"
        "batch = 32\n";
    static char path[600];
    char* smoke;
    size_t n;
    firm_error err;
    file_writer w;
    snprintf(path, sizeof path, "%s/reading.ini", test_temp_dir());
    if (file_read_all(FIRM_SOURCE_DIR "/configs/smoke.ini", &smoke, &n, &err) != FIRM_OK ||
        file_open_write(&w, path, &err) != FIRM_OK || file_put(&w, smoke, n, &err) != FIRM_OK ||
        file_put(&w, more, sizeof more - 1, &err) != FIRM_OK || file_commit(&w, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    mem_free(smoke);
    return path;
}

// The reading is trained on top of a finished model, and nothing else changes.
TEST(train, the_reading_comes_last) {
    small s;
    small_options few = {.task = "tworoom",
                         .settings = settings_that_read(),
                         .set = {"train.frame_pool=40", "model.reading=8", "stage.grounder.gate=0",
                                 "stage.rollout-f.gate=0", "stage.rollout-fi.gate=0"},
                         .episodes = 60,
                         .anchors = 12,
                         .per_anchor = 4};
    if (!small_collect(&s, &few)) return;
    train_inputs in = small_inputs(&s);
    cJSON* whole = train(&s, &in, (train_options){.seed = 5, .threads = 2}, "read");
    const cJSON* stages = cJSON_GetObjectItem(whole, "stages");
    const cJSON* last = cJSON_GetArrayItem(stages, cJSON_GetArraySize(stages) - 1);
    // chi is standardised: reading nothing would leave about 1
    EXPECT(json_get(last, "gate", 9) < 0.9);
    cJSON_Delete(whole);

    char before[600];
    firm_model* a = model_in("read");
    snprintf(before, sizeof before, "%s/read/model.safetensors", test_temp_dir());
    train_options opt = {.seed = 6, .threads = 1, .init = before, .from = "reading"};
    cJSON_Delete(train(&s, &in, opt, "read-again"));
    firm_model* b = model_in("read-again");
    if (a && b) {
        EXPECT(same(a, b, "transition.") && same(a, b, "fiber.") && same(a, b, "history."));
        EXPECT(!same(a, b, "reading."));
    }
    firm_model_free(a);
    firm_model_free(b);
    small_close(&s);
}

// Segments that travel with a model are its training segments, with the moment and the outcome.
TEST(train, recorded_segments_travel_with_the_model) {
    small s;
    firm_error err;
    small_options few = {.task = "pusht",
                         .settings = "smoke-pusht",
                         .set = {"train.structured=optional"},
                         .episodes = 40,
                         .anchors = 6,
                         .per_anchor = 4};
    if (!small_collect(&s, &few)) return;
    if (!small_open(&s, &(train_options){.seed = 1}, 2) || !small_model(&s, 3)) return;
    const records* r = &s.set.data.set[PACK_F];
    firm_model* m = s.model;
    const size_t chi = (size_t)s.env->task.chi_dim, config = (size_t)s.env->task.config_dim;
    REQUIRE_OK(recorded_fill(r, m, 7, &err), err);
    EXPECT_INT(m->recorded_count, 7);
    for (size_t i = 0; i < 7; i++) {
        EXPECT(memcmp(m->recorded + i * 50, r->action + i * 50, 50 * sizeof(float)) == 0);
        EXPECT(memcmp(m->recorded_chi + i * chi, r->chi + i * ENV_POINTS * chi,
                      chi * sizeof(float)) == 0);
        EXPECT(memcmp(m->recorded_path + i * ENV_POINTS * config,
                      r->config + i * ENV_POINTS * config,
                      ENV_POINTS * config * sizeof(float)) == 0);
    }
    REQUIRE_OK(recorded_fill(r, m, 1 << 20, &err), err);
    EXPECT_INT(m->recorded_count, r->count);  // no more than there are

    // the one that was done here comes first
    plan_recall* found;
    plan_actions a = plan_actions_of(&s.env->task, m->stats.action_mean, m->stats.action_std);
    REQUIRE_OK(plan_recall_create(m, &a, &(plan_recall_size){3, ENV_HORIZON, 0}, &found, &err),
               err);
    plan_recalled near;
    const float* at = m->recorded_path + 5 * ENV_POINTS * config;
    float u[50];
    plan_recall_find(found, at, m->recorded_chi, at + 5 * config, &near);
    EXPECT_INT(near.count, 3);
    model_standardise(m, m->recorded + 5 * 50, ENV_SPAN, u);
    for (int i = 0; i < 50; i++) EXPECT_NEAR(near.plan[i], u[i], 1e-5);
    plan_recall_free(found);
    REQUIRE_OK(recorded_fill(r, m, 0, &err), err);
    EXPECT(m->recorded == NULL && m->recorded_count == 0);
    small_close(&s);
}

// Whole episodes that travel with a model are training episodes, moment by moment.
TEST(train, recorded_episodes_travel_with_the_model) {
    enum { S = ENV_CONTROLS };
    small s;
    firm_error err;
    char path[600];
    small_options few = {
        .task = "pusht",
        .settings = "smoke-pusht",
        .set = {"train.structured=optional", "train.recorded=9", "train.moments=100"},
        .episodes = 40,
        .anchors = 6,
        .per_anchor = 4};
    if (!small_collect(&s, &few)) return;
    if (!small_open(&s, &(train_options){.seed = 1}, 2) || !small_model(&s, 3)) return;
    firm_model* m = s.model;
    const episodes* e = s.data;
    const data_split* split = &s.set.split;
    const int action = s.env->task.action_dim, dim = s.env->state->dim;
    snprintf(path, sizeof path, "%s/whole.h5", test_temp_dir());
    snprintf(m->provenance, sizeof m->provenance, "data_seed=0 episodes_seed=5 episodes_hash=1");
    REQUIRE_OK(episodes_write(e, &(collect_options){0}, NULL, path, &err), err);
    REQUIRE_OK(train_add_episodes(m, s.env, path, 0, 65536, &err), err);
    int at = 0;
    for (int i = 0; i < split->train_count; i++) {
        int episode = split->train[i], macros = (e->length[episode] - 1) / S;
        for (int k = 0; k <= macros && at < m->recorded_count; k++, at++) {
            float c[FIRM_MAX_CONFIG];
            int64_t row = e->offset[episode] + k * S;
            env_config(s.env, e->state + row * dim, c);
            EXPECT(memcmp(m->recorded_path + at * s.env->task.config_dim, c,
                          (size_t)s.env->task.config_dim * sizeof *c) == 0);
            EXPECT(m->recorded_left[at] == (float)(macros - k));
            if (k < macros)
                EXPECT(memcmp(m->recorded + at * S * action, e->action + row * action,
                              (size_t)(S * action) * sizeof(float)) == 0);
        }
    }
    EXPECT_INT(at, m->recorded_count);
    char note[128];
    snprintf(note, sizeof note, "data_seed=0 episodes_seed=%" PRIu64 " episodes_hash=%016" PRIx64,
             e->seed, e->hash);
    EXPECT_TEXT(m->provenance, note);
    // fewer moments hold fewer episodes, all of them whole
    int first = (e->length[split->train[0]] - 1) / S + 1;
    REQUIRE_OK(train_add_episodes(m, s.env, path, 0, first + 1, &err), err);
    EXPECT_INT(m->recorded_count, first);
    EXPECT_INT(train_add_episodes(m, s.env, path, 0, first - 1, &err), FIRM_E_VALUE);
    EXPECT(strstr(err.message, "--count") != NULL);
    // a run takes them along from its recordings, instead of segments
    train_inputs in = small_inputs(&s);
    cJSON_Delete(train(&s, &in, (train_options){.seed = 1, .recordings = path}, "far"));
    firm_model* far = model_in("far");
    EXPECT(far && far->recorded_left && far->recorded_count > 50 && far->recorded_count <= 100 &&
           strstr(far->provenance, note + strlen("data_seed=0")));
    firm_model_free(far);
    small_close(&s);
}
