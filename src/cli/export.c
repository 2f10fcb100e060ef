// export.c - `firm export MODEL -o OUT`: a run's model as a file to ship, in half precision if
// asked, with planner settings renewed if asked, with further models as an ensemble if asked. Of
// LeWM's weights from elsewhere a model file.
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "core/mem.h"
#include "model/checkpoint.h"
#include "model/lewm/lewm.h"
#include "train/train.h"

static const arg_option options[] = {
    {"output", 'o', ARG_OUTPUT, 0, 0, NULL, NULL, "OUT", "the file to write"},
    {"recorded", 0, ARG_TEXT, 0, 0, NULL, NULL, "P.h5",
     "add training segments of this pack, for plan.reach_recorded"},
    {"episodes", 0, ARG_TEXT, 0, 0, NULL, NULL, "F.h5",
     "add whole training episodes of this data set instead, for plan.reach_ahead"},
    {"count", 0, ARG_INT, 1, 65536, "2048", NULL, "N",
     "--recorded: at most so many segments; --episodes: moments, a macro action apart"},
    {"frames", 0, ARG_INT, 64, 65536, NULL, NULL, "N",
     "add statistics of N frames of fresh episodes, to tell strange ones"},
    {"member", 0, ARG_LIST, 0, 0, NULL, NULL, "B.safetensors",
     "one more model to plan with, as an ensemble; may be repeated"},
    {"task", 0, ARG_TEXT, 0, 0, NULL, NULL, "TASK",
     "--recorded, --episodes, --frames: the task, where the program does not have it (./task.so); "
     "LeWM: the one that its weights were trained for"},
    {"statistics", 0, ARG_TEXT, 0, 0, NULL, NULL, "'m1,m2;s1,s2'",
     "LeWM's weights from elsewhere: means, then deviations of the raw controls they learned from"},
    {"half", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL, "weights in float16"},
    {"accept-changes", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL,
     "read a MODEL that another program rewrote, without believing its digest"},
};

static void show(const cJSON* j) {
    double members = json_get(j, "members", 1);
    printf("%s: %s, ", cJSON_GetObjectItemCaseSensitive(j, "model")->valuestring,
           cJSON_GetObjectItemCaseSensitive(j, "task")->valuestring);
    if (members > 1) printf("an ensemble of %.0f models, ", members);
    printf("%.0f parameters, %s, %.2f MB\n", json_get(j, "params", 0),
           cJSON_GetObjectItemCaseSensitive(j, "precision")->valuestring,
           json_get(j, "bytes", 0) * 1e-6);
}

static firm_status add_members(const args* a, firm_model* model, firm_error* err) {
    const char* member[ARGS_MAX_VALUES];
    int count = args_list(a, "member", member);
    for (int i = 0; i < count; i++) TRY(checkpoint_add_member(member[i], model, err));
    return FIRM_OK;
}

// --config and --set change the settings that travel with the model (its planner's defaults).
static firm_status renew_settings(const args* a, firm_model* model, firm_error* err) {
    if (!args_given(a, "config") && !args_given(a, "set")) return FIRM_OK;
    config* settings;
    TRY(cli_settings(a, &model->task, model, &settings, err));
    char* text = config_dump(settings);
    config_free(settings);
    if (!text) return cli_no_memory(err);
    mem_free(model->config);
    model->config = text;
    return FIRM_OK;
}

// The model's task with its simulator.
static firm_status task_of(const args* a, const firm_model* model, const env_spec** spec,
                           firm_error* err) {
    const char* name = args_given(a, "task") ? args_text(a, "task") : model->task.name;
    TRY(env_open_task(name, spec, err));
    return task_expect(a->positional[0], &model->task, &(*spec)->task, err);
}

static firm_status add_recorded(const args* a, firm_model* model, firm_error* err) {
    const env_spec* spec;
    TRY(task_of(a, model, &spec, err));
    return train_add_recorded(model, spec, args_text(a, "recorded"), (int)args_int(a, "count"),
                              err);
}

static firm_status add_episodes(const args* a, firm_model* model, firm_error* err) {
    const env_spec* spec;
    config* settings;
    TRY(task_of(a, model, &spec, err));
    TRY(cli_settings(a, &model->task, model, &settings, err));
    uint64_t split_seed = (uint64_t)config_int(settings, "data", "split_seed");
    config_free(settings);
    return train_add_episodes(model, spec, args_text(a, "episodes"), split_seed,
                              (int)args_int(a, "count"), err);
}

// What the task's frames look like, drawn by its simulator.
static firm_status add_frames(const args* a, firm_model* model, firm_error* err) {
    const env_spec* spec;
    pool* p;
    TRY(task_of(a, model, &spec, err));
    TRY(pool_create(0, &p, err));
    firm_status status = train_add_tokens(model, spec, (int)args_int(a, "frames"), p, err);
    pool_free(p);
    return status;
}

static cJSON* describe(const char* path, const task_typed* task, int members, double params,
                       const char* precision, const char* provenance) {
    struct stat s = {0};
    stat(path, &s);
    cJSON* j = cJSON_CreateObject();
    if (j && cJSON_AddStringToObject(j, "model", path) &&
        cJSON_AddStringToObject(j, "task", task->name) &&
        cJSON_AddNumberToObject(j, "members", members) &&
        cJSON_AddNumberToObject(j, "params", params) &&
        cJSON_AddStringToObject(j, "precision", precision) &&
        cJSON_AddNumberToObject(j, "bytes", (double)s.st_size) &&
        cJSON_AddStringToObject(j, "provenance", provenance))
        return j;
    cJSON_Delete(j);
    return NULL;
}

// ---- LeWM ----

static firm_status read_statistics(const args* a, const task_typed* task, float* mean,
                                   float* deviation, firm_error* err) {
    float both[2 * FIRM_MAX_ACTION];
    const int n = task->action_dim;
    const char* text = args_text(a, "statistics");
    int ok = cli_numbers(text, 2, n, both) == FIRM_OK;
    for (int i = 0; i < n && ok; i++) {
        mean[i] = both[i];
        deviation[i] = both[n + i];
        ok = deviation[i] > 0;
    }
    if (ok) return FIRM_OK;
    return FAIL(err, FIRM_E_USAGE,
                "--statistics is '%s'; give the means and then the deviations of the %d numbers of "
                "a control in the data the weights learned from, like '0,0;0.2,0.2'",
                text ? text : "", n);
}

static firm_status check_import(const args* a, firm_error* err) {
    static const char* const others[] = {"recorded", "episodes",       "frames", "member",
                                         "half",     "accept-changes", "config", "set"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (args_given(a, others[i]))
            return FAIL(err, FIRM_E_USAGE,
                        "--%s is for models of FIRM, and %s is one of LeWM; leave it out",
                        others[i], a->positional[0]);
    return FIRM_OK;
}

// Weights with the reference's names and nothing else become a model file: what they lack is their
// task and how controls were standardised.
static firm_status import_lewm(const args* a, const char* path, cJSON** json, firm_error* err) {
    const char* from = a->positional[0];
    const env_spec* spec;
    lewm_model* m;
    firm_error own;
    TRY(check_import(a, err));
    if (lewm_read(from, NULL, &m, &own) == FIRM_OK) {
        lewm_free(m);
        return FAIL(err, FIRM_E_USAGE,
                    "%s is a whole model of LeWM already; firm export completes its weights from "
                    "elsewhere, and is for models of FIRM",
                    from);
    }
    if (!args_given(a, "task")) return FAIL(err, own.status, "%s", own.message);
    TRY(env_open_task(args_text(a, "task"), &spec, err));
    float mean[FIRM_MAX_ACTION], deviation[FIRM_MAX_ACTION];
    TRY(read_statistics(a, &spec->task, mean, deviation, err));
    TRY(lewm_read(from, &(lewm_foreign){&spec->task, mean, deviation}, &m, err));
    snprintf(m->provenance, sizeof m->provenance, "version=%d world=lewm from=elsewhere",
             firm_version());
    firm_status status = lewm_write(path, m, NULL, err);
    if (status == FIRM_OK)
        *json = describe(path, &m->task, 1, (double)lewm_params(m), "fp32", m->provenance);
    lewm_free(m);
    return status;
}

static firm_status run(const args* a, firm_error* err) {
    const char* path;
    firm_model* model;
    cJSON* j = NULL;
    int half = args_switch(a, "half");
    TRY(cli_required(a, "output", &path, err));
    if (args_given(a, "recorded") && args_given(a, "episodes"))
        return FAIL(err, FIRM_E_USAGE,
                    "a model has recorded segments or whole episodes; give --recorded or "
                    "--episodes, not both");
    if (lewm_is_file(a->positional[0])) {
        TRY(import_lewm(a, path, &j, err));
        return cli_finish(a, j, show, err);
    }
    TRY((args_switch(a, "accept-changes") ? checkpoint_load_changed : firm_model_load)(
        a->positional[0], &model, err));
    firm_status status = renew_settings(a, model, err);
    if (status == FIRM_OK) status = add_members(a, model, err);
    if (status == FIRM_OK && args_given(a, "recorded")) status = add_recorded(a, model, err);
    if (status == FIRM_OK && args_given(a, "episodes")) status = add_episodes(a, model, err);
    if (status == FIRM_OK && args_given(a, "frames")) status = add_frames(a, model, err);
    if (status == FIRM_OK)
        status = checkpoint_write(path, model, half ? CHECKPOINT_MODEL_HALF : CHECKPOINT_MODEL,
                                  NULL, 0, NULL, 0, err);
    if (status == FIRM_OK)
        j = describe(path, &model->task, model->members + 1, (double)model_count(model).total,
                     half ? "fp16" : "fp32", model->provenance);
    firm_model_free(model);
    return status == FIRM_OK ? cli_finish(a, j, show, err) : status;
}

const cli_command cli_export = {
    "export",
    "export MODEL -o OUT [--half --recorded P.h5 | --episodes F.h5 --frames N --member B]\n"
    "       firm export WEIGHTS -o OUT --task TASK --statistics 'm1,m2;s1,s2'",
    "write a model file to ship",
    "--config and --set change the settings that are stored in the model, such as the\n"
    "planner's defaults: --set plan.reach_candidates=256.\n"
    "Members of an ensemble have one task, shape and data set. OUT has the settings,\n"
    "support and recorded segments of MODEL.\n"
    "LeWM's weights from elsewhere are a safetensors file with the reference's tensor\n"
    "names. --task and --statistics make a model file of them.\n",
    options,
    sizeof options / sizeof *options,
    1,
    1,
    run};
