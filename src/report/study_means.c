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
        sheet_none(list);
        return;
    }
    sheet_put(list, "%.0f / %.0f it. / top-%.0f / H=%.0f", report_get(plan, "candidates"),
              report_get(plan, "iterations"), report_get(plan, "elites"),
              report_get(plan, "horizon"));
}

static void efficiency_row(const report_data* data, sheet_list* list, const char* task) {
    const report_entry* e = study_entry(data, task, "contract", 25, "firm", "", "");
    const paper_params* p = paper_find_params(task);
    paper_value ours = {NAN, NAN}, firm = paper_seconds(task, "firm"),
                lewm = paper_seconds(task, "lewm");
    study_mean(e, "seconds_per_episode", &ours.mean, &ours.sd);
    sheet_line_new(list, SHEET_PLAIN);
    sheet_put(list, "%s", paper_task_title(task));
    sheet_value(list, module_size(find_modules(data, task), "total"), NAN, 3);
    sheet_value(list, p ? p->total : NAN, NAN, 3);
    sheet_value(list, ours.mean, ours.sd, 3);
    sheet_put(list, "%s", e ? report_text(e->rows[0].doc->json, "device") : "");
    sheet_value(list, firm.mean, firm.sd, 3);
    sheet_value(list, lewm.mean, lewm.sd, 3);
    put_budget(list, e);
}

static void table_efficiency(const report_data* data, sheet_list* list) {
    const char* task;
    sheet_new(list, "efficiency", "Size and planner time",
              "Seconds inside the planner per episode, contract mode, goals 25 controls away. The "
              "paper measured on its own laptop GPU. Ours are of the machine that evaluated, where "
              "trials may have run side by side; docs/performance.md has the speed.",
              "task|parameters;M|~paper;M|planner;s per episode|<device|~paper;s per episode|~LeWM "
              "in the paper;s per episode|<search");
    for (int i = 0; (task = study_task(data, i)); i++)
        if (study_shows(data, task)) efficiency_row(data, list, task);
}

// ---- data sets ----------------------------------------------------------------------------------

// Ours, and the paper's in brackets where it has one.
static void count_cell(sheet_list* list, double ours, double paper) {
    if (!isfinite(ours))
        sheet_none(list);
    else if (!isfinite(paper))
        sheet_put(list, "%.0f", ours);
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
               p ? p->training + p->validation : NAN);
    count_cell(list, validation, p ? p->validation : NAN);
    count_cell(list, report_get(d, "segments"), p ? p->segments : NAN);
    count_cell(list, states, p ? p->states : NAN);
    count_cell(list, all / states, p ? p->per_state : NAN);
    count_cell(list, all, p ? p->states * p->per_state : NAN);
    sheet_value(list, describe ? report_get(describe->json, "solved_at_offset") : NAN, NAN, 1);
}

static void table_data(const report_data* data, sheet_list* list) {
    const char* task;
    sheet_new(list, "data", "Data sets",
              "Ours, and the paper\u2019s in brackets. The last column is the share of recorded "
              "pairs 25 controls apart that are solved at the start.",
              "task|episodes|of them validation|factual segments|intervention states|branches per "
              "state|branch rollouts|pairs solved at the start;%");
    for (int i = 0; (task = study_task(data, i)); i++) data_row(data, list, task);
}

// ---- audit and parameters -----------------------------------------------------------------------

static void replay_row(sheet_list* list, const cJSON* j) {
    const paper_audit* p = paper_find_audit(report_text(j, "task"));
    sheet_line_new(list, SHEET_PLAIN);
    sheet_put(list, "%s", paper_task_title(report_text(j, "task")));
    sheet_count(list, report_get(j, "anchors"));
    sheet_figure(list, report_get(j, "h5_mean"));
    sheet_figure(list, report_get(j, "h5_p95"));
    sheet_figure(list, report_get(j, "max"));
    const cJSON* pass = cJSON_GetObjectItemCaseSensitive(j, "pass");
    sheet_pass(list, cJSON_IsTrue(pass));
    if (!p) return;
    sheet_count(list, p->anchors);
    sheet_figure(list, p->h5_mean);
    sheet_figure(list, p->h5_p95);
    sheet_figure(list, p->max);
}

static void table_replay(const report_data* data, sheet_list* list) {
    const char* task;
    sheet_new(list, "replay", "Reset-replay audit",
              "Error of replayed recordings after 25 controls, in tolerance units. The gate "
              "asks for a 95th percentile below 0.25 at every horizon and a maximum below 1.",
              "task|anchors|mean|95th percentile|maximum|gate|~paper;anchors|~paper;mean|~paper;"
              "95th percentile|~paper;maximum");
    for (int i = 0; (task = study_task(data, i)); i++)
        if (find_doc(data, DOC_AUDIT, task))
            replay_row(list, find_doc(data, DOC_AUDIT, task)->json);
}

static void module_row(sheet_list* list, const char* task, const cJSON* m) {
    static const char* const module[] = {"frontend", "grounder", "transition", "total"};
    const paper_params* p = paper_find_params(task);
    const double theirs[] = {p ? p->frontend : NAN, p ? p->grounder : NAN, p ? p->transition : NAN,
                             p ? p->total : NAN};
    sheet_line_new(list, SHEET_PLAIN);
    sheet_put(list, "%s", paper_task_title(task));
    for (int k = 0; k < 4; k++) sheet_value(list, module_size(m, module[k]), NAN, 3);
    for (int k = 0; k < 4; k++) sheet_value(list, theirs[k], NAN, 3);
    sheet_value(list, 100 * (module_size(m, "total") / theirs[3] - 1), NAN, 2);
}

static void table_modules(const report_data* data, sheet_list* list) {
    const cJSON* t;
    sheet_new(list, "modules", "Active parameters by module", "Millions of parameters.",
              "task|pixels and history|configuration|transition|total|~paper;pixels and history|"
              "~paper;configuration|~paper;transition|~paper;total|total against the paper\u2019s;"
              "% more");
    for (int i = 0; i < data->doc_count; i++) {
        if (data->docs[i].kind != DOC_PARAMS) continue;
        cJSON_ArrayForEach(t, cJSON_GetObjectItemCaseSensitive(data->docs[i].json, "tasks"))
            module_row(list, t->string, t);
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
    char missed[200] = "";
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
    sheet_value(list, seconds / 60, NAN, 1);
    sheet_put(list, "%.0f", recurrent_updates(d->json));
    sheet_value(list, p ? p->recurrent_updates : NAN, NAN, 0);
    sheet_value(list, report_get(ground, "units"), NAN, 3);
    sheet_value(list, final, NAN, 3);
    put_gates(list, d->json);
}

static void table_training(const report_data* data, sheet_list* list) {
    sheet_new(list, "runs", "Training runs",
              "Held-out errors in tolerance units: of the configuration read from pixels, and of "
              "rollouts after 25 controls.",
              "task|<settings|<seed|<device|time;minutes|recurrent updates|~paper;recurrent "
              "updates|grounding error;tolerances|rollout error;tolerances|<gates");
    const char* task;
    for (int i = 0; (task = study_task(data, i)); i++) {
        for (int k = 0; k < data->doc_count; k++) {
            const report_doc* d = &data->docs[k];
            if (d->kind == DOC_TRAIN && strcmp(report_text(d->json, "task"), task) == 0)
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
    firm_status status = study_front(data, &list, err);
    if (status == FIRM_OK) status = study_success(data, &list, err);
    if (status == FIRM_OK) status = study_pairs(data, &list, err);
    if (status == FIRM_OK) status = study_reasons(data, &list, err);
    if (status == FIRM_OK) status = study_means(data, &list, err);
    html_put(out,
             "# Results beside the paper\n\nMade by `firm report`. Every number comes from a JSON "
             "file of the commands. A dash: the paper or the file does not say.\n\n");
    for (int i = 0; i < list.count && status == FIRM_OK; i++) sheet_markdown(out, &list.items[i]);
    sheet_list_free(&list);
    if (status == FIRM_OK && out->failed)
        status = FAIL(err, FIRM_E_MEMORY, "out of memory for the report");
    return status;
}
