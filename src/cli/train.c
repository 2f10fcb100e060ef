// train.c - `firm train TASK --data F.h5 --branches I.h5 -o RUN`: all stages of the task's config.
#include "train/train.h"

#include <string.h>

#include "cli/cli.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "eval/defaults.h"
#include "eval/settings.h"
#include "nn/device.h"
#include "train/lewm/lewm.h"

static const arg_option options[] = {
    {"data", 0, ARG_TEXT, 0, 0, NULL, NULL, "F.h5", "recorded episodes"},
    {"branches", 0, ARG_TEXT, 0, 0, NULL, NULL, "I.h5",
     "interventions; not needed with --sources F"},
    {"structured", 0, ARG_TEXT, 0, 0, NULL, NULL, "S.h5",
     "structured interventions, for stages that have source S"},
    {"pack", 0, ARG_TEXT, 0, 0, NULL, NULL, "P.h5",
     "all of the above in one file made by firm pack; instead of --data"},
    {"recordings", 0, ARG_TEXT, 0, 0, NULL, NULL, "F.h5",
     "episodes of which train.moments moments go with the model; its own data, most often"},
    {"output", 'o', ARG_OUTPUT, 0, 0, NULL, NULL, "RUN",
     "run folder: checkpoints, metrics, model, train.json"},
    {"world", 0, ARG_CHOICE, 0, 0, "firm", "firm|lewm", NULL,
     "kind of world model; lewm needs --data alone and reads the [lewm] settings"},
    {"seed", 0, ARG_SEED, 0, 0, "1", NULL, "S", "initial weights and batches"},
    {"device", 0, ARG_CHOICE, 0, 0, "cpu", "cpu|cuda", NULL, "device to compute on"},
    {"init", 0, ARG_TEXT, 0, 0, NULL, NULL, "C",
     "weights to begin with: a run's checkpoint.safetensors, or a model, of the same shapes"},
    {"from", 0, ARG_TEXT, 0, 0, NULL, NULL, "STAGE", "with --init: leave out the stages before it"},
    {"until", 0, ARG_TEXT, 0, 0, NULL, NULL, "STAGE",
     "stop after this stage, of lewm after this update; --resume goes on"},
    {"resume", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL,
     "continue a run that was stopped, bit for bit"},
    {"sources", 0, ARG_CHOICE, 0, 0, NULL, "F|I|FI", NULL,
     "restrict every stage to factual rows or interventions"},
    {"no-fiber", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL, "ablation: no history fiber"},
    {"mismatch", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL, "ablation: outcomes of branches shuffled"},
};

static void show(const cJSON* j) {
    const cJSON* s;
    printf("  stage            updates   seconds   held-out   limit\n");
    cJSON_ArrayForEach(s, cJSON_GetObjectItemCaseSensitive(j, "stages")) {
        const cJSON* limit = cJSON_GetObjectItemCaseSensitive(s, "gate_limit");
        printf("  %-16s %7.0f   %7.1f   %8.4f   ",
               cJSON_GetObjectItemCaseSensitive(s, "name")->valuestring, json_get(s, "updates", 0),
               json_get(s, "seconds", 0), json_get(s, "gate", 0));
        if (cJSON_IsNumber(limit))
            printf("%.4f %s\n", limit->valuedouble,
                   cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(s, "pass")) ? "passed" : "MISSED");
        else
            printf("-\n");
    }
    printf("%.1f s in all; model: %s\n", json_get(j, "seconds", 0),
           cJSON_GetObjectItemCaseSensitive(j, "model")->valuestring);
}

firm_status cli_train_inputs(const args* a, const env_spec* spec, const char* pack,
                             train_inputs* in, firm_error* err) {
    const char *data, *sources = args_text(a, "sources");
    const char *plain = args_text(a, "branches"), *structured = args_text(a, "structured");
    episodes* e;
    branches* b;
    *in = (train_inputs){.pack = pack};
    if (pack && (args_given(a, "data") || plain || structured))
        return FAIL(err, FIRM_E_USAGE,
                    "--pack holds the data already; leave --data, --branches and --structured out");
    if (pack) return FIRM_OK;
    TRY(cli_required(a, "data", &data, err));
    if (!plain && !(sources && strcmp(sources, "F") == 0))
        return FAIL(err, FIRM_E_USAGE,
                    "--branches is missing; make the file with firm intervene, or train with "
                    "--sources F");
    TRY(episodes_read(data, spec, &e, err));
    in->data = e;
    if (plain) {
        TRY(branches_read(plain, e, &b, err));
        in->interventions = b;
    }
    if (structured) {
        TRY(branches_read(structured, e, &b, err));
        in->structured = b;
    }
    return FIRM_OK;
}

void cli_free_inputs(train_inputs* in) {
    branches_free((branches*)in->structured);
    branches_free((branches*)in->interventions);
    episodes_free((episodes*)in->data);
    *in = (train_inputs){0};
}

// What was chosen for a task without settings of its own.
static void say_choices(const args* a, const env_spec* spec) {
    char text[DEFAULTS_TEXT];
    if (!settings_are_chosen(&spec->task, args_text(a, "config"))) return;
    const defaults d = defaults_choose(&spec->task);
    defaults_say(&spec->task, &d, text);
    log_info("%s", text);
}

// --no-fiber is a setting of the model, so it is recorded with the others
static firm_status load_settings(const args* a, const env_spec* spec, config** settings,
                                 firm_error* err) {
    TRY(cli_settings(a, &spec->task, NULL, settings, err));
    if (!args_switch(a, "no-fiber")) return FIRM_OK;
    firm_status status = config_set(*settings, "model.no_fiber=true", err);
    if (status == FIRM_OK) return FIRM_OK;
    config_free(*settings);
    *settings = NULL;
    return status;
}

// Hours before they are written; config.ini, which may be its own input, is written at once.
static firm_status check_outputs(const char* folder, firm_error* err) {
    static const char* const names[] = {"checkpoint.safetensors", "metrics.csv",
                                        "model.safetensors", "train.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[1100];
        snprintf(path, sizeof path, "%.1000s/%s", folder, names[i]);
        TRY(file_check_name(path, err));
    }
    return FIRM_OK;
}

static void show_lewm(const cJSON* j) {
    printf("%.0f updates, %.0f clips to draw from, %.1f s; model: %s\n", json_get(j, "updates", 0),
           json_get(j, "clips", 0), json_get(j, "seconds", 0),
           cJSON_GetObjectItemCaseSensitive(j, "model")->valuestring);
}

// What belongs to FIRM's stages has no meaning here.
static firm_status check_lewm(const args* a, firm_error* err) {
    static const char* const others[] = {"branches", "structured", "pack",     "init",
                                         "from",     "sources",    "no-fiber", "mismatch"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (args_given(a, others[i]))
            return FAIL(err, FIRM_E_USAGE, "--%s is for --world firm; leave it out", others[i]);
    return FIRM_OK;
}

static firm_status run_lewm(const args* a, const env_spec* spec, const char* folder,
                            firm_error* err) {
    const char *data, *set[ARGS_MAX_VALUES];
    config* settings = NULL;
    episodes* e = NULL;
    cJSON* json = NULL;
    TRY(check_lewm(a, err));
    TRY(cli_required(a, "data", &data, err));
    int64_t until = 0;
    words w = {args_text(a, "until")};
    if (w.at) until = words_whole(&w, 1, INT32_MAX);
    if (args_given(a, "until") && !words_end(&w))
        return FAIL(err, FIRM_E_USAGE, "--until %s: of --world lewm it is the number of an update",
                    args_text(a, "until"));
    int count = args_list(a, "set", set);
    TRY(lewm_settings(args_text(a, "config"), set, count, &settings, err));
    lewm_run_options opt = {.folder = folder,
                            .seed = (uint64_t)args_int(a, "seed"),
                            .threads = (int)args_int(a, "threads"),
                            .resume = args_switch(a, "resume"),
                            .until = until,
                            .device = args_text(a, "device")};
    firm_status status = episodes_read(data, spec, &e, err);
    if (status == FIRM_OK) status = lewm_run(settings, e, &opt, &json, err);
    episodes_free(e);
    config_free(settings);
    if (status == FIRM_OK) return cli_finish(a, json, show_lewm, err);
    cJSON_Delete(json);
    return status;
}

static firm_status run(const args* a, firm_error* err) {
    const env_spec* spec;
    const char *folder, *sources = args_text(a, "sources");
    config* settings = NULL;
    train_inputs in = {0};
    cJSON* json = NULL;
    TRY(cli_task(a, 0, &spec, err));
    TRY(cli_required(a, "output", &folder, err));
    TRY(nn_device_check(args_text(a, "device"), err));
    if (args_given(a, "from") && !args_given(a, "init"))
        return FAIL(err, FIRM_E_USAGE,
                    "--from leaves stages out; give the weights they would have made with --init");
    TRY(check_outputs(folder, err));
    if (strcmp(args_text(a, "world"), "lewm") == 0) return run_lewm(a, spec, folder, err);
    train_options opt = {.folder = folder,
                         .seed = (uint64_t)args_int(a, "seed"),
                         .threads = (int)args_int(a, "threads"),
                         .resume = args_switch(a, "resume"),
                         .sources = sources,
                         .init = args_text(a, "init"),
                         .from = args_text(a, "from"),
                         .until = args_text(a, "until"),
                         .mismatch = args_switch(a, "mismatch"),
                         .device = args_text(a, "device"),
                         .recordings = args_text(a, "recordings")};
    firm_status status = load_settings(a, spec, &settings, err);
    if (status == FIRM_OK) status = cli_train_inputs(a, spec, args_text(a, "pack"), &in, err);
    if (status == FIRM_OK) say_choices(a, spec);
    if (status == FIRM_OK) status = train_run(settings, spec, &in, &opt, &json, err);
    cli_free_inputs(&in);
    config_free(settings);
    // a missed gate still has a result to show
    if (json && (status == FIRM_OK || status == FIRM_E_GATE)) {
        firm_error print_err;
        firm_status shown = cli_finish(a, json, show, &print_err);
        if (shown != FIRM_OK && status == FIRM_OK) {
            *err = print_err;
            return shown;
        }
        return status;
    }
    cJSON_Delete(json);
    return status;
}

const cli_command cli_train = {
    "train",
    "train TASK --data F.h5 --branches I.h5 -o RUN [--seed S --device cpu|cuda --resume "
    "--sources F|I|FI]\n"
    "       firm train TASK --pack P.h5 -o RUN [--init RUN/checkpoint.safetensors --from STAGE]\n"
    "       firm train TASK --world lewm --data F.h5 -o RUN [--seed S --device cpu|cuda --resume]",
    "train a model through all stages",
    "The stages, their updates, rates, batches and gates come from the task's settings;\n"
    "firm help settings lists the keys.\n",
    options,
    sizeof options / sizeof *options,
    1,
    1,
    run};
