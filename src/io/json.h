// json.h - building and reading JSON with cJSON, plus the few helpers the commands share.
#ifndef IO_JSON_H
#define IO_JSON_H

#include <cjson/cJSON.h>

#include "core/status.h"

// Of bounded size, depth and number of values. The caller: cJSON_Delete.
firm_status json_read_file(const char* path, cJSON** out, firm_error* err);
// JSON lines: a value a line, of the same bounds together; empty lines are passed over. An array.
firm_status json_read_lines(const char* path, cJSON** out, firm_error* err);
firm_status json_write_lines(const char* path, const cJSON* array, firm_error* err);  // atomic
firm_status json_write_file(const char* path, const cJSON* value, firm_error* err);   // atomic
firm_status json_print(const cJSON* value, firm_error* err);  // to stdout, with a newline, flushed
// Numbers with at most `digits` (1 to 15) significant digits, so that files stay readable; what is
// not finite becomes null, as JSON has no word for it. Both return NULL when out of memory.
cJSON* json_number(double value, int digits);
cJSON* json_add_number(cJSON* object, const char* key, double value,
                       int digits);  // the new item, owned by object
double json_get(const cJSON* object, const char* key,
                double otherwise);  // `otherwise` if absent or no number

#endif
