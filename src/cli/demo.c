// demo.c - `firm demo [TASK]`: the shipped model plans to one goal image that needs planning, and
// leaves a page to open. A task without a shipped model is planned through its true simulator, and
// page and output say so.
//
// The goal is searched for: among a few dozen fresh start and goal pairs the farthest one that a
// greedy search through the true simulator (one macro action ahead) does not reach: one
// behind a wall, say. How many episodes are recorded for that, and how far a goal is away, stands
// in the task's env_demo, since simulators differ in speed by a factor of 300.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/log.h"
#include "core/mem.h"
#include "eval/eval.h"
#include "model/model.h"
#include "report/report.h"

enum { PAIRS = 48, FAN = 24, MORE_GOALS = 10 };

static const arg_option options[] = {
    {"model", 0, ARG_TEXT, 0, 0, NULL, NULL, "M", "model file; the shipped one if not given"},
    {"oracle", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL,
     "plan through the true simulator, also where a model is shipped"},
    {"output", 'o', ARG_OUTPUT, 0, 0, NULL, NULL, "DIR",
     "folder of the page; demo/TASK if not given"},
    {"offset", 0, ARG_INT, 5, 1000, NULL, NULL, "N",
     "controls from start to goal in the recording; the task's own number if not given"},
    {"trials", 0, ARG_INT, 0, 1000, NULL, NULL, "N",
     "further goals for the success rate on the page; 10, or 0 without a model"},
    {"seed", 0, ARG_SEED, 0, 0, "2026", NULL, "S", "seed of the goals"},
};

typedef struct showcase {
    const env_spec* spec;
    const char* model_path;  // NULL: the true simulator predicts
    int asked;               // ... because --oracle asks for it, not for want of a model
    firm_model* model;       // NULL likewise
    config* settings;
    int offset;
    plan_actions actions;
    pool* threads;
    episodes* data;
    eval_trials* trials;
    frames* pictures;
    int pick;  // the trial to show
} showcase;

static void close_showcase(showcase* s) {
    frames_free(s->pictures);
    eval_trials_free(s->trials);
    episodes_free(s->data);
    pool_free(s->threads);
    config_free(s->settings);
    firm_model_free(s->model);
}

// ---- a goal worth showing -----------------------------------------------------------------------

static float start_distance(const showcase* s, int trial) {
    const eval_trial* t = &s->trials->trial[trial];
    float start[FIRM_MAX_CONFIG], goal[FIRM_MAX_CONFIG];
    env_config(s->spec, s->data->state + t->start * s->spec->state->dim, start);
    env_config(s->spec, s->data->state + t->goal * s->spec->state->dim, goal);
    return task_tolerance_units(&s->spec->task, start, goal);
}

static eval_setup make_setup(const showcase* s, const args* a, const plan_options* options) {
    return (eval_setup){.spec = s->spec,
                        .model = s->model,
                        .options = *options,
                        .actions = s->actions,
                        .threads = (int)args_int(a, "threads"),
                        .seed = (uint64_t)args_int(a, "seed")};
}

// The farthest pair that is left; it is taken out. -1: none is.
static int take_farthest(float distance[PAIRS], int count) {
    int best = -1;
    for (int i = 0; i < count; i++)
        if (distance[i] >= 0 && (best < 0 || distance[i] > distance[best])) best = i;
    if (best >= 0) distance[best] = -1;
    return best;
}

// The farthest pair that looking one macro action ahead does not solve; else the farthest.
static firm_status pick_trial(showcase* s, const args* a, firm_error* err) {
    float distance[PAIRS];
    for (int i = 0; i < s->trials->count; i++) distance[i] = start_distance(s, i);
    int next = s->pick = take_farthest(distance, s->trials->count);
    if (env_demo_of(s->spec).tries == 0) return FIRM_OK;
    plan_options greedy;
    TRY(eval_plan_options(s->settings, FIRM_MODE_REACH, 32, 3, 1, &greedy, err));
    greedy.horizon_max = 1;
    eval_setup setup = make_setup(s, a, &greedy);
    eval_arm* arm;
    TRY(eval_arm_create("oracle-dynamics", &setup, &arm, err));
    firm_status status = FIRM_OK;
    for (int tries = 0; tries < env_demo_of(s->spec).tries && next >= 0 && status == FIRM_OK;
         tries++) {
        eval_outcome o;
        status = eval_arm_run(arm, s->trials, s->pictures, next, &o, NULL, NULL, err);
        if (status == FIRM_OK && !o.success) {
            s->pick = next;
            break;
        }
        next = take_farthest(distance, s->trials->count);
    }
    eval_arm_free(arm);
    return status;
}

// ---- the episode --------------------------------------------------------------------------------

static const char* arm_name(const showcase* s) {
    return s->model ? "firm" : "oracle-dynamics";
}

// What a reader must know of a plan that no model made; NULL if one did.
static const char* caveat(const showcase* s, char text[300]) {
    if (s->model) return NULL;
    char why[120] = "As asked";
    if (!s->asked)
        snprintf(why, sizeof why, "No trained model of %s is shipped; --model M gives one",
                 s->spec->task.name);
    snprintf(text, 300,
             "%s: this plan was searched through the true simulator, from the true state instead "
             "of pictures (arm oracle-dynamics).",
             why);
    return text;
}

static firm_status write_trace(const showcase* s, cJSON* trace, const char* folder,
                               firm_error* err) {
    char path[1100], text[300];
    const char* note = caveat(s, text);
    if (note && !cJSON_AddStringToObject(trace, "note", note)) return cli_no_memory(err);
    snprintf(path, sizeof path, "%s/trace-demo.json", folder);
    return json_write_file(path, trace, err);
}

static firm_status show_episode(showcase* s, const args* a, const char* folder, eval_outcome* o,
                                double* ms, firm_error* err) {
    plan_options options;
    TRY(eval_plan_options(s->settings, FIRM_MODE_REACH, 0, 0, 0, &options, err));
    eval_setup setup = make_setup(s, a, &options);
    setup.fan = FAN < options.candidates ? FAN : options.candidates;
    eval_arm* arm;
    eval_trace trace = {0};
    eval_times times = {0};
    TRY(eval_arm_create(arm_name(s), &setup, &arm, err));
    if (!s->model) log_info("searching through the simulator of %s", s->spec->task.name);
    firm_status status = eval_arm_run(arm, s->trials, s->pictures, s->pick, o, &times, &trace, err);
    *ms = eval_times_quantile(&times, 0.5);
    if (status == FIRM_OK) status = write_trace(s, trace.json, folder, err);
    eval_trace_free(&trace);
    eval_times_free(&times);
    eval_arm_free(arm);
    return status;
}

static firm_status more_goals(showcase* s, const args* a, int goals, const char* folder,
                              cJSON** result, firm_error* err) {
    char path[1100], arms[64];
    snprintf(arms, sizeof arms, "%s,random", arm_name(s));
    eval_params p = {.spec = s->spec,
                     .model = s->model,
                     .model_path = s->model_path,
                     .settings = s->settings,
                     .mode = FIRM_MODE_REACH,
                     .trials = goals,
                     .episodes = env_demo_of(s->spec).episodes,
                     .offset = s->offset,
                     .unsolved = 1,
                     .seed = (uint64_t)args_int(a, "seed"),
                     .arms = arms,
                     .threads = (int)args_int(a, "threads")};
    TRY(eval_run(&p, result, NULL, err));
    snprintf(path, sizeof path, "%s/eval-demo.json", folder);
    return json_write_file(path, *result, err);
}

// ---- command ------------------------------------------------------------------------------------

static void show(const cJSON* j) {
    const cJSON *d, *rate = cJSON_GetObjectItemCaseSensitive(j, "success_rate"),
                    *note = cJSON_GetObjectItemCaseSensitive(j, "note");
    int success = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "success"));
    if (cJSON_IsString(note))
        printf("%s\n", note->valuestring);
    else
        printf("A model of %.1f million parameters saw three frames and one goal image of %s.\n",
               json_get(j, "params", 0) * 1e-6,
               cJSON_GetObjectItemCaseSensitive(j, "task")->valuestring);
    cJSON_ArrayForEach(d, cJSON_GetObjectItemCaseSensitive(j, "distances")) {
        const char* unit = cJSON_GetObjectItemCaseSensitive(d, "unit")->valuestring;
        printf(
            "  %s: %.3g %s from the goal at the start, %.3g %s at the end (reached below %.3g)\n",
            cJSON_GetObjectItemCaseSensitive(d, "name")->valuestring, json_get(d, "start", 0), unit,
            json_get(d, "end", 0), unit, json_get(d, "tolerance", 0));
    }
    printf("  %s after %.0f controls and %.0f plans of %.0f ms each\n",
           success ? "reached" : "NOT reached", json_get(j, "controls", 0),
           json_get(j, "solves", 0), json_get(j, "ms_per_solve", 0));
    if (cJSON_IsNumber(rate))
        printf(
            "  further goals, none solved at the start: %.0f of %.0f reached "
            "(random actions: %.0f)\n",
            json_get(j, "successes", 0), json_get(j, "trials", 0),
            json_get(j, "random_successes", 0));
    printf("%.1f s in all. Open the page to watch it:\n%s\n", json_get(j, "seconds", 0),
           cJSON_GetObjectItemCaseSensitive(j, "page")->valuestring);
}

// Named distances of the first and the last frame, from the trace that was written.
static firm_status add_distances(const char* folder, cJSON* j, firm_error* err) {
    char path[1100];
    cJSON* trace;
    snprintf(path, sizeof path, "%s/trace-demo.json", folder);
    TRY(json_read_file(path, &trace, err));
    const cJSON* frames = cJSON_GetObjectItemCaseSensitive(trace, "frames");
    const cJSON *first = cJSON_GetArrayItem(frames, 0),
                *last = cJSON_GetArrayItem(frames, cJSON_GetArraySize(frames) - 1);
    cJSON *list = cJSON_DetachItemFromObjectCaseSensitive(trace, "distances"), *d;
    int i = 0, ok = list && cJSON_AddItemToObject(j, "distances", list);
    cJSON_ArrayForEach(d, list) {
        const cJSON* start =
            cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(first, "true_distance"), i);
        const cJSON* end =
            cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(last, "true_distance"), i++);
        ok = ok && json_add_number(d, "start", start->valuedouble, 5) &&
             json_add_number(d, "end", end->valuedouble, 5);
    }
    cJSON_Delete(trace);
    return ok ? FIRM_OK : cli_no_memory(err);
}

static firm_status add_rates(const showcase* s, const cJSON* eval, cJSON* j, firm_error* err) {
    const cJSON* arms = cJSON_GetObjectItemCaseSensitive(eval, "arms");
    const cJSON* ours = cJSON_GetObjectItemCaseSensitive(arms, arm_name(s));
    int ok = cJSON_AddNumberToObject(j, "trials", json_get(eval, "trials", 0)) &&
             cJSON_AddNumberToObject(j, "successes", json_get(ours, "successes", 0)) &&
             cJSON_AddNumberToObject(j, "success_rate", json_get(ours, "success_rate", 0)) &&
             cJSON_AddNumberToObject(
                 j, "random_successes",
                 json_get(cJSON_GetObjectItemCaseSensitive(arms, "random"), "successes", 0));
    return ok ? FIRM_OK : cli_no_memory(err);
}

// What was used to decide: the model and its size, or null and why there is none.
static int add_model(const showcase* s, cJSON* j) {
    char text[300];
    if (!s->model)
        return cJSON_AddNullToObject(j, "model") && cJSON_AddNullToObject(j, "params") &&
               cJSON_AddStringToObject(j, "note", caveat(s, text));
    return cJSON_AddStringToObject(j, "model", s->model_path) &&
           cJSON_AddNumberToObject(j, "params", (double)model_count(s->model).total);
}

static firm_status prepare(showcase* s, const args* a, firm_error* err) {
    uint64_t seed = (uint64_t)args_int(a, "seed");
    float mean[FIRM_MAX_ACTION], deviation[FIRM_MAX_ACTION];
    if (s->model_path) TRY(cli_load_model(s->model_path, s->spec, &s->model, err));
    TRY(cli_settings(a, &s->spec->task, s->model, &s->settings, err));
    TRY(pool_create((int)args_int(a, "threads"), &s->threads, err));
    TRY(eval_fresh_episodes(s->spec, PAIRS, env_demo_of(s->spec).episodes, seed, s->threads,
                            &s->data, err));
    if (s->model) {
        TRY(eval_check_model(s->model, s->data, 1, err));
        memcpy(mean, s->model->stats.action_mean, sizeof mean);
        memcpy(deviation, s->model->stats.action_std, sizeof deviation);
    } else {
        data_action_stats(s->data, NULL, mean, deviation);
    }
    s->actions = plan_actions_of(&s->spec->task, mean, deviation);
    trial_options draw = {.count = PAIRS, .offset = s->offset, .seed = seed, .unsolved = 1};
    TRY(eval_trials_draw(s->data, &draw, &s->trials, err));
    TRY(frames_open(s->data, 1, 0, &s->pictures, err));
    return pick_trial(s, a, err);
}

static firm_status present(showcase* s, const args* a, const char* folder, cJSON* j,
                           firm_error* err) {
    double begun = clock_seconds(), ms;
    char page[1024];
    eval_outcome o;
    cJSON* eval = NULL;
    TRY(prepare(s, a, err));
    TRY(file_make_dirs(folder, err));
    TRY(show_episode(s, a, folder, &o, &ms, err));
    int goals = args_given(a, "trials") ? (int)args_int(a, "trials") : s->model ? MORE_GOALS : 0;
    firm_status status = goals ? more_goals(s, a, goals, folder, &eval, err) : FIRM_OK;
    if (status == FIRM_OK && eval) status = add_rates(s, eval, j, err);
    cJSON_Delete(eval);
    TRY(status);
    TRY(add_distances(folder, j, err));
    TRY(report_write(&folder, 1, folder, page, err));
    int ok = cJSON_AddStringToObject(j, "task", s->spec->task.name) && add_model(s, j) &&
             cJSON_AddBoolToObject(j, "success", o.success) &&
             cJSON_AddNumberToObject(j, "controls", o.steps) &&
             cJSON_AddNumberToObject(j, "solves", o.solves) &&
             json_add_number(j, "ms_per_solve", ms, 4) &&
             json_add_number(j, "seconds", clock_seconds() - begun, 4) &&
             cJSON_AddStringToObject(j, "page", page);
    return ok ? FIRM_OK : cli_no_memory(err);
}

// The model to plan with; without one, given or shipped, the true simulator serves.
static firm_status find_model(showcase* s, const args* a, char path[1024], firm_error* err) {
    firm_error none;
    s->asked = args_switch(a, "oracle");
    if (s->asked && args_given(a, "model"))
        return FAIL(err, FIRM_E_USAGE, "--oracle plans without a model; leave out --model");
    if (args_given(a, "model"))
        TRY(cli_model_path(a, s->spec, path, err));
    else if (s->asked || cli_shipped_model(s->spec, path, &none) != FIRM_OK)
        return FIRM_OK;
    s->model_path = path;
    return FIRM_OK;
}

static firm_status run(const args* a, firm_error* err) {
    showcase s = {.spec = env_at(0)};
    char model_path[1024], folder[1024];
    if (a->positionals) TRY(cli_task(a, 0, &s.spec, err));
    TRY(env_need_simulator(s.spec, "a demo", err));
    TRY(find_model(&s, a, model_path, err));
    s.offset = args_given(a, "offset") ? (int)args_int(a, "offset") : env_demo_of(s.spec).offset;
    if (args_given(a, "output"))
        snprintf(folder, sizeof folder, "%s", args_text(a, "output"));
    else
        snprintf(folder, sizeof folder, "demo/%s", s.spec->task.name);
    cJSON* j = cJSON_CreateObject();
    firm_status status = j ? present(&s, a, folder, j, err) : cli_no_memory(err);
    close_showcase(&s);
    if (status == FIRM_OK) return cli_finish(a, j, show, err);
    cJSON_Delete(j);
    return status;
}

const cli_command cli_demo = {"demo",
                              "demo [TASK]",
                              "plan to one goal with the shipped model, and leave a page to open",
                              "",
                              options,
                              sizeof options / sizeof *options,
                              0,
                              1,
                              run};
