// lines.c - the results of runs as one file a task, a result a line: small enough to keep beside
// the code, and read again like the files it was made of (inputs.c).
#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "io/json.h"
#include "report/inputs.h"
#include "report/names.h"
#include "report/report.h"

static firm_status no_memory(firm_error* err) {
    return FAIL(err, FIRM_E_MEMORY, "no memory for the results");
}

// The line of a document, or NULL without memory. Its json is only borrowed.
static cJSON* line_of(const char* file, const report_doc* d) {
    cJSON* line = cJSON_CreateObject();
    if (line && cJSON_AddStringToObject(line, "file", file) &&
        cJSON_AddItemReferenceToObject(line, "result", d->json))
        return line;
    cJSON_Delete(line);
    return NULL;
}

// A result takes the place of an earlier one of its name. 0: no memory.
static int put_line(cJSON* lines, const char* file, cJSON* line) {
    int at = 0;
    const cJSON* old;
    if (!line) return 0;
    cJSON_ArrayForEach(old, lines) {
        if (strcmp(report_text(old, "file"), file) == 0)
            return cJSON_ReplaceItemInArray(lines, at, line);
        at++;
    }
    return cJSON_AddItemToArray(lines, line);
}

static firm_status add_line(const report_data* data, const report_doc* d, const char* task,
                            cJSON* lines, firm_error* err) {
    char stem[120], file[128];
    // beside the tables: what was recorded for the eye, and what belongs to no task
    if (d->kind == DOC_TRACE || strcmp(report_text(d->json, "task"), task) != 0) return FIRM_OK;
    // these may have any name: bench-ANYTHING, params-ANYTHING
    int free = (d->kind == DOC_BENCH || d->kind == DOC_PARAMS) && strchr(d->name, '-');
    if (free ? (size_t)snprintf(stem, sizeof stem, "%s", d->name) >= sizeof stem
             : !names_flat(data->runs[d->run].path, d->name, task, stem, sizeof stem))
        return FAIL(
            err, FIRM_E_USAGE,
            "%s has no name among results (KIND-TASK-..): give the folder of a study, or of "
            "files named like docs/results",
            d->path);
    snprintf(file, sizeof file, "%s.json", stem);
    cJSON* line = line_of(file, d);
    if (put_line(lines, file, line)) return FIRM_OK;
    cJSON_Delete(line);
    return no_memory(err);
}

static firm_status write_task(const report_data* data, const char* task, const char* folder,
                              cJSON* files, firm_error* err) {
    char path[1100];
    cJSON* lines = cJSON_CreateArray();
    firm_status status = lines ? FIRM_OK : no_memory(err);
    for (int i = 0; i < data->doc_count && status == FIRM_OK; i++)
        status = add_line(data, &data->docs[i], task, lines, err);
    snprintf(path, sizeof path, "%.900s/results-%.64s.jsonl", folder, task);
    if (status == FIRM_OK) status = json_write_lines(path, lines, err);
    cJSON* name = status == FIRM_OK ? cJSON_CreateString(path) : NULL;
    if (status == FIRM_OK && !(name && cJSON_AddItemToArray(files, name))) {
        cJSON_Delete(name);
        status = no_memory(err);
    }
    cJSON_Delete(lines);
    return status;
}

// It becomes a part of a file's name.
static firm_status check_task(const report_doc* d, firm_error* err) {
    const char* task = report_text(d->json, "task");
    if (strlen(task) ==
        strspn(task, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"))
        return FIRM_OK;
    return FAIL(err, FIRM_E_FORMAT, "%s is of a task whose name is no file's; make it again",
                d->path);
}

// The first document of its task.
static int is_first(const report_data* data, int i) {
    const char* task = report_text(data->docs[i].json, "task");
    for (int k = 0; k < i; k++)
        if (strcmp(report_text(data->docs[k].json, "task"), task) == 0) return 0;
    return task[0] != 0;
}

firm_status report_lines(const char* const* inputs, int count, const char* folder, cJSON** files,
                         firm_error* err) {
    report_data data;
    *files = NULL;
    TRY(file_make_dirs(folder, err));
    TRY(report_data_read(inputs, count, &data, err));
    cJSON* made = cJSON_CreateArray();
    firm_status status = made ? FIRM_OK : no_memory(err);
    for (int i = 0; i < data.doc_count && status == FIRM_OK; i++)
        status = check_task(&data.docs[i], err);
    for (int i = 0; i < data.doc_count && status == FIRM_OK; i++)
        if (is_first(&data, i))
            status = write_task(&data, report_text(data.docs[i].json, "task"), folder, made, err);
    report_data_free(&data);
    if (status == FIRM_OK)
        *files = made;
    else
        cJSON_Delete(made);
    return status;
}
