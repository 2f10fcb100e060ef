// reproduce.c - `firm reproduce`: the whole study by the other commands, one after the other. A
// step whose result is there is skipped, so the study can be stopped and started again at any
// point; training itself resumes at its last checkpoint.
//
//   OUT/TASK/episodes.h5, branches.h5 (Push-T: structured.h5 too), audit.json, params.json
//   OUT/TASK/seed-N/  the run, eval-MODE-OFFSET.json, trace-*.json
//   OUT/report/index.html
#include <string.h>

#include "cli/bench.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/log.h"
#include "nn/device.h"
#include "train/train.h"

enum { MAX_TASKS = 8, MAX_SEEDS = 16, WORD = 1100, MAX_WORDS = 32 };

static const arg_option options[] = {
    {"tasks", 0, ARG_TEXT, 0, 0, NULL, NULL, "a,b", "tasks; all of this build if not given"},
    {"seeds", 0, ARG_TEXT, 0, 0, "1,2,3", NULL, "1,2",
     "training seeds; with --quick the first one only"},
    {"quick", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL, "one seed with the settings TASK-quick"},
    {"output", 'o', ARG_TEXT, 0, 0, "runs/study", NULL, "OUT", "folder of the study"},
    {"episodes", 0, ARG_INT, 10, 10000000, NULL, NULL, "N",
     "episodes to collect; the task's own number if not given"},
    {"trials", 0, ARG_INT, 1, 1000000, "100", NULL, "N", "trials of each evaluation"},
    {"device", 0, ARG_CHOICE, 0, 0, "cpu", "cpu|cuda", NULL, "where to train"},
    {"plan-only", 0, ARG_SWITCH, 0, 0, NULL, NULL, NULL,
     "say what would be done and how long it would take"},
};

typedef struct study {
    const args* a;
    const env_spec* task[MAX_TASKS];
    char seed[MAX_SEEDS][24];
    int tasks, seeds;
    const char* out;
    int done, skipped, gates_missed;
    char missed[256];  // the first gate's sentence
} study;

// A command line under construction, and where its result goes.
typedef struct line {
    char word[MAX_WORDS][WORD];
    int words;
} line;

static void add(line* l, const char* word) {
    CHECK(l->words < MAX_WORDS, "a command of the study has too many words");
    snprintf(l->word[l->words++], WORD, "%s", word);
}

static void add_flag(line* l, const char* flag, const char* value) {
    add(l, flag);
    add(l, value);
}

// settings that hold for every step
static void add_settings(const study* s, const env_spec* spec, line* l) {
    const char* set[ARGS_MAX_VALUES];
    char quick[64];
    int n = args_list(s->a, "set", set);
    if (args_given(s->a, "config")) {
        add_flag(l, "--config", args_text(s->a, "config"));
    } else if (args_switch(s->a, "quick")) {
        snprintf(quick, sizeof quick, "%s-quick", spec->name);
        add_flag(l, "--config", quick);
    }
    for (int i = 0; i < n; i++) add_flag(l, "--set", set[i]);
    add_flag(l, "--threads", args_text(s->a, "threads"));
}

static void note_gate(study* s, const char* sentence) {
    if (!s->gates_missed++) snprintf(s->missed, sizeof s->missed, "%.250s", sentence);
    log_warn("%s", sentence);
}

// A result of an earlier sitting may have missed its gate too.
static firm_status recall(study* s, const char* result, firm_error* err) {
    size_t n = strlen(result);
    if (n < 5 || strcmp(result + n - 5, ".json") != 0) return FIRM_OK;
    cJSON* json;
    TRY(json_read_file(result, &json, err));
    if (cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(json, "pass"))) {
        char sentence[256];
        snprintf(sentence, sizeof sentence, "%.200s records a missed gate", result);
        note_gate(s, sentence);
    }
    cJSON_Delete(json);
    return FIRM_OK;
}

// Runs a command unless `result` is there already; its JSON goes to `save` if given.
static firm_status step(study* s, const line* l, const char* result, const char* save,
                        firm_error* err) {
    if (file_exists(result)) {
        s->skipped++;
        return recall(s, result, err);
    }
    char* argv[MAX_WORDS];
    char text[512] = "firm";
    size_t used = 4;
    for (int i = 0; i < l->words; i++) {
        argv[i] = (char*)l->word[i];
        if (used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, " %s", l->word[i]);
    }
    log_info("%s", text);
    cJSON* json = NULL;
    firm_status status = cli_run(l->words, argv, &json, err);
    if (status == FIRM_E_GATE) {
        // the study goes on, and says at its end what was missed
        note_gate(s, err->message);
        status = FIRM_OK;
    }
    if (status == FIRM_OK && save && json) status = json_write_file(save, json, err);
    cJSON_Delete(json);
    s->done++;
    return status;
}

// ---- what there is to do ------------------------------------------------------------------------

static firm_status read_lists(study* s, firm_error* err) {
    const char *tasks = args_text(s->a, "tasks"), *seeds = args_text(s->a, "seeds");
    if (!tasks)
        for (int i = 0; env_at(i) && s->tasks < MAX_TASKS; i++) s->task[s->tasks++] = env_at(i);
    for (const char* at = tasks ? tasks : ""; *at;) {
        char name[64];
        size_t n = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        if (s->tasks == MAX_TASKS)
            return FAIL(err, FIRM_E_USAGE, "--tasks lists more than %d tasks", MAX_TASKS);
        TRY(env_find_or_fail(name, &s->task[s->tasks++], err));
        at += n + (at[n] == ',');
    }
    for (const char* at = seeds; *at;) {
        size_t n = strcspn(at, ","), digits = strspn(at, "0123456789");
        if (n == 0 || digits != n || n > 15 || s->seeds == MAX_SEEDS)
            return FAIL(err, FIRM_E_USAGE,
                        "--seeds is '%s'; give up to %d whole numbers like 1,2,3", seeds,
                        MAX_SEEDS);
        snprintf(s->seed[s->seeds++], sizeof s->seed[0], "%.*s", (int)n, at);
        at += n + (at[n] == ',');
    }
    if (s->tasks == 0 || s->seeds == 0)
        return FAIL(err, FIRM_E_USAGE, "the list of tasks or seeds is empty");
    if (args_switch(s->a, "quick")) {
        s->seeds = 1;
        for (int i = 0; i < s->tasks; i++) {
            char name[64];
            snprintf(name, sizeof name, "%s-quick", s->task[i]->name);
            if (!args_given(s->a, "config") && !config_builtin(name))
                return FAIL(err, FIRM_E_UNAVAILABLE,
                            "there are no quick settings for %s; run without --quick, or "
                            "give --config",
                            s->task[i]->name);
        }
    }
    return FIRM_OK;
}

// Evaluations of every model: the paper's protocol, then farther goals in both modes.
static const struct {
    const char *mode, *offset, *arms;
} evaluations[] = {
    {"contract", "25", "firm,oracle-config,oracle-dynamics,random"},
    {"reach", "25", "firm,oracle-config,oracle-dynamics"},
    {"contract", "50", "firm,oracle-dynamics"},
    {"reach", "50", "firm,oracle-dynamics"},
};
enum { EVALUATIONS = sizeof evaluations / sizeof *evaluations };

static config* task_settings(const study* s, const env_spec* spec, firm_error* err) {
    line l = {0};
    char* argv[MAX_WORDS];
    args a;
    config* settings;
    add(&l, spec->name);
    add_settings(s, spec, &l);
    for (int i = 0; i < l.words; i++) argv[i] = l.word[i];
    if (args_parse(&a, "reproduce", "reproduce", NULL, 0, 1, 1, l.words, argv, err) != FIRM_OK ||
        cli_settings(&a, spec, NULL, &settings, err) != FIRM_OK)
        return NULL;
    return settings;
}

// Seconds for one task, from speeds measured now on this machine: what training reads of frames and
// recurrent updates, and what the evaluations solve.
static firm_status estimate(const study* s, const env_spec* spec, double* seconds,
                            firm_error* err) {
    config* settings = task_settings(s, spec, err);
    if (!settings) return err->status;
    int threads = (int)args_int(s->a, "threads");
    train_speed speed;
    double contract_ms = 0, reach_ms = 0, training = 0;
    firm_status status =
        train_bench(settings, spec, args_text(s->a, "device"), threads, 1.0, &speed, err);
    if (status == FIRM_OK)
        status =
            bench_solve_ms(spec, NULL, settings, FIRM_MODE_CONTRACT, threads, 1, &contract_ms, err);
    if (status == FIRM_OK)
        status = bench_solve_ms(spec, NULL, settings, FIRM_MODE_REACH, threads, 1, &reach_ms, err);
    const char* name;
    for (int i = 0; status == FIRM_OK && (name = config_member(settings, "stage.*", i)); i++) {
        char section[64];
        snprintf(section, sizeof section, "stage.%s", name);
        double updates = (double)config_int(settings, section, "updates");
        if (strcmp(config_text(settings, section, "objective"), "rollout") == 0)
            training += updates / speed.recurrent_updates_per_s;
        else
            training += updates * (double)config_int(settings, section, "batch") /
                        speed.frontend_frames_per_s;
    }
    config_free(settings);
    double trials = (double)args_int(s->a, "trials"), solving = 0;
    // contract: at most two solves a trial; reach: about one per macro action on the way, so offset
    // / 5; two arms solve through the network at offset 25, one at 50
    solving += trials * (2 + 1) * 2 * contract_ms * 1e-3;
    solving += trials * (2 * 5 + 10) * reach_ms * 1e-3;
    *seconds = s->seeds * (1.2 * training + 1.2 * solving) + 60;
    return status;
}

static void in_words(double seconds, char* out, size_t n) {
    if (seconds < 90)
        snprintf(out, n, "a minute");
    else if (seconds < 5400)
        snprintf(out, n, "%.0f minutes", seconds / 60);
    else
        snprintf(out, n, "%.1f hours", seconds / 3600);
}

// ---- doing it -----------------------------------------------------------------------------------

static firm_status evaluate(study* s, const env_spec* spec, const char* run, const char* data,
                            firm_error* err) {
    for (int i = 0; i < EVALUATIONS; i++) {
        char model[WORD], path[WORD];
        line l = {0};
        snprintf(model, sizeof model, "%.900s/model.safetensors", run);
        snprintf(path, sizeof path, "%.900s/eval-%s-%s.json", run, evaluations[i].mode,
                 evaluations[i].offset);
        add(&l, "eval");
        add(&l, spec->name);
        add_flag(&l, "--model", model);
        add_flag(&l, "--data", data);
        add_flag(&l, "--mode", evaluations[i].mode);
        add_flag(&l, "--offset", evaluations[i].offset);
        add_flag(&l, "--arms", evaluations[i].arms);
        add_flag(&l, "--trials", args_text(s->a, "trials"));
        add_flag(&l, "--threads", args_text(s->a, "threads"));
        if (strcmp(evaluations[i].mode, "reach") == 0) add_flag(&l, "--traces", "1");
        add_flag(&l, "-o", path);
        TRY(step(s, &l, path, NULL, err));
    }
    return FIRM_OK;
}

static firm_status run_task(study* s, const env_spec* spec, firm_error* err) {
    char folder[512], data[WORD], branches[WORD], structured[WORD], audit[WORD], params[WORD];
    snprintf(folder, sizeof folder, "%.400s/%s", s->out, spec->name);
    snprintf(data, sizeof data, "%s/episodes.h5", folder);
    snprintf(branches, sizeof branches, "%s/branches.h5", folder);
    snprintf(structured, sizeof structured, "%s/structured.h5", folder);
    snprintf(audit, sizeof audit, "%s/audit.json", folder);
    snprintf(params, sizeof params, "%s/params.json", folder);
    TRY(file_make_dirs(folder, err));

    line collect = {0}, intervene = {0}, check = {0}, count = {0};
    add(&collect, "collect");
    add(&collect, spec->name);
    add_flag(&collect, "-o", data);
    if (args_given(s->a, "episodes")) add_flag(&collect, "--episodes", args_text(s->a, "episodes"));
    add_flag(&collect, "--threads", args_text(s->a, "threads"));
    TRY(step(s, &collect, data, NULL, err));

    add(&intervene, "intervene");
    add(&intervene, spec->name);
    add_flag(&intervene, "--data", data);
    add_flag(&intervene, "-o", branches);
    add_settings(s, spec, &intervene);
    TRY(step(s, &intervene, branches, NULL, err));
    if (spec->structured) {
        line more = {0};
        add(&more, "intervene");
        add(&more, spec->name);
        add(&more, "--structured");
        add_flag(&more, "--data", data);
        add_flag(&more, "-o", structured);
        add_settings(s, spec, &more);
        TRY(step(s, &more, structured, NULL, err));
    }

    add(&check, "audit");
    add(&check, spec->name);
    add_flag(&check, "--data", data);
    add_settings(s, spec, &check);
    TRY(step(s, &check, audit, audit, err));

    add(&count, "params");
    add(&count, spec->name);
    add_settings(s, spec, &count);
    TRY(step(s, &count, params, params, err));

    for (int i = 0; i < s->seeds; i++) {
        char run[WORD], result[WORD];
        line train = {0};
        snprintf(run, sizeof run, "%s/seed-%s", folder, s->seed[i]);
        snprintf(result, sizeof result, "%.1000s/train.json", run);
        add(&train, "train");
        add(&train, spec->name);
        add_flag(&train, "--data", data);
        add_flag(&train, "--branches", branches);
        if (spec->structured) add_flag(&train, "--structured", structured);
        add_flag(&train, "-o", run);
        add_flag(&train, "--seed", s->seed[i]);
        add_flag(&train, "--device", args_text(s->a, "device"));
        add(&train, "--resume");
        add_settings(s, spec, &train);
        TRY(step(s, &train, result, NULL, err));
        TRY(evaluate(s, spec, run, data, err));
    }
    return FIRM_OK;
}

static firm_status write_page(study* s, char page[1024], firm_error* err) {
    line l = {0};
    char path[WORD];
    char* argv[MAX_WORDS];
    cJSON* json = NULL;
    add(&l, "report");
    for (int i = 0; i < s->tasks; i++) {
        snprintf(path, sizeof path, "%.400s/%s", s->out, s->task[i]->name);
        add(&l, path);
        for (int k = 0; k < s->seeds && l.words < MAX_WORDS - 3; k++) {
            snprintf(path, sizeof path, "%.400s/%s/seed-%s", s->out, s->task[i]->name, s->seed[k]);
            add(&l, path);
        }
    }
    snprintf(path, sizeof path, "%.900s/report", s->out);
    add_flag(&l, "-o", path);
    for (int i = 0; i < l.words; i++) argv[i] = l.word[i];
    TRY(cli_run(l.words, argv, &json, err));
    snprintf(page, 1024, "%s", cJSON_GetObjectItemCaseSensitive(json, "page")->valuestring);
    cJSON_Delete(json);
    return FIRM_OK;
}

static void show(const cJSON* j) {
    const cJSON* page = cJSON_GetObjectItemCaseSensitive(j, "page");
    printf("about %.0f minutes estimated", json_get(j, "estimated_seconds", 0) / 60);
    if (cJSON_IsString(page))
        printf("; %.0f steps done, %.0f were there, %.0f minutes, gates missed: %.0f\n%s\n",
               json_get(j, "done", 0), json_get(j, "skipped", 0), json_get(j, "seconds", 0) / 60,
               json_get(j, "gates_missed", 0), page->valuestring);
    else
        printf("\n");
}

static firm_status run(const args* a, firm_error* err) {
    study s = {.a = a, .out = args_text(a, "output")};
    double begun = clock_seconds(), expected = 0;
    char words[48], page[1024];
    TRY(nn_device_check(args_text(a, "device"), err));
    TRY(read_lists(&s, err));
    for (int i = 0; i < s.tasks; i++) {
        double seconds = 0;
        TRY(estimate(&s, s.task[i], &seconds, err));
        in_words(seconds, words, sizeof words);
        log_info("%s, %d seed%s: about %s on this machine if nothing is there yet", s.task[i]->name,
                 s.seeds, s.seeds == 1 ? "" : "s", words);
        expected += seconds;
    }
    int only = args_switch(a, "plan-only");
    for (int i = 0; i < s.tasks && !only; i++) TRY(run_task(&s, s.task[i], err));
    if (!only) TRY(write_page(&s, page, err));
    cJSON* j = cJSON_CreateObject();
    int ok = j && json_add_number(j, "estimated_seconds", expected, 4) &&
             cJSON_AddNumberToObject(j, "done", s.done) &&
             cJSON_AddNumberToObject(j, "skipped", s.skipped) &&
             cJSON_AddNumberToObject(j, "gates_missed", s.gates_missed) &&
             json_add_number(j, "seconds", clock_seconds() - begun, 5) &&
             (only ? cJSON_AddNullToObject(j, "page") : cJSON_AddStringToObject(j, "page", page));
    if (!ok) {
        cJSON_Delete(j);
        return cli_no_memory(err);
    }
    TRY(cli_finish(a, j, show, err));
    return s.gates_missed ? FAIL(err, FIRM_E_GATE, "%d check%s failed; the first: %s",
                                 s.gates_missed, s.gates_missed == 1 ? "" : "s", s.missed)
                          : FIRM_OK;
}

const cli_command cli_reproduce = {
    "reproduce",
    "reproduce [--tasks a,b --seeds 1,2 --quick -o OUT]",
    "the whole study, resumable",
    "Steps whose result is in OUT are skipped; a stopped training resumes.\n",
    options,
    sizeof options / sizeof *options,
    0,
    0,
    run};
