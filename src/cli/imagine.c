// imagine.c - `firm intervene TASK --imagined --pack P.h5 --model M -o Q.h5`: what an ensemble
// expects of the action sequences that searches look at, added to a pack, for one model to learn
// from.
#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "core/clock.h"
#include "data/imagined.h"
#include "eval/proposers.h"
#include "eval/settings.h"

// What is at work, and the file to write.
typedef struct imagining {
    const char* path;
    config* settings;
    pack to;
    firm_model *teacher, *guide;  // may be the same
    imaginers by;
    records made;
    pool* workers;
    imagined_options options;
    double begun;
} imagining;

static void show(const cJSON* j) {
    printf(
        "%s: %.0f searches, %.0f imagined records in all, the members %.2f tolerances apart at "
        "their ends, %.1f s\n",
        cJSON_GetObjectItemCaseSensitive(j, "file")->valuestring, json_get(j, "searches", 0),
        json_get(j, "records", 0), json_get(j, "spread", 0), json_get(j, "seconds", 0));
}

static firm_status check_flags(const args* a, firm_error* err) {
    static const char* const others[] = {"data", "branches", "moments"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (args_given(a, others[i]))
            return FAIL(err, FIRM_E_USAGE,
                        "--imagined searches from moments of --pack; leave out --%s", others[i]);
    return FIRM_OK;
}

static int setting(const args* a, const config* settings, const char* flag, const char* key) {
    return args_given(a, flag) ? (int)args_int(a, flag)
                               : (int)config_int(settings, "intervene", key);
}

// The student must learn nothing of episodes that the pack holds back.
static firm_status same_data(const imagining* w, const char* model, const char* from,
                             firm_error* err) {
    char split[48];
    config* own;
    TRY(settings_from_text(w->teacher->task.name, w->teacher->config, &own, err));
    snprintf(split, sizeof split, "split_seed %lld,",
             (long long)config_int(own, "data", "split_seed"));
    config_free(own);
    if (model_learned_from(w->teacher, w->to.data_hash) &&
        strncmp(w->to.selection, split, strlen(split)) == 0)
        return FIRM_OK;
    return FAIL(
        err, FIRM_E_VALUE,
        "%s was trained on other episodes than those of %s, or on another split of them, so "
        "it may know some that are held out; give a model of the pack's data",
        model, from);
}

static firm_status read_inputs(const args* a, const env_spec* spec, imagining* w, firm_error* err) {
    const char *from, *model, *guide = args_text(a, "guide");
    TRY(cli_required(a, "pack", &from, err));
    TRY(cli_required(a, "model", &model, err));
    TRY(cli_settings(a, &spec->task, NULL, &w->settings, err));
    TRY(cli_load_model(model, spec, &w->teacher, err));
    w->guide = w->teacher;
    if (guide) {
        w->guide = NULL;
        TRY(cli_load_model(guide, spec, &w->guide, err));
    }
    TRY(pack_read(from, spec, &w->to, err));
    return same_data(w, model, from, err);
}

// Mean of the last macro action.
static double mean_spread(const records* r, int horizon) {
    double sum = 0;
    for (int i = 0; i < r->count; i++) sum += (double)r->spread[(i + 1) * horizon - 1];
    return sum / r->count;
}

static firm_status imagine(const args* a, imagining* w, cJSON** json, firm_error* err) {
    pack_file file = {0};
    imaginer_setup setup = {
        .guide = w->guide,
        .teacher = w->teacher,
        .candidates = setting(a, w->settings, "candidates", "imagined_candidates"),
        .iterations = (int)config_int(w->settings, "intervene", "imagined_iterations")};
    TRY(cli_device(a, &setup.device, &setup.precision, err));
    TRY(pool_create((int)args_int(a, "threads"), &w->workers, err));
    TRY(imaginers_open(&setup, pool_threads(w->workers), &w->by, err));
    TRY(imagined_make(w->by.by, &w->to, &w->options, w->workers, &w->made, err));
    TRY(records_append(w->to.spec, &w->made, 0, &w->to.set[PACK_D], err));
    TRY(pack_write(&w->to, NULL, w->workers, w->path, &file, err));
    cJSON* j = *json = cJSON_CreateObject();
    int ok = j && cJSON_AddStringToObject(j, "task", w->to.spec->task.name) &&
             cJSON_AddStringToObject(j, "file", w->path) &&
             cJSON_AddNumberToObject(j, "searches", w->made.histories) &&
             cJSON_AddNumberToObject(j, "records", w->to.set[PACK_D].count) &&
             json_add_number(j, "spread", mean_spread(&w->made, w->to.spec->task.horizon), 4) &&
             cJSON_AddNumberToObject(j, "seed", (double)w->options.seed) &&
             cJSON_AddStringToObject(j, "proposal", "imagined") &&
             json_add_number(j, "seconds", clock_seconds() - w->begun, 4);
    return ok ? FIRM_OK : cli_no_memory(err);
}

firm_status cli_imagine(const args* a, const env_spec* spec, const char* path, firm_error* err) {
    cJSON* json = NULL;
    imagining w = {.path = path, .begun = clock_seconds()};
    TRY(check_flags(a, err));
    firm_status status = read_inputs(a, spec, &w, err);
    if (status == FIRM_OK) {
        w.options =
            (imagined_options){.searches = setting(a, w.settings, "anchors", "imagined_anchors"),
                               .keep = (int)config_int(w.settings, "intervene", "imagined_kept"),
                               .seed = args_given(a, "seed") ? (uint64_t)args_int(a, "seed") : 0};
        status = imagine(a, &w, &json, err);
    }
    records_free(&w.made);
    imaginers_free(&w.by);
    pool_free(w.workers);
    if (w.guide != w.teacher) firm_model_free(w.guide);
    firm_model_free(w.teacher);
    pack_free(&w.to);
    config_free(w.settings);
    if (status == FIRM_OK) return cli_finish(a, json, show, err);
    cJSON_Delete(json);
    return status;
}
