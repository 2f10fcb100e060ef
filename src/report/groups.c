// groups.c - sorts evaluations into groups that may be compared (task, mode, offset) and puts the
// same arm of several runs together, with the mean and sample standard deviation over the runs.
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/stats.h"
#include "report/inputs.h"

static report_group* find_group(report_data* data, const cJSON* eval) {
    const char *task = report_text(eval, "task"), *mode = report_text(eval, "mode");
    int offset = (int)report_get(eval, "offset");
    for (int i = 0; i < data->group_count; i++) {
        report_group* g = &data->groups[i];
        if (g->offset == offset && strcmp(g->task, task) == 0 && strcmp(g->mode, mode) == 0)
            return g;
    }
    report_group* g = report_append(&data->groups, &data->group_count, sizeof *g);
    if (!g) return NULL;
    g->task = task;
    g->mode = mode;
    g->offset = offset;
    return g;
}

static report_entry* find_entry(report_group* g, const char* arm, const char* variant,
                                const char* edition) {
    for (int i = 0; i < g->count; i++) {
        report_entry* e = &g->entries[i];
        if (strcmp(e->arm, arm) == 0 && strcmp(e->variant, variant) == 0 &&
            strcmp(e->edition, edition) == 0)
            return e;
    }
    report_entry* e = report_append(&g->entries, &g->count, sizeof *e);
    if (!e) return NULL;
    e->arm = arm;
    e->variant = variant;
    e->edition = edition;
    return e;
}

static int uses_model(const char* arm) {
    return strncmp(arm, "firm", 4) == 0 || strcmp(arm, "lewm") == 0 ||
           strcmp(arm, "oracle-config") == 0;
}

// An arm without a learned model does the same in every run on the same trials: shown once.
static int repeated(const report_entry* e, const cJSON* arm) {
    if (uses_model(e->arm)) return 0;
    static const char* const keys[] = {"success_rate", "outcomes"};
    for (int i = 0; i < e->count; i++) {
        int same = 1;
        for (int k = 0; k < 2; k++) {
            const cJSON* a = cJSON_GetObjectItemCaseSensitive(arm, keys[k]);
            const cJSON* b = cJSON_GetObjectItemCaseSensitive(e->rows[i].json, keys[k]);
            same = same && (a && b ? cJSON_Compare(a, b, 1) : a == b);
        }
        if (same) return 1;
    }
    return 0;
}

static firm_status add_eval(report_data* data, const report_doc* d, firm_error* err) {
    const cJSON *arms = cJSON_GetObjectItemCaseSensitive(d->json, "arms"), *arm;
    report_group* g = find_group(data, d->json);
    if (!g) return FAIL(err, FIRM_E_MEMORY, "out of memory while sorting %s", d->path);
    double trials = report_get(d->json, "trials");
    if (trials > g->trials && trials < 1e9) g->trials = (int)trials;
    cJSON_ArrayForEach(arm, arms) {
        // an ablation changes the model, so arms without a model stay one entry
        const report_run* run = &data->runs[d->run];
        int learned = uses_model(arm->string);
        int harder = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(d->json, "unsolved_only"));
        report_entry* e = find_entry(g, arm->string, learned ? run->variant : "",
                                     learned  ? d->edition
                                     : harder ? "unsolved pairs"
                                              : "");
        if (e && repeated(e, arm)) continue;
        report_row* r = e ? report_append(&e->rows, &e->count, sizeof *r) : NULL;
        if (!r) return FAIL(err, FIRM_E_MEMORY, "out of memory while sorting %s", d->path);
        r->doc = d;
        r->json = arm;
        r->run = d->run;
        r->rate = report_get(arm, "success_rate");
    }
    return FIRM_OK;
}

static void summarise(report_entry* e) {
    stats_tally t = {0};
    for (int i = 0; i < e->count; i++) stats_tally_add(&t, e->rows[i].rate);
    e->mean = stats_tally_mean(&t);
    e->sd = stats_tally_deviation(&t);
}

firm_status report_groups_make(report_data* data, firm_error* err) {
    for (int i = 0; i < data->doc_count; i++) {
        if (data->docs[i].kind == DOC_EVAL) TRY(add_eval(data, &data->docs[i], err));
    }
    for (int i = 0; i < data->group_count; i++) {
        for (int k = 0; k < data->groups[i].count; k++) summarise(&data->groups[i].entries[k]);
    }
    return FIRM_OK;
}

void report_groups_free(report_data* data) {
    for (int i = 0; i < data->group_count; i++) {
        for (int k = 0; k < data->groups[i].count; k++) mem_free(data->groups[i].entries[k].rows);
        mem_free(data->groups[i].entries);
    }
    mem_free(data->groups);
    data->groups = NULL;
    data->group_count = 0;
}
