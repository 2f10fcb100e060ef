// study.h - the tables of the paper made from our results, the paper's number beside each. Only
// what was run is shown. The tables are sheets: the page and the Markdown file write the same ones.
#ifndef REPORT_STUDY_H
#define REPORT_STUDY_H

#include "core/status.h"
#include "report/inputs.h"
#include "report/sheet.h"

// The shipped models on fresh trials: README's table.
firm_status study_front(const report_data* data, sheet_list* list, firm_error* err);
// Success: the main table, all modes and offsets, every seed.
firm_status study_success(const report_data* data, sheet_list* list, firm_error* err);
// Beside LeWM: paired differences on the same trials, where LeWM was evaluated, then study_curve.
firm_status study_pairs(const report_data* data, sheet_list* list, firm_error* err);
// LeWM while it learned: its evaluations on the way and its training (study_curve.c).
firm_status study_curve(const report_data* data, sheet_list* list, firm_error* err);
int study_is_curve(const char* edition);  // of LeWM on the way
// Why: ablations of the training sources, and which part loses how many points.
firm_status study_reasons(const report_data* data, sheet_list* list, firm_error* err);
// How: efficiency, data sets, reset-replay audit, parameters, training.
firm_status study_means(const report_data* data, sheet_list* list, firm_error* err);
// All of it as one Markdown text.
firm_status study_markdown(const report_data* data, html* out, firm_error* err);

// ---- shared by the tables -----------------------------------------------------------------------

enum { STUDY_EDITIONS = 16 };
// The edition of the shipped models on trials that nothing was chosen by.
#define STUDY_SHIPPED "shipped fresh, unsolved pairs"

// NULL if it was not run.
const report_entry* study_entry(const report_data* data, const char* task, const char* mode,
                                int offset, const char* arm, const char* variant,
                                const char* edition);
int study_shows(const report_data* data, const char* task);  // has a trained model's results
// The tasks of the paper in its order, then others that the files are of; NULL past the last.
const char* study_task(const report_data* data, int i);
// "" first, then "plus", then others that a trained model was evaluated under. Returns how many.
int study_editions(const report_data* data, const char* task, const char* edition[STUDY_EDITIONS]);
const char* study_settings(const char* edition);  // "main" for ""
// Mean and sample deviation over the runs of an arm's number; NAN where there is none.
void study_mean(const report_entry* e, const char* key, double* mean, double* sd);
// Adds "success, interval, of those not solved at the start, interval" to the last line.
firm_status study_put_rates(sheet_list* list, const report_entry* e, firm_error* err);

#endif
