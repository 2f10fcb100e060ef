// eval.c - `firm eval TASK --model M`: arms on the same trials, rates with intervals.
#include "eval/eval.h"

#include <string.h>

#include "cli/cli.h"
#include "core/file.h"
#include "eval/draws.h"

static const arg_option options[] = {
    {"model", 0, ARG_TEXT, 0, 0, NULL, NULL, "M", "model file; the shipped one if not given"},
    {"lewm", 0, ARG_TEXT, 0, 0, NULL, NULL, "M", "model file of LeWM, for the arm lewm"},
    {"data", 0, ARG_TEXT, 0, 0, NULL, NULL, "F.h5",
     "trials from its validation episodes; fresh episodes if not given"},
    {"trials-file", 0, ARG_TEXT, 0, 0, NULL, NULL, "T.h5",
     "trials made by firm trials, instead of --data"},
    {"trials", 0, ARG_INT, 1, TRIAL_SET_MAX, "100", NULL, "N",
     "pairs; with --trials-file at most its number; all of it if not given"},
    {"mode", 0, ARG_CHOICE, 0, 0, "contract", "contract|reach", NULL, "mode of planning"},
    CLI_SOLVER_OPTION,
    {"offset", 0, ARG_INT, 1, TRIAL_OFFSET_MAX, "25", NULL, "N",
     "controls from start to goal in the recording; the budget is twice that"},
    {"arms", 0, ARG_TEXT, 0, 0, "firm", NULL, "a,b", "arms to run, see above"},
    {"unsolved", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL,
     "only pairs that are not solved at the start"},
    {"seed", 0, ARG_SEED, 0, 0, "42", NULL, "S", "seed of trials, fresh episodes and planner"},
    {"planner-seed", 0, ARG_SEED, 0, 0, NULL, NULL, "S",
     "seed of the planner's noise alone; --seed if not given"},
    {"draw", 0, ARG_CHOICE, 0, 0, NULL, EVAL_DRAWS, NULL,
     "trials of this kind, with its own seed; the three never overlap"},
    {"deadline-ms", 0, ARG_REAL, 0, 1e9, "0", NULL, "T", "time for one decision; 0: no limit"},
    {"seconds", 0, ARG_REAL, 0, 1e9, "0", NULL, "T",
     "time for the whole evaluation, shared among its decisions; 0: no limit"},
    {"candidates", 0, ARG_INT, 2, 65535, NULL, NULL, "N",
     "candidates per iteration; from the settings if not given"},
    {"iterations", 0, ARG_INT, 1, 10000, NULL, NULL, "N",
     "iterations of a search; from the settings if not given"},
    {"horizon", 0, ARG_INT, 1, 100, NULL, NULL, "N",
     "macro actions to look ahead; from the settings if not given"},
    CLI_DEVICE_OPTIONS,
    {"batch", 0, ARG_INT, 1, 1000, NULL, NULL, "N",
     "cuda, contract: trials that run in step, their searches solved as one; 25 if not given. "
     "Outcomes do not depend on it"},
    {"pieces", 0, ARG_TEXT, 0, 0, NULL, NULL, "DIR",
     "keep each trial's outcome in DIR: processes with the same command share the trials, and a "
     "stopped one goes on"},
    {"traces", 0, ARG_INT, 0, 1000, "0", NULL, "N", "trials of the first arm to record beside -o"},
    {"output", 'o', ARG_OUTPUT, 0, 0, NULL, NULL, "FILE", "also write the JSON result there"},
};

static void show(const cJSON* j) {
    const cJSON *arm, *p;
    printf("%s, %s mode, goals %.0f controls away, %.0f trials\n\n",
           cJSON_GetObjectItemCaseSensitive(j, "task")->valuestring,
           cJSON_GetObjectItemCaseSensitive(j, "mode")->valuestring, json_get(j, "offset", 0),
           json_get(j, "trials", 0));
    printf("  %-16s %8s  %-14s  %-19s %9s\n", "arm", "success", "95 % interval",
           "not solved at start", "ms/solve");
    cJSON_ArrayForEach(arm, cJSON_GetObjectItemCaseSensitive(j, "arms")) {
        const cJSON* ci = cJSON_GetObjectItemCaseSensitive(arm, "ci95");
        char among[40], ms[24];
        const cJSON* rest = cJSON_GetObjectItemCaseSensitive(arm, "success_rate_unsolved");
        const cJSON* solve = cJSON_GetObjectItemCaseSensitive(arm, "ms_per_solve");
        double unsolved = json_get(j, "trials", 0) - json_get(arm, "solved_at_start", 0);
        if (cJSON_IsNumber(rest))
            snprintf(among, sizeof among, "%.1f %% of %.0f", rest->valuedouble, unsolved);
        else
            snprintf(among, sizeof among, "none");
        if (cJSON_IsNumber(solve))
            snprintf(ms, sizeof ms, "%.1f", solve->valuedouble);
        else
            snprintf(ms, sizeof ms, "-");
        printf("  %-16s %6.1f %%  %5.1f .. %5.1f  %-19s %9s\n", arm->string,
               json_get(arm, "success_rate", 0), cJSON_GetArrayItem(ci, 0)->valuedouble,
               cJSON_GetArrayItem(ci, 1)->valuedouble, among, ms);
    }
    cJSON_ArrayForEach(p, cJSON_GetObjectItemCaseSensitive(j, "pairs")) {
        const cJSON* ci = cJSON_GetObjectItemCaseSensitive(p, "ci95");
        printf("  %s - %s: %+.1f points (%.1f .. %.1f), rescued %.0f, harmed %.0f\n",
               cJSON_GetObjectItemCaseSensitive(p, "a")->valuestring,
               cJSON_GetObjectItemCaseSensitive(p, "b")->valuestring, json_get(p, "difference", 0),
               cJSON_GetArrayItem(ci, 0)->valuedouble, cJSON_GetArrayItem(ci, 1)->valuedouble,
               json_get(p, "rescue", 0), json_get(p, "harm", 0));
    }
}

// FOLDER/trace-STEM-1.json beside FOLDER/STEM.json
static firm_status write_traces(const char* output, const cJSON* traces, firm_error* err) {
    const char* slash = strrchr(output, '/');
    int folder = slash ? (int)(slash - output) + 1 : 0, number = 0;
    const char* stem = output + folder;
    size_t n = strlen(stem);
    if (n > 5 && strcmp(stem + n - 5, ".json") == 0) n -= 5;
    if (strncmp(stem, "eval-", 5) == 0 && n > 5) {
        stem += 5;
        n -= 5;
    }
    const cJSON* t;
    cJSON_ArrayForEach(t, traces) {
        char path[1100];
        int length = snprintf(path, sizeof path, "%.*strace-%.*s-%d.json", folder, output, (int)n,
                              stem, ++number);
        if (length < 0 || length >= (int)sizeof path)
            return FAIL(err, FIRM_E_USAGE, "the path %s is too long", output);
        TRY(json_write_file(path, t, err));
    }
    return FIRM_OK;
}

// What a file of trials already settles cannot be asked for otherwise.
static firm_status check_against(const args* a, const trial_set* set, firm_error* err) {
    const char* path = args_text(a, "trials-file");
    if (args_given(a, "trials") && args_int(a, "trials") > set->count)
        return FAIL(err, FIRM_E_USAGE,
                    "--trials %lld asks for more than the %d trials of %s; ask for fewer, or write "
                    "more with firm trials",
                    (long long)args_int(a, "trials"), set->count, path);
    if (args_given(a, "offset") && args_int(a, "offset") != set->offset)
        return FAIL(err, FIRM_E_USAGE,
                    "--offset %lld contradicts %s, whose goals are %d controls away; leave it out, "
                    "or write other trials with firm trials",
                    (long long)args_int(a, "offset"), path, set->offset);
    if (args_given(a, "seed") && (uint64_t)args_int(a, "seed") != set->seed)
        return FAIL(err, FIRM_E_USAGE,
                    "--seed %lld contradicts %s, whose trials were drawn with seed %llu; leave it "
                    "out, or write other trials with firm trials",
                    (long long)args_int(a, "seed"), path, (unsigned long long)set->seed);
    if (args_given(a, "draw") && eval_draw_of(args_text(a, "draw")) != set->drawn)
        return FAIL(err, FIRM_E_USAGE,
                    "--draw %s contradicts %s, whose trials were not drawn for that; leave it out, "
                    "or write other trials with firm trials --draw",
                    args_text(a, "draw"), path);
    if (args_switch(a, "unsolved") && !set->unsolved)
        return FAIL(err, FIRM_E_USAGE,
                    "--unsolved contradicts %s, which also holds pairs solved at the start; leave "
                    "it out, or write other trials with firm trials --unsolved",
                    path);
    return FIRM_OK;
}

static firm_status read_trials(const args* a, const env_spec* spec, trial_set** out,
                               firm_error* err) {
    TRY(eval_trials_read(args_text(a, "trials-file"), spec, 0, out, err));
    firm_status status = check_against(a, *out, err);
    if (status != FIRM_OK) {
        trial_set_free(*out);
        *out = NULL;
    }
    return status;
}

// What an evaluation reads.
typedef struct inputs {
    firm_model *model, *lewm;
    const char* model_path;
    episodes* data;
    trial_set* set;
} inputs;

static firm_status evaluate(const args* a, const env_spec* spec, const inputs* in, cJSON** json,
                            firm_error* err) {
    const trial_set* set = in->set;
    config* settings;
    const char* output = args_text(a, "output");
    const uint64_t planner_seed =
        args_given(a, "planner-seed") ? (uint64_t)args_int(a, "planner-seed") : 0;
    cJSON* traces = NULL;
    TRY(cli_settings(a, &spec->task, in->model ? in->model : in->lewm, &settings, err));
    eval_params p = {.spec = spec,
                     .model = in->model,
                     .model_path = in->model_path,
                     .lewm = in->lewm,
                     .lewm_path = args_text(a, "lewm"),
                     .settings = settings,
                     .data = in->data,
                     .set = set,
                     .mode = cli_mode(args_text(a, "mode")),
                     .solver = cli_solver(a),
                     .trials = (int)args_int(a, "trials"),
                     .offset = (int)args_int(a, "offset"),
                     .seed = (uint64_t)args_int(a, "seed"),
                     .unsolved = args_switch(a, "unsolved"),
                     .arms = args_text(a, "arms"),
                     .threads = (int)args_int(a, "threads"),
                     .deadline_ms = args_real(a, "deadline-ms"),
                     .seconds = args_real(a, "seconds"),
                     .candidates = (int)args_int(a, "candidates"),
                     .iterations = (int)args_int(a, "iterations"),
                     .horizon = (int)args_int(a, "horizon"),
                     .traces = (int)args_int(a, "traces"),
                     .batch = (int)args_int(a, "batch"),
                     .pieces = args_text(a, "pieces"),
                     .planner_seed = args_given(a, "planner-seed") ? &planner_seed : NULL};
    p.draw = args_given(a, "draw") ? eval_draw_of(args_text(a, "draw")) : TRIAL_ANY;
    if (p.draw) p.seed = eval_draw_seed(p.draw, settings);
    if (set) {
        p.draw = set->drawn;
        if (!args_given(a, "trials")) p.trials = set->count;
        p.offset = set->offset;
        p.seed = set->seed;
        p.unsolved = set->unsolved;
    }
    firm_status status = cli_device(a, &p.device, &p.precision, err);
    if (status == FIRM_OK) status = eval_run(&p, json, p.traces ? &traces : NULL, err);
    config_free(settings);
    if (status == FIRM_OK && output) status = json_write_file(output, *json, err);
    if (status == FIRM_OK && traces) status = write_traces(output, traces, err);
    cJSON_Delete(traces);
    return status;
}

// ---- recorded data alone ----

static void show_held_out(const cJSON* j) {
    const cJSON *d, *ground = cJSON_GetObjectItemCaseSensitive(j, "grounder_error");
    const cJSON *mean = cJSON_GetObjectItemCaseSensitive(j, "rollout_error"),
                *p95 = cJSON_GetObjectItemCaseSensitive(j, "rollout_error_p95");
    printf("%s, %.0f held-out segments of %.0f episodes; no simulator, so no trials\n\n",
           cJSON_GetObjectItemCaseSensitive(j, "task")->valuestring,
           json_get(j, "held_out_segments", 0), json_get(j, "held_out_episodes", 0));
    printf("  seen in a picture: %.4f tolerances from the truth, 95 %% within %.4f\n",
           json_get(ground, "units", 0), json_get(ground, "units_p95", 0));
    cJSON_ArrayForEach(d, ground) if (cJSON_IsObject(d))
        printf("    %-16s mean %.4g %s, largest %.4g\n", d->string, json_get(d, "mean", 0),
               cJSON_GetObjectItemCaseSensitive(d, "unit")->valuestring, json_get(d, "max", 0));
    for (int k = 0; k < cJSON_GetArraySize(mean); k++)
        printf("  predicted %d macro action%s ahead: %.4f tolerances, 95 %% within %.4f\n", k + 1,
               k ? "s" : "", cJSON_GetArrayItem(mean, k)->valuedouble,
               cJSON_GetArrayItem(p95, k)->valuedouble);
}

static firm_status measure(const args* a, const env_spec* spec, const firm_model* model,
                           const episodes* data, cJSON** json, firm_error* err) {
    config* settings;
    TRY(cli_settings(a, &spec->task, model, &settings, err));
    train_inputs in = {.data = data};
    train_options opt = {
        .threads = (int)args_int(a, "threads"), .sources = "F", .device = args_text(a, "device")};
    firm_status status = train_measure(settings, spec, &in, &opt, model, json, err);
    config_free(settings);
    return status;
}

static firm_status run_recorded(const args* a, const env_spec* spec, firm_error* err) {
    const char *data_path, *model_path, *output = args_text(a, "output");
    firm_model* model = NULL;
    episodes* data = NULL;
    cJSON* json = NULL;
    if (args_given(a, "trials-file") || args_given(a, "arms") || args_given(a, "traces") ||
        args_given(a, "mode") || args_given(a, "trials"))
        TRY(env_need_simulator(spec, "a trial", err));
    TRY(cli_required(a, "data", &data_path, err));
    TRY(cli_required(a, "model", &model_path, err));
    if (output && strncmp(output, "/dev/", 5) != 0) TRY(cli_check_output(output, err));
    firm_status status = cli_load_model(model_path, spec, &model, err);
    if (status == FIRM_OK) status = cli_read_data(a, spec, &data, err);
    if (status == FIRM_OK) status = measure(a, spec, model, data, &json, err);
    if (status == FIRM_OK && !cJSON_AddStringToObject(json, "model", model_path))
        status = cli_no_memory(err);
    if (status == FIRM_OK && output) status = json_write_file(output, json, err);
    episodes_free(data);
    firm_model_free(model);
    if (status == FIRM_OK) return cli_finish(a, json, show_held_out, err);
    cJSON_Delete(json);
    return status;
}

static firm_status run(const args* a, firm_error* err) {
    const env_spec* spec;
    const char *output = args_text(a, "output"), *arms = args_text(a, "arms");
    char found[1024];
    inputs in = {0};
    cJSON* json = NULL;
    TRY(cli_task(a, 0, &spec, err));
    if (!spec->sim) return run_recorded(a, spec, err);
    if (args_given(a, "data") && args_given(a, "trials-file"))
        return FAIL(err, FIRM_E_USAGE,
                    "--data and --trials-file both say where the trials come from; give one");
    TRY(cli_check_draw(a, err));
    if (strstr(arms, "lewm") && !args_given(a, "lewm"))
        return FAIL(err, FIRM_E_USAGE,
                    "the arm 'lewm' needs a model of LeWM; give one with --lewm");
    if (args_given(a, "pieces") &&
        (args_int(a, "traces") || args_given(a, "deadline-ms") || args_given(a, "seconds")))
        return FAIL(err, FIRM_E_USAGE,
                    "--pieces keeps outcomes that do not depend on time, and no traces; leave out "
                    "--traces, --deadline-ms and --seconds");
    if (args_int(a, "traces") && !output)
        return FAIL(err, FIRM_E_USAGE, "--traces needs -o FILE, beside which they are written");
    // a device such as /dev/stdout is fine too, so the early check is for plain files
    if (output && strncmp(output, "/dev/", 5) != 0) TRY(cli_check_output(output, err));
    // the oracles and the random arm do without a model; then the task's own action statistics
    // serve
    int learned = strstr(arms, "firm") || strstr(arms, "oracle-config") || args_given(a, "model");
    if (learned) TRY(cli_model_path(a, spec, found, err));
    in.model_path = learned ? found : NULL;
    firm_status status = learned ? cli_load_model(found, spec, &in.model, err) : FIRM_OK;
    if (status == FIRM_OK && args_given(a, "lewm"))
        status = cli_load_lewm(args_text(a, "lewm"), spec, &in.lewm, err);
    if (status == FIRM_OK && args_given(a, "data")) status = cli_read_data(a, spec, &in.data, err);
    if (status == FIRM_OK && args_given(a, "trials-file"))
        status = read_trials(a, spec, &in.set, err);
    if (status == FIRM_OK) status = evaluate(a, spec, &in, &json, err);
    episodes_free(in.data);
    trial_set_free(in.set);
    firm_model_free(in.model);
    firm_model_free(in.lewm);
    if (status == FIRM_OK) return cli_finish(a, json, show, err);
    cJSON_Delete(json);
    return status;
}

const cli_command cli_eval = {"eval",
                              "eval TASK [--model M] [--lewm M] [--data F.h5 | --trials-file T.h5 "
                              "| --seed S] [--trials N --mode "
                              "contract|reach --offset N "
                              "--arms a,b]",
                              "count the goals that a model reaches, beside other arms",
                              "  firm             the model, from pixels\n"
                              "  lewm             the model of --lewm, from pixels\n"
                              "  oracle-config    the learned transition from true configurations\n"
                              "  oracle-dynamics  a search through the true simulator\n"
                              "  random           random actions\n"
                              "All arms meet the same trials. A task of recorded data alone has no "
                              "trials: the command\n"
                              "reports held-out errors of --data.\n",
                              options,
                              sizeof options / sizeof *options,
                              1,
                              1,
                              run};
