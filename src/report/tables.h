// tables.h - tables that are not the paper's: one group of trials, pairs of arms, and how the
// results came about. Each adds a sheet, or none where there is nothing to show.
#ifndef REPORT_TABLES_H
#define REPORT_TABLES_H

#include "report/inputs.h"
#include "report/sheet.h"

int table_has_paper(const report_group* g);  // the paper evaluates contract mode at 25 controls
// "Pendulum, reach mode, goals 25 controls away"
void table_group_name(const report_group* g, char* out, size_t room);

firm_status table_success(const report_data* data, const report_group* g, sheet_list* list,
                          firm_error* err);
firm_status table_pairs(const report_data* data, sheet_list* list, firm_error* err);
// Gates of every stage, held-out errors of recorded data, speed.
firm_status table_runs(const report_data* data, sheet_list* list, firm_error* err);
// Which file is of what: seeds, hashes, versions.
firm_status table_provenance(const report_data* data, sheet_list* list, firm_error* err);
// A scalar of the JSON as text, "" for anything else; version numbers as major.minor.patch.
void table_fact(const char* key, const cJSON* v, char* out, size_t room);

#endif
