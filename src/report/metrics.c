// metrics.c - reads metrics.csv: header `stage,update,loss,...terms...,lr,seconds`, one row every
// few updates; a term that a stage does not have is an empty field.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/log.h"
#include "core/mem.h"
#include "report/inputs.h"

enum { MAX_COLUMNS = 64, MOST_STAGES = 1000, MOST_BYTES = 256 << 20 };

// Cuts the line at commas; returns the number of fields, or -1 if there are too many.
static int split(char* line, char** field) {
    int n = 0;
    for (char* p = line; p; n++) {
        if (n == MAX_COLUMNS) return -1;
        field[n] = p;
        p = strchr(p, ',');
        if (p) *p++ = 0;
    }
    return n;
}

// The next line without its end (LF or CRLF), NULL at the end of the text. *complete is 0 for a
// last line without a line end.
static char* next_line(char** cursor, int* complete) {
    char* line = *cursor;
    if (!*line) return NULL;
    char* end = strchr(line, '\n');
    *complete = end != NULL;
    *cursor = end ? end + 1 : line + strlen(line);
    if (end) *end = 0;
    size_t n = strlen(line);
    if (n && line[n - 1] == '\r') line[n - 1] = 0;
    return line;
}

static firm_status read_header(const char* path, char* line, report_metrics* m, firm_error* err) {
    char* field[MAX_COLUMNS];
    int n = line ? split(line, field) : 0;
    if (n < 3 || strcmp(field[0], "stage") != 0) {
        return FAIL(
            err, FIRM_E_FORMAT,
            "%s: the first line must be stage,update,loss,...; make the file again with firm train",
            path);
    }
    m->columns = n - 1;
    m->update = m->loss = -1;
    m->column = mem_calloc((size_t)m->columns, sizeof *m->column);
    if (!m->column) return FAIL(err, FIRM_E_MEMORY, "out of memory while reading %s", path);
    for (int i = 0; i < m->columns; i++) {
        snprintf(m->column[i], sizeof m->column[i], "%s", field[i + 1]);
        if (strcmp(field[i + 1], "update") == 0) m->update = i;
        if (strcmp(field[i + 1], "loss") == 0) m->loss = i;
    }
    if (m->update < 0 || m->loss < 0) {
        return FAIL(
            err, FIRM_E_FORMAT,
            "%s: the columns update and loss are missing; make the file again with firm train",
            path);
    }
    return FIRM_OK;
}

// A training that was killed before its first line was whole has left nothing to show, which is no
// fault of the run: it may have gone on since.
static int is_unbegun(const char* text) {
    static const char first[] = "stage,update,loss";
    size_t n = strlen(text);
    if (strchr(text, '\n')) return 0;
    return strncmp(text, first, n < strlen(first) ? n : strlen(first)) == 0;
}

static firm_status find_stage(const char* path, const char* name, report_metrics* m, int* index,
                              firm_error* err) {
    for (int i = 0; i < m->stages; i++) {
        if (strcmp(m->stage[i], name) == 0) {
            *index = i;
            return FIRM_OK;
        }
    }
    if (m->stages == MOST_STAGES)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s names more than %d stages; make the file again with firm train", path,
                    MOST_STAGES);
    char(*slot)[64] = report_append(&m->stage, &m->stages, sizeof *slot);
    if (!slot) return FAIL(err, FIRM_E_MEMORY, "out of memory while reading %s", path);
    snprintf(*slot, sizeof *slot, "%s", name);
    *index = m->stages - 1;
    return FIRM_OK;
}

static firm_status read_row(const char* path, int number, char** field, report_metrics* m,
                            firm_error* err) {
    char stage[64];
    snprintf(stage, sizeof stage, "%s", field[0]);
    TRY(find_stage(path, stage, m, &m->row_stage[m->rows], err));
    double* row = m->values + (size_t)m->rows * (size_t)m->columns;
    for (int i = 0; i < m->columns; i++) {
        char* end = field[i + 1];
        row[i] = *end ? strtod(field[i + 1], &end) : NAN;
        if (*end) {
            return FAIL(err, FIRM_E_FORMAT,
                        "%s: line %d: '%.40s' in column %s is not a number; make the file again "
                        "with firm train",
                        path, number, field[i + 1], m->column[i]);
        }
    }
    if (!isfinite(row[m->update])) {
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: line %d has no update number; make the file again with firm train", path,
                    number);
    }
    m->rows++;
    return FIRM_OK;
}

static firm_status parse(const char* path, char* text, size_t size, report_metrics* m,
                         firm_error* err) {
    if (strlen(text) != size)
        return FAIL(err, FIRM_E_FORMAT, "%s is not a text file; make it again with firm train",
                    path);
    if (is_unbegun(text)) {
        log_warn("%s is empty; a run that was stopped before its first row goes on with --resume",
                 path);
        return FIRM_OK;
    }
    char* cursor = text;
    int complete = 1, number = 1;
    TRY(read_header(path, next_line(&cursor, &complete), m, err));
    // a row of so many columns has as many bytes at least: shorter lines take no room
    size_t lines = 1;
    for (const char *p = cursor, *end; *p; p = end + (*end != 0)) {
        end = p + strcspn(p, "\n");
        lines += end - p >= m->columns;
    }
    m->row_stage = mem_calloc(lines, sizeof *m->row_stage);
    m->values = mem_calloc(lines, (size_t)m->columns * sizeof *m->values);
    if (!m->row_stage || !m->values)
        return FAIL(err, FIRM_E_MEMORY, "out of memory while reading %s", path);
    for (char* line; (line = next_line(&cursor, &complete));) {
        number++;
        if (!*line) continue;
        char* field[MAX_COLUMNS];
        int n = split(line, field);
        if (n != m->columns + 1 && !complete) {
            // training was stopped while it wrote this line; everything before it is good
            log_warn("%s: the last line is incomplete and left out", path);
            break;
        }
        if (n != m->columns + 1) {
            return FAIL(
                err, FIRM_E_FORMAT,
                "%s: line %d has %d fields instead of %d; make the file again with firm train",
                path, number, n, m->columns + 1);
        }
        TRY(read_row(path, number, field, m, err));
    }
    return FIRM_OK;
}

firm_status report_metrics_read(const char* path, int run, report_metrics* m, firm_error* err) {
    char* text = NULL;
    size_t size = 0;
    memset(m, 0, sizeof *m);
    m->run = run;
    TRY(file_read_most(path, MOST_BYTES, &text, &size, err));
    firm_status status = parse(path, text, size, m, err);
    mem_free(text);
    return status;  // the owner frees what was read, also after a failure
}

void report_metrics_free(report_metrics* m) {
    mem_free(m->column);
    mem_free(m->stage);
    mem_free(m->row_stage);
    mem_free(m->values);
    memset(m, 0, sizeof *m);
}
