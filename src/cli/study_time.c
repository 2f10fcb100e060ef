// study_time.c - how long a study will take on this machine: speeds are measured for a second or
// two each, kept in the study's folder, and counted up as the steps will use them.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/study.h"
#include "core/file.h"
#include "core/log.h"
#include "eval/settings.h"
#include "train/train.h"

typedef struct speeds {
    train_speed train;
    double contract_ms, reach_ms;  // of a solve
    double steps_per_s;            // of the simulator
} speeds;

static firm_status read_settings(const study* s, const env_spec* spec, const char* name,
                                 config** out, firm_error* err) {
    static line l;
    char* argv[LINE_WORDS];
    args a;
    l.words = 0;
    line_add(&l, spec->task.name);
    line_settings(s, spec, name, &l);
    for (int i = 0; i < l.words; i++) argv[i] = l.word[i];
    TRY(args_parse(&a, "reproduce", "reproduce", NULL, 0, 1, 1, l.words, argv, err));
    return cli_settings(&a, &spec->task, NULL, out, err);
}

// Controls of the simulator, all threads together.
static firm_status measure_steps(const study* s, const env_spec* spec, double* per_s,
                                 firm_error* err) {
    char* argv[] = {"bench", "env",       (char*)spec->task.name,           "--seconds",
                    "0.5",   "--threads", (char*)args_text(s->a, "threads")};
    cJSON* json = NULL;
    TRY(cli_run(sizeof argv / sizeof *argv, argv, &json, err));
    *per_s = json_get(json, "steps_per_s", 1);
    cJSON_Delete(json);
    return FIRM_OK;
}

static firm_status measure(const study* s, const env_spec* spec, const config* settings, speeds* v,
                           firm_error* err) {
    const char* device = args_text(s->a, "device");
    firm_controller_params p = firm_controller_params_default();
    p.threads = (int)args_int(s->a, "threads");
    int solves = 1;
    if (strcmp(device, "cuda") == 0) {
        p.device = FIRM_DEVICE_CUDA;
        p.precision = FIRM_PRECISION_TF32;
        solves = 3;  // the first one loads the kernels
    }
    TRY(train_bench(settings, spec, device, p.threads, 1.0, &v->train, err));
    TRY(measure_steps(s, spec, &v->steps_per_s, err));
    p.mode = FIRM_MODE_CONTRACT;
    TRY(bench_solve_ms(spec, NULL, settings, &p, solves, &v->contract_ms, err));
    p.mode = FIRM_MODE_REACH;
    return bench_solve_ms(spec, NULL, settings, &p, solves, &v->reach_ms, err);
}

// ---- speeds of an earlier sitting ----

static const char* const speed_names[] = {"frontend_frames_per_s",
                                          "recurrent_updates_per_s",
                                          "episodes_per_s",
                                          "frontend_batch",
                                          "recurrent_batch",
                                          "contract_ms",
                                          "reach_ms",
                                          "steps_per_s"};
enum { SPEEDS = sizeof speed_names / sizeof *speed_names };

static void speeds_list(const speeds* v, double out[SPEEDS]) {
    const double list[SPEEDS] = {v->train.frontend_frames_per_s,
                                 v->train.recurrent_updates_per_s,
                                 v->train.episodes_per_s,
                                 v->train.frontend_batch,
                                 v->train.recurrent_batch,
                                 v->contract_ms,
                                 v->reach_ms,
                                 v->steps_per_s};
    memcpy(out, list, sizeof list);
}

// What the speeds are of: the settings, the device and the threads.
static void speeds_of(const study* s, const config* settings, char out[96]) {
    snprintf(out, 96, "%016" PRIx64 " %.20s %.20s", config_hash(settings),
             args_text(s->a, "device"), args_text(s->a, "threads"));
}

static void speeds_path(const study* s, char out[LINE_WORD]) {
    snprintf(out, LINE_WORD, "%.1000s/speeds.json", s->out);
}

// Returns 0 where there are none of these settings; a file that cannot be used is made anew.
static int recall_speeds(const study* s, const env_spec* spec, const config* settings, speeds* v) {
    char path[LINE_WORD], of[96];
    cJSON* json = NULL;
    firm_error why;
    double list[SPEEDS];
    speeds_path(s, path);
    speeds_of(s, settings, of);
    if (!file_exists(path)) return 0;
    if (json_read_file(path, &json, &why) != FIRM_OK) {
        log_info("speeds are measured again: %s", why.message);
        return 0;
    }
    const cJSON* task = cJSON_GetObjectItemCaseSensitive(json, spec->task.name);
    const cJSON* text = cJSON_GetObjectItemCaseSensitive(task, "of");
    int found = cJSON_IsString(text) && strcmp(text->valuestring, of) == 0;
    for (int i = 0; i < SPEEDS && found; i++) {
        list[i] = json_get(task, speed_names[i], NAN);
        found = list[i] > 0 && list[i] < 1e9;
    }
    cJSON_Delete(json);
    if (!found) return 0;
    *v = (speeds){.train = {.frontend_frames_per_s = list[0],
                            .recurrent_updates_per_s = list[1],
                            .episodes_per_s = list[2],
                            .frontend_batch = (int)list[3],
                            .recurrent_batch = (int)list[4]},
                  .contract_ms = list[5],
                  .reach_ms = list[6],
                  .steps_per_s = list[7]};
    return 1;
}

static firm_status keep_speeds(const study* s, const env_spec* spec, const config* settings,
                               const speeds* v, firm_error* err) {
    char path[LINE_WORD], of[96];
    cJSON *json = NULL, *task = cJSON_CreateObject();
    firm_error none;
    double list[SPEEDS];
    speeds_path(s, path);
    speeds_of(s, settings, of);
    speeds_list(v, list);
    if (!file_exists(path) || json_read_file(path, &json, &none) != FIRM_OK ||
        !cJSON_IsObject(json)) {
        cJSON_Delete(json);
        json = cJSON_CreateObject();
    }
    int ok = json && task && cJSON_AddStringToObject(task, "of", of);
    for (int i = 0; i < SPEEDS && ok; i++)
        ok = json_add_number(task, speed_names[i], list[i], 6) != NULL;
    cJSON_DeleteItemFromObjectCaseSensitive(json, spec->task.name);
    ok = ok && cJSON_AddItemToObject(json, spec->task.name, task);
    if (!ok) cJSON_Delete(task);
    firm_status status = ok ? json_write_file(path, json, err) : cli_no_memory(err);
    cJSON_Delete(json);
    return status;
}

static firm_status find_speeds(const study* s, const env_spec* spec, const config* settings,
                               speeds* v, firm_error* err) {
    if (recall_speeds(s, spec, settings, v)) return FIRM_OK;
    TRY(measure(s, spec, settings, v, err));
    return s->only_say ? FIRM_OK : keep_speeds(s, spec, settings, v, err);
}

// ---- seconds ----

// Samples of an update; a source without a batch of its own has that of the stage.
static double samples(const config* settings, const char* section) {
    const char* sources = config_text(settings, section, "sources");
    double f = (double)config_int(settings, section, "batch"), sum = 0;
    double i = (double)config_int(settings, section, "batch_i");
    double s = (double)config_int(settings, section, "batch_s");
    for (; *sources; sources++)
        sum += *sources == 'I' && i > 0 ? i : *sources == 'S' && s > 0 ? s : f;
    return sum;
}

// All stages: pairs of frames through the frontend, or rollouts.
static double training_seconds(const config* settings, const train_speed* speed) {
    double sum = 0, rollouts_per_s = speed->recurrent_updates_per_s * speed->recurrent_batch;
    const char* name;
    for (int i = 0; (name = config_member(settings, "stage.*", i)); i++) {
        char section[64];
        snprintf(section, sizeof section, "stage.%s", name);
        double n = samples(settings, section) * (double)config_int(settings, section, "updates");
        int rollout = strcmp(config_text(settings, section, "objective"), "rollout") == 0;
        sum += rollout ? n / rollouts_per_s : 2 * n / speed->frontend_frames_per_s;
    }
    return sum;
}

// Solves of a trial: contract needs one or two, reach about one per macro action on the way.
static double solves(int reach, double offset) {
    return reach ? offset / 5 : 0.9 + 0.012 * offset;
}

static double oracle_seconds(const config* settings, double trials, const speeds* v) {
    double steps = 0;
    for (int m = 0; m < 2; m++) {
        plan_options o;
        settings_plan(settings, m ? FIRM_MODE_REACH : FIRM_MODE_CONTRACT, &o);
        steps += (m ? 5 : 1.2) * 5.0 * o.candidates * o.iterations * o.horizon;
    }
    return trials * steps / v->steps_per_s;
}

// Of all searches for interventions: two from a moment, 25 controls ahead.
static double searching_steps(const config* settings) {
    return 2.0 * 25 * (double)config_int(settings, "intervene", "searched") *
           (double)config_int(settings, "intervene", "searched_candidates") *
           (double)config_int(settings, "intervene", "searched_iterations");
}

// One search of every trial, and so on. Unmeasured: what a study mostly looks like.
static study_costs costs_of(const study* s, const env_spec* spec, const config* settings,
                            const speeds* v) {
    if (s->unmeasured)
        return (study_costs){.collect = 10,
                             .train = 300,
                             .contract = 20,
                             .reach = 5,
                             .oracle = 100,
                             .attempts = 20,
                             .searched = 20,
                             .other = 5};
    double trials = (double)args_int(s->a, "trials");
    double episodes = args_given(s->a, "episodes") ? (double)args_int(s->a, "episodes")
                                                   : (double)spec->collection->episodes;
    return (study_costs){
        .collect = episodes / v->train.episodes_per_s,
        .train = 1.2 * training_seconds(settings, &v->train),
        .contract = 1.2e-3 * trials * v->contract_ms,
        .reach = 1.2e-3 * trials * v->reach_ms,
        .oracle = oracle_seconds(settings, study_fresh(s), v),
        .attempts = 2.4e-3 * v->contract_ms * (double)config_int(settings, "intervene", "attempts"),
        .searched = searching_steps(settings) / v->steps_per_s,
        .other = 5};
}

static const char* word_after(const line* l, const char* flag) {
    for (int i = 0; i + 1 < l->words; i++)
        if (strcmp(l->word[i], flag) == 0) return l->word[i + 1];
    return "";
}

static int line_has(const line* l, const char* flag) {
    for (int i = 0; i < l->words; i++)
        if (strcmp(l->word[i], flag) == 0) return 1;
    return 0;
}

double study_cost(const study* s, const line* l) {
    const study_costs* c = &s->cost[s->adding][s->adding_plus];
    const char* command = l->word[0];
    if (strcmp(command, "collect") == 0) return c->collect;
    if (strcmp(command, "train") == 0) return c->train;
    if (strcmp(command, "intervene") == 0 && line_has(l, "--attempts")) return c->attempts;
    if (strcmp(command, "intervene") == 0 && line_has(l, "--searched")) return c->searched;
    if (strcmp(command, "eval") != 0) return c->other;
    const char *arms = word_after(l, "--arms"), *file = word_after(l, "--trials-file");
    const char* offset = strrchr(file, '-');
    const int reach = strcmp(word_after(l, "--mode"), "reach") == 0;
    if (strstr(arms, "oracle-dynamics")) return c->oracle / 2;  // two modes
    double n = solves(reach, offset ? strtod(offset + 1, NULL) : 25) * (strchr(arms, ',') ? 2 : 1);
    if (strstr(file, "/fresh-")) n *= study_fresh(s) / (double)args_int(s->a, "trials");
    if (strstr(word_after(l, "--model"), "/ensemble-")) n *= 1 + s->members[s->adding];
    return n * (reach ? c->reach : c->contract);
}

static int can_pack(const config* settings) {
    return config_int(settings, "train", "frame_pool") > 0;
}

// The study's own settings: every seed and ablation, and the true simulator where there is time.
static void add_main(study* s, int task, const config* settings, const speeds* v) {
    const env_spec* spec = s->task[task];
    double limit = 60.0 * (double)args_int(s->a, "oracle-minutes");
    double oracle = oracle_seconds(settings, study_fresh(s), v);
    int ablations = 0;  // trainings
    const study_ablation* a;
    for (int i = 0; (a = study_ablation_at(s, spec, i)); i++) ablations += a->once ? 1 : s->seeds;
    s->packed[task][0] = can_pack(settings) && s->seeds + ablations > 1;
    s->cost[task][0] = costs_of(s, spec, settings, v);
    s->oracle[task] = s->unmeasured ? limit > 0 : oracle <= limit;
    if (!s->oracle[task] && !s->unmeasured)
        log_info(
            "%s: search through the true simulator would take %.0f minutes and is left out; "
            "--oracle-minutes allows more",
            spec->task.name, oracle / 60);
}

// TASK-plus: same shapes, so the speeds are the same. With attempts every seed is trained twice.
static firm_status add_plus(study* s, int task, const char* name, const speeds* v,
                            firm_error* err) {
    config* settings;
    TRY(read_settings(s, s->task[task], name, &settings, err));
    s->attempts[task] = (int)config_int(settings, "intervene", "attempts");
    if (s->attempts[task]) s->searched[task] = (int)config_int(settings, "intervene", "searched");
    snprintf(s->anew[task], sizeof s->anew[task], "%s",
             config_text(settings, "intervene", "attempts_from"));
    s->members[task] = (int)config_int(settings, "ensemble", "members");
    snprintf(s->apart[task], sizeof s->apart[task], "%s",
             config_text(settings, "ensemble", "from"));
    const int alike = s->seeds * (s->attempts[task] ? 1 : 1 + s->members[task]);  // what they read
    s->packed[task][1] = can_pack(settings) && alike > 1;
    s->cost[task][1] = costs_of(s, s->task[task], settings, v);
    config_free(settings);
    return FIRM_OK;
}

firm_status study_estimate(study* s, int task, firm_error* err) {
    const char* plus = study_plus(s, s->task[task]);
    config* settings;
    speeds v = {0};
    TRY(read_settings(s, s->task[task], NULL, &settings, err));
    // unmeasured, everything takes no time: what there is to do is found out all the same
    if (s->unmeasured)
        v = (speeds){.train = {.frontend_frames_per_s = INFINITY,
                               .recurrent_updates_per_s = INFINITY,
                               .episodes_per_s = INFINITY,
                               .frontend_batch = 1,
                               .recurrent_batch = 1},
                     .steps_per_s = INFINITY};
    firm_status status = s->unmeasured ? FIRM_OK : find_speeds(s, s->task[task], settings, &v, err);
    if (status == FIRM_OK) add_main(s, task, settings, &v);
    config_free(settings);
    TRY(status);
    return plus ? add_plus(s, task, plus, &v, err) : FIRM_OK;
}
