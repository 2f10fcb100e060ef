// draws_test.c - tuning, study and fresh trials never meet: not in one episode, at whatever offset,
// and what would let them meet is refused.
#include "eval/draws.h"

#include "check.h"
#include "core/mem.h"
#include "env/env.h"
#include "eval/settings.h"

typedef struct drawn {
    config* settings;
    episodes* e;
    data_split split;
} drawn;

static int open_data(drawn* d, int episodes, uint64_t seed) {
    static const char* const set[] = {"trials.study_trials=20"};
    firm_error err = {0};
    collect_options opt = {.episodes = episodes, .seed = seed};
    *d = (drawn){0};
    if (settings_load(&env_find("tworoom")->task, NULL, set, 1, &d->settings, &err) == FIRM_OK &&
        episodes_collect(env_find("tworoom"), &opt, NULL, &d->e, &err) == FIRM_OK &&
        data_split_make(d->e, 0, &d->split, &err) == FIRM_OK)
        return 1;
    test_fail(__FILE__, __LINE__, "%s", err.message);
    return 0;
}

static void close_data(drawn* d) {
    data_split_free(&d->split);
    episodes_free(d->e);
    config_free(d->settings);
}

static firm_status draw(drawn* d, trial_draw kind, trial_options opt, eval_trials** out,
                        firm_error* err) {
    uint8_t* taken;
    *out = NULL;
    opt.split = &d->split;
    TRY(eval_draw_begin(kind, d->settings, d->e, &opt, &taken, err));
    firm_status status = eval_trials_draw(d->e, &opt, out, err);
    mem_free(taken);
    return status;
}

TEST(eval, draws_never_meet) {
    static const int offset[] = {25, 50};
    firm_error err = {0};
    drawn d;
    eval_trials *study, *tuning;
    int episodes = 0, shared = 0;
    if (!open_data(&d, 600, 3)) return;
    uint8_t* of_study = mem_calloc((size_t)d.e->count, 1);
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(
            draw(&d, TRIAL_STUDY, (trial_options){.count = 20, .offset = offset[i]}, &study, &err),
            err);
        // it is what the seed of the settings gives, as ever
        eval_trials* plain;
        trial_options opt = {.count = 20, .offset = offset[i], .seed = 42, .split = &d.split};
        REQUIRE_OK(eval_trials_draw(d.e, &opt, &plain, &err), err);
        EXPECT(eval_trials_hash(study) == eval_trials_hash(plain));
        for (int k = 0; k < study->count; k++)
            of_study[episodes_of_row(d.e, study->trial[k].start)] = 1;
        eval_trials_free(plain);
        eval_trials_free(study);
    }
    for (int i = 0; i < 4; i++) {
        trial_options opt = {.count = 40, .offset = offset[i / 2], .unsolved = i % 2};
        REQUIRE_OK(draw(&d, TRIAL_TUNING, opt, &tuning, &err), err);
        EXPECT_INT(tuning->count, 40);
        for (int k = 0; k < tuning->count; k++) {
            int episode = episodes_of_row(d.e, tuning->trial[k].start);
            EXPECT(d.split.is_valid[episode]);
            shared += of_study[episode];
            episodes++;
        }
        eval_trials_free(tuning);
    }
    EXPECT_INT(shared, 0);
    EXPECT_INT(episodes, 160);
    mem_free(of_study);
    close_data(&d);
}

static void refused(int line, drawn* d, trial_draw kind, const episodes* data, trial_options opt,
                    const char* word) {
    firm_error err = {0};
    uint8_t* taken = NULL;
    opt.split = &d->split;
    firm_status got = eval_draw_begin(kind, d->settings, data, &opt, &taken, &err);
    if (got != FIRM_E_USAGE || taken || !strstr(err.message, word))
        test_fail(__FILE__, line, "status %d, '%s' expected: %s", got, word, err.message);
}

TEST(eval, draws_that_would_meet_are_refused) {
    const trial_options few = {.count = 5, .offset = 25}, many = {.count = 21, .offset = 25},
                        unsolved = {.count = 5, .offset = 25, .unsolved = 1};
    drawn d;
    if (!open_data(&d, 60, 3)) return;
    refused(__LINE__, &d, TRIAL_STUDY, d.e, many, "trials.study_trials");
    refused(__LINE__, &d, TRIAL_STUDY, d.e, unsolved, "--unsolved");
    refused(__LINE__, &d, TRIAL_STUDY, NULL, few, "--data");
    refused(__LINE__, &d, TRIAL_TUNING, NULL, few, "--data");
    refused(__LINE__, &d, TRIAL_FRESH, d.e, few, "--data");
    d.e->seed = 2026;
    refused(__LINE__, &d, TRIAL_TUNING, d.e, few, "trials.fresh_seed");
    refused(__LINE__, &d, TRIAL_STUDY, d.e, few, "trials.fresh_seed");
    // each has its own seed, and no name asks for nothing
    firm_error err = {0};
    uint8_t* taken;
    trial_options opt = few;
    REQUIRE_OK(eval_draw_begin(TRIAL_FRESH, d.settings, NULL, &opt, &taken, &err), err);
    EXPECT(opt.seed == 2026 && opt.drawn == TRIAL_FRESH && !taken);
    opt = few, opt.seed = 5;
    REQUIRE_OK(eval_draw_begin(TRIAL_ANY, d.settings, d.e, &opt, &taken, &err), err);
    EXPECT(opt.seed == 5 && opt.drawn == TRIAL_ANY && !taken);
    EXPECT_INT(eval_draw_of("study"), TRIAL_STUDY);
    EXPECT_INT(eval_draw_of(NULL), TRIAL_ANY);
    EXPECT_INT(eval_draw_of("other"), TRIAL_ANY);
    close_data(&d);
}
