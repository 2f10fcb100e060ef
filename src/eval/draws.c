// draws.c - keeps tuning, study and fresh trials apart; see draws.h.
#include "eval/draws.h"

#include <inttypes.h>
#include <string.h>

#include "core/mem.h"

const config_key draw_keys[] = {
    {"trials", "study_seed", CONFIG_INT, 0, 1e15, "42", NULL, "seed of the study trials"},
    {"trials", "study_trials", CONFIG_INT, 1, 1e5, "100", NULL,
     "study trials at each offset; tuning trials keep out of their episodes"},
    {"trials", "tuning_seed", CONFIG_INT, 0, 1e15, "7", NULL, "seed of the tuning trials"},
    {"trials", "fresh_seed", CONFIG_INT, 0, 1e15, "2026", NULL,
     "seed of the fresh trials and of the episodes collected for them"},
};
const int draw_key_count = sizeof draw_keys / sizeof *draw_keys;

static const char* const name[] = {
    [TRIAL_TUNING] = "tuning", [TRIAL_STUDY] = "study", [TRIAL_FRESH] = "fresh"};

trial_draw eval_draw_of(const char* text) {
    for (int i = TRIAL_TUNING; text && i <= TRIAL_FRESH; i++)
        if (strcmp(text, name[i]) == 0) return (trial_draw)i;
    return TRIAL_ANY;
}

const char* eval_draw_name(trial_draw draw) {
    return name[draw];
}

static uint64_t seed_of(const config* settings, const char* key) {
    return (uint64_t)config_int(settings, "trials", key);
}

uint64_t eval_draw_seed(trial_draw draw, const config* settings) {
    return seed_of(settings, draw == TRIAL_TUNING  ? "tuning_seed"
                             : draw == TRIAL_STUDY ? "study_seed"
                                                   : "fresh_seed");
}

enum { FAR = 100 };  // of a task that has no study

static firm_status take_study_episodes(const config* settings, const episodes* data,
                                       const trial_options* opt, uint8_t* taken, firm_error* err) {
    // offsets of the tables; episodes too short for one have no study trials there
    const env_study* tables = data->spec->study;
    const int offsets[] = {25, 50, tables ? tables->far : FAR};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        trial_options study = {.count = (int)config_int(settings, "trials", "study_trials"),
                               .offset = offsets[i],
                               .seed = seed_of(settings, "study_seed"),
                               .split = opt->split,
                               .fewer = 1};
        eval_trials* t;
        TRY(eval_trials_draw(data, &study, &t, err));
        for (int k = 0; k < t->count; k++) taken[episodes_of_row(data, t->trial[k].start)] = 1;
        eval_trials_free(t);
    }
    return FIRM_OK;
}

static firm_status check_source(trial_draw draw, const config* settings, const episodes* data,
                                firm_error* err) {
    const uint64_t fresh = seed_of(settings, "fresh_seed");
    if (draw == TRIAL_FRESH && data)
        return FAIL(err, FIRM_E_USAGE,
                    "fresh trials come from episodes that are collected for them; leave --data "
                    "out");
    if (draw != TRIAL_FRESH && !data)
        return FAIL(err, FIRM_E_USAGE,
                    "%s trials come from validation episodes; give the data set with --data",
                    name[draw]);
    if (data && data->seed == fresh)
        return FAIL(err, FIRM_E_USAGE,
                    "the data were collected with seed %" PRIu64
                    ", as the fresh trials are (trials.fresh_seed), so %s and fresh trials would "
                    "overlap; collect with another --seed",
                    fresh, name[draw]);
    return FIRM_OK;
}

static firm_status check_study(const config* settings, const trial_options* opt, firm_error* err) {
    const int most = (int)config_int(settings, "trials", "study_trials");
    if (opt->count > most)
        return FAIL(err, FIRM_E_USAGE,
                    "%d study trials asked for and %d are kept apart from tuning "
                    "(trials.study_trials); ask for fewer",
                    opt->count, most);
    if (opt->unsolved)
        return FAIL(err, FIRM_E_USAGE,
                    "study trials include pairs solved at the start; leave --unsolved out, or use "
                    "--draw fresh");
    return FIRM_OK;
}

firm_status eval_draw_begin(trial_draw draw, const config* settings, const episodes* data,
                            trial_options* opt, uint8_t** taken, firm_error* err) {
    *taken = NULL;
    if (draw == TRIAL_ANY) return FIRM_OK;
    TRY(check_source(draw, settings, data, err));
    if (draw == TRIAL_STUDY) TRY(check_study(settings, opt, err));
    opt->drawn = draw;
    opt->seed = eval_draw_seed(draw, settings);
    if (draw != TRIAL_TUNING) return FIRM_OK;
    *taken = mem_calloc((size_t)data->count, 1);
    if (!*taken) return FAIL(err, FIRM_E_MEMORY, "no memory to draw trials");
    firm_status status = take_study_episodes(settings, data, opt, *taken, err);
    if (status == FIRM_OK) {
        opt->taken = *taken;
        return FIRM_OK;
    }
    mem_free(*taken);
    *taken = NULL;
    return status;
}
