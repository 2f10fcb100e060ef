// study_front.c - the table that README shows: the shipped models on trials that nothing was chosen
// by (scripts/fresh-trials.sh), near and far, with the paper's figures and LeWM's beside.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/paper.h"
#include "report/series.h"
#include "report/study.h"

static const report_entry* find(const report_data* data, const char* task, const char* mode,
                                int offset, const char* arm) {
    return study_entry(data, task, mode, offset, arm, "", STUDY_SHIPPED);
}

// "88.0 (80.2 to 93.0)"
static firm_status put_rate(sheet_list* list, const report_entry* e, firm_error* err) {
    series s;
    TRY(series_make(e, 1, &s, err));
    estimate r = series_rate(&s);
    series_free(&s);
    if (r.trials)
        sheet_put(list, "%.1f (%.1f to %.1f)", r.mean, r.lo, r.hi);
    else
        sheet_none(list);
    return FIRM_OK;
}

static firm_status put_trials(sheet_list* list, const report_entry* e, firm_error* err) {
    series s;
    TRY(series_make(e, 1, &s, err));
    sheet_count(list, s.count ? s.count : NAN);
    series_free(&s);
    return FIRM_OK;
}

static firm_status front_row(const report_data* data, sheet_list* list, const char* task,
                             firm_error* err) {
    const paper_seed* seed = paper_find_seed(task, 1);
    sheet_line_new(list, SHEET_PLAIN);
    sheet_put(list, "%s", paper_task_title(task));
    TRY(put_rate(list, find(data, task, "contract", 25, "firm"), err));
    TRY(put_rate(list, find(data, task, "reach", 25, "firm"), err));
    TRY(put_rate(list, find(data, task, "contract", 50, "firm"), err));
    TRY(put_rate(list, find(data, task, "reach", 50, "firm"), err));
    TRY(put_rate(list, find(data, task, "contract", 25, "lewm"), err));
    TRY(put_trials(list, find(data, task, "contract", 25, "firm"), err));
    paper_value p = paper_success(task, "firm", "");
    sheet_value(list, p.mean, p.sd, 1);
    sheet_value(list, seed ? seed->lewm : NAN, NAN, 1);
    return FIRM_OK;
}

firm_status study_front(const report_data* data, sheet_list* list, firm_error* err) {
    const char* task;
    sheet_new(
        list, "front", "The shipped models on fresh trials",
        "Percent of goals reached, with 95 % intervals (Wilson\u2019s), on fresh trials, none "
        "of them solved at the start. Goals lie 25 or 50 controls from the start in the "
        "recording. The last two columns are the paper\u2019s, on its own trials, some of "
        "them solved at the start.",
        "task|contract;25|reach;25|contract;50|reach;50|LeWM, contract;25|trials|~paper, "
        "contract;25|~LeWM in the paper;25");
    for (int i = 0; (task = study_task(data, i)); i++) TRY(front_row(data, list, task, err));
    sheet_drop_empty(list);
    return list->failed ? FAIL(err, FIRM_E_MEMORY, "out of memory for the report") : FIRM_OK;
}
