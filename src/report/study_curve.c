// study_curve.c - LeWM while it learned: its success after so many updates, from evaluations named
// eval-TASK-lewm-curve-uUPDATES-MODE-OFFSET.json.
#include <math.h>
#include <string.h>

#include "core/text.h"
#include "report/paper.h"
#include "report/series.h"
#include "report/study.h"

static const char CURVE[] = "lewm curve";

int study_is_curve(const char* edition) {
    return strncmp(edition, CURVE, sizeof CURVE - 1) == 0;
}

// Said by the model, else by the label: u7500.
static double updates_of(const report_entry* e) {
    double said =
        report_get(cJSON_GetObjectItemCaseSensitive(e->rows[0].doc->json, "lewm"), "updates");
    const char* label = strrchr(e->edition, ' ');
    words w = {label && label[1] == 'u' ? label + 2 : ""};
    double named = words_number(&w, 0, 1e9);
    return isfinite(said) ? said : words_end(&w) ? named : NAN;
}

// The point of a group that comes after so many updates; NULL: none.
static const report_entry* next_point(const report_group* g, double after) {
    const report_entry* next = NULL;
    for (int i = 0; i < g->count; i++) {
        const report_entry* e = &g->entries[i];
        if (strcmp(e->arm, "lewm") != 0 || !study_is_curve(e->edition) || !(updates_of(e) > after))
            continue;
        if (!next || updates_of(e) < updates_of(next)) next = e;
    }
    return next;
}

static const report_doc* training_of(const report_data* data, const char* task) {
    for (int i = 0; i < data->doc_count; i++)
        if (data->docs[i].kind == DOC_LEWM &&
            strcmp(report_text(data->docs[i].json, "task"), task) == 0)
            return &data->docs[i];
    return NULL;
}

static firm_status point_row(const report_data* data, sheet_list* list, const report_group* g,
                             const report_entry* e, firm_error* err) {
    const report_doc* t = training_of(data, g->task);
    const double all = t ? report_get(t->json, "updates") : NAN, at = updates_of(e);
    sheet_line_new(list, SHEET_PLAIN);
    sheet_put(list, "%s", paper_task_title(g->task));
    sheet_put(list, "%s, %d", g->mode, g->offset);
    sheet_value(list, at, NAN, 0);
    sheet_value(list, 100 * at / all, NAN, 0);
    sheet_value(list, t ? at * report_get(t->json, "batch") / report_get(t->json, "clips") : NAN,
                NAN, 1);
    TRY(study_put_rates(list, e, err));
    const char* draw = report_text(e->rows[0].doc->json, "draw");
    sheet_put(list, "%d%s%s",
              cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(e->rows[0].json, "outcomes")),
              draw[0] ? ", " : "", draw);
    return FIRM_OK;
}

firm_status study_curve(const report_data* data, sheet_list* list, firm_error* err) {
    sheet_new(list, "lewm-curve", "LeWM while it learned",
              "Success of LeWM trained here after so many updates, with Wilson\u2019s "
              "interval. An epoch shows every clip once. The trials are not those of the other "
              "tables where a draw is named.",
              "task|<mode, controls|updates|of the run;%|epochs|success;% of all trials|95 % "
              "interval;%|success;% of trials not solved at the start|95 % interval;%|<trials");
    const char* task;
    for (int t = 0; (task = study_task(data, t)); t++)
        for (int i = 0; i < data->group_count; i++) {
            const report_group* g = &data->groups[i];
            if (strcmp(g->task, task) != 0) continue;
            const report_entry* e = next_point(g, -1);
            for (; e; e = next_point(g, updates_of(e))) TRY(point_row(data, list, g, e, err));
        }
    sheet_drop_empty(list);
    return FIRM_OK;
}
