// metrics.c - metrics.csv: one row every few updates. A resumed run drops the rows after its
// checkpoint, so the file reads as if the run had never stopped.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/mem.h"
#include "train/run.h"

static const char* const columns[] = {"rgb",
                                      "change",
                                      "config",
                                      "config_before",
                                      "difference",
                                      "nll",
                                      "displacement",
                                      "tail",
                                      "chi",
                                      "chi0",
                                      "i_config",
                                      "i_displacement",
                                      "i_tail",
                                      "i_chi",
                                      "i_chi0",
                                      "anchor",
                                      "equivariance",
                                      "physical",
                                      "i_rgb",
                                      "i_change",
                                      "i_config_before",
                                      "i_difference",
                                      "i_anchor",
                                      "i_equivariance",
                                      "i_physical",
                                      "i_nll",
                                      "s_config",
                                      "s_displacement",
                                      "s_tail",
                                      "s_chi",
                                      "s_chi0"};
enum { COLUMNS = sizeof columns / sizeof *columns };

// keeps the rows before (stage, update); rows are in order, so the first later one ends the copy
static firm_status keep_rows(const train_run_state* run, const char* path, int stage_index,
                             int update, firm_error* err) {
    char* text;
    size_t n;
    TRY(file_read_all(path, &text, &n, err));
    char* end = strchr(text, '\n');
    char* line = end ? end + 1 : text + n;
    while (*line) {
        int row_stage = MAX_STAGES;
        const char* name;
        size_t length = strcspn(line, ",\n");
        for (int i = 0; (name = config_member(run->settings, "stage.*", i)); i++)
            if (strlen(name) == length && strncmp(line, name, length) == 0) row_stage = i;
        long row_update = line[length] == ',' ? strtol(line + length + 1, NULL, 10) : 0;
        char* next = strchr(line, '\n');
        if (!next || row_stage > stage_index || (row_stage == stage_index && row_update > update))
            break;
        line = next + 1;
    }
    file_writer w;
    firm_status st = file_open_write(&w, path, err);
    if (st == FIRM_OK) st = file_put(&w, text, (size_t)(line - text), err);
    if (st == FIRM_OK) st = file_commit(&w, err);
    mem_free(text);
    return st;
}

firm_status metrics_open(train_run_state* run, int stage_index, int update, firm_error* err) {
    char path[1100];
    snprintf(path, sizeof path, "%s/metrics.csv", run->opt->folder);
    int fresh = !run->opt->resume || !file_exists(path);
    if (!fresh) TRY(keep_rows(run, path, stage_index, update, err));
    run->metrics = fopen(path, fresh ? "w" : "a");
    if (!run->metrics) return FAIL(err, FIRM_E_IO, "cannot write %s: %s", path, strerror(errno));
    if (fresh) {
        fprintf(run->metrics, "stage,update,loss");
        for (int i = 0; i < COLUMNS; i++) fprintf(run->metrics, ",%s", columns[i]);
        fprintf(run->metrics, ",grad_norm,lr,seconds\n");
    }
    return FIRM_OK;
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
    if (fflush(run->metrics) != 0)
        return FAIL(err, FIRM_E_IO, "cannot write %s/metrics.csv: %s; free some space",
                    run->opt->folder, strerror(errno));
    return FIRM_OK;
}
