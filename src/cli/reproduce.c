// reproduce.c - `firm reproduce`: the whole study by the other commands, one after the other or
// several at a time. A step whose result is there is skipped, so the study can be stopped and
// started again at any point; training itself resumes at its last checkpoint. study.h says where
// everything goes.
#include <math.h>
#include <string.h>

#include "cli/study.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/log.h"
#include "nn/device.h"

static const arg_option options[] = {
    {"tasks", 0, ARG_TEXT, 0, 0, NULL, NULL, "a,b", "tasks; all of this build if not given"},
    {"seeds", 0, ARG_TEXT, 0, 0, "1,2,3", NULL, "1,2",
     "training seeds; with --quick the first one only"},
    {"quick", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL,
     "one seed with the settings TASK-quick, no ablations"},
    {"plus", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL,
     "also train and evaluate the settings TASK-plus, where a task has them"},
    {"lewm", 0, ARG_TEXT, 0, 0, NULL, NULL, "DIR",
     "also evaluate LeWM on the same trials: its models are DIR/TASK.safetensors"},
    {"no-ablations", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL,
     "leave out the runs on one source, without fiber and with shuffled outcomes"},
    {"output", 'o', ARG_OUTPUT, 0, 0, "runs/study", NULL, "OUT", "folder of the study"},
    {"episodes", 0, ARG_INT, 10, 10000000, NULL, NULL, "N",
     "episodes to collect; the task's own number if not given"},
    {"trials", 0, ARG_INT, 1, 1000000, "100", NULL, "N", "study trials of each evaluation"},
    {"fresh", 0, ARG_INT, 0, 1000000, "200", NULL, "N",
     "pairs of fresh episodes of each evaluation, none solved at the start; 0: none, as with "
     "--quick"},
    {"near", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL,
     "leave out the farthest goals, as with --quick"},
    {"oracle-minutes", 0, ARG_INT, 0, 1000000, "120", NULL, "N",
     "longest time for a search through the true simulator; longer ones are left out"},
    {"device", 0, ARG_CHOICE, 0, 0, "cpu", "cpu|cuda", NULL, "where to train and plan"},
    {"jobs", 'j', ARG_INT, 1, 64, "1", NULL, "N",
     "steps side by side, as processes that share the threads; worth it with --device cuda"},
    {"plan-only", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL,
     "only print the steps and how long they would take"},
    {"no-estimate", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL,
     "do not measure speeds; search through the true simulator unless --oracle-minutes is 0"},
};

// ---- what there is to do ------------------------------------------------------------------------

const study_ablation* study_ablation_at(const study* s, const env_spec* spec, int i) {
    static const study_ablation list[] = {{"F", "--sources", "F", 0},
                                          {"I", "--sources", "I", 0},
                                          {"no-fiber", "--no-fiber", NULL, 1},
                                          {"mismatch", "--mismatch", NULL, 1}};
    // the paper ablates the sources on two tasks, and the rest on one of them, with one seed
    int count = spec->study ? spec->study->ablations : 0;
    if (args_switch(s->a, "no-ablations") || args_switch(s->a, "quick")) count = 0;
    return i < count ? &list[i] : NULL;
}

const char* study_plus(const study* s, const env_spec* spec) {
    return args_switch(s->a, "plus") && spec->study ? spec->study->plus : NULL;
}

void study_lewm(const study* s, const env_spec* spec, char path[LINE_WORD]) {
    snprintf(path, LINE_WORD, "%.900s/%.50s.safetensors", args_text(s->a, "lewm"), spec->task.name);
}

static firm_status read_tasks(study* s, firm_error* err) {
    const char* tasks = args_text(s->a, "tasks");
    if (!tasks)
        for (int i = 0; env_at(i) && s->tasks < STUDY_TASKS; i++) s->task[s->tasks++] = env_at(i);
    for (const char* at = tasks ? tasks : ""; *at;) {
        char name[64];
        size_t n = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        if (s->tasks == STUDY_TASKS)
            return FAIL(err, FIRM_E_USAGE, "--tasks lists more than %d tasks", STUDY_TASKS);
        TRY(env_find_or_fail(name, &s->task[s->tasks++], err));
        at += n + (at[n] == ',');
    }
    return FIRM_OK;
}

static firm_status read_seeds(study* s, firm_error* err) {
    const char* seeds = args_text(s->a, "seeds");
    for (const char* at = seeds; *at;) {
        size_t n = strcspn(at, ","), digits = strspn(at, "0123456789");
        if (n == 0 || digits != n || n > 15 || s->seeds == STUDY_SEEDS)
            return FAIL(err, FIRM_E_USAGE,
                        "--seeds is '%s'; give up to %d whole numbers like 1,2,3", seeds,
                        STUDY_SEEDS);
        snprintf(s->seed[s->seeds++], sizeof s->seed[0], "%.*s", (int)n, at);
        at += n + (at[n] == ',');
    }
    return FIRM_OK;
}

static firm_status check_settings(study* s, firm_error* err) {
    int plus = 0;
    char name[64];
    for (int i = 0; i < s->tasks; i++) {
        plus += study_plus(s, s->task[i]) != NULL;
        snprintf(name, sizeof name, "%.50s-quick", s->task[i]->task.name);
        if (args_switch(s->a, "quick") && !args_given(s->a, "config") && !config_builtin(name))
            return FAIL(err, FIRM_E_UNAVAILABLE,
                        "there are no quick settings for %s; run without --quick, or "
                        "give --config",
                        s->task[i]->task.name);
    }
    for (int i = 0; args_given(s->a, "lewm") && i < s->tasks; i++) {
        char path[LINE_WORD];
        study_lewm(s, s->task[i], path);
        if (!file_exists(path))
            return FAIL(err, FIRM_E_MISSING,
                        "--lewm: there is no model %s; train it with firm train %s --world lewm, "
                        "or leave the task out",
                        path, s->task[i]->task.name);
    }
    if (args_switch(s->a, "plus") && !plus)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "--plus: none of these tasks has settings TASK-plus; leave it out");
    return FIRM_OK;
}

static firm_status read_lists(study* s, firm_error* err) {
    TRY(read_tasks(s, err));
    TRY(read_seeds(s, err));
    if (s->tasks == 0 || s->seeds == 0)
        return FAIL(err, FIRM_E_USAGE, "the list of tasks or seeds is empty");
    if (args_switch(s->a, "quick")) s->seeds = 1;
    return check_settings(s, err);
}

// ---- doing it -----------------------------------------------------------------------------------

// "time: train 9:31, eval 3:10, collect 0:41"
static void show_seconds(const cJSON* by_command) {
    const cJSON* c;
    cJSON_ArrayForEach(c, by_command)
        printf("%s %s %d:%02d", c == by_command->child ? "time:" : ",", c->string,
               (int)c->valuedouble / 60, (int)c->valuedouble % 60);
    if (by_command && by_command->child) printf("\n");
}

static void show(const cJSON* j) {
    const cJSON* page = cJSON_GetObjectItemCaseSensitive(j, "page");
    double expected = json_get(j, "estimated_seconds", NAN);
    if (!isnan(expected)) printf("%.0f min were estimated for all steps; ", ceil(expected / 60));
    show_seconds(cJSON_GetObjectItemCaseSensitive(j, "command_seconds"));
    if (cJSON_IsString(page))
        printf("steps: %.0f done, %.0f were there; %.0f min; gates missed: %.0f\n%s\n",
               json_get(j, "done", 0), json_get(j, "skipped", 0), json_get(j, "seconds", 0) / 60,
               json_get(j, "gates_missed", 0), page->valuestring);
    else
        printf("%d steps planned\n",
               cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(j, "steps")));
}

static firm_status run_all(study* s, char page[1024], firm_error* err) {
    snprintf(s->threads, sizeof s->threads, "%s", args_text(s->a, "threads"));
    if (!s->only_say) {
        TRY(file_make_dirs(s->out, err));
        TRY(file_lock_folder(s->out, "study", &s->lock, err));
    }
    for (int i = 0; i < s->tasks; i++) TRY(study_estimate(s, i, err));
    for (int i = 0; i < s->tasks; i++) TRY(study_add_task(s, i, err));
    TRY(study_chains_run(s, err));
    return s->only_say ? FIRM_OK : study_report(s, page, err);
}

// Takes over s->steps and s->step_seconds.
static cJSON* result(study* s, double seconds, const char* page) {
    double expected = s->unmeasured ? NAN : s->seconds_there + s->seconds_left;
    cJSON *j = cJSON_CreateObject(), *by_command = study_seconds(s);
    int ok = j && json_add_number(j, "estimated_seconds", expected, 4) &&
             cJSON_AddNumberToObject(j, "done", s->done) &&
             cJSON_AddNumberToObject(j, "skipped", s->skipped) &&
             cJSON_AddNumberToObject(j, "gates_missed", s->gates_missed) &&
             json_add_number(j, "seconds", seconds, 5) &&
             (s->only_say ? cJSON_AddNullToObject(j, "page")
                          : cJSON_AddStringToObject(j, "page", page)) &&
             cJSON_AddNumberToObject(j, "jobs", args_int(s->a, "jobs")) && by_command;
    if (ok && (ok = cJSON_AddItemToObject(j, "command_seconds", by_command))) by_command = NULL;
    ok = ok && cJSON_AddItemToObject(j, "steps", s->steps);
    if (ok) s->steps = NULL;
    ok = ok && (s->only_say || cJSON_AddItemToObject(j, "step_seconds", s->step_seconds));
    if (ok && !s->only_say) s->step_seconds = NULL;
    cJSON_Delete(by_command);
    cJSON_Delete(s->steps);
    cJSON_Delete(s->step_seconds);
    if (ok) return j;
    cJSON_Delete(j);
    return NULL;
}

static firm_status run(const args* a, firm_error* err) {
    static study s;  // too large for the stack
    s = (study){.a = a,
                .out = args_text(a, "output"),
                .only_say = args_switch(a, "plan-only"),
                .unmeasured = args_switch(a, "no-estimate"),
                .lock = -1};
    double begun = clock_seconds();
    char page[1024] = "";
    TRY(nn_device_check(args_text(a, "device"), err));
    TRY(read_lists(&s, err));
    s.steps = cJSON_CreateArray();
    s.step_seconds = cJSON_CreateArray();
    firm_status status = s.steps && s.step_seconds ? run_all(&s, page, err) : cli_no_memory(err);
    study_chains_free(&s);
    file_unlock(s.lock);
    if (status != FIRM_OK) {
        cJSON_Delete(s.steps);
        cJSON_Delete(s.step_seconds);
        return status;
    }
    TRY(cli_finish(a, result(&s, clock_seconds() - begun, page), show, err));
    return s.gates_missed ? FAIL(err, FIRM_E_GATE, "%d check%s failed; the first: %s",
                                 s.gates_missed, s.gates_missed == 1 ? "" : "s", s.missed)
                          : FIRM_OK;
}

const cli_command cli_reproduce = {
    "reproduce",
    "reproduce [--tasks a,b --seeds 1,2 --quick --plus -o OUT]",
    "run the whole study; a stopped one continues",
    "It skips steps whose result is in OUT and resumes a stopped training.\n",
    options,
    sizeof options / sizeof *options,
    0,
    0,
    run};
