// tables.c - results of one group of trials: success of every arm, and paired differences. Trials
// that were within tolerance before the first control say nothing of an arm, so the first rate is
// of the others.
#include "report/tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/figures.h"
#include "report/paper.h"
#include "report/series.h"
#include "report/study.h"

static firm_status done(const sheet_list* list, firm_error* err) {
    return list->failed ? FAIL(err, FIRM_E_MEMORY, "out of memory for the report") : FIRM_OK;
}

int table_has_paper(const report_group* g) {
    return strcmp(g->mode, "contract") == 0 && g->offset == 25 &&
           isfinite(paper_success(g->task, "firm", "").mean);
}

void table_group_name(const report_group* g, char* out, size_t room) {
    snprintf(out, room, "%.60s, %.40s mode, goals %d controls away", paper_task_title(g->task),
             g->mode, g->offset);
}

// ---- success ------------------------------------------------------------------------------------

typedef struct success_line {
    double rate, sd, unsolved, unsolved_sd, start, seconds, ms;
    estimate interval;  // of the unsolved trials
    paper_value paper, paper_seconds;
} success_line;

static void put_success(sheet_list* list, const success_line* l, int any_at_start) {
    sheet_value(list, l->unsolved, l->unsolved_sd, 1);
    sheet_look(list, TONE_STRONG);
    sheet_interval(list, l->interval.lo, l->interval.hi);
    sheet_count(list, l->interval.trials ? l->interval.trials : NAN);
    // where no trial is solved at the start, the rate of all trials is the same one again
    sheet_value(list, any_at_start ? l->start : NAN, NAN, l->start == floor(l->start) ? 0 : 1);
    sheet_value(list, any_at_start || !isfinite(l->unsolved) ? l->rate : NAN, l->sd, 1);
    sheet_value(list, l->seconds, NAN, 3);
    sheet_value(list, l->ms, NAN, 1);
    sheet_value(list, l->paper.mean, l->paper.sd, 1);
    sheet_value(list, l->paper_seconds.mean, l->paper_seconds.sd, 3);
}

static double mean_of(const report_entry* e, const char* key, double* sd) {
    double mean, deviation;
    study_mean(e, key, &mean, &deviation);
    if (sd) *sd = deviation;
    return mean;
}

static firm_status unsolved_interval(const report_entry* e, estimate* out, firm_error* err) {
    series s;
    TRY(series_make(e, 1, &s, err));
    *out = series_rate(&s);
    series_free(&s);
    return FIRM_OK;
}

// One arm, or one run of it: `e` holds the runs to be averaged.
static firm_status read_line(const report_group* g, const report_entry* e, success_line* l,
                             firm_error* err) {
    *l = (success_line){.paper = {NAN, NAN}, .paper_seconds = {NAN, NAN}};
    l->rate = mean_of(e, "success_rate", &l->sd);
    l->unsolved = mean_of(e, "success_rate_unsolved", &l->unsolved_sd);
    l->start = mean_of(e, "solved_at_start", NULL);
    l->ms = mean_of(e, "ms_per_solve", NULL);
    // an arm that plans nothing has no planner time
    l->seconds = isfinite(l->ms) ? mean_of(e, "seconds_per_episode", NULL) : NAN;
    if (table_has_paper(g)) {
        l->paper = paper_success(g->task, e->arm, e->variant);
        l->paper_seconds = paper_seconds(g->task, e->arm);
    }
    return unsolved_interval(e, &l->interval, err);
}

static firm_status run_line(const report_data* data, const report_group* g, const report_entry* e,
                            int run, sheet_list* list, int any_at_start, firm_error* err) {
    report_entry one = *e;
    success_line l;
    one.rows = &e->rows[run];
    one.count = 1;
    TRY(read_line(g, &one, &l, err));
    l.paper = l.paper_seconds = (paper_value){NAN, NAN};
    const paper_seed* s = paper_find_seed(g->task, data->runs[one.rows->run].seed);
    if (s && table_has_paper(g) && !e->variant[0] && strcmp(e->arm, "firm") == 0)
        l.paper.mean = s->firm, l.paper_seconds.mean = s->firm_seconds;
    sheet_line_new(list, SHEET_MINOR);
    sheet_put(list, "%s", data->runs[one.rows->run].label);
    put_success(list, &l, any_at_start);
    return FIRM_OK;
}

firm_status table_success(const report_data* data, const report_group* g, sheet_list* list,
                          firm_error* err) {
    char title[192], name[200];
    double most_at_start = 0;
    table_group_name(g, title, sizeof title);
    sheet_new(
        list, "success", title, NULL,
        "arm|success;% of trials not solved at the start|95 % interval;%|trials;not solved at "
        "the start|solved at the start;trials|success;% of all trials|planner;s per "
        "episode|one plan;ms|~paper;% of all trials|~paper;s per episode");
    for (int i = 0; i < g->count; i++)
        most_at_start = fmax(most_at_start, mean_of(&g->entries[i], "solved_at_start", NULL));
    for (int i = 0; i < g->count; i++) {
        const report_entry* e = &g->entries[i];
        success_line l;
        TRY(read_line(g, e, &l, err));
        figure_arm_name(g, e, name, sizeof name);
        sheet_line_new(list, strcmp(e->arm, "firm") == 0 ? SHEET_OURS : SHEET_PLAIN);
        sheet_key(list, figure_colour(e->arm));
        if (e->count > 1)
            sheet_put(list, "%s, mean of %d", name, e->count);
        else
            sheet_put(list, "%s", name);
        put_success(list, &l, most_at_start > 0);
        for (int k = 0; k < e->count && e->count > 1; k++)
            TRY(run_line(data, g, e, k, list, most_at_start > 0, err));
    }
    sheet_drop_empty(list);
    return done(list, err);
}

// ---- paired differences -------------------------------------------------------------------------

// The paper's row for the same comparison and seed, NULL where it has none.
static const paper_seed* paper_pair(const report_data* data, const report_doc* d, const cJSON* p) {
    const report_run* r = &data->runs[d->run];
    int same = !strcmp(report_text(p, "a"), "firm") && !strcmp(report_text(p, "b"), "lewm") &&
               !strcmp(report_text(d->json, "mode"), "contract") &&
               report_get(d->json, "offset") == 25;
    return same && !r->variant[0] ? paper_find_seed(report_text(d->json, "task"), r->seed) : NULL;
}

static firm_status pair_line(const report_data* data, const report_group* g, const report_doc* d,
                             const cJSON* p, sheet_list* list, firm_error* err) {
    const paper_seed* s = paper_pair(data, d, p);
    stats_interval ci;
    TRY(series_pair_interval(d, p, &ci, err));
    sheet_line_new(list, SHEET_PLAIN);
    sheet_put(list, "%s", paper_task_title(g->task));
    sheet_put(list, "%s, %d", g->mode, g->offset);
    sheet_put(list, "%s", data->runs[d->run].label);
    sheet_put(list, "%s \u2212 %s", report_text(p, "a"), report_text(p, "b"));
    sheet_value(list, report_get(p, "difference"), NAN, 1);
    sheet_look(list, TONE_STRONG);
    sheet_interval(list, ci.lo, ci.hi);
    sheet_count(list, report_get(p, "rescue"));
    sheet_count(list, report_get(p, "harm"));
    if (s)
        sheet_put(list, "%+.0f (%.0f to %.0f), %d / %d", s->difference, s->lo, s->hi, s->rescue,
                  s->harm);
    return FIRM_OK;
}

static int in_group(const report_group* g, const report_doc* d) {
    return d->kind == DOC_EVAL && report_get(d->json, "offset") == g->offset &&
           !strcmp(report_text(d->json, "task"), g->task) &&
           !strcmp(report_text(d->json, "mode"), g->mode);
}

firm_status table_pairs(const report_data* data, sheet_list* list, firm_error* err) {
    const cJSON* p;
    sheet_new(list, "pairs", "Paired differences",
              "The same trials under two arms. Rescued: only the first arm reached the goal. "
              "Harmed: only the second. 95 % intervals are Newcombe\u2019s for paired shares.",
              "task|<mode, controls|<run|<arms|difference;points|95 % interval;points|rescued;"
              "trials|harmed;trials|~paper;points (interval), rescued / harmed");
    for (int g = 0; g < data->group_count; g++) {
        for (int i = 0; i < data->doc_count; i++) {
            const report_doc* d = &data->docs[i];
            if (!in_group(&data->groups[g], d)) continue;
            cJSON_ArrayForEach(p, cJSON_GetObjectItemCaseSensitive(d->json, "pairs"))
                TRY(pair_line(data, &data->groups[g], d, p, list, err));
        }
    }
    sheet_drop_empty(list);
    return done(list, err);
}
