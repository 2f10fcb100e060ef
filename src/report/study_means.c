// study_means.c - how the results came about: size and time of the planner, data sets, the
// reset-replay audit, parameters by module, and training with its gates; and all tables as
// Markdown.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"
#include "report/paper.h"
#include "report/study.h"

// The first document of a kind for a task that no label sets apart, NULL if there is none.
static const report_doc* find_doc(const report_data* data, doc_kind kind, const char* task) {
    for (int i = 0; i < data->doc_count; i++) {
        const report_doc* d = &data->docs[i];
        if (d->kind == kind && strcmp(report_text(d->json, "task"), task) == 0 &&
            !data->runs[d->run].edition[0] && !data->runs[d->run].variant[0])
            return d;
    }
    return NULL;
}

static const cJSON* find_modules(const report_data* data, const char* task) {
    for (int i = 0; i < data->doc_count; i++) {
        if (data->docs[i].kind != DOC_PARAMS) continue;
        const cJSON* tasks = cJSON_GetObjectItemCaseSensitive(data->docs[i].json, "tasks");
        const cJSON* t = cJSON_GetObjectItemCaseSensitive(tasks, task);
        if (t) return t;
    }
    return NULL;
}

static double module_size(const cJSON* modules, const char* name) {
    return 1e-6 * report_get(cJSON_GetObjectItemCaseSensitive(modules, name), "params");
}

// ---- efficiency ---------------------------------------------------------------------------------

static void put_budget(sheet_list* list, const report_entry* e) {
    const cJSON* plan = e ? cJSON_GetObjectItemCaseSensitive(e->rows[0].doc->json, "plan") : NULL;
    if (!plan) {
        sheet_put(list, "\u2013");
        return;
    }
    sheet_put(list, "%.0f / %.0f it. / top-%.0f / H=%.0f", report_get(plan, "candidates"),
              report_get(plan, "iterations"), report_get(plan, "elites"),
              report_get(plan, "horizon"));
}

static void efficiency_row(const report_data* data, sheet_list* list, const char* task) {
    const report_entry* e = study_entry(data, task, "contract", 25, "firm", "", "");
    const char* device = e ? report_text(e->rows[0].doc->json, "device") : "";
    paper_value ours = {NAN, NAN}, firm = paper_seconds(task, "firm"),
                lewm = paper_seconds(task, "lewm");
    study_mean(e, "seconds_per_episode", &ours.mean, &ours.sd);
    sheet_line_new(list, SHEET_PLAIN);
    sheet_put(list, "%s", paper_task_title(task));
    sheet_value(list, module_size(find_modules(data, task), "total"), NAN, 3, STUDY_NOT_RUN);
    sheet_value(list, paper_find_params(task)->total, NAN, 3, "\u2013");
    sheet_value(list, ours.mean, ours.sd, 3, STUDY_NOT_RUN);
    sheet_put(list, "%s", device[0] ? device : "\u2013");
    sheet_value(list, firm.mean, firm.sd, 3, "\u2013");
    sheet_value(list, lewm.mean, lewm.sd, 3, "\u2013");
    put_budget(list, e);
}

static void table_efficiency(const report_data* data, sheet_list* list) {
    sheet_new(list, "efficiency", "Size and planner time",
              "Seconds inside the planner per episode, contract mode, goals 25 controls away. The "
              "paper\u2019s are of its own laptop GPU; ours of the machine that evaluated, where "
              "trials may have run side by side, so docs/performance.md is the place for speed.",
              "task|parameters, M|paper, M|planner, s per episode|device|paper, s|LeWM in the "
              "paper, s|search");
    for (int i = 0; paper_task(i); i++)
        if (study_shows(data, paper_task(i))) efficiency_row(data, list, paper_task(i));
}

// ---- data sets ----------------------------------------------------------------------------------

static void count_cell(sheet_list* list, double ours, double paper) {
    if (!isfinite(ours))
        sheet_put(list, "\u2013 (%.0f)", paper);
    else
        sheet_put(list, "%.0f (%.0f)", ours, paper);
}

static void data_row(const report_data* data, sheet_list* list, const char* task) {
    const report_doc *train = find_doc(data, DOC_TRAIN, task),
                     *describe = find_doc(data, DOC_DESCRIBE, task);
    const cJSON* d = train ? cJSON_GetObjectItemCaseSensitive(train->json, "data") : NULL;
    const paper_data* p = paper_find_data(task);
    double states = report_get(d, "intervention_states"), all = report_get(d, "branch_rollouts");
    double episodes = describe ? report_get(describe->json, "episodes") : NAN;
    double training = report_get(d, "training_episodes");
    double validation = report_get(d, "validation_episodes");
    sheet_line_new(list, SHEET_PLAIN);
    sheet_put(list, "%s", paper_task_title(task));
    count_cell(list, isfinite(episodes) ? episodes : training + validation,
               p->training + p->validation);
    count_cell(list, validation, p->validation);
    count_cell(list, report_get(d, "segments"), p->segments);
    count_cell(list, states, p->states);
    count_cell(list, all / states, p->per_state);
    count_cell(list, all, p->states * p->per_state);
    sheet_value(list, describe ? report_get(describe->json, "solved_at_offset") : NAN, NAN, 1,
                STUDY_NOT_RUN);
}

static void table_data(const report_data* data, sheet_list* list) {
    sheet_new(list, "data", "Data sets",
              "Ours, and the paper\u2019s in brackets. The last column is the share of recorded "
              "pairs 25 controls apart that are within tolerance of each other already.",
              "task|episodes|of them validation|factual segments|intervention states|branches per "
              "state|branch rollouts|pairs solved at the start, %");
    for (int i = 0; paper_task(i); i++)
        if (data->study || find_doc(data, DOC_DESCRIBE, paper_task(i)))
            data_row(data, list, paper_task(i));
}

// ---- audit and parameters -----------------------------------------------------------------------

static void table_replay(const report_data* data, sheet_list* list) {
    sheet_new(
        list, "replay", "Reset-replay audit",
        "Error of replayed recordings after 25 controls, in success tolerances; the gate asks "
        "for a 95th percentile below 0.25 at every horizon and a maximum below 1.",
        "task|anchors|mean|95th percentile|maximum|gate|paper: anchors|mean|95th "
        "percentile|maximum");
    for (int i = 0; paper_task(i); i++) {
        const report_doc* d = find_doc(data, DOC_AUDIT, paper_task(i));
        const paper_audit* p = paper_find_audit(paper_task(i));
        if (!d && !data->study) continue;
        sheet_line_new(list, SHEET_PLAIN);
        sheet_put(list, "%s", paper_task_title(paper_task(i)));
        if (d) {
            sheet_put(list, "%.0f", report_get(d->json, "anchors"));
            sheet_put(list, "%.3g", report_get(d->json, "h5_mean"));
            sheet_put(list, "%.3g", report_get(d->json, "h5_p95"));
            sheet_put(list, "%.3g", report_get(d->json, "max"));
            const cJSON* pass = cJSON_GetObjectItemCaseSensitive(d->json, "pass");
            sheet_put(list, "%s", cJSON_IsTrue(pass) ? "passed" : "missed");
        } else {
            for (int k = 0; k < 5; k++) sheet_put(list, "%s", k ? "\u2013" : STUDY_NOT_RUN);
        }
        sheet_put(list, "%d", p->anchors);
        sheet_put(list, "%.3g", p->h5_mean);
        sheet_put(list, "%.3g", p->h5_p95);
        sheet_put(list, "%.3g", p->max);
    }
}

static void table_modules(const report_data* data, sheet_list* list) {
    static const char* const module[] = {"frontend", "grounder", "transition", "total"};
    sheet_new(list, "modules", "Active parameters by module",
              "Millions, ours and in brackets the paper\u2019s.",
              "task|pixel + history frontend|configuration grounder|recurrent transition|total");
    for (int i = 0; paper_task(i); i++) {
        const cJSON* m = find_modules(data, paper_task(i));
        const paper_params* p = paper_find_params(paper_task(i));
        const double theirs[] = {p->frontend, p->grounder, p->transition, p->total};
        if (!m && !data->study) continue;
        sheet_line_new(list, SHEET_PLAIN);
        sheet_put(list, "%s", paper_task_title(paper_task(i)));
        for (int k = 0; k < 4; k++) {
            if (m)
                sheet_put(list, "%.3f (%.3f)", module_size(m, module[k]), theirs[k]);
            else
                sheet_put(list, "%s (%.3f)", STUDY_NOT_RUN, theirs[k]);
        }
    }
}

// ---- training -----------------------------------------------------------------------------------

// A stage with rollouts carries their errors, or in older files at least the name.
static double recurrent_updates(const cJSON* train) {
    double sum = 0;
    const cJSON* s;
    cJSON_ArrayForEach(s, cJSON_GetObjectItemCaseSensitive(train, "stages")) {
        const char* name = report_text(s, "name");
        if (cJSON_GetObjectItemCaseSensitive(s, "rollout_error") ||
            strncmp(name, "rollout", 7) == 0 || strcmp(name, "refinement") == 0)
            sum += report_get(s, "updates");
    }
    return sum;
}

static void put_gates(sheet_list* list, const cJSON* train) {
    const cJSON* s;
    char missed[SHEET_CELL] = "";
    int gates = 0;
    cJSON_ArrayForEach(s, cJSON_GetObjectItemCaseSensitive(train, "stages")) {
        double limit = report_get(s, "gate_limit");
        if (!isfinite(limit)) continue;
        gates++;
        if (cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(s, "pass")))
            text_add(missed, sizeof missed, "%s%s %.3g > %.3g",
                     missed[0] ? ", " : "missed: ", report_text(s, "name"), report_get(s, "gate"),
                     limit);
    }
    sheet_put(list, "%s", missed[0] ? missed : gates ? "all passed" : "none");
}

static void training_row(const report_data* data, sheet_list* list, const report_doc* d) {
    const report_run* r = &data->runs[d->run];
    const char* task = report_text(d->json, "task");
    const cJSON* rollout = report_series(d->json, "rollout_error");
    const cJSON* ground = cJSON_GetObjectItemCaseSensitive(d->json, "grounder_error");
    const paper_data* p = paper_find_data(task);
    double seconds = report_get(d->json, "seconds");
    double final =
        rollout ? cJSON_GetArrayItem(rollout, cJSON_GetArraySize(rollout) - 1)->valuedouble : NAN;
    sheet_line_new(list, SHEET_PLAIN);
    sheet_put(list, "%s", paper_task_title(task));
    sheet_put(list, "%s%s%s", r->variant[0] && !r->edition[0] ? "" : study_settings(r->edition),
              r->variant[0] && r->edition[0] ? ", " : "", r->variant);
    sheet_put(list, "%d", r->seed);
    sheet_put(list, "%s", report_text(d->json, "device"));
    sheet_value(list, seconds / 60, NAN, 1, "\u2013");
    sheet_put(list, "%.0f", recurrent_updates(d->json));
    sheet_value(list, p ? p->recurrent_updates : NAN, NAN, 0, "\u2013");
    sheet_value(list, report_get(ground, "units"), NAN, 3, "\u2013");
    sheet_value(list, final, NAN, 3, "\u2013");
    put_gates(list, d->json);
}

static void table_training(const report_data* data, sheet_list* list) {
    sheet_new(
        list, "runs", "Training runs",
        "Held-out errors in success tolerances: of the configuration read from pixels, and of "
        "rollouts after 25 controls.",
        "task|settings|seed|device|minutes|recurrent updates|paper|grounding error|rollout "
        "error|gates");
    for (int i = 0; paper_task(i); i++) {
        for (int k = 0; k < data->doc_count; k++) {
            const report_doc* d = &data->docs[k];
            if (d->kind == DOC_TRAIN && strcmp(report_text(d->json, "task"), paper_task(i)) == 0)
                training_row(data, list, d);
        }
    }
}

firm_status study_means(const report_data* data, sheet_list* list, firm_error* err) {
    void (*const tables[])(const report_data*, sheet_list*) = {
        table_efficiency, table_data, table_replay, table_modules, table_training};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        tables[i](data, list);
        sheet_drop_empty(list);
    }
    return list->failed ? FAIL(err, FIRM_E_MEMORY, "out of memory for the report") : FIRM_OK;
}

firm_status study_markdown(const report_data* data, html* out, firm_error* err) {
    sheet_list list = {0};
    firm_status status = study_success(data, &list, err);
    if (status == FIRM_OK) status = study_pairs(data, &list, err);
    if (status == FIRM_OK) status = study_reasons(data, &list, err);
    if (status == FIRM_OK) status = study_means(data, &list, err);
    html_put(out,
             "# Results beside the paper\n\nMade by `firm report`; every number comes from a JSON "
             "file of the commands. A dash: the paper or the file does not say; \u201cnot "
             "run\u201d: there is no result.\n\n");
    for (int i = 0; i < list.count && status == FIRM_OK; i++) sheet_markdown(out, &list.items[i]);
    sheet_list_free(&list);
    if (status == FIRM_OK && out->failed)
        status = FAIL(err, FIRM_E_MEMORY, "out of memory for the report");
    return status;
}
