// inputs.h - what the report has to work with: the JSON documents, training curves and configs of
// the given runs, checked once here so that pages and figures can trust them.
#ifndef REPORT_INPUTS_H
#define REPORT_INPUTS_H

#include <cjson/cJSON.h>

#include "core/status.h"

typedef enum doc_kind {
    DOC_TRAIN,
    DOC_EVAL,
    DOC_TRACE,
    DOC_BENCH,
    DOC_AUDIT,
    DOC_PARAMS,
    DOC_DESCRIBE,
    DOC_HELD_OUT,  // an evaluation without a simulator
    DOC_LEWM       // a training of LeWM
} doc_kind;

typedef struct report_doc {
    doc_kind kind;
    int run;           // index into runs
    char path[1024];   // for messages
    char name[128];    // file name without .json
    char edition[80];  // the run's, and whether its trials were "unsolved pairs" only
    cJSON* json;
} report_doc;

typedef struct report_run {  // a run folder, or the files of a flat folder with the same run's name
    char path[1024];
    char name[128];        // last part of the path, or what the files' names say
    char label[160];       // "seed 2" where train.json tells seeds apart, else the name
    const char* task;      // of its documents; "" unknown
    int seed;              // of the training; -1 unknown
    const char* variant;   // "" or the ablation it was trained as, see paper_success()
    char edition[48];      // "" or what sets it apart: "plus", "shipped"; see names.h
    char* config;          // text of config.ini, or NULL
    uint64_t config_hash;  // of that text
} report_run;

// metrics.csv: values[row * columns + column], NAN where a field is empty; rows of a stage are
// consecutive
typedef struct report_metrics {
    int run, rows, columns, stages;
    char (*column)[48];
    char (*stage)[64];
    int* row_stage;
    double* values;
    int update, loss;  // column numbers
} report_metrics;

typedef struct report_row {  // one arm of one evaluation
    const report_doc* doc;
    const cJSON* json;  // the arm's object
    int run;
    double rate;
} report_row;

typedef struct report_entry {  // the same arm over all runs of a group
    const char* arm;
    const char* variant;
    const char* edition;
    report_row* rows;
    int count;
    double mean, sd;  // over runs; sd NAN for one run
} report_entry;

typedef struct report_group {  // evaluations that may be compared: same task, mode and offset
    const char* task;
    const char* mode;
    int offset, trials;
    report_entry* entries;
    int count;
} report_group;

typedef struct report_data {
    report_run* runs;
    int run_count;
    report_doc* docs;
    int doc_count;
    report_metrics* metrics;
    int metrics_count;
    report_group* groups;
    int group_count;
} report_data;

// Reads all inputs. On failure *data is empty; on success release it with report_data_free.
firm_status report_data_read(const char* const* inputs, int count, report_data* data,
                             firm_error* err);
void report_data_free(report_data* data);

firm_status report_metrics_read(const char* path, int run, report_metrics* m, firm_error* err);
void report_metrics_free(report_metrics* m);
firm_status report_groups_make(report_data* data, firm_error* err);
void report_groups_free(report_data* data);

// Appends a zeroed item to an array of `count` items; NULL when out of memory (the array stays).
void* report_append(void* array_pointer, int* count, size_t item_size);
double report_get(const cJSON* object, const char* key);  // NAN if absent, null or not a number
const char* report_text(const cJSON* object, const char* key);  // "" if absent or not text
// Array of numbers under gates.KEY, else KEY, of a train or eval document; NULL if there is none.
const cJSON* report_series(const cJSON* json, const char* key);

#endif
