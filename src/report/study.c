// study.c - success: the paper's main table, every mode and distance, every seed. In every one the
// trials that were not solved at the start stand beside all of them.
#include "report/study.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"
#include "report/paper.h"
#include "report/series.h"

static const char* const modes[] = {"contract", "reach"};

// ---- shared -------------------------------------------------------------------------------------

const report_entry* study_entry(const report_data* data, const char* task, const char* mode,
                                int offset, const char* arm, const char* variant,
                                const char* edition) {
    for (int i = 0; i < data->group_count; i++) {
        const report_group* g = &data->groups[i];
        if (g->offset != offset || strcmp(g->task, task) != 0 || strcmp(g->mode, mode) != 0)
            continue;
        for (int k = 0; k < g->count; k++) {
            const report_entry* e = &g->entries[k];
            if (strcmp(e->arm, arm) == 0 && strcmp(e->variant, variant) == 0 &&
                strcmp(e->edition, edition) == 0)
                return e;
        }
    }
    return NULL;
}

const char* study_task(const report_data* data, int i) {
    int n = 0;
    while (paper_task(n)) n++;
    if (i < n) return paper_task(i);
    for (int d = 0; d < data->doc_count; d++) {
        const char* task = report_text(data->docs[d].json, "task");
        int known = !task[0];
        for (int k = 0; paper_task(k); k++) known |= strcmp(task, paper_task(k)) == 0;
        for (int k = 0; k < d; k++)
            known |= strcmp(task, report_text(data->docs[k].json, "task")) == 0;
        if (!known && n++ == i) return task;
    }
    return NULL;
}

int study_shows(const report_data* data, const char* task) {
    int found = 0;
    for (int i = 0; i < data->group_count && !found; i++) {
        const report_group* g = &data->groups[i];
        for (int k = 0; k < g->count && !found; k++)
            found = strcmp(g->task, task) == 0 && strcmp(g->entries[k].arm, "firm") == 0;
    }
    return found;
}

int study_editions(const report_data* data, const char* task, const char* edition[STUDY_EDITIONS]) {
    int n = 0, plus = 0;
    const char* others[STUDY_EDITIONS];
    for (int i = 0; i < data->group_count; i++) {
        const report_group* g = &data->groups[i];
        for (int k = 0; k < g->count; k++) {
            const report_entry* e = &g->entries[k];
            if (strcmp(g->task, task) != 0 || strcmp(e->arm, "firm") != 0 || !e->edition[0])
                continue;
            int known = strcmp(e->edition, "plus") == 0;
            plus |= known;
            for (int j = 0; j < n; j++) known |= strcmp(others[j], e->edition) == 0;
            if (!known && n < STUDY_EDITIONS - 2) others[n++] = e->edition;
        }
    }
    int count = 0;
    edition[count++] = "";
    if (plus) edition[count++] = "plus";
    for (int j = 0; j < n; j++) edition[count++] = others[j];
    return count;
}

const char* study_settings(const char* edition) {
    return edition[0] ? edition : "main";
}

void study_mean(const report_entry* e, const char* key, double* mean, double* sd) {
    stats_tally t = {0};
    for (int i = 0; e && i < e->count; i++) {
        double v = report_get(e->rows[i].json, key);
        if (isfinite(v)) stats_tally_add(&t, v);
    }
    *mean = stats_tally_mean(&t);
    *sd = stats_tally_deviation(&t);
}

static firm_status put_rate(sheet_list* list, const report_entry* e, int unsolved,
                            firm_error* err) {
    series s;
    double mean, sd;
    TRY(series_make(e, unsolved, &s, err));
    estimate r = series_rate(&s);
    series_free(&s);
    study_mean(e, unsolved ? "success_rate_unsolved" : "success_rate", &mean, &sd);
    sheet_value(list, mean, sd, 1);
    sheet_interval(list, r.lo, r.hi);
    return FIRM_OK;
}

firm_status study_put_rates(sheet_list* list, const report_entry* e, firm_error* err) {
    TRY(put_rate(list, e, 0, err));
    return put_rate(list, e, 1, err);
}

// ---- the main table -----------------------------------------------------------------------------

static void quoted_rows(const report_data* data, sheet_list* list) {
    for (int k = 0; paper_method(k); k++) {
        sheet_line_new(list, SHEET_QUOTED);
        sheet_put(list, "%s", paper_method(k));
        for (int i = 0; paper_task(i); i++) {
            paper_value v = paper_method_success(paper_method(k), paper_task(i));
            if (study_shows(data, paper_task(i))) sheet_value(list, v.mean, v.sd, 1);
        }
    }
}

static const report_entry* lewm_entry(const report_data* data, const char* task, const char* mode) {
    const report_entry* e = study_entry(data, task, mode, 25, "lewm", "", "lewm");
    return e ? e : study_entry(data, task, mode, 25, "lewm", "", "");
}

// LeWM as trained here, where it was evaluated in files of its own.
static void lewm_row(const report_data* data, sheet_list* list, const char* mode, int unsolved) {
    int there = 0;
    for (int i = 0; paper_task(i); i++) there |= lewm_entry(data, paper_task(i), mode) != NULL;
    if (!there) return;
    sheet_line_new(list, unsolved ? SHEET_PLAIN : SHEET_OURS);
    sheet_put(list, "LeWM trained in C, %s%s", mode, unsolved ? "; not solved at the start" : "");
    for (int i = 0; paper_task(i); i++) {
        double mean, sd;
        if (!study_shows(data, paper_task(i))) continue;
        study_mean(lewm_entry(data, paper_task(i), mode),
                   unsolved ? "success_rate_unsolved" : "success_rate", &mean, &sd);
        sheet_value(list, mean, sd, 1);
    }
}

static void our_row(const report_data* data, sheet_list* list, const char* mode,
                    const char* edition, int unsolved) {
    // of pairs that are all unsolved there is but one rate
    if (unsolved && strstr(edition, "unsolved pairs")) return;
    sheet_line_new(list, unsolved ? SHEET_PLAIN : SHEET_OURS);
    sheet_put(list, "FIRM in C, %s%s%s%s", mode, edition[0] ? ", " : "", edition,
              unsolved ? "; not solved at the start" : "");
    for (int i = 0; paper_task(i); i++) {
        double mean, sd;
        if (!study_shows(data, paper_task(i))) continue;
        const report_entry* e = study_entry(data, paper_task(i), mode, 25, "firm", "", edition);
        study_mean(e, unsolved ? "success_rate_unsolved" : "success_rate", &mean, &sd);
        sheet_value(list, mean, sd, 1);
    }
}

// An edition of any task, each once.
static int all_editions(const report_data* data, const char* edition[STUDY_EDITIONS]) {
    int count = 0;
    for (int i = 0; paper_task(i); i++) {
        const char* of[STUDY_EDITIONS];
        int n = study_editions(data, paper_task(i), of);
        for (int k = 0; k < n; k++) {
            int known = 0;
            for (int j = 0; j < count; j++) known |= strcmp(edition[j], of[k]) == 0;
            if (!known && count < STUDY_EDITIONS) edition[count++] = of[k];
        }
    }
    return count;
}

static void table_main(const report_data* data, sheet_list* list) {
    char head[256] = "method";
    const char* edition[STUDY_EDITIONS];
    int shown = 0;
    for (int i = 0; paper_task(i); i++) {
        if (!study_shows(data, paper_task(i))) continue;
        text_add(head, sizeof head, "|%s;%%", paper_task_title(paper_task(i)));
        shown++;
    }
    if (!shown) return;
    sheet_new(list, "published", "Beside published results",
              "Success in percent for goals 25 controls away, mean and sample deviation over the "
              "training seeds. The first rows are quoted from the paper\u2019s main table; their "
              "trials and planner budgets are not all the same as ours.",
              head);
    quoted_rows(data, list);
    for (int m = 0; m < 2; m++)
        for (int unsolved = 0; unsolved < 2; unsolved++) lewm_row(data, list, modes[m], unsolved);
    int n = all_editions(data, edition);
    for (int k = 0; k < n; k++) {
        for (int m = 0; m < 2; m++) {
            our_row(data, list, modes[m], edition[k], 0);
            our_row(data, list, modes[m], edition[k], 1);
        }
    }
}

// ---- modes and distances ------------------------------------------------------------------------

// Offsets that were evaluated for a task, ascending.
static int list_offsets(const report_data* data, const char* task, int* offset, int room) {
    int n = 0;
    for (int i = 0; i < data->group_count; i++) {
        const report_group* g = &data->groups[i];
        int known = strcmp(g->task, task) != 0, at = n;
        for (int k = 0; k < n; k++) known |= offset[k] == g->offset;
        if (known || n == room) continue;
        for (; at > 0 && offset[at - 1] > g->offset; at--) offset[at] = offset[at - 1];
        offset[at] = g->offset;
        n++;
    }
    return n;
}

static firm_status success_row(const report_data* data, sheet_list* list, const char* task,
                               const char* edition, const char* mode, int offset, firm_error* err) {
    const report_entry* e = study_entry(data, task, mode, offset, "firm", "", edition);
    double start, sd;
    if (!e) return FIRM_OK;
    sheet_line_new(list, SHEET_PLAIN);
    sheet_put(list, "%s", paper_task_title(task));
    sheet_put(list, "%s", study_settings(edition));
    sheet_put(list, "%s, %d", mode, offset);
    sheet_put(list, "%d", e->count);
    TRY(study_put_rates(list, e, err));
    study_mean(e, "solved_at_start", &start, &sd);
    sheet_value(list, start, NAN, 0);
    paper_value p = paper_success(task, "firm", "");
    int same = offset == 25 && strcmp(mode, "contract") == 0;
    sheet_value(list, same ? p.mean : NAN, p.sd, 1);
    return FIRM_OK;
}

static firm_status table_modes(const report_data* data, sheet_list* list, firm_error* err) {
    sheet_new(
        list, "modes", "Both planners, near and far goals",
        "Contract is the paper\u2019s planner, reach ours. Mean and sample deviation over the "
        "training seeds. 95 % intervals are Wilson\u2019s; a trial counts once, whatever the "
        "number of seeds.",
        "task|<settings|<mode, controls to the goal|seeds|success;% of all trials|95 % "
        "interval;%|success;% of trials not solved at the start|95 % interval;%|solved at the "
        "start;trials|~paper;% of all trials");
    const char* task;
    for (int i = 0; (task = study_task(data, i)); i++) {
        const char* edition[STUDY_EDITIONS];
        int offset[16];
        if (!study_shows(data, task)) continue;
        int editions = study_editions(data, task, edition);
        int offsets = list_offsets(data, task, offset, 16);
        for (int k = 0; k < editions; k++)
            for (int o = 0; o < offsets; o++)
                for (int m = 0; m < 2; m++)
                    TRY(success_row(data, list, task, edition[k], modes[m], offset[o], err));
    }
    return FIRM_OK;
}

// ---- every seed ---------------------------------------------------------------------------------

static const report_row* row_of_seed(const report_data* data, const report_entry* e, int seed) {
    for (int i = 0; e && i < e->count; i++)
        if (data->runs[e->rows[i].run].seed == seed) return &e->rows[i];
    return NULL;
}

static void seed_row(sheet_list* list, const char* task, const char* edition, int seed,
                     const report_row* r) {
    const paper_seed* p = paper_find_seed(task, seed);
    stats_interval ci = series_run_interval(r);
    sheet_line_new(list, SHEET_PLAIN);
    sheet_put(list, "%s", paper_task_title(task));
    sheet_put(list, "%s", study_settings(edition));
    sheet_put(list, "%d", seed);
    sheet_value(list, r->rate, NAN, 1);
    sheet_interval(list, ci.lo, ci.hi);
    sheet_value(list, report_get(r->json, "success_rate_unsolved"), NAN, 1);
    sheet_value(list, report_get(r->json, "seconds_per_episode"), NAN, 3);
    sheet_value(list, p ? p->firm : NAN, NAN, 0);
    sheet_value(list, p ? p->firm_seconds : NAN, NAN, 3);
    sheet_value(list, p ? p->lewm : NAN, NAN, 0);
}

static void table_seeds(const report_data* data, sheet_list* list) {
    sheet_new(
        list, "seeds", "Every seed",
        "Contract mode, goals 25 controls away. LeWM in the paper is its released checkpoint on "
        "the paper\u2019s trials; the main table quotes its published mean of three seeds.",
        "task|<settings|<seed|success;% of all trials|95 % interval;%|success;% of trials not "
        "solved at the start|planner;s per episode|~paper;%|~paper;s per episode|~LeWM in the "
        "paper;%");
    const char* task;
    for (int i = 0; (task = study_task(data, i)); i++) {
        const char* edition[STUDY_EDITIONS];
        int editions = study_shows(data, task) ? study_editions(data, task, edition) : 0;
        for (int k = 0; k < editions; k++) {
            const report_entry* e = study_entry(data, task, "contract", 25, "firm", "", edition[k]);
            for (int seed = 0; seed < 100; seed++) {
                const report_row* r = row_of_seed(data, e, seed);
                if (r) seed_row(list, task, edition[k], seed, r);
            }
        }
    }
}

firm_status study_success(const report_data* data, sheet_list* list, firm_error* err) {
    table_main(data, list);
    sheet_drop_empty(list);
    TRY(table_modes(data, list, err));
    sheet_drop_empty(list);
    table_seeds(data, list);
    sheet_drop_empty(list);
    return list->failed ? FAIL(err, FIRM_E_MEMORY, "out of memory for the report") : FIRM_OK;
}
