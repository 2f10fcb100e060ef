// trials.c - `firm trials TASK --data F.h5 -o T.h5`: what `firm eval` would draw, as a small file.
#include "eval/trials.h"

#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "core/mem.h"
#include "eval/draws.h"

static const arg_option options[] = {
    {"data", 0, ARG_TEXT, 0, 0, NULL, NULL, "F.h5",
     "recorded episodes; trials come from the validation ones; not with --draw fresh"},
    {"output", 'o', ARG_OUTPUT, 0, 0, NULL, NULL, "T.h5", "the file to write"},
    {"trials", 0, ARG_INT, 1, TRIAL_SET_MAX, "100", NULL, "N", "pairs of the evaluation"},
    {"offset", 0, ARG_INT, 1, TRIAL_OFFSET_MAX, "25", NULL, "N",
     "controls from start to goal in the recording"},
    {"unsolved", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL,
     "only pairs that are not solved at the start"},
    {"training", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL,
     "of training episodes: moments for firm intervene --attempts, refused by firm eval"},
    {"seed", 0, ARG_SEED, 0, 0, "42", NULL, "S", "of the draw, and of the planner that runs them"},
    {"draw", 0, ARG_CHOICE, 0, 0, NULL, EVAL_DRAWS, NULL,
     "trials of this kind, with its own seed; they never overlap"},
};

static void show(const cJSON* j) {
    int training = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "training"));
    printf("%s: %.0f %s of %.0f %s episodes, goals %.0f controls away\n",
           cJSON_GetObjectItemCaseSensitive(j, "file")->valuestring, json_get(j, "trials", 0),
           training ? "moments" : "trials", json_get(j, "episodes", 0),
           training ? "training"
           : cJSON_GetObjectItemCaseSensitive(j, "draw") &&
                   strcmp(cJSON_GetObjectItemCaseSensitive(j, "draw")->valuestring, "fresh") == 0
               ? "fresh"
               : "validation",
           json_get(j, "offset", 0));
    printf("solved at the start: %.1f %%, trials_hash %s\n",
           100.0 * json_get(j, "solved_at_start", 0) / json_get(j, "trials", 1),
           cJSON_GetObjectItemCaseSensitive(j, "trials_hash")->valuestring);
}

static int add_hex(cJSON* json, const char* key, uint64_t value) {
    char text[20];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    return cJSON_AddStringToObject(json, key, text) != NULL;
}

static cJSON* describe(const eval_trials* t, const trial_set* s, const char* path) {
    int solved = 0, used = 0;
    for (int i = 0; i < t->count; i++) {
        solved += t->trial[i].solved;
        used += i == 0 || s->episode[i] != s->episode[i - 1];  // they ascend
    }
    cJSON* j = cJSON_CreateObject();
    if (j && cJSON_AddStringToObject(j, "task", t->data->spec->task.name) &&
        cJSON_AddStringToObject(j, "file", path) &&
        cJSON_AddNumberToObject(j, "trials", s->count) &&
        cJSON_AddNumberToObject(j, "offset", s->offset) &&
        (!s->drawn || cJSON_AddStringToObject(j, "draw", eval_draw_name(s->drawn))) &&
        cJSON_AddBoolToObject(j, "unsolved_only", s->unsolved) &&
        cJSON_AddBoolToObject(j, "training", s->training) &&
        cJSON_AddNumberToObject(j, "seed", (double)s->seed) &&
        cJSON_AddNumberToObject(j, "split_seed", (double)s->split_seed) &&
        cJSON_AddNumberToObject(j, "episodes", used) &&
        cJSON_AddNumberToObject(j, "solved_at_start", solved) &&
        add_hex(j, "trials_hash", s->trials_hash) && add_hex(j, "data_hash", s->rows->hash))
        return j;
    cJSON_Delete(j);
    return NULL;
}

static trial_draw draw_of(const args* a) {
    return args_given(a, "draw") ? eval_draw_of(args_text(a, "draw")) : TRIAL_ANY;
}

// Fresh episodes have no training part: all of them serve.
static firm_status draw_trials(const args* a, const episodes* e, const config* settings,
                               trial_options* draw, eval_trials** out, firm_error* err) {
    uint8_t* taken;
    trial_options from = *draw;
    const int fresh = draw_of(a) == TRIAL_FRESH;
    if (fresh) from.split = NULL;
    TRY(eval_draw_begin(draw_of(a), settings, fresh ? NULL : e, &from, &taken, err));
    firm_status status = eval_trials_draw(e, &from, out, err);
    mem_free(taken);
    draw->seed = from.seed;
    draw->drawn = from.drawn;
    return status;
}

// Recorded episodes, or for fresh trials those that are collected for them.
static firm_status find_episodes(const args* a, const env_spec* spec, const config* settings,
                                 episodes** out, firm_error* err) {
    pool* threads;
    if (draw_of(a) != TRIAL_FRESH) return cli_read_data(a, spec, out, err);
    TRY(pool_create((int)args_int(a, "threads"), &threads, err));
    firm_status status =
        eval_fresh_episodes(spec, (int)args_int(a, "trials"), 0,
                            eval_draw_seed(TRIAL_FRESH, settings), threads, out, err);
    pool_free(threads);
    return status;
}

static firm_status write_trials(const args* a, const episodes* e, const config* settings,
                                const char* path, cJSON** json, firm_error* err) {
    const uint64_t split_seed = (uint64_t)config_int(settings, "data", "split_seed");
    data_split split;
    eval_trials* t = NULL;
    trial_set* s = NULL;
    TRY(data_split_make(e, split_seed, &split, err));
    trial_options draw = {.count = (int)args_int(a, "trials"),
                          .offset = (int)args_int(a, "offset"),
                          .seed = (uint64_t)args_int(a, "seed"),
                          .unsolved = args_switch(a, "unsolved"),
                          .split = &split,
                          .training = args_switch(a, "training")};
    firm_status status = draw_trials(a, e, settings, &draw, &t, err);
    if (status == FIRM_OK) status = eval_trials_pack(t, &draw, split_seed, &s, err);
    if (status == FIRM_OK) status = trial_set_write(s, e, path, err);
    if (status == FIRM_OK && !(*json = describe(t, s, path))) status = cli_no_memory(err);
    trial_set_free(s);
    eval_trials_free(t);
    data_split_free(&split);
    return status;
}

static firm_status run(const args* a, firm_error* err) {
    const env_spec* spec;
    const char* path;
    config* settings;
    episodes* e;
    cJSON* json = NULL;
    TRY(cli_task(a, 0, &spec, err));
    TRY(env_need_simulator(spec, "a trial", err));
    TRY(cli_required(a, "output", &path, err));
    TRY(cli_check_output(path, err));
    TRY(cli_check_draw(a, err));
    if (args_given(a, "draw") && args_switch(a, "training"))
        return FAIL(err, FIRM_E_USAGE,
                    "--draw names trials of validation episodes and --training asks for training "
                    "ones; give one of them");
    if (draw_of(a) == TRIAL_FRESH && args_given(a, "data"))
        return FAIL(err, FIRM_E_USAGE,
                    "fresh trials come from episodes that are collected for them; leave --data "
                    "out");
    TRY(cli_settings(a, &spec->task, NULL, &settings, err));
    firm_status status = find_episodes(a, spec, settings, &e, err);
    if (status == FIRM_OK) {
        status = write_trials(a, e, settings, path, &json, err);
        episodes_free(e);
    }
    config_free(settings);
    return status == FIRM_OK ? cli_finish(a, json, show, err) : status;
}

const cli_command cli_trials = {
    "trials",
    "trials TASK [--data F.h5] -o T.h5 [--trials N --offset N --unsolved --seed S | --draw D]",
    "write the trials of an evaluation to a small file",
    "`firm eval TASK --trials-file T.h5` runs them without the data set, with the outcomes that\n"
    "`firm eval TASK --data F.h5` has with the same flags.\n",
    options,
    sizeof options / sizeof *options,
    1,
    1,
    run};
