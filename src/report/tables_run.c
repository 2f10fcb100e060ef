// tables_run.c - how the results came about: gates, held-out errors, speed, and where every number
// is from.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"
#include "report/paper.h"
#include "report/tables.h"

static void put_run(const report_data* data, const report_doc* d, sheet_list* list) {
    sheet_put(list, "%s, %s", paper_task_title(report_text(d->json, "task")),
              data->runs[d->run].label);
}

// ---- gates --------------------------------------------------------------------------------------

// grounder_error_px, grounder_error_rad, ...: the unit is the end of the key.
static void add_grounder_error(const cJSON* json, char* out, size_t room) {
    static const char key[] = "grounder_error_";
    const cJSON* v;
    cJSON_ArrayForEach(v, json) {
        if (!v->string || strncmp(v->string, key, sizeof key - 1) != 0 || !cJSON_IsNumber(v))
            continue;
        const char* unit = v->string + sizeof key - 1;
        if (strncmp(unit, "max", 3) == 0) continue;
        text_add(out, room, "%sgrounder %.3g %.40s", out[0] ? ", " : "", v->valuedouble, unit);
    }
}

static void stage_line(const report_data* data, const report_doc* d, const cJSON* s, int first,
                       sheet_list* list) {
    const cJSON* pass = cJSON_GetObjectItemCaseSensitive(s, "pass");
    sheet_line_new(list, SHEET_PLAIN);
    if (first)
        put_run(data, d, list);
    else
        sheet_none(list);
    sheet_put(list, "%s", report_text(s, "name"));
    sheet_count(list, report_get(s, "updates"));
    sheet_seconds(list, report_get(s, "seconds"));
    sheet_figure(list, report_get(s, "gate"));
    sheet_figure(list, report_get(s, "gate_limit"));
    // a stage without a limit has no gate to pass
    if (isfinite(report_get(s, "gate_limit")) || cJSON_IsFalse(pass))
        sheet_pass(list, cJSON_IsTrue(pass));
}

static void table_gates(const report_data* data, sheet_list* list) {
    sheet_new(
        list, "gates", "Gates of the training",
        "A gate is an error on held-out data that a stage must stay below. A run that misses "
        "one says so. Errors of the grounder and of rollouts are in tolerances; others are the "
        "stage\u2019s loss.",
        "run|<stage|updates|time|held-out error|limit|gate");
    for (int i = 0; i < data->doc_count; i++) {
        const report_doc* d = &data->docs[i];
        const cJSON* s;
        char error[160] = "";
        if (d->kind != DOC_TRAIN) continue;
        int first = 1;
        cJSON_ArrayForEach(s, cJSON_GetObjectItemCaseSensitive(d->json, "stages")) {
            stage_line(data, d, s, first, list);
            first = 0;
        }
        sheet_line_new(list, SHEET_SUM);
        sheet_none(list);
        sheet_put(list, "all stages");
        sheet_none(list);
        sheet_seconds(list, report_get(d->json, "seconds"));
        add_grounder_error(d->json, error, sizeof error);
        add_grounder_error(cJSON_GetObjectItemCaseSensitive(d->json, "gates"), error, sizeof error);
        sheet_put(list, "%s", error);
    }
}

// ---- recorded data ------------------------------------------------------------------------------

static void table_held_out(const report_data* data, sheet_list* list) {
    static const char* const keys[] = {"rollout_error", "rollout_error_p95"};
    sheet_new(list, "held-out", "Held-out episodes",
              "Errors of recorded data alone, in tolerances: of what the model sees, and of what "
              "it predicts at the horizon.",
              "run|segments|seen;mean|seen;95th percentile|predicted;mean|predicted;95th "
              "percentile");
    for (int i = 0; i < data->doc_count; i++) {
        const report_doc* d = &data->docs[i];
        if (d->kind != DOC_HELD_OUT) continue;
        const cJSON* ground = cJSON_GetObjectItemCaseSensitive(d->json, "grounder_error");
        sheet_line_new(list, SHEET_PLAIN);
        put_run(data, d, list);
        sheet_count(list, report_get(d->json, "held_out_segments"));
        sheet_figure(list, report_get(ground, "units"));
        sheet_figure(list, report_get(ground, "units_p95"));
        for (int k = 0; k < 2; k++) {
            const cJSON* series = report_series(d->json, keys[k]);
            int n = cJSON_GetArraySize(series);
            const cJSON* last = n ? cJSON_GetArrayItem(series, n - 1) : NULL;
            sheet_figure(list, cJSON_IsNumber(last) ? last->valuedouble : NAN);
        }
    }
}

// ---- speed --------------------------------------------------------------------------------------

static const struct {
    const char *key, *what;
} measures[] = {{"ms_per_solve", "ms per solve"},
                {"gflops", "GFLOP/s"},
                {"peak_gflops", "GFLOP/s peak"},
                {"fraction_of_peak", "of peak"},
                {"allocations", "allocations per solve"},
                {"frontend_frames_per_s", "frontend frames/s"},
                {"recurrent_updates_per_s", "recurrent updates/s"},
                {"steps_per_s", "steps/s"},
                {"frames_per_s", "frames/s"},
                {"gl_frames_per_s", "frames/s with GL"},
                {"ratio", "times GL"},
                {"psnr_db", "dB PSNR"}};

static const char* bench_name(const cJSON* j) {
    if (report_get(j, "gflops") > 0 || isfinite(report_get(j, "ms_per_solve"))) return "plan";
    if (isfinite(report_get(j, "frontend_frames_per_s"))) return "train";
    return isfinite(report_get(j, "steps_per_s")) ? "env" : "render";
}

static void bench_line(const cJSON* j, sheet_list* list) {
    const char *device = report_text(j, "device"), *renderer = report_text(j, "renderer"),
               *precision = report_text(j, "precision");
    char machine[160], found[600] = "";
    snprintf(machine, sizeof machine, "%.60s", device[0] ? device : renderer[0] ? renderer : "cpu");
    if (isfinite(report_get(j, "threads")))
        text_add(machine, sizeof machine, ", %.0f threads", report_get(j, "threads"));
    if (precision[0]) text_add(machine, sizeof machine, ", %.40s", precision);
    for (size_t i = 0; i < sizeof measures / sizeof *measures; i++) {
        double v = report_get(j, measures[i].key);
        if (!isfinite(v)) continue;
        int decimals = v == 0 || fabs(v) >= 100 ? 0 : fabs(v) >= 10 ? 1 : 2;
        text_add(found, sizeof found, "%s%.*f %s", found[0] ? " \u00b7 " : "", decimals, v,
                 measures[i].what);
    }
    sheet_line_new(list, SHEET_PLAIN);
    sheet_put(list, "%s", paper_task_title(report_text(j, "task")));
    sheet_put(list, "%s", bench_name(j));
    sheet_put(list, "%s", machine);
    sheet_put(list, "%s", found);
}

static void table_bench(const report_data* data, sheet_list* list) {
    sheet_new(list, "speed", "Speed", NULL, "task|<bench|<machine|<measured");
    for (int i = 0; i < data->doc_count; i++)
        if (data->docs[i].kind == DOC_BENCH) bench_line(data->docs[i].json, list);
}

firm_status table_runs(const report_data* data, sheet_list* list, firm_error* err) {
    void (*const tables[])(const report_data*, sheet_list*) = {table_gates, table_held_out,
                                                               table_bench};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        tables[i](data, list);
        sheet_drop_empty(list);
    }
    return list->failed ? FAIL(err, FIRM_E_MEMORY, "out of memory for the report") : FIRM_OK;
}

// ---- provenance ---------------------------------------------------------------------------------

void table_fact(const char* key, const cJSON* v, char* out, size_t room) {
    out[0] = 0;
    if (cJSON_IsString(v)) {
        snprintf(out, room, "%s", v->valuestring);
    } else if (cJSON_IsNumber(v) && strcmp(key, "version") == 0 && v->valuedouble >= 0 &&
               v->valuedouble < 1e8) {
        int n = (int)v->valuedouble;
        snprintf(out, room, "%d.%d.%d", n / 10000, n / 100 % 100, n % 100);
    } else if (cJSON_IsNumber(v)) {
        snprintf(out, room, "%.10g", v->valuedouble);
    } else if (cJSON_IsBool(v)) {
        snprintf(out, room, "%s", cJSON_IsTrue(v) ? "yes" : "no");
    }
}

static void add_fact(const char* key, const cJSON* v, char* out, size_t room) {
    char text[400], name[64];
    table_fact(key, v, text, sizeof text);
    if (!text[0]) return;
    snprintf(name, sizeof name, "%s", key);
    for (char* p = name; *p; p++)
        if (*p == '_') *p = ' ';
    text_add(out, room, "%s%s %s", out[0] ? " \u00b7 " : "", name, text);
}

// Only facts that are the same on a rerun: no dates, no host names.
static void add_facts(const cJSON* j, char* out, size_t room) {
    static const char* const keys[] = {
        "config_hash", "seed",      "model_seed", "sources", "version",     "commit",      "device",
        "threads",     "precision", "renderer",   "trials",  "trials_from", "trials_hash", "data",
        "data_hash",   "branches",  "start_row",  "model",   "provenance"};
    const cJSON* v;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        add_fact(keys[i], cJSON_GetObjectItemCaseSensitive(j, keys[i]), out, room);
    cJSON_ArrayForEach(v, cJSON_GetObjectItemCaseSensitive(j, "versions")) if (v->string)
        add_fact(v->string, v, out, room);
}

firm_status table_provenance(const report_data* data, sheet_list* list, firm_error* err) {
    sheet_new(list, "provenance", "Where it came from", NULL, "run|<file|<made from");
    for (int i = 0; i < data->run_count; i++) {
        int first = 1;
        for (int k = 0; k < data->doc_count; k++) {
            const report_doc* d = &data->docs[k];
            char facts[2000] = "";
            if (d->run != i) continue;
            sheet_line_new(list, SHEET_PLAIN);
            sheet_put(list, "%s", first ? data->runs[i].name : "");
            sheet_put(list, "%s", d->name);
            sheet_look(list, TONE_CODE);
            add_facts(d->json, facts, sizeof facts);
            sheet_put(list, "%s", facts);
            first = 0;
        }
    }
    return list->failed ? FAIL(err, FIRM_E_MEMORY, "out of memory for the report") : FIRM_OK;
}
