// study_pairs.c - FIRM and LeWM on the same trials: the paper's per-seed paired table, from our
// files. The two may be arms of one evaluation or of two whose trials are from the same data.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/paper.h"
#include "report/series.h"
#include "report/study.h"

static const char* const modes[] = {"contract", "reach"};

// The arm lewm of a group: of files of its own, else beside FIRM; never one of its curve.
static const report_entry* lewm_of(const report_group* g) {
    const report_entry* found = NULL;
    for (int i = 0; i < g->count; i++) {
        const report_entry* e = &g->entries[i];
        if (strcmp(e->arm, "lewm") != 0 || e->variant[0] || study_is_curve(e->edition)) continue;
        if (!found || strcmp(e->edition, "lewm") == 0) found = e;
    }
    return found;
}

// Beside a row of FIRM: LeWM in the same file, where there is one.
static const report_row* partner(const report_group* g, const report_row* firm) {
    for (int k = 0; k < g->count; k++)
        for (int i = 0; strcmp(g->entries[k].arm, "lewm") == 0 && i < g->entries[k].count; i++)
            if (g->entries[k].rows[i].doc == firm->doc) return &g->entries[k].rows[i];
    return &lewm_of(g)->rows[0];
}

typedef struct paired {
    estimate difference;
    int rescue, harm;  // -1: of several seeds
} paired;

// Two single runs: trials are won or lost, so they are counted, and the interval is Newcombe's.
static void compare_runs(const series* x, const series* y, paired* out) {
    int both = 0, n = out->difference.trials;
    for (int i = 0; i < x->count && n; i++)
        for (int k = 0; k < y->count; k++) {
            if (x->trial[i] != y->trial[k]) continue;
            out->rescue += x->won[i] > y->won[k];
            out->harm += x->won[i] < y->won[k];
            both += x->won[i] > 0 && y->won[k] > 0;
        }
    if (!n) return;
    stats_interval ci =
        stats_newcombe(both, out->rescue, out->harm, n - both - out->rescue - out->harm);
    out->difference.lo = 100 * ci.lo;
    out->difference.hi = 100 * ci.hi;
}

static firm_status compare(const report_entry* firm, const report_row* lewm, paired* out,
                           firm_error* err) {
    const report_entry b = {.rows = (report_row*)lewm, .count = 1};
    const int one = firm->count == 1;
    series x, y;
    *out = (paired){.difference = {NAN, NAN, NAN, 0}, .rescue = one - 1, .harm = one - 1};
    TRY(series_make(firm, 0, &x, err));
    firm_status st = series_make(&b, 0, &y, err);
    if (st != FIRM_OK) {
        series_free(&x);
        return st;
    }
    st = series_difference(&x, &y, &out->difference, err);
    if (st == FIRM_OK && one) compare_runs(&x, &y, out);
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

// Times are compared only where both planned on the same kind of device.
static void put_seconds(sheet_list* list, double ours, double other, int alike) {
    if (isfinite(ours) && isfinite(other))
        sheet_put(list, "%.3f / %.3f", ours, other);
    else
        sheet_none(list);
    sheet_value(list, alike ? other / ours : NAN, NAN, 1);
}

// The paper's row for the same comparison, NULL where it has none.
static const paper_seed* paper_row(const char* task, const char* mode, int offset, int seed) {
    return offset == 25 && strcmp(mode, "contract") == 0 ? paper_find_seed(task, seed) : NULL;
}

// firm: one run, or all of its settings as one row.
static firm_status pair_row(const report_data* data, sheet_list* list, const report_group* g,
                            const report_entry* firm, firm_error* err) {
    const report_row *first = &firm->rows[0], *lewm = partner(g, first);
    const int seed = firm->count == 1 ? data->runs[first->run].seed : -1;
    const paper_seed* p = firm->edition[0] ? NULL : paper_row(g->task, g->mode, g->offset, seed);
    double ours, sd;
    paired d;
    TRY(compare(firm, lewm, &d, err));
    if (!d.difference.trials) return FIRM_OK;  // not on the same trials
    study_mean(firm, "seconds_per_episode", &ours, &sd);
    sheet_line_new(list, firm->count > 1 ? SHEET_OURS : SHEET_PLAIN);
    sheet_put(list, "%s", paper_task_title(g->task));
    sheet_put(list, "%s, %d", g->mode, g->offset);
    if (firm->count > 1)
        sheet_put(list, "%s, all %d", study_settings(firm->edition), firm->count);
    else if (seed >= 0)
        sheet_put(list, "%s, %d", study_settings(firm->edition), seed);
    else
        sheet_put(list, "%s", study_settings(firm->edition));
    double rate = 0;
    for (int i = 0; i < firm->count; i++) rate += firm->rows[i].rate / firm->count;
    sheet_value(list, rate, NAN, 1);
    sheet_value(list, lewm->rate, NAN, 1);
    put_difference(list, d.difference.mean, d.difference.lo, d.difference.hi, 1);
    put_counts(list, d.rescue >= 0, d.rescue, d.harm);
    put_seconds(list, ours, report_get(lewm->json, "seconds_per_episode"),
                strcmp(report_text(first->doc->json, "device"),
                       report_text(lewm->doc->json, "device")) == 0);
    put_difference(list, p ? p->difference : NAN, p ? p->lo : NAN, p ? p->hi : NAN, 0);
    put_counts(list, p != NULL, p ? p->rescue : 0, p ? p->harm : 0);
    sheet_value(list, p ? p->lewm_seconds / p->firm_seconds : NAN, NAN, 1);
    return FIRM_OK;
}

// The settings of the tables' first rows, and models that were shipped; what else was tried on the
// way is no comparison with LeWM.
static int compared(const char* edition) {
    return !edition[0] || strcmp(edition, "plus") == 0 || strncmp(edition, "shipped", 7) == 0;
}

static firm_status group_rows(const report_data* data, sheet_list* list, const report_group* g,
                              firm_error* err) {
    const char* edition[STUDY_EDITIONS];
    if (!lewm_of(g)) return FIRM_OK;
    int editions = study_editions(data, g->task, edition);
    for (int k = 0; k < editions; k++) {
        const report_entry* firm =
            study_entry(data, g->task, g->mode, g->offset, "firm", "", edition[k]);
        if (!firm || !compared(edition[k])) continue;
        for (int i = 0; i < firm->count; i++) {
            const report_entry one = {.edition = firm->edition, .rows = &firm->rows[i], .count = 1};
            TRY(pair_row(data, list, g, &one, err));
        }
        if (firm->count > 1) TRY(pair_row(data, list, g, firm, err));
    }
    return FIRM_OK;
}

firm_status study_pairs(const report_data* data, sheet_list* list, firm_error* err) {
    sheet_new(
        list, "lewm", "FIRM and LeWM on the same trials",
        "Both planned by this program with the same search settings. Difference: FIRM minus "
        "LeWM, with Newcombe\u2019s 95 % interval. Rescued: FIRM reached the goal and LeWM did "
        "not; harmed: the other way round. \u201call\u201d: the seeds\u2019 mean on every "
        "trial, with a percentile bootstrap over trials. Seconds: inside the planner, per episode, "
        "each of its own evaluation; their "
        "ratio stands where both planned on the same kind of device. The "
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
    TRY(study_curve(data, list, err));
    return list->failed ? FAIL(err, FIRM_E_MEMORY, "out of memory for the report") : FIRM_OK;
}
