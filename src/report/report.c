// report.c - the command's work: read the runs, build everything in memory, write the files. The
// page is written last, so that a page that exists has its figures beside it.
#include "report/report.h"

#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "report/inputs.h"
#include "report/page.h"
#include "report/study.h"

static firm_status write_bytes(const char* path, const html* bytes, firm_error* err) {
    file_writer w;
    TRY(file_open_write(&w, path, err));
    firm_status status = file_put(&w, bytes->data, bytes->size, err);
    if (status == FIRM_OK) return file_commit(&w, err);
    file_abandon(&w);
    return status;
}

static firm_status write_output(const char* dir, const report_output* o, char path[1024],
                                firm_error* err) {
    int n = snprintf(path, 1024, "%s/%s", dir, o->name);
    if (n < 0 || n >= 1024)
        return FAIL(err, FIRM_E_USAGE,
                    "the output folder %.60s... has too long a name; use a shorter one", dir);
    return write_bytes(path, &o->bytes, err);
}

firm_status report_markdown(const char* const* inputs, int count, const char* path,
                            firm_error* err) {
    report_data data;
    html text = {0};
    TRY(report_data_read(inputs, count, &data, err));
    firm_status status = FIRM_OK;
    for (int i = 0; i < data.doc_count && status == FIRM_OK; i++)
        if (file_same(path, data.docs[i].path))
            status = FAIL(err, FIRM_E_USAGE,
                          "%s is one of the results that are read; give another name for the "
                          "tables",
                          path);
    if (status == FIRM_OK) status = study_markdown(&data, &text, err);
    if (status == FIRM_OK) status = write_bytes(path, &text, err);
    html_free(&text);
    report_data_free(&data);
    return status;
}

firm_status report_write(const char* const* inputs, int count, const char* out_dir,
                         char page_path[1024], firm_error* err) {
    report_data data;
    report_outputs out = {0};
    page_path[0] = 0;
    if (count < 1)
        return FAIL(err, FIRM_E_USAGE, "the report needs at least one run folder or JSON file");
    if (!out_dir || !out_dir[0])
        return FAIL(err, FIRM_E_USAGE, "the report needs an output folder; give one with -o");
    TRY(report_data_read(inputs, count, &data, err));
    firm_status status = page_build(&data, &out, err);
    if (status == FIRM_OK) status = file_make_dirs(out_dir, err);
    char path[1024] = "";
    for (int i = 0; i < out.count && status == FIRM_OK; i++)
        status = write_output(out_dir, &out.items[i], path, err);
    if (status == FIRM_OK) memcpy(page_path, path, sizeof path);
    report_outputs_free(&out);
    report_data_free(&data);
    return status;
}
