// sample.h - makes plausible runs for the report tests: an episode through TwoRoom's door, and the
// evaluation, training and bench records that would lie beside it.
#ifndef TESTS_REPORT_SAMPLE_H
#define TESTS_REPORT_SAMPLE_H

#include <cjson/cJSON.h>
#include <stddef.h>

cJSON* sample_trace(int frames, const char* task, const char* mode);  // caller: cJSON_Delete
// rate: percent of 100 trials that firm wins
cJSON* sample_eval(const char* task, const char* mode, int offset, int seed, double rate);
cJSON* sample_train(const char* task, int seed);
void sample_metrics(const char* folder, int seed);
// A run folder with everything in it; returns its path in the test folder.
void sample_run(const char* name, int seed, int with_trace, char path[1024]);

void sample_folder(const char* name, char path[1024]);  // an empty one inside the test folder
void sample_put(const char* folder, const char* name, const char* text);
void sample_put_json(const char* folder, const char* name, cJSON* value);  // deletes value
char* sample_read(const char* folder, const char* name, size_t* size);  // mem_free; NULL if missing

#endif
