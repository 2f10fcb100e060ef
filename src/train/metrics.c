// metrics.c - metrics.csv: one row every few updates. A resumed run drops the rows after its
// checkpoint, so the file reads as if the run had never stopped.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"
#include "train/run.h"

static const char* const columns[] = {
    "rgb",        "change",          "config",       "config_before", "difference",
    "nll",        "displacement",    "tail",         "chi",           "chi0",
    "i_config",   "i_displacement",  "i_tail",       "i_chi",         "i_chi0",
    "anchor",     "equivariance",    "physical",     "posture",       "i_rgb",
    "i_change",   "i_config_before", "i_difference", "i_anchor",      "i_equivariance",
    "i_physical", "i_posture",       "i_nll",        "s_config",      "s_displacement",
    "s_tail",     "s_chi",           "s_chi0",       "d_config",      "d_displacement",
    "d_tail"};
enum { COLUMNS = sizeof columns / sizeof *columns };

static void header(char* text, size_t room) {
    text[0] = 0;
    int whole = text_add(text, room, "stage,update,loss");
    for (int i = 0; i < COLUMNS; i++) whole &= text_add(text, room, ",%s", columns[i]);
    whole &= text_add(text, room, ",grad_norm,lr,seconds\n");
    CHECK(whole, "the columns of metrics.csv need more room");
}

// The end of the rows before (stage, update); rows are in order, so the first later one ends them.
static const char* rows_end(const train_run_state* run, const char* row, int stage_index,
                            int update) {
    while (*row) {
        int row_stage = MAX_STAGES;
        const char* name;
        size_t length = strcspn(row, ",\n");
        for (int i = 0; (name = config_member(run->settings, "stage.*", i)); i++)
            if (strlen(name) == length && strncmp(row, name, length) == 0) row_stage = i;
        long row_update = row[length] == ',' ? strtol(row + length + 1, NULL, 10) : 0;
        const char* next = strchr(row, '\n');
        if (!next || row_stage > stage_index || (row_stage == stage_index && row_update > update))
            break;
        row = next + 1;
    }
    return row;
}

// The rows of an earlier sitting that stay: *text is mem_free'd by the caller, *rows lies within. A
// file without a whole first line, as a run that was killed early may have left, has none.
static firm_status earlier_rows(const char* path, const char* first, char** text, const char** rows,
                                firm_error* err) {
    size_t n;
    TRY(file_read_all(path, text, &n, err));
    const char* end = strchr(*text, '\n');
    *rows = end ? end + 1 : *text + n;
    if (!end || strncmp(*text, first, strlen(first)) == 0) return FIRM_OK;
    return FAIL(err, FIRM_E_FORMAT,
                "%s has other columns than this version writes; move it away to go on without it",
                path);
}

// The file has its header from the start, whatever happens before the first row.
firm_status metrics_open(train_run_state* run, int stage_index, int update, firm_error* err) {
    char path[1100], first[1024], *text = NULL;
    const char* rows = NULL;
    file_writer w;
    snprintf(path, sizeof path, "%s/metrics.csv", run->opt->folder);
    header(first, sizeof first);
    firm_status st = FIRM_OK;
    if (run->opt->resume && file_exists(path)) st = earlier_rows(path, first, &text, &rows, err);
    if (st == FIRM_OK) st = file_open_write(&w, path, err);
    if (st == FIRM_OK) {
        st = file_put(&w, first, strlen(first), err);
        if (st == FIRM_OK && rows)
            st = file_put(&w, rows, (size_t)(rows_end(run, rows, stage_index, update) - rows), err);
        if (st == FIRM_OK) st = file_commit(&w, err);
    }
    mem_free(text);
    TRY(st);
    run->metrics = fopen(path, "ae");
    return run->metrics ? FIRM_OK : file_failed(err, "write", path, errno);
}

firm_status metrics_row(train_run_state* run, const stage* s, int update, const nn_trainer* t,
                        double seconds, firm_error* err) {
    double value[COLUMNS] = {0};
    int known[COLUMNS] = {0};
    const nn_part* part;
    int parts = nn_trainer_parts(t, &part);
    for (int p = 0; p < parts; p++)
        for (int k = 0; k < part[p].graph->terms; k++) {
            char name[64];
            snprintf(name, sizeof name, "%s%s", part[p].label, part[p].graph->term[k].name);
            for (int i = 0; i < COLUMNS; i++) {
                if (strcmp(name, columns[i]) != 0) continue;
                value[i] = nn_trainer_term(t, p, k);
                known[i] = 1;
            }
        }
    fprintf(run->metrics, "%s,%d,%.6g", s->name, update, nn_trainer_loss(t));
    for (int i = 0; i < COLUMNS; i++)
        known[i] ? fprintf(run->metrics, ",%.6g", value[i]) : fprintf(run->metrics, ",");
    fprintf(run->metrics, ",%.4g,%.6g,%.2f\n", nn_trainer_norm(t),
            (double)nn_trainer_rate(t, update - 1), seconds);
    if (fflush(run->metrics) != 0 || ferror(run->metrics)) {
        char path[1100];
        int code = errno;
        snprintf(path, sizeof path, "%s/metrics.csv", run->opt->folder);
        return file_failed(err, "write", path, code);
    }
    return FIRM_OK;
}
