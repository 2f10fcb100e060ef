// resume_test.c - a checkpoint is not trusted: a forged one is refused with a sentence that names
// the file and the note, before anything is written or trained.
#include "check.h"
#include "core/file.h"
#include "core/mem.h"
#include "small.h"
#include "train/run.h"
#include "train/shape.h"

// ---- notes alone: settings are all a run needs for them -----------------------------------------

typedef struct notes_world {
    config* settings;
    train_options opt;
    train_run_state run;
    run_notes notes;
} notes_world;

// The smoke settings' run after two stages and three updates of the third.
static void open_notes(notes_world* w) {
    firm_error err;
    *w = (notes_world){.opt = {.seed = 5}};
    if (config_create(train_keys, train_key_count, &w->settings, &err) != FIRM_OK ||
        config_read_text(w->settings, "stages",
                         "[stage.a]\nupdates = 4\ngate = 0.125\n[stage.b]\nupdates = 6\n"
                         "[stage.c]\nupdates = 9\n",
                         &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    w->run.set.env = env_find("tworoom");
    w->run.settings = w->settings;
    w->run.opt = &w->opt;
    w->run.results = 2;
    w->run.result[0] = (stage_result){"a", 4, 1.5, 0.1, 0.125, 1, {1, 2, 3}};
    w->run.result[1] = (stage_result){"b", 6, 2.5, INFINITY, 0, 0, {NAN, -INFINITY, 3e-308}};
    run_notes_fill(&w->run, 2, 3, 4.25, "me", &w->notes);
    w->run.results = 0;
}

static firm_status read_notes(notes_world* w, int* index, int* update, firm_error* err) {
    return run_notes_read(&w->run, "its/checkpoint", "me", &w->notes, index, update, err);
}

TEST(train, notes_read_back_as_written) {
    notes_world w;
    firm_error err;
    int index = -1, update = -1;
    open_notes(&w);
    REQUIRE_OK(read_notes(&w, &index, &update, &err), err);
    EXPECT_INT(index, 2);
    EXPECT_INT(update, 3);
    EXPECT_INT(w.run.results, 2);
    EXPECT_NEAR(w.run.seconds_before, 4.25, 0);
    EXPECT_TEXT(w.run.result[0].name, "a");
    EXPECT_INT(w.run.result[0].updates, 4);
    EXPECT_NEAR(w.run.result[0].seconds, 1.5, 0);
    EXPECT_NEAR(w.run.result[0].gate, 0.1, 0);
    EXPECT_NEAR(w.run.result[0].limit, 0.125, 0);
    EXPECT_INT(w.run.result[0].pass, 1);
    EXPECT_NEAR(w.run.result[0].detail[2], 3, 0);
    EXPECT(isinf(w.run.result[1].gate) && isnan(w.run.result[1].detail[0]));
    // a run with nothing left to do, and one of later stages only
    run_notes_fill(&(train_run_state){0}, 3, 0, 0, "me", &w.notes);
    w.opt.from = "c";
    w.run.results = 0;
    EXPECT_INT(read_notes(&w, &index, &update, &err), FIRM_E_FORMAT);  // no result of c
    snprintf(w.notes.note[4].value, 256, "c 9 0 0.5 0 1 0 0 0 0 0 0 0 0 0 0");
    REQUIRE_OK(read_notes(&w, &index, &update, &err), err);
    EXPECT_INT(index, 3);
    EXPECT_INT(w.run.results, 1);
    config_free(w.settings);
}

TEST(train, notes_of_another_schedule_are_refused) {
    static const struct {
        int note;
        const char *value, *key;
    } cases[] = {
        {0, "-5", "run.stage"},
        {0, "2147483647", "run.stage"},
        {0, "99999999999999999999", "run.stage"},
        {0, "4", "run.stage"},
        {0, "", "run.stage"},
        {0, "2 ", "run.stage"},
        {0, " 2", "run.stage"},
        {0, "2x", "run.stage"},
        {0, "0x2", "run.stage"},
        {0, "3", "run.update"},  // nothing is left to do, yet an update is
        {1, "-5", "run.update"},
        {1, "10", "run.update"},
        {1, "1e1", "run.update"},
        {2, "1e225", "run.seconds"},
        {2, "-1", "run.seconds"},
        {2, "nan", "run.seconds"},
        {2, "", "run.seconds"},
        {0, "1", "run.result1"},  // more results than finished stages
        {5, "", "run.result1"},
        {4, "b 6 1 1 0 1 0 0 0 0 0 0 0 0 0 0", "run.result0"},
        {4, "x 4 1 0.1 0.125 1 0 0 0 0 0 0 0 0 0 0", "run.result0"},  // another stage's name
        {4, "a 5 1 1 0.125 1 0 0 0 0 0 0 0 0 0 0", "run.result0"},
        {4, "a 4 1e225 1 0.125 1 0 0 0 0 0 0 0 0 0 0", "run.result0"},
        {4, "a 4 -1 1 0.125 1 0 0 0 0 0 0 0 0 0 0", "run.result0"},
        {4, "a 4 1 nan 0.125 1 0 0 0 0 0 0 0 0 0 0", "run.result0"},
        {4, "a 4 1 1 0.25 1 0 0 0 0 0 0 0 0 0 0", "run.result0"},
        {4, "a 4 1 1 0.125 2 0 0 0 0 0 0 0 0 0 0", "run.result0"},
        {4, "a 4 1 1 0.125 1 0 0 0 0 0 0 0 0 0", "run.result0"},
        {4, "a 4 1 1 0.125 1 0 0 0 0 0 0 0 0 0 0 0", "run.result0"},
        {4, "a 4 1 1 0.125 1 0 0 0 0 0 0 0 0 0 x", "run.result0"},
        {6, "c 9 1 1 0 1 0 0 0 0 0 0 0 0 0 0", "run.result2"},
        {19, "c 9 1 1 0 1 0 0 0 0 0 0 0 0 0 0", "run.result15"},
        {3, "you", "another run"},
        {3, "\033[2J", "another run (?,"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        notes_world w;
        firm_error err = {0};
        int index = -1, update = -1;
        open_notes(&w);
        snprintf(w.notes.note[cases[i].note].value, 256, "%s", cases[i].value);
        firm_status st = read_notes(&w, &index, &update, &err);
        if (st != (cases[i].note == 3 ? FIRM_E_USAGE : FIRM_E_FORMAT) ||
            !strstr(err.message, "its/checkpoint") || !strstr(err.message, cases[i].key))
            test_fail(__FILE__, __LINE__, "case %zu: status %d: %s", i, st, err.message);
        EXPECT(index == -1 && update == -1 && w.run.results == 0 && w.run.seconds_before == 0);
        config_free(w.settings);
    }
}

TEST(train, every_note_filled_is_refused) {
    notes_world w;
    firm_error err = {0};
    int index, update;
    open_notes(&w);
    for (int i = 4; i < RUN_NOTES; i++)
        snprintf(w.notes.note[i].value, 256, "x 1 1e225 1 1 1 1 1 1 1 1 1 1 1 1 1");
    snprintf(w.notes.note[0].value, 256, "3");
    snprintf(w.notes.note[1].value, 256, "0");
    EXPECT_INT(read_notes(&w, &index, &update, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "run.result0"));
    config_free(w.settings);
}

// ---- whole runs ---------------------------------------------------------------------------------

// Overwrites a run's checkpoint with one whose note `key` says `value` and whose moments are all
// `moment`.
static void forge(const char* folder, const small* s, const char* key, const char* value,
                  float moment) {
    char path[700];
    firm_error err;
    run_notes n;
    firm_model* m;
    model_shape shape;
    float* moments;
    snprintf(path, sizeof path, "%s/checkpoint.safetensors", folder);
    model_shape_read(s->settings, &shape);
    if (model_create(&s->env->task, &shape, 1, 1, &m, &err) != FIRM_OK) abort();
    run_notes_begin(&n);
    if (checkpoint_read_training(path, m, NULL, 0, n.note, RUN_NOTES, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    for (int i = 0; i < RUN_NOTES; i++)
        if (strcmp(n.note[i].key, key) == 0) snprintf(n.note[i].value, 256, "%s", value);
    // as many as the first stage trains: its modules, each padded to sixteen numbers
    size_t count = 0;
    for (int i = 0; i < m->store->entries; i++)
        if (strncmp(m->store->entry[i].name, "tokenizer.", 10) == 0 ||
            strncmp(m->store->entry[i].name, "aux.picture.", 12) == 0)
            count += (m->store->entry[i].count + 15) / 16 * 16;
    moments = mem_calloc(2 * count, sizeof *moments);
    for (size_t i = 0; i < 2 * count; i++) moments[i] = moment;
    checkpoint_extra extra = {"optimiser.moments", moments, 2 * count};
    if (checkpoint_write(path, m, CHECKPOINT_TRAINING, &extra, 1, n.note, RUN_NOTES, &err) !=
        FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    mem_free(moments);
    firm_model_free(m);
}

TEST(train, a_forged_checkpoint_is_not_resumed) {
    static const struct {
        const char *key, *value, *honest, *says;
    } cases[] = {
        {"run.stage", "2147483647", "1", "run.stage is not a whole number from 0 to 5"},
        {"run.update", "-5", "0", "run.update is not a whole number from 0 to 8"},
        {"run.result15", "x 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", "", "run.result15"},
    };
    small s;
    char folder[600];
    firm_error err;
    small_options few = {
        .task = "tworoom", .settings = "smoke", .episodes = 60, .anchors = 12, .per_anchor = 4};
    if (!small_collect(&s, &few)) return;
    train_inputs in = small_inputs(&s);
    snprintf(folder, sizeof folder, "%s/forged", test_temp_dir());
    train_options opt = {.seed = 5, .threads = 2, .folder = folder, .until = "tokenizer"};
    REQUIRE_OK(train_run(s.settings, s.env, &in, &opt, NULL, &err), err);
    opt.resume = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        forge(folder, &s, cases[i].key, cases[i].value, 0);
        firm_status st = train_run(s.settings, s.env, &in, &opt, NULL, &err);
        if (st != FIRM_E_FORMAT || !strstr(err.message, "forged/checkpoint.safetensors") ||
            !strstr(err.message, cases[i].says))
            test_fail(__FILE__, __LINE__, "%s: status %d: %s", cases[i].key, st, err.message);
        forge(folder, &s, cases[i].key, cases[i].honest, 0);
    }
    // in the middle of the first stage, with a second moment below 0
    forge(folder, &s, "run.stage", "0", -1);
    forge(folder, &s, "run.update", "3", -1);
    forge(folder, &s, "run.result0", "", -1);
    EXPECT_INT(train_run(s.settings, s.env, &in, &opt, NULL, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "below 0"));
    forge(folder, &s, "run.update", "3", 0.25f);
    REQUIRE_OK(train_run(s.settings, s.env, &in, &opt, NULL, &err), err);
    small_close(&s);
}
