// tables_run.c - how the results came about: gates, parameters, the reset-replay audit, speed, and
// where every number is from.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/paper.h"
#include "report/tables.h"

static void cell_text(html* h, const char* text, const char* cls) {
    html_add(h, "<td class=\"%s\">", cls);
    html_text(h, text[0] ? text : "\u2013");
    html_put(h, "</td>");
}

// Three significant digits, as gates range from microns to pixels.
static void cell_figure(html* h, double v) {
    html_put(h, "<td>");
    if (!isfinite(v)) {
        html_put(h, "\u2013");
    } else if (v != 0 && fabs(v) < 1e-4) {
        html_add(h, "%.2e", v);
    } else {
        int decimals = v == 0 ? 0 : (int)fmax(0, 2 - floor(log10(fabs(v))));
        html_number(h, v, decimals);
    }
    html_put(h, "</td>");
}

// Whole numbers with thin spaces between thousands.
static void put_count(html* h, double v) {
    char digits[32];
    if (!isfinite(v) || fabs(v) > 1e15) {
        html_put(h, "\u2013");
        return;
    }
    snprintf(digits, sizeof digits, "%.0f", fabs(v));
    size_t n = strlen(digits);
    html_put(h, v < 0 ? "\u2212" : "");
    for (size_t i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0) html_put(h, "\u2009");
        html_bytes(h, digits + i, 1);
    }
}

static void cell_count(html* h, double v, const char* cls) {
    html_add(h, "<td class=\"%s\">", cls);
    put_count(h, v);
    html_put(h, "</td>");
}

static void cell_seconds(html* h, double s) {
    html_put(h, "<td>");
    if (!isfinite(s) || s < 0 || s > 1e12) {
        html_put(h, "\u2013");
    } else if (s < 60) {
        html_add(h, "%.1f s", s);
    } else if (s < 3600) {
        html_add(h, "%d min %02d s", (int)s / 60, (int)s % 60);
    } else {
        html_add(h, "%.0f h %02d min", floor(s / 3600), (int)(fmod(s, 3600) / 60));
    }
    html_put(h, "</td>");
}

static void cell_pass(html* h, const cJSON* pass) {
    if (cJSON_IsTrue(pass)) {
        html_put(h, "<td class=\"yes\">passed</td>");
    } else if (cJSON_IsFalse(pass)) {
        html_put(h, "<td class=\"no\">missed</td>");
    } else {
        html_put(h, "<td>\u2013</td>");
    }
}

// grounder_error_px, grounder_error_rad, ...: the unit is the end of the key.
static void put_grounder_error(html* h, const cJSON* json) {
    static const char key[] = "grounder_error_";
    const cJSON* v;
    cJSON_ArrayForEach(v, json) {
        if (!v->string || strncmp(v->string, key, sizeof key - 1) != 0 || !cJSON_IsNumber(v))
            continue;
        const char* unit = v->string + sizeof key - 1;
        if (strncmp(unit, "max", 3) == 0) continue;
        html_add(h, "grounder %.3g ", v->valuedouble);
        html_text(h, unit);
    }
}

int table_gates(html* h, const report_data* data) {
    int rows = 0;
    for (int i = 0; i < data->doc_count; i++) {
        const report_doc* d = &data->docs[i];
        const cJSON* s;
        if (d->kind != DOC_TRAIN) continue;
        if (!rows++) {
            html_put(h,
                     "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">run</th><th "
                     "scope=\"col\" class=\"left\">stage</th><th scope=\"col\">updates</th>"
                     "<th scope=\"col\">time</th><th scope=\"col\">held-out error</th><th "
                     "scope=\"col\">limit</th><th scope=\"col\">gate</th></tr></thead><tbody>\n");
        }
        int first = 1;
        cJSON_ArrayForEach(s, cJSON_GetObjectItemCaseSensitive(d->json, "stages")) {
            html_put(h, "<tr><th scope=\"row\">");
            if (first) {
                html_text(h, paper_task_title(report_text(d->json, "task")));
                html_put(h, ", ");
                html_text(h, data->runs[d->run].label);
            }
            html_put(h, "</th>");
            first = 0;
            cell_text(h, report_text(s, "name"), "left");
            cell_count(h, report_get(s, "updates"), "");
            cell_seconds(h, report_get(s, "seconds"));
            cell_figure(h, report_get(s, "gate"));
            cell_figure(h, report_get(s, "gate_limit"));
            const cJSON* pass = cJSON_GetObjectItemCaseSensitive(s, "pass");
            // a stage without a limit has no gate to pass
            cell_pass(h,
                      isfinite(report_get(s, "gate_limit")) || cJSON_IsFalse(pass) ? pass : NULL);
            html_put(h, "</tr>\n");
        }
        html_put(
            h,
            "<tr class=\"sum\"><th scope=\"row\"></th><td class=\"left\">all stages</td><td></td>");
        cell_seconds(h, report_get(d->json, "seconds"));
        html_put(h, "<td colspan=\"3\">");
        put_grounder_error(h, d->json);
        put_grounder_error(h, cJSON_GetObjectItemCaseSensitive(d->json, "gates"));
        html_put(h, "</td></tr>\n");
    }
    if (rows) html_put(h, "</tbody></table></div>\n");
    return rows;
}

// Evaluations of recorded data alone: what was seen and what was predicted of held-out episodes.
int table_held_out(html* h, const report_data* data) {
    int rows = 0;
    for (int i = 0; i < data->doc_count; i++) {
        const report_doc* d = &data->docs[i];
        if (d->kind != DOC_HELD_OUT) continue;
        if (!rows++)
            html_put(h,
                     "<h3>Held-out episodes</h3><div class=\"scroll\"><table "
                     "class=\"narrow\"><thead><tr><th scope=\"col\">run</th><th "
                     "scope=\"col\">segments</th><th scope=\"col\">seen<small>mean, "
                     "tolerances</small></th><th scope=\"col\">95th percentile</th><th "
                     "scope=\"col\">predicted<small>mean, at the horizon</small></th><th "
                     "scope=\"col\">95th percentile</th></tr></thead><tbody>\n");
        const cJSON* ground = cJSON_GetObjectItemCaseSensitive(d->json, "grounder_error");
        const cJSON* series[] = {report_series(d->json, "rollout_error"),
                                 report_series(d->json, "rollout_error_p95")};
        html_put(h, "<tr><th scope=\"row\">");
        html_text(h, paper_task_title(report_text(d->json, "task")));
        html_put(h, ", ");
        html_text(h, data->runs[d->run].label);
        html_put(h, "</th>");
        cell_count(h, report_get(d->json, "held_out_segments"), "");
        cell_figure(h, report_get(ground, "units"));
        cell_figure(h, report_get(ground, "units_p95"));
        for (int k = 0; k < 2; k++) {
            int n = cJSON_GetArraySize(series[k]);
            const cJSON* last = n ? cJSON_GetArrayItem(series[k], n - 1) : NULL;
            cell_figure(h, cJSON_IsNumber(last) ? last->valuedouble : NAN);
        }
        html_put(h, "</tr>\n");
    }
    if (rows) html_put(h, "</tbody></table></div>\n");
    return rows;
}

static double paper_module(const char* task, const char* module) {
    const paper_params* p = paper_find_params(task);
    if (!p) return NAN;
    if (strcmp(module, "frontend") == 0) return 1e6 * p->frontend;
    if (strcmp(module, "grounder") == 0) return 1e6 * p->grounder;
    if (strcmp(module, "transition") == 0) return 1e6 * p->transition;
    return strcmp(module, "total") == 0 ? 1e6 * p->total : NAN;
}

int table_params(html* h, const report_data* data) {
    int rows = 0;
    for (int i = 0; i < data->doc_count; i++) {
        const cJSON *t, *m;
        if (data->docs[i].kind != DOC_PARAMS) continue;
        cJSON_ArrayForEach(t, cJSON_GetObjectItemCaseSensitive(data->docs[i].json, "tasks")) {
            cJSON_ArrayForEach(m, t) {
                if (!rows++) {
                    html_put(h,
                             "<h3>Active parameters</h3><div class=\"scroll\"><table "
                             "class=\"narrow\"><thead><tr><th scope=\"col\">task</th><th "
                             "scope=\"col\" class=\"left\">module</th>"
                             "<th scope=\"col\">parameters</th><th scope=\"col\" "
                             "class=\"paper\">paper</th><th "
                             "scope=\"col\">difference<small>%</small></th></tr></thead><tbody>\n");
                }
                double ours = report_get(m, "params"), theirs = paper_module(t->string, m->string);
                html_put(h, strcmp(m->string, "total") == 0 ? "<tr class=\"us\"><th scope=\"row\">"
                                                            : "<tr><th scope=\"row\">");
                html_text(h, paper_task_title(t->string));
                html_put(h, "</th>");
                cell_text(h, m->string, "left");
                cell_count(h, ours, "");
                cell_count(h, theirs, "paper");
                html_put(h, "<td>");
                html_put(h, ours > theirs ? "+" : "");
                html_number(h, 100 * (ours / theirs - 1), 2);
                html_put(h, "</td></tr>\n");
            }
        }
    }
    if (rows) html_put(h, "</tbody></table></div>\n");
    return rows;
}

int table_audit(html* h, const report_data* data) {
    int rows = 0;
    for (int i = 0; i < data->doc_count; i++) {
        const cJSON* j = data->docs[i].json;
        if (data->docs[i].kind != DOC_AUDIT) continue;
        if (!rows++) {
            html_put(
                h,
                "<h3>Reset-replay audit</h3><div class=\"scroll\"><table "
                "class=\"narrow\"><thead><tr><th scope=\"col\">task</th><th "
                "scope=\"col\">anchors</th><th scope=\"col\">mean<small>tolerances</small></th>"
                "<th scope=\"col\">95th percentile</th><th scope=\"col\">maximum</th><th "
                "scope=\"col\">gate</th><th scope=\"col\" class=\"paper\">paper<small>mean, P95, "
                "max</small></th></tr></thead><tbody>\n");
        }
        const paper_audit* p = paper_find_audit(report_text(j, "task"));
        html_put(h, "<tr><th scope=\"row\">");
        html_text(h, paper_task_title(report_text(j, "task")));
        html_put(h, "</th>");
        cell_count(h, report_get(j, "anchors"), "");
        cell_figure(h, report_get(j, "h5_mean"));
        cell_figure(h, report_get(j, "h5_p95"));
        cell_figure(h, report_get(j, "max"));
        cell_pass(h, cJSON_GetObjectItemCaseSensitive(j, "pass"));
        html_put(h, "<td class=\"paper\">");
        if (p)
            html_add(h, "%.3g, %.3g, %.3g", p->h5_mean, p->h5_p95, p->max);
        else
            html_put(h, "\u2013");
        html_put(h, "</td></tr>\n");
    }
    if (rows) html_put(h, "</tbody></table></div>\n");
    return rows;
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

static void bench_row(html* h, const cJSON* j) {
    const char* what = report_get(j, "gflops") > 0 || isfinite(report_get(j, "ms_per_solve"))
                           ? "plan"
                       : isfinite(report_get(j, "frontend_frames_per_s")) ? "train"
                       : isfinite(report_get(j, "steps_per_s"))           ? "env"
                                                                          : "render";
    html_put(h, "<tr><th scope=\"row\">");
    html_text(h, paper_task_title(report_text(j, "task")));
    html_add(h, "</th><td class=\"left\">%s</td><td class=\"left\">", what);
    const char *device = report_text(j, "device"), *renderer = report_text(j, "renderer"),
               *precision = report_text(j, "precision");
    html_text(h, device[0] ? device : renderer[0] ? renderer : "cpu");
    if (isfinite(report_get(j, "threads"))) html_add(h, ", %.0f threads", report_get(j, "threads"));
    if (precision[0]) {
        html_put(h, ", ");
        html_text(h, precision);
    }
    html_put(h, "</td><td class=\"left\">");
    int n = 0;
    for (size_t i = 0; i < sizeof measures / sizeof measures[0]; i++) {
        double v = report_get(j, measures[i].key);
        if (!isfinite(v)) continue;
        html_put(h, n++ ? "<span class=\"sd\"> \u00b7 </span>" : "");
        html_put(h, "<b>");
        if (fabs(v) >= 100) {
            put_count(h, v);
        } else {
            html_number(h, v, v == 0 ? 0 : fabs(v) >= 10 ? 1 : 2);
        }
        html_add(h, "</b> %s", measures[i].what);
    }
    html_put(h, "</td></tr>\n");
}

int table_bench(html* h, const report_data* data) {
    int rows = 0;
    for (int i = 0; i < data->doc_count; i++) {
        if (data->docs[i].kind != DOC_BENCH) continue;
        if (!rows++) {
            html_put(h,
                     "<h3>Speed</h3><div class=\"scroll\"><table><thead><tr><th "
                     "scope=\"col\">task</th><th scope=\"col\" class=\"left\">bench</th><th "
                     "scope=\"col\" class=\"left\">machine</th>"
                     "<th scope=\"col\" class=\"left\">measured</th></tr></thead><tbody>\n");
        }
        bench_row(h, data->docs[i].json);
    }
    if (rows) html_put(h, "</tbody></table></div>\n");
    return rows;
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

static int put_fact(html* h, const char* key, const cJSON* v, int n) {
    char text[400];
    table_fact(key, v, text, sizeof text);
    if (!text[0]) return n;
    html_put(h, n ? "<span class=\"sd\"> \u00b7 </span>" : "");
    for (const char* p = key; *p; p++) {
        char c[2] = {*p == '_' ? ' ' : *p, 0};
        html_text(h, c);
    }
    html_put(h, " <b>");
    html_text(h, text);
    html_put(h, "</b>");
    return n + 1;
}

// Only facts that are the same on a rerun: no dates, no host names.
static void put_facts(html* h, const cJSON* j) {
    static const char* const keys[] = {
        "config_hash", "seed",      "model_seed", "sources", "version",     "commit",      "device",
        "threads",     "precision", "renderer",   "trials",  "trials_from", "trials_hash", "data",
        "data_hash",   "branches",  "start_row",  "model",   "provenance"};
    const cJSON* v;
    int n = 0;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        n = put_fact(h, keys[i], cJSON_GetObjectItemCaseSensitive(j, keys[i]), n);
    cJSON_ArrayForEach(v, cJSON_GetObjectItemCaseSensitive(j, "versions")) {
        if (v->string) n = put_fact(h, v->string, v, n);
    }
    if (!n) html_put(h, "\u2013");
}

void table_provenance(html* h, const report_data* data) {
    html_put(h,
             "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">run</th><th scope=\"col\" "
             "class=\"left\">file</th><th scope=\"col\" class=\"left\">made "
             "from</th></tr></thead><tbody>\n");
    for (int i = 0; i < data->run_count; i++) {
        int first = 1;
        for (int k = 0; k < data->doc_count; k++) {
            const report_doc* d = &data->docs[k];
            if (d->run != i) continue;
            html_put(h, "<tr><th scope=\"row\">");
            if (first) html_text(h, data->runs[i].name);
            first = 0;
            html_put(h, "</th>");
            cell_text(h, d->name, "left mono");
            html_put(h, "<td class=\"left wrap\">");
            put_facts(h, d->json);
            html_put(h, "</td></tr>\n");
        }
    }
    html_put(h, "</tbody></table></div>\n");
    for (int i = 0; i < data->run_count; i++) {
        if (!data->runs[i].config) continue;
        html_put(h, "<details><summary>config.ini of ");
        html_text(h, data->runs[i].name);
        html_add(h, " <span class=\"mono sd\">%016" PRIx64 "</span></summary><pre>",
                 data->runs[i].config_hash);
        html_text(h, data->runs[i].config);
        html_put(h, "</pre></details>\n");
    }
}
