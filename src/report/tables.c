// tables.c - results: success per arm and paired differences.
// Numbers are right-aligned with tabular figures; a missing one is an en dash.
#include "report/tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/figures.h"
#include "report/paper.h"
#include "report/series.h"
#include "report/study.h"

int table_has_paper(const report_group* g) {
    return strcmp(g->mode, "contract") == 0 && g->offset == 25 &&
           isfinite(paper_success(g->task, "firm", "").mean);
}

void table_value(html* h, double mean, double sd, int decimals) {
    html_number(h, mean, decimals);
    if (!isfinite(mean) || !isfinite(sd)) return;
    html_put(h, "<span class=\"sd\"> \u00b1 ");
    html_number(h, sd, decimals);
    html_put(h, "</span>");
}

static void cell(html* h, double value, int decimals) {
    html_put(h, "<td>");
    html_number(h, value, decimals);
    html_put(h, "</td>");
}

static void interval(html* h, stats_interval ci, int decimals) {
    html_put(h, "<td class=\"ci\">");
    if (isfinite(ci.lo) && isfinite(ci.hi)) {
        html_number(h, ci.lo, decimals);
        html_put(h, " to ");
        html_number(h, ci.hi, decimals);
    } else {
        html_put(h, "\u2013");
    }
    html_put(h, "</td>");
}

// ---- success ------------------------------------------------------------------------------------

static double mean_of(const report_entry* e, const char* key) {
    double mean, sd;
    study_mean(e, key, &mean, &sd);
    return mean;
}

static void numbers(html* h, double solved, double unsolved, double seconds, double ms) {
    cell(h, solved, solved == floor(solved) ? 0 : 1);
    cell(h, unsolved, 1);
    cell(h, seconds, 3);
    cell(h, ms, 1);
}

static void paper_cells(html* h, paper_value rate, paper_value seconds) {
    html_put(h, "<td class=\"paper\">");
    table_value(h, rate.mean, rate.sd, 1);
    html_put(h, "</td><td class=\"paper\">");
    table_value(h, seconds.mean, seconds.sd, 3);
    html_put(h, "</td>");
}

static void entry_row(html* h, const report_group* g, const report_entry* e) {
    char name[160];
    figure_arm_name(e, name, sizeof name);
    html_add(h, "<tr%s><th scope=\"row\"><i class=\"key k%d\"></i>",
             strcmp(e->arm, "firm") == 0 ? " class=\"us\"" : "", figure_colour(e->arm));
    html_text(h, name);
    if (e->count > 1) html_add(h, " <span class=\"sd\">mean of %d</span>", e->count);
    html_put(h, "</th><td class=\"big\">");
    table_value(h, e->mean, e->sd, 1);
    html_put(h, "</td>");
    interval(h, e->count == 1 ? series_run_interval(&e->rows[0]) : (stats_interval){NAN, NAN}, 1);
    numbers(h, mean_of(e, "solved_at_start"), mean_of(e, "success_rate_unsolved"),
            mean_of(e, "seconds_per_episode"), mean_of(e, "ms_per_solve"));
    if (table_has_paper(g))
        paper_cells(h, paper_success(g->task, e->arm, e->variant), paper_seconds(g->task, e->arm));
    html_put(h, "</tr>\n");
}

static void run_row(html* h, const report_data* data, const report_group* g, const report_entry* e,
                    const report_row* r) {
    html_put(h, "<tr class=\"minor\"><th scope=\"row\">");
    html_text(h, data->runs[r->run].label);
    html_put(h, "</th>");
    cell(h, r->rate, 1);
    interval(h, series_run_interval(r), 1);
    numbers(h, report_get(r->json, "solved_at_start"), report_get(r->json, "success_rate_unsolved"),
            report_get(r->json, "seconds_per_episode"), report_get(r->json, "ms_per_solve"));
    if (table_has_paper(g)) {
        paper_value rate = {NAN, NAN}, seconds = {NAN, NAN};
        const paper_seed* s = paper_find_seed(g->task, data->runs[r->run].seed);
        if (s && !e->variant[0] && strcmp(e->arm, "firm") == 0)
            rate.mean = s->firm, seconds.mean = s->firm_seconds;
        paper_cells(h, rate, seconds);
    }
    html_put(h, "</tr>\n");
}

void table_success(html* h, const report_data* data, const report_group* g) {
    html_put(h,
             "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">arm</th><th "
             "scope=\"col\">success<small>%</small></th>"
             "<th scope=\"col\">95 % interval<small>%</small></th><th scope=\"col\">solved at "
             "start<small>trials</small></th>"
             "<th scope=\"col\">success among unsolved<small>%</small></th><th "
             "scope=\"col\">planner time<small>s per episode</small></th>"
             "<th scope=\"col\">solve<small>ms</small></th>");
    if (table_has_paper(g)) {
        html_put(h,
                 "<th scope=\"col\" class=\"paper\">paper<small>%</small></th><th scope=\"col\" "
                 "class=\"paper\">paper<small>s per episode</small></th>");
    }
    html_put(h, "</tr></thead><tbody>\n");
    for (int i = 0; i < g->count; i++) {
        const report_entry* e = &g->entries[i];
        entry_row(h, g, e);
        for (int k = 0; k < e->count && e->count > 1; k++) run_row(h, data, g, e, &e->rows[k]);
    }
    html_put(h, "</tbody></table></div>\n");
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

static void pair_row(html* h, const report_data* data, const report_group* g, const report_doc* d,
                     const cJSON* p, int paper_column) {
    double difference = report_get(p, "difference");
    html_put(h, "<tr><th scope=\"row\">");
    html_text(h, paper_task_title(g->task));
    html_put(h, "</th><td class=\"left\">");
    html_text(h, g->mode);
    html_add(h, ", %d</td><td class=\"left\">", g->offset);
    html_text(h, data->runs[d->run].label);
    html_put(h, "</td><td class=\"left\">");
    html_text(h, report_text(p, "a"));
    html_put(h, " \u2212 ");
    html_text(h, report_text(p, "b"));
    html_put(h, difference > 0 ? "</td><td class=\"big\">+" : "</td><td class=\"big\">");
    html_number(h, difference, 1);
    html_put(h, "</td>");
    interval(h, series_named_interval(p), 1);
    cell(h, report_get(p, "rescue"), 0);
    cell(h, report_get(p, "harm"), 0);
    const paper_seed* s = paper_pair(data, d, p);
    if (s) {
        html_put(h, s->difference > 0 ? "<td class=\"paper\">+" : "<td class=\"paper\">");
        html_number(h, s->difference, 0);
        html_put(h, " (");
        html_number(h, s->lo, 0);
        html_put(h, " to ");
        html_number(h, s->hi, 0);
        html_add(h, "), %d / %d</td>", s->rescue, s->harm);
    } else if (paper_column) {
        html_put(h, "<td class=\"paper\">\u2013</td>");
    }
    html_put(h, "</tr>\n");
}

static int in_group(const report_group* g, const report_doc* d) {
    return d->kind == DOC_EVAL && report_get(d->json, "offset") == g->offset &&
           !strcmp(report_text(d->json, "task"), g->task) &&
           !strcmp(report_text(d->json, "mode"), g->mode);
}

int table_pairs(html* h, const report_data* data) {
    int rows = 0, paper_column = 0;
    const cJSON* p;
    for (int i = 0; i < data->doc_count; i++) {
        const report_doc* d = &data->docs[i];
        if (d->kind != DOC_EVAL) continue;
        cJSON_ArrayForEach(p, cJSON_GetObjectItemCaseSensitive(d->json, "pairs")) {
            rows++;
            paper_column |= paper_pair(data, d, p) != NULL;
        }
    }
    if (!rows) return 0;
    html_put(h,
             "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">task</th>"
             "<th scope=\"col\" class=\"left\">mode, offset</th><th scope=\"col\" "
             "class=\"left\">run</th>"
             "<th scope=\"col\" class=\"left\">arms</th><th "
             "scope=\"col\">difference<small>points</small></th>"
             "<th scope=\"col\">95 % interval<small>points</small></th>"
             "<th scope=\"col\">rescued<small>trials</small></th><th "
             "scope=\"col\">harmed<small>trials</small></th>");
    if (paper_column)
        html_put(h,
                 "<th scope=\"col\" class=\"paper\">paper<small>interval, rescued / "
                 "harmed</small></th>");
    html_put(h, "</tr></thead><tbody>\n");
    for (int g = 0; g < data->group_count; g++) {
        for (int i = 0; i < data->doc_count; i++) {
            const report_doc* d = &data->docs[i];
            if (!in_group(&data->groups[g], d)) continue;
            cJSON_ArrayForEach(p, cJSON_GetObjectItemCaseSensitive(d->json, "pairs")) {
                pair_row(h, data, &data->groups[g], d, p, paper_column);
            }
        }
    }
    html_put(h, "</tbody></table></div>\n");
    return rows;
}
