// page.h - puts the whole report together in memory: the page, its figures and its moving pictures.
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include "report/figures.h"
#include "report/html.h"
#include "report/inputs.h"

typedef struct report_output {
    char name[192];  // file name inside the output folder
    html bytes;
} report_output;

typedef struct report_outputs {
    report_output* items;
    int count;
} report_outputs;

// The page comes last in *out. On failure the caller still frees what is there.
firm_status page_build(const report_data* data, report_outputs* out, firm_error* err);
void report_outputs_free(report_outputs* out);

#endif
