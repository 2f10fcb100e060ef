// study_reasons.c - why the rates are what they are: what each training source gives (the paper's
// ablation), and the error budget, which says whether search, model or grounding loses the points.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/paper.h"
#include "report/series.h"
#include "report/study.h"

// ---- ablations ----------------------------------------------------------------------------------

static const report_entry* condition(const report_data* data, const char* task,
                                     const char* variant) {
    return study_entry(data, task, "contract", 25, "firm", variant, "");
}

static firm_status put_gain(sheet_list* list, const report_entry* both, const report_entry* e,
                            firm_error* err) {
    series a, b;
    estimate d = {NAN, NAN, NAN, 0};
    TRY(series_make(both, 0, &a, err));
    firm_status status = series_make(e, 0, &b, err);
    if (status == FIRM_OK) {
        status = series_difference(&a, &b, &d, err);
        series_free(&b);
    }
    series_free(&a);
    TRY(status);
    sheet_value(list, d.mean, NAN, 1);
    sheet_interval(list, d.lo, d.hi);
    return FIRM_OK;
}

static firm_status ablation_row(const report_data* data, sheet_list* list, const char* task,
                                const char* variant, firm_error* err) {
    const report_entry *e = condition(data, task, variant), *both = condition(data, task, "");
    paper_value p = paper_success(task, "firm", variant), full = paper_success(task, "firm", "");
    sheet_line_new(list, variant[0] ? SHEET_PLAIN : SHEET_OURS);
    sheet_put(list, "%s", paper_task_title(task));
    sheet_put(list, "%s", variant[0] ? variant : "factual + intervention");
    sheet_put(list, "%d", e->count);
    TRY(study_put_rates(list, e, err));
    sheet_value(list, p.mean, p.sd, 1);
    if (!variant[0]) return FIRM_OK;
    TRY(put_gain(list, both, e, err));
    sheet_value(list, full.mean - p.mean, NAN, 1);
    return FIRM_OK;
}

static firm_status table_ablation(const report_data* data, sheet_list* list, firm_error* err) {
    sheet_new(list, "ablation", "What each source of training data gives",
              "Full-chain ablations in contract mode, goals 25 controls away. The last columns say "
              "how many points the model of both sources is ahead, on the same trials.",
              "task|<trained on|seeds|success;% of all trials|95 % interval;%|success;% of trials "
              "not solved at the start|95 % interval;%|~paper;%|both ahead by;points|95 % "
              "interval;points|~paper, both ahead by;points");
    for (int i = 0; paper_task(i); i++) {
        int ablated = 0;
        for (int k = 0; paper_variant(k); k++)
            ablated |= paper_variant(k)[0] && condition(data, paper_task(i), paper_variant(k));
        for (int k = 0; paper_variant(k) && ablated; k++)
            if (condition(data, paper_task(i), paper_variant(k)))
                TRY(ablation_row(data, list, paper_task(i), paper_variant(k), err));
    }
    return FIRM_OK;
}

// ---- the error budget ---------------------------------------------------------------------------

enum { DYNAMICS, CONFIG, FIRM, ARMS };
static const char* const arms[ARMS] = {"oracle-dynamics", "oracle-config", "firm"};

static void put_lost(sheet_list* list, const estimate* d) {
    if (!isfinite(d->mean)) {
        sheet_none(list);
        return;
    }
    sheet_put(list, "%.1f (%.1f to %.1f)", d->mean + 0.0, d->lo + 0.0, d->hi + 0.0);
}

// Only trials that every arm that ran met, so that the three losses and the rate add up to 100.
static void keep_common(series of[ARMS]) {
    for (int i = 0; i < ARMS; i++)
        for (int k = 0; k < ARMS; k++)
            if (i != k && of[i].count && of[k].count) series_common(&of[i], &of[k]);
}

static firm_status budget_cells(sheet_list* list, series of[ARMS], firm_error* err) {
    estimate rate[ARMS], model, ground;
    for (int i = 0; i < ARMS; i++) rate[i] = series_rate(&of[i]);
    TRY(series_difference(&of[DYNAMICS], &of[CONFIG], &model, err));
    TRY(series_difference(&of[CONFIG], &of[FIRM], &ground, err));
    sheet_put(list, "%d", of[FIRM].count);
    for (int i = 0; i < ARMS; i++) sheet_value(list, rate[i].mean, NAN, 1);
    estimate search = {100 - rate[DYNAMICS].mean, 100 - rate[DYNAMICS].hi, 100 - rate[DYNAMICS].lo,
                       rate[DYNAMICS].trials};
    put_lost(list, &search);
    put_lost(list, &model);
    put_lost(list, &ground);
    return FIRM_OK;
}

static firm_status budget_row(const report_data* data, sheet_list* list, const char* task,
                              const char* edition, const char* mode, firm_error* err) {
    series of[ARMS] = {{0}};
    firm_status status = FIRM_OK;
    for (int i = 0; i < ARMS; i++) of[i].from = "";
    // the true simulator has no edition but that of its trials
    const char* pairs = strstr(edition, "unsolved pairs");
    for (int i = 0; i < ARMS && status == FIRM_OK; i++) {
        const char* of_arm = i == DYNAMICS ? (pairs ? pairs : "") : edition;
        status =
            series_make(study_entry(data, task, mode, 25, arms[i], "", of_arm), 1, &of[i], err);
    }
    int any = of[FIRM].count && (of[CONFIG].count || of[DYNAMICS].count);
    if (status == FIRM_OK && any) {
        keep_common(of);
        sheet_line_new(list, SHEET_PLAIN);
        sheet_put(list, "%s", paper_task_title(task));
        sheet_put(list, "%s", study_settings(edition));
        sheet_put(list, "%s", mode);
        status = budget_cells(list, of, err);
    }
    for (int i = 0; i < ARMS; i++) series_free(&of[i]);
    return status;
}

static firm_status table_budget(const report_data* data, sheet_list* list, firm_error* err) {
    static const char* const modes[] = {"contract", "reach"};
    sheet_new(list, "budget", "Where the points are lost",
              "Trials not solved at the start, goals 25 controls away; points with 95 % intervals. "
              "Search: what the same planner misses with the true simulator. Model: what it loses "
              "more with the learned transition from true configurations. Grounding: what it loses "
              "more when these are read from pixels. A dash: that arm did not meet these trials.",
              "task|<settings|<mode|trials|true simulator;%|true configuration;%|firm;%|search "
              "loses;points|model loses;points|grounding loses;points");
    const char* task;
    for (int i = 0; (task = study_task(data, i)); i++) {
        const char* edition[STUDY_EDITIONS];
        int n = study_editions(data, task, edition);
        for (int k = 0; k < n; k++)
            for (int m = 0; m < 2; m++)
                TRY(budget_row(data, list, task, edition[k], modes[m], err));
    }
    return FIRM_OK;
}

firm_status study_reasons(const report_data* data, sheet_list* list, firm_error* err) {
    TRY(table_ablation(data, list, err));
    sheet_drop_empty(list);
    TRY(table_budget(data, list, err));
    sheet_drop_empty(list);
    return list->failed ? FAIL(err, FIRM_E_MEMORY, "out of memory for the report") : FIRM_OK;
}
