// tables.h - the report's tables, our numbers with the paper's beside them. Each puts nothing where
// there is nothing to show and says whether it did.
#ifndef REPORT_TABLES_H
#define REPORT_TABLES_H

#include "report/html.h"
#include "report/inputs.h"

int table_has_paper(const report_group* g);  // the paper evaluates contract mode at 25 controls
void table_value(html* h, double mean, double sd, int decimals);  // "99.0 +- 1.0"

void table_success(html* h, const report_data* data, const report_group* g);
int table_pairs(html* h, const report_data* data);
int table_gates(html* h, const report_data* data);
int table_held_out(html* h, const report_data* data);
int table_params(html* h, const report_data* data);
int table_audit(html* h, const report_data* data);
int table_bench(html* h, const report_data* data);
// A scalar of the JSON as text, "" for anything else; version numbers as major.minor.patch.
void table_fact(const char* key, const cJSON* v, char* out, size_t room);
void table_provenance(html* h, const report_data* data);

#endif
