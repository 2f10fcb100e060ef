// study_pairs.c - FIRM and LeWM on the same trials: the paper's per-seed paired table, from our
// files. The two may be arms of one evaluation or of two whose trials are from the same data.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/paper.h"
#include "report/series.h"
#include "report/study.h"

static const char* const modes[] = {"contract", "reach"};

// The arm lewm of a group: of files of its own, or beside FIRM.
static const report_entry* lewm_of(const report_data* data, const char* task, const char* mode,
                                   int offset) {
    const report_entry* e = study_entry(data, task, mode, offset, "lewm", "", "lewm");
    return e ? e : study_entry(data, task, mode, offset, "lewm", "", "");
}

// Of several rows the one of the same file.
static const report_row* partner(const report_entry* lewm, const report_row* firm) {
    for (int i = 0; i < lewm->count; i++)
        if (lewm->rows[i].doc == firm->doc) return &lewm->rows[i];
    return &lewm->rows[0];
}

typedef struct paired {
    estimate difference;
    int rescue, harm;
} paired;

static firm_status compare(const report_row* firm, const report_row* lewm, paired* out,
                           firm_error* err) {
    const report_entry a = {.rows = (report_row*)firm, .count = 1},
                       b = {.rows = (report_row*)lewm, .count = 1};
    series x, y;
    *out = (paired){.difference = {NAN, NAN, NAN, 0}};
    TRY(series_make(&a, 0, &x, err));
    firm_status st = series_make(&b, 0, &y, err);
    if (st != FIRM_OK) {
        series_free(&x);
        return st;
    }
    series_common(&x, &y);
    series_common(&y, &x);
    int n = x.count, both = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            if (x.trial[i] != y.trial[k]) continue;
            out->rescue += x.won[i] > y.won[k];
            out->harm += x.won[i] < y.won[k];
            both += x.won[i] > 0 && y.won[k] > 0;
        }
    if (n) {
        stats_interval ci =
            stats_newcombe(both, out->rescue, out->harm, n - both - out->rescue - out->harm);
        out->difference =
            (estimate){100.0 * (out->rescue - out->harm) / n, 100 * ci.lo, 100 * ci.hi, n};
    }
    series_free(&x);
    series_free(&y);
    return st;
}

static void put_difference(sheet_list* list, double mean, double lo, double hi, int decimals) {
    if (!isfinite(mean)) {
        sheet_none(list);
        return;
    }
    sheet_put(list, "%+.*f (%.*f to %.*f)", decimals, mean, decimals, lo, decimals, hi);
}

static void put_counts(sheet_list* list, int there, int rescue, int harm) {
    if (there)
        sheet_put(list, "%d / %d", rescue, harm);
    else
        sheet_none(list);
}

// The paper's row for the same comparison, NULL where it has none.
static const paper_seed* paper_row(const char* task, const char* mode, int offset, int seed) {
    return offset == 25 && strcmp(mode, "contract") == 0 ? paper_find_seed(task, seed) : NULL;
}

static firm_status pair_row(const report_data* data, sheet_list* list, const report_group* g,
                            const char* edition, const report_row* firm, const report_row* lewm,
                            firm_error* err) {
    const int seed = data->runs[firm->run].seed;
    const double ours = report_get(firm->json, "seconds_per_episode"),
                 other = report_get(lewm->json, "seconds_per_episode");
    const paper_seed* p = edition[0] ? NULL : paper_row(g->task, g->mode, g->offset, seed);
    paired d;
    TRY(compare(firm, lewm, &d, err));
    sheet_line_new(list, SHEET_PLAIN);
    sheet_put(list, "%s", paper_task_title(g->task));
    sheet_put(list, "%s, %d", g->mode, g->offset);
    if (seed >= 0)
        sheet_put(list, "%s, %d", study_settings(edition), seed);
    else
        sheet_put(list, "%s", study_settings(edition));
    sheet_value(list, firm->rate, NAN, 1);
    sheet_value(list, lewm->rate, NAN, 1);
    put_difference(list, d.difference.mean, d.difference.lo, d.difference.hi, 1);
    put_counts(list, d.difference.trials > 0, d.rescue, d.harm);
    if (isfinite(ours) && isfinite(other))
        sheet_put(list, "%.3f / %.3f", ours, other);
    else
        sheet_none(list);
    sheet_value(list, other / ours, NAN, 1);
    put_difference(list, p ? p->difference : NAN, p ? p->lo : NAN, p ? p->hi : NAN, 0);
    put_counts(list, p != NULL, p ? p->rescue : 0, p ? p->harm : 0);
    sheet_value(list, p ? p->lewm_seconds / p->firm_seconds : NAN, NAN, 1);
    return FIRM_OK;
}

static firm_status group_rows(const report_data* data, sheet_list* list, const report_group* g,
                              firm_error* err) {
    const char* edition[STUDY_EDITIONS];
    const report_entry* lewm = lewm_of(data, g->task, g->mode, g->offset);
    if (!lewm) return FIRM_OK;
    int editions = study_editions(data, g->task, edition);
    for (int k = 0; k < editions; k++) {
        const report_entry* firm =
            study_entry(data, g->task, g->mode, g->offset, "firm", "", edition[k]);
        for (int i = 0; firm && i < firm->count; i++)
            TRY(pair_row(data, list, g, edition[k], &firm->rows[i], partner(lewm, &firm->rows[i]),
                         err));
    }
    return FIRM_OK;
}

firm_status study_pairs(const report_data* data, sheet_list* list, firm_error* err) {
    sheet_new(
        list, "lewm", "FIRM and LeWM on the same trials",
        "Both planned by this program with the same search settings. Difference: FIRM minus "
        "LeWM, with Newcombe\u2019s 95 % interval. Rescued: FIRM reached the goal and LeWM did "
        "not; harmed: the other way round. Seconds: inside the planner, per episode. The "
        "paper\u2019s columns compare with LeWM\u2019s released checkpoint (89 / 88 / 90 / "
        "70 % in the order of the paper\u2019s tasks), not with its published means of three "
        "seeds.",
        "task|<mode, controls|<settings, seed|FIRM;%|LeWM;%|difference (95 %);points|rescued "
        "/ harmed;trials|FIRM / LeWM;s per episode|ratio of times|~paper;points|~paper;"
        "rescued / harmed|~paper;ratio of times");
    const char* task;
    for (int t = 0; (task = study_task(data, t)); t++)
        for (int i = 0; i < data->group_count; i++)
            for (int m = 0; m < 2; m++) {
                const report_group* g = &data->groups[i];
                if (strcmp(g->task, task) == 0 && strcmp(g->mode, modes[m]) == 0)
                    TRY(group_rows(data, list, g, err));
            }
    sheet_drop_empty(list);
    return list->failed ? FAIL(err, FIRM_E_MEMORY, "out of memory for the report") : FIRM_OK;
}
