// series.c - outcomes per trial over seeds, and intervals of their means. The unit is the trial:
// what one start and goal did under every seed and arm stays together.
#include "report/series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

enum { SEED = 0, SOLVED_AT_START = 2 };

static const cJSON* outcomes_of(const report_row* r) {
    return cJSON_GetObjectItemCaseSensitive(r->json, "outcomes");
}

static double won(const cJSON* outcome) {
    return cJSON_IsBool(outcome) ? cJSON_IsTrue(outcome) : outcome->valuedouble != 0;
}

static int at_start(const cJSON* outcome, const cJSON* solved) {
    return (cJSON_IsNumber(outcome) && outcome->valuedouble == SOLVED_AT_START) ||
           (cJSON_IsNumber(solved) && solved->valuedouble != 0);
}

// The lists of the document that say something of each of its n trials; NULL: they do not.
static const cJSON* per_trial(const report_row* r, const char* key, int n) {
    const cJSON* list = cJSON_GetObjectItemCaseSensitive(r->doc->json, key);
    return cJSON_IsArray(list) && cJSON_GetArraySize(list) == n ? list->child : NULL;
}

const cJSON* series_start_solved(const report_row* r, int trial) {
    const cJSON* first =
        r->doc ? per_trial(r, "start_solved", cJSON_GetArraySize(outcomes_of(r))) : NULL;
    for (; first && trial > 0; trial--) first = first->next;
    return first;
}

// Which trials were solved at the start must be known, or that none was.
static int knows_start(const report_row* r, int n) {
    if (per_trial(r, "start_solved", n) || !(report_get(r->json, "solved_at_start") > 0)) return 1;
    const cJSON* o;
    cJSON_ArrayForEach(o, outcomes_of(r)) {
        if (at_start(o, NULL)) return 1;
    }
    return 0;
}

// One run's outcomes; trials are named by their start rows where the file has one for each.
static firm_status one_run(const report_row* r, int unsolved, series* out, firm_error* err) {
    const cJSON *list = outcomes_of(r), *o;
    int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0, at = 0;
    *out = (series){.from = report_text(r->doc->json, "data_hash")};
    if (!n || (unsolved && !knows_start(r, n))) return FIRM_OK;
    out->trial = mem_calloc((size_t)n, sizeof *out->trial);
    out->won = mem_calloc((size_t)n, sizeof *out->won);
    if (!out->trial || !out->won) {
        series_free(out);
        return FAIL(err, FIRM_E_MEMORY, "out of memory for the report");
    }
    const cJSON *row = per_trial(r, "start_rows", n), *solved = per_trial(r, "start_solved", n);
    cJSON_ArrayForEach(o, list) {
        int64_t trial = row && cJSON_IsNumber(row) ? (int64_t)row->valuedouble : at;
        int skip = unsolved && at_start(o, solved);
        row = row ? row->next : NULL;
        solved = solved ? solved->next : NULL;
        at++;
        if (skip) continue;
        out->trial[out->count] = trial;
        out->won[out->count++] = won(o);
    }
    return FIRM_OK;
}

static int find(const series* s, int64_t trial) {
    for (int i = 0; i < s->count; i++)
        if (s->trial[i] == trial) return i;
    return -1;
}

static int same_data(const series* a, const series* b) {
    return a->count && b->count && strcmp(a->from, b->from) == 0;
}

void series_common(series* a, const series* b) {
    int kept = 0;
    for (int i = 0; i < a->count && same_data(a, b); i++) {
        if (find(b, a->trial[i]) < 0) continue;
        a->trial[kept] = a->trial[i];
        a->won[kept++] = a->won[i];
    }
    a->count = kept;
}

firm_status series_make(const report_entry* e, int unsolved, series* out, firm_error* err) {
    *out = (series){.from = ""};
    for (int k = 0; e && k < e->count; k++) {
        series next;
        firm_status status = one_run(&e->rows[k], unsolved, &next, err);
        if (status != FIRM_OK) {
            series_free(out);
            return status;
        }
        if (k == 0) {
            *out = next;
            continue;
        }
        series_common(out, &next);
        for (int i = 0; i < out->count; i++)
            out->won[i] += (next.won[find(&next, out->trial[i])] - out->won[i]) / (k + 1);
        series_free(&next);
    }
    return FIRM_OK;
}

void series_free(series* s) {
    mem_free(s->trial);
    mem_free(s->won);
    *s = (series){.from = ""};
}

estimate series_rate(const series* s) {
    double mean = stats_mean(s->won, s->count);
    stats_interval ci = stats_wilson(mean, s->count);
    return (estimate){100 * mean, 100 * ci.lo, 100 * ci.hi, s->count};
}

stats_interval series_named_interval(const cJSON* of) {
    const cJSON* ci = cJSON_GetObjectItemCaseSensitive(of, "ci95");
    if (!cJSON_IsArray(ci) || !ci->child || !ci->child->next) return (stats_interval){NAN, NAN};
    return (stats_interval){ci->child->valuedouble, ci->child->next->valuedouble};
}

stats_interval series_run_interval(const report_row* r) {
    int n = cJSON_GetArraySize(outcomes_of(r));
    if (!n) return series_named_interval(r->json);
    stats_interval share = stats_wilson(r->rate / 100, n);
    return (stats_interval){100 * share.lo, 100 * share.hi};
}

// ---- pairs of a document ------------------------------------------------------------------------

static const cJSON* arm_outcomes(const report_doc* d, const char* arm) {
    const cJSON* arms = cJSON_GetObjectItemCaseSensitive(d->json, "arms");
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(arms, arm),
                                            "outcomes");
}

firm_status series_fates(const report_doc* d, const cJSON* pair, pair_fates* out, firm_error* err) {
    const cJSON *a = arm_outcomes(d, report_text(pair, "a")),
                *b = arm_outcomes(d, report_text(pair, "b"));
    int n = cJSON_IsArray(a) && cJSON_IsArray(b) ? cJSON_GetArraySize(a) : 0;
    *out = (pair_fates){0};
    if (!n || cJSON_GetArraySize(b) != n) return FIRM_OK;
    out->fate = mem_calloc((size_t)n, sizeof *out->fate);
    if (!out->fate) return FAIL(err, FIRM_E_MEMORY, "out of memory for the report");
    for (a = a->child, b = b->child; a && b; a = a->next, b = b->next)
        out->fate[out->count++] = won(a)   ? (won(b) ? FATE_BOTH : FATE_FIRST)
                                  : won(b) ? FATE_SECOND
                                           : FATE_NEITHER;
    return FIRM_OK;
}

void pair_fates_free(pair_fates* f) {
    mem_free(f->fate);
    *f = (pair_fates){0};
}

firm_status series_pair_interval(const report_doc* d, const cJSON* pair, stats_interval* out,
                                 firm_error* err) {
    pair_fates f;
    int n[4] = {0};
    *out = series_named_interval(pair);
    TRY(series_fates(d, pair, &f, err));
    for (int i = 0; i < f.count; i++) n[f.fate[i]]++;
    if (f.count) {
        stats_interval ci =
            stats_newcombe(n[FATE_BOTH], n[FATE_FIRST], n[FATE_SECOND], n[FATE_NEITHER]);
        *out = (stats_interval){100 * ci.lo, 100 * ci.hi};
    }
    pair_fates_free(&f);
    return FIRM_OK;
}

// ---- two arms over seeds ------------------------------------------------------------------------

firm_status series_difference(const series* a, const series* b, estimate* out, firm_error* err) {
    *out = (estimate){NAN, NAN, NAN, 0};
    if (!same_data(a, b)) return FIRM_OK;
    double* value = mem_calloc((size_t)a->count, sizeof *value);
    if (!value) return FAIL(err, FIRM_E_MEMORY, "out of memory for the report");
    int n = 0;
    for (int i = 0; i < a->count; i++) {
        int k = find(b, a->trial[i]);
        if (k >= 0) value[n++] = 100 * (a->won[i] - b->won[k]);
    }
    stats_interval ci = {NAN, NAN};
    firm_status status = n ? stats_bootstrap(value, n, SEED, &ci, err) : FIRM_OK;
    *out = (estimate){stats_mean(value, n), ci.lo, ci.hi, n};
    mem_free(value);
    return status;
}
