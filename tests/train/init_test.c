// init_test.c - runs that begin with another run's weights and leave stages out.
#include "check.h"
#include "core/mem.h"
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
                         .set = {"train.frame_pool=40"},
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
    cJSON_Delete(late);
    firm_model *a = model_in("first"), *b = model_in("late");
    if (a && b) {
        EXPECT(same(a, b, "tokenizer.") && same(a, b, "grounder.") && same(a, b, "history."));
        EXPECT(!same(a, b, "transition."));
    }
    firm_model_free(a);
    firm_model_free(b);

    // a pack for that stage alone has no pairs but the held-out ones, and gives the same model
    cJSON* made = NULL;
    REQUIRE_OK(train_pack(s.settings, s.env, &in, &opt, 0, pack, &made, &err), err);
    EXPECT(json_get(made, "pairs", -1) == 0);
    cJSON_Delete(made);
    // recorded sequences of it for a finished model
    if ((a = model_in("late"))) {
        REQUIRE_OK(train_add_recorded(a, pack, 9, &err), err);
        EXPECT(a->recorded_count == 9 && a->recorded != NULL);
        snprintf(a->provenance, sizeof a->provenance, "data_hash=0");
        EXPECT_INT(train_add_recorded(a, pack, 9, &err), FIRM_E_VALUE);
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
