// figure_pairs.c - two arms on the same trials, a dot per trial: reached by both, by the first
// alone (rescued), by the second alone (harmed), by neither.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/figures.h"
#include "report/paper.h"
#include "report/series.h"

enum { WIDTH = FIGURE_WIDTH, LEFT = 170, PER_LINE = 20, MAX_TRIALS = 1000, FATES = 4 };

static double pitch(void) {
    return (WIDTH - LEFT - 34) / (double)PER_LINE;
}

static int lines_of(int count) {
    return count ? (count + PER_LINE - 1) / PER_LINE : 1;
}

// The name, the dots, and how many there are. Returns where the next row begins.
static double put_row(html* h, const pair_fates* of, int fate, const char* name, double y) {
    static const char* const look[FATES] = {"hit", "rescued", "miss", "start"};
    char text[64];
    int count = 0;
    for (int i = 0; i < of->count; i++) {
        if ((int)of->fate[i] != fate) continue;
        html_add(h,
                 "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.2\" class=\"%s\"><title>trial %d</title>"
                 "</circle>\n",
                 LEFT + (count % PER_LINE + 0.5) * pitch(), y + 9.0 * (count / PER_LINE),
                 look[fate], i + 1);
        count++;
    }
    figure_short_label(name, 32, text, sizeof text);
    svg_label(h, LEFT - 8, y + 4, "end", "small", text);
    snprintf(text, sizeof text, "%d", count);
    svg_label(h, WIDTH - 4, y + 4, "end", "strong small", text);
    return y + 9.0 * lines_of(count) + 11;
}

figure* figure_pair(figure_list* list, const report_doc* d, const cJSON* pair) {
    const char *a = report_text(pair, "a"), *b = report_text(pair, "b");
    pair_fates of;
    firm_error err;
    char stem[200], name[FATES][96];
    if (series_fates(d, pair, &of, &err) != FIRM_OK) list->failed = 1;
    if (list->failed || !of.count || of.count > MAX_TRIALS) {
        if (!list->failed) pair_fates_free(&of);
        return NULL;
    }
    int lines = 0, count[FATES] = {0};
    for (int i = 0; i < of.count; i++) count[of.fate[i]]++;
    for (int k = 0; k < FATES; k++) lines += lines_of(count[k]);
    snprintf(stem, sizeof stem, "pairs-%.40s-%.30s-%.0f-%.30s-%.30s", report_text(d->json, "task"),
             report_text(d->json, "mode"), report_get(d->json, "offset"), a, b);
    figure* f = figure_new(list, stem, WIDTH, 20 + 9.0 * lines + 11 * FATES);
    if (f) {
        snprintf(
            f->title, sizeof f->title,
            "%.30s and %.30s on the same trials of %.40s, %.20s mode, goals %.0f controls away", a,
            b, paper_task_title(report_text(d->json, "task")), report_text(d->json, "mode"),
            report_get(d->json, "offset"));
        snprintf(name[FATE_BOTH], sizeof name[0], "both reached");
        snprintf(name[FATE_FIRST], sizeof name[0], "rescued: only %.60s", a);
        snprintf(name[FATE_SECOND], sizeof name[0], "harmed: only %.60s", b);
        snprintf(name[FATE_NEITHER], sizeof name[0], "neither");
        double y = 14;
        for (int k = 0; k < FATES; k++) y = put_row(&f->body, &of, k, name[k], y);
    }
    pair_fates_free(&of);
    return f;
}
