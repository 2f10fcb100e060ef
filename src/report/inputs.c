// inputs.c - finds the files of each run, reads them and checks the keys that the page will use. A
// file that is damaged or of another kind is refused here with its name, never half shown.
#define _POSIX_C_SOURCE 200809L  // opendir, stat
#include "report/inputs.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/file.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/text.h"
#include "io/json.h"
#include "report/names.h"

enum { MOST_SETTINGS = 1 << 20 };  // bytes of a config.ini; ours have a few thousand

void* report_append(void* array_pointer, int* count, size_t item_size) {
    char** array = array_pointer;
    size_t bytes = (size_t)*count * item_size;
    char* grown = mem_realloc(*array, bytes, bytes + item_size);
    if (!grown) return NULL;
    *array = grown;
    *count += 1;
    return memset(grown + bytes, 0, item_size);
}

double report_get(const cJSON* object, const char* key) {
    const cJSON* v = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(v) && isfinite(v->valuedouble) ? v->valuedouble : NAN;
}

const char* report_text(const cJSON* object, const char* key) {
    const cJSON* v = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(v) ? v->valuestring : "";
}

static int all_numbers(const cJSON* array) {
    const cJSON* v;
    if (!cJSON_IsArray(array) || !array->child) return 0;
    cJSON_ArrayForEach(v, array) {
        if (!cJSON_IsNumber(v) || !isfinite(v->valuedouble)) return 0;
    }
    return 1;
}

const cJSON* report_series(const cJSON* json, const char* key) {
    const cJSON* gates = cJSON_GetObjectItemCaseSensitive(json, "gates");
    const cJSON* v = cJSON_GetObjectItemCaseSensitive(gates, key);
    if (!v) v = cJSON_GetObjectItemCaseSensitive(json, key);
    return all_numbers(v) ? v : NULL;
}

static int has(const cJSON* json, const char* key) {
    return cJSON_GetObjectItemCaseSensitive(json, key) != NULL;
}

// ---- checks of each kind ------------------------------------------------------------------------

static firm_status bad(const report_doc* d, firm_error* err, const char* what) {
    return FAIL(err, FIRM_E_FORMAT, "%s: %s; make the file again or leave it out of the report",
                d->path, what);
}

static firm_status check_eval(const report_doc* d, firm_error* err) {
    const cJSON* arms = cJSON_GetObjectItemCaseSensitive(d->json, "arms");
    if (!report_text(d->json, "mode")[0]) return bad(d, err, "an evaluation needs the text 'mode'");
    double offset = report_get(d->json, "offset");
    if (!(offset >= 0 && offset < 1e9))
        return bad(d, err, "an evaluation needs the number 'offset'");
    if (!cJSON_IsObject(arms) || !arms->child)
        return bad(d, err, "an evaluation needs the object 'arms'");
    const cJSON* arm;
    cJSON_ArrayForEach(arm, arms) {
        double rate = report_get(arm, "success_rate");
        if (!(rate >= 0 && rate <= 100))
            return bad(d, err, "an arm has no 'success_rate' within 0 to 100");
        const cJSON* ci = cJSON_GetObjectItemCaseSensitive(arm, "ci95");
        if (ci && !cJSON_IsNull(ci) && !(all_numbers(ci) && cJSON_GetArraySize(ci) == 2)) {
            return bad(d, err, "an arm's 'ci95' is not a pair of numbers");
        }
        const cJSON* outcomes = cJSON_GetObjectItemCaseSensitive(arm, "outcomes");
        if (outcomes && !cJSON_IsNull(outcomes) && !cJSON_IsArray(outcomes)) {
            return bad(d, err, "an arm's 'outcomes' is not a list");
        }
        const cJSON* o;
        cJSON_ArrayForEach(o, outcomes) {
            if (!cJSON_IsBool(o) && !cJSON_IsNumber(o)) {
                return bad(
                    d, err,
                    "an arm's 'outcomes' holds something that is neither number nor true/false");
            }
        }
    }
    const cJSON *pairs = cJSON_GetObjectItemCaseSensitive(d->json, "pairs"), *p;
    if (pairs && !cJSON_IsArray(pairs)) return bad(d, err, "'pairs' is not a list");
    cJSON_ArrayForEach(p, pairs) {
        if (!report_text(p, "a")[0] || !report_text(p, "b")[0] ||
            isnan(report_get(p, "difference"))) {
            return bad(d, err, "a pair needs 'a', 'b' and 'difference'");
        }
    }
    return FIRM_OK;
}

static firm_status check_train(const report_doc* d, firm_error* err) {
    const cJSON *stages = cJSON_GetObjectItemCaseSensitive(d->json, "stages"), *s;
    if (!cJSON_IsArray(stages)) return bad(d, err, "a training record needs the list 'stages'");
    cJSON_ArrayForEach(s, stages) {
        if (!report_text(s, "name")[0]) return bad(d, err, "a training stage has no 'name'");
    }
    return FIRM_OK;
}

static firm_status check_params(const report_doc* d, firm_error* err) {
    const cJSON *tasks = cJSON_GetObjectItemCaseSensitive(d->json, "tasks"), *t, *m;
    if (!cJSON_IsObject(tasks)) return bad(d, err, "a parameter table needs the object 'tasks'");
    cJSON_ArrayForEach(t, tasks) {
        cJSON_ArrayForEach(m, t) {
            if (isnan(report_get(m, "params"))) return bad(d, err, "a module has no 'params'");
        }
    }
    return FIRM_OK;
}

// The kind is read from the keys, so that a file keeps its meaning under any name.
static firm_status classify(report_doc* d, firm_error* err) {
    const cJSON* j = d->json;
    if (!cJSON_IsObject(j)) return bad(d, err, "this is not a JSON object");
    if (has(j, "frames")) {
        d->kind = DOC_TRACE;
    } else if (has(j, "arms")) {
        d->kind = DOC_EVAL;
    } else if (has(j, "stages")) {
        d->kind = DOC_TRAIN;
    } else if (has(j, "tasks")) {
        d->kind = DOC_PARAMS;
        return check_params(d, err);
    } else if (has(j, "h5_mean")) {
        d->kind = DOC_AUDIT;
    } else if (has(j, "within_tolerances")) {
        d->kind = DOC_DESCRIBE;
    } else if (has(j, "held_out_segments")) {
        d->kind = DOC_HELD_OUT;
    } else if (has(j, "ms_per_solve") || has(j, "steps_per_s") || has(j, "frames_per_s") ||
               has(j, "frontend_frames_per_s") || has(j, "ms_per_update")) {
        d->kind = DOC_BENCH;
    } else if (has(j, "clips") && has(j, "updates")) {
        d->kind = DOC_LEWM;
    } else {
        return bad(
            d, err,
            "these are not the keys of train, eval, bench, audit, params, describe or a trace");
    }
    if (!report_text(j, "task")[0]) return bad(d, err, "the text 'task' is missing");
    if (d->kind == DOC_EVAL) return check_eval(d, err);
    if (d->kind == DOC_TRAIN) return check_train(d, err);
    return FIRM_OK;  // traces are checked picture by picture in trace.c
}

// ---- finding the files --------------------------------------------------------------------------

static firm_status new_run(report_data* data, const char* path, int* index, firm_error* err) {
    report_run* r = report_append(&data->runs, &data->run_count, sizeof *r);
    if (!r) return FAIL(err, FIRM_E_MEMORY, "out of memory while reading %s", path);
    r->seed = -1;
    r->variant = r->task = "";
    snprintf(r->path, sizeof r->path, "%s", path);
    for (size_t n = strlen(r->path); n > 1 && r->path[n - 1] == '/';) r->path[--n] = 0;
    const char* slash = strrchr(r->path, '/');
    snprintf(r->name, sizeof r->name, "%.127s", slash && slash[1] ? slash + 1 : r->path);
    *index = data->run_count - 1;
    return FIRM_OK;
}

// In a flat folder files of many runs lie side by side: those with the same name in the middle make
// a run of their own.
static firm_status sort_flat(report_data* data, firm_error* err) {
    report_doc* d = &data->docs[data->doc_count - 1];
    result_name name;
    if (d->kind == DOC_TRACE || d->kind == DOC_BENCH || d->kind == DOC_PARAMS ||
        !names_of_file(d->name, report_text(d->json, "task"), &name))
        return FIRM_OK;
    char folder[1024];
    memcpy(folder, data->runs[d->run].path, sizeof folder);
    int run = -1;
    for (int i = 0; i < data->run_count && run < 0; i++)
        if (!strcmp(data->runs[i].name, name.run) && !strcmp(data->runs[i].path, folder)) run = i;
    if (run < 0) {
        TRY(new_run(data, folder, &run, err));
        snprintf(data->runs[run].name, sizeof data->runs[run].name, "%s", name.run);
        memcpy(data->runs[run].edition, name.edition, sizeof name.edition);
        data->runs[run].variant = name.variant;
        data->runs[run].seed = name.seed;
    }
    d->run = run;
    return FIRM_OK;
}

// A document that `path` holds under the name of the file `file`; json is taken over.
static firm_status add_doc(report_data* data, int run, const char* path, const char* file,
                           cJSON* json, firm_error* err) {
    report_doc* d = report_append(&data->docs, &data->doc_count, sizeof *d);
    if (!d) {
        cJSON_Delete(json);
        return FAIL(err, FIRM_E_MEMORY, "out of memory while reading %s", path);
    }
    d->run = run;
    d->json = json;
    snprintf(d->path, sizeof d->path, "%s", path);
    snprintf(d->name, sizeof d->name, "%s", file);
    char* dot = strrchr(d->name, '.');
    if (dot && dot != d->name) *dot = 0;
    TRY(classify(d, err));
    return sort_flat(data, err);
}

static firm_status add_json(report_data* data, int run, const char* path, firm_error* err) {
    const char* slash = strrchr(path, '/');
    cJSON* json;
    TRY(json_read_file(path, &json, err));
    return add_doc(data, run, path, slash ? slash + 1 : path, json, err);
}

static int wanted_json(const char* name) {
    static const char* const starts[] = {"train", "eval",   "trace",   "bench",
                                         "audit", "params", "describe"};
    size_t n = strlen(name);
    if (n < 6 || strcmp(name + n - 5, ".json") != 0) return 0;
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        size_t k = strlen(starts[i]);
        if (strncmp(name, starts[i], k) == 0 && (name[k] == '-' || name[k] == '.')) return 1;
    }
    return 0;
}

// ---- many results in one file -------------------------------------------------------------------

static int is_lines(const char* name) {
    size_t n = strlen(name);
    return n > 14 && strncmp(name, "results-", 8) == 0 && strcmp(name + n - 6, ".jsonl") == 0;
}

static firm_status add_line(report_data* data, int run, const char* path, cJSON* line,
                            firm_error* err) {
    char file[128];
    cJSON* result = cJSON_DetachItemFromObjectCaseSensitive(line, "result");
    snprintf(file, sizeof file, "%s", report_text(line, "file"));
    if (result && wanted_json(file)) return add_doc(data, run, path, file, result, err);
    cJSON_Delete(result);
    return FAIL(err, FIRM_E_FORMAT,
                "a line of %s is not {\"file\": the name of a result, \"result\": ..}; make it "
                "again with firm report --lines",
                path);
}

// A name that two lines share: one of them would count twice in every table.
static const char* shared_name(const cJSON* lines) {
    const cJSON* line;
    cJSON_ArrayForEach(line, lines) {
        const char* file = report_text(line, "file");
        for (const cJSON* other = line->next; other; other = other->next)
            if (strcmp(report_text(other, "file"), file) == 0) return file;
    }
    return NULL;
}

static firm_status add_lines(report_data* data, int run, const char* path, firm_error* err) {
    cJSON *lines, *line;
    firm_status status = FIRM_OK;
    TRY(json_read_lines(path, &lines, err));
    const char* twice = shared_name(lines);
    if (twice)
        status =
            FAIL(err, FIRM_E_FORMAT, "%s has two lines of %.100s; leave one of them", path, twice);
    for (line = status == FIRM_OK ? lines->child : NULL; line; line = line->next) {
        status = add_line(data, run, path, line, err);
        if (status != FIRM_OK) break;
    }
    cJSON_Delete(lines);
    return status;
}

static int by_text(const void* a, const void* b) {
    return strcmp(*(char* const*)a, *(char* const*)b);
}

static firm_status join(char* out, size_t room, const char* a, const char* b, firm_error* err) {
    int n = snprintf(out, room, "%s/%s", a, b);
    if (n < 0 || (size_t)n >= room)
        return FAIL(err, FIRM_E_USAGE, "the path %s/%s is too long; use a shorter one", a, b);
    return FIRM_OK;
}

// Names in a folder that belong to a run, sorted so that the page does not depend on the file
// system.
static firm_status list_folder(const char* path, char*** names, int* count, firm_error* err) {
    DIR* dir = opendir(path);
    if (!dir)
        return FAIL(err, FIRM_E_IO, "the folder %s cannot be opened; check its permissions", path);
    firm_status status = FIRM_OK;
    for (struct dirent* e; status == FIRM_OK && (e = readdir(dir));) {
        if (!wanted_json(e->d_name) && !is_lines(e->d_name) && strcmp(e->d_name, "metrics.csv") &&
            strcmp(e->d_name, "config.ini") && !names_study_folder(e->d_name))
            continue;
        char** slot = report_append(names, count, sizeof *slot);
        if (slot) *slot = mem_strdup(e->d_name);
        if (!slot || !*slot)
            status = FAIL(err, FIRM_E_MEMORY, "out of memory while listing %s", path);
    }
    closedir(dir);
    if (status == FIRM_OK && *count) qsort(*names, (size_t)*count, sizeof **names, by_text);
    return status;
}

static firm_status add_config(report_data* data, int run, const char* file, firm_error* err) {
    size_t n = 0;
    TRY(file_read_most(file, MOST_SETTINGS, &data->runs[run].config, &n, err));
    data->runs[run].config_hash = rng_hash_text(data->runs[run].config);
    return FIRM_OK;
}

static firm_status add_metrics(report_data* data, int run, const char* file, firm_error* err) {
    report_metrics* m = report_append(&data->metrics, &data->metrics_count, sizeof *m);
    if (!m) return FAIL(err, FIRM_E_MEMORY, "out of memory while reading %s", file);
    return report_metrics_read(file, run, m, err);
}

static int is_folder(const char* path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static firm_status add_folder(report_data* data, int run, const char* path, int depth,
                              firm_error* err);

static firm_status add_file(report_data* data, int run, const char* folder, const char* name,
                            int depth, firm_error* err) {
    char file[1024];
    int within;
    TRY(join(file, sizeof file, folder, name, err));
    if (names_study_folder(name)) {
        if (depth == 3 || !is_folder(file)) return FIRM_OK;
        TRY(new_run(data, file, &within, err));
        return add_folder(data, within, file, depth + 1, err);
    }
    if (is_lines(name)) return add_lines(data, run, file, err);
    if (strcmp(name, "config.ini") == 0) return add_config(data, run, file, err);
    if (strcmp(name, "metrics.csv") == 0) return add_metrics(data, run, file, err);
    return add_json(data, run, file, err);
}

// depth: 0 for an input, 1 for TASK, 2 for TASK/seed-N and 3 for TASK-plus/ensemble-N/member-K
// below it.
static firm_status add_folder(report_data* data, int run, const char* path, int depth,
                              firm_error* err) {
    char** names = NULL;
    int count = 0;
    firm_status status = list_folder(path, &names, &count, err);
    for (int i = 0; i < count && status == FIRM_OK; i++)
        status = add_file(data, run, path, names[i], depth, err);
    for (int i = 0; i < count; i++) mem_free(names[i]);
    mem_free(names);
    return status;
}

static firm_status add_input(report_data* data, const char* path, firm_error* err) {
    struct stat s;
    int run;
    if (!path || !path[0])
        return FAIL(err, FIRM_E_USAGE,
                    "an input of the report is empty; give run folders or JSON files");
    if (strlen(path) >= 900)
        return FAIL(err, FIRM_E_USAGE, "the path %.60s... is too long; use a shorter one", path);
    if (stat(path, &s) != 0) {
        return FAIL(err, FIRM_E_MISSING, "%s does not exist; give run folders or JSON files", path);
    }
    TRY(new_run(data, path, &run, err));
    if (S_ISDIR(s.st_mode)) return add_folder(data, run, path, 0, err);
    const char* slash = strrchr(path, '/');
    if (is_lines(slash ? slash + 1 : path)) return add_lines(data, run, path, err);
    TRY(add_json(data, run, path, err));
    report_run* r = &data->runs[data->docs[data->doc_count - 1].run];
    if (r == &data->runs[run])
        snprintf(r->name, sizeof r->name, "%s", data->docs[data->doc_count - 1].name);
    return FIRM_OK;
}

// ---- runs ---------------------------------------------------------------------------------------

// "seed" of the text "version=100 seed=1 sources=FI ..." that a model carries and an evaluation
// quotes. Returns 0 if there is none.
static int quoted(const cJSON* j, const char* key, char* out, size_t room) {
    const char* p = report_text(j, "provenance");
    size_t n = strlen(key);
    while (*p) {
        size_t length = strcspn(p, " ");
        if (length > n && strncmp(p, key, n) == 0 && p[n] == '=') {
            snprintf(out, room, "%.*s", (int)(length - n - 1), p + n + 1);
            return 1;
        }
        p += length + strspn(p + length, " ");
    }
    return 0;
}

static const char* variant_of(const cJSON* j) {
    char sources[16] = "";
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "no_fiber"))) return "no history fiber";
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "mismatch"))) return "mismatched outcomes";
    if (!quoted(j, "sources", sources, sizeof sources)) {
        snprintf(sources, sizeof sources, "%.15s", report_text(j, "sources"));
    }
    if (strcmp(sources, "F") == 0) return "factual only";
    return strcmp(sources, "I") == 0 ? "intervention only" : "";
}

// The seed a model was trained with, -1 if the document does not say. An evaluation's own `seed` is
// that of its trials.
static int training_seed(const report_doc* d) {
    char text[32];
    double seed = NAN;
    if (d->kind == DOC_TRAIN) seed = report_get(d->json, "seed");
    if (d->kind == DOC_EVAL) seed = report_get(d->json, "model_seed");
    if (d->kind == DOC_EVAL && isnan(seed) && quoted(d->json, "seed", text, sizeof text)) {
        words w = {text};
        double number = words_number(&w, 0, 1e9);
        if (words_end(&w)) seed = number;
    }
    return seed >= 0 && seed < 1e9 ? (int)seed : -1;
}

// Seeds tell runs apart only among those trained the same way.
static int alike(const report_run* a, const report_run* b) {
    return strcmp(a->task, b->task) == 0 && strcmp(a->variant, b->variant) == 0 &&
           strcmp(a->edition, b->edition) == 0;
}

static void label_run(const report_data* data, report_run* r) {
    int unique = r->seed >= 0;
    for (int k = 0; k < data->run_count; k++) {
        const report_run* other = &data->runs[k];
        unique = unique && (other == r || !alike(other, r) || other->seed != r->seed);
    }
    if (unique)
        snprintf(r->label, sizeof r->label, "seed %d", r->seed);
    else
        snprintf(r->label, sizeof r->label, "%s", r->name);
}

static void describe_runs(report_data* data) {
    for (int i = 0; i < data->doc_count; i++) {
        const report_doc* d = &data->docs[i];
        report_run* r = &data->runs[d->run];
        int seed = training_seed(d);
        if (!r->task[0]) r->task = report_text(d->json, "task");
        if (seed >= 0 && (d->kind == DOC_TRAIN || r->seed < 0)) r->seed = seed;
        if (d->kind != DOC_TRAIN && d->kind != DOC_EVAL) continue;
        if (variant_of(d->json)[0]) r->variant = variant_of(d->json);
    }
    for (int i = 0; i < data->run_count; i++) {
        report_run* r = &data->runs[i];
        result_name name;
        names_of_folder(r->path, r->task, &name);
        if (!r->edition[0]) memcpy(r->edition, name.edition, sizeof name.edition);
        if (!r->variant[0]) r->variant = name.variant;
    }
    for (int i = 0; i < data->run_count; i++) label_run(data, &data->runs[i]);
    for (int i = 0; i < data->doc_count; i++) {
        report_doc* d = &data->docs[i];
        const char* edition = data->runs[d->run].edition;
        int hard = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(d->json, "unsolved_only"));
        snprintf(d->edition, sizeof d->edition, "%s%s%s", edition, hard && edition[0] ? ", " : "",
                 hard ? "unsolved pairs" : "");
    }
}

firm_status report_data_read(const char* const* inputs, int count, report_data* data,
                             firm_error* err) {
    memset(data, 0, sizeof *data);
    firm_status status = FIRM_OK;
    for (int i = 0; i < count && status == FIRM_OK; i++) status = add_input(data, inputs[i], err);
    if (status == FIRM_OK && data->doc_count == 0 && data->metrics_count == 0) {
        status = FAIL(err, FIRM_E_MISSING,
                      "%s holds no train.json, metrics.csv, eval-*.json, trace-*.json or "
                      "bench-*.json; run firm "
                      "train, firm eval or firm demo first and give its folder",
                      count ? inputs[0] : "the list of inputs");
    }
    if (status == FIRM_OK) {
        describe_runs(data);
        status = report_groups_make(data, err);
    }
    if (status != FIRM_OK) report_data_free(data);
    return status;
}

void report_data_free(report_data* data) {
    report_groups_free(data);
    for (int i = 0; i < data->doc_count; i++) cJSON_Delete(data->docs[i].json);
    for (int i = 0; i < data->metrics_count; i++) report_metrics_free(&data->metrics[i]);
    for (int i = 0; i < data->run_count; i++) mem_free(data->runs[i].config);
    mem_free(data->docs);
    mem_free(data->metrics);
    mem_free(data->runs);
    memset(data, 0, sizeof *data);
}
