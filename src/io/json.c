// json.c - reading and writing JSON files with cJSON: results of commands, run records, report
// input. A damaged file gets a sentence with file and line; a written file is complete or absent.
#include "io/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/mem.h"

// A value takes far more memory than its text, so what a text would make is counted beforehand.
enum { MOST_BYTES = 256 << 20, MOST_VALUES = 4 << 20, MOST_DEPTH = 100 };

// 1 if the text nests and lists no more than that; says nothing about whether it is JSON.
static int bounded(const char* text, size_t n) {
    size_t values = 0;
    int depth = 0, quoted = 0;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (quoted) {
            if (c == '\\') i++;
            quoted = c != '"';
            continue;
        }
        quoted = c == '"';
        depth += (c == '[' || c == '{') - (c == ']' || c == '}');
        values += c == '[' || c == '{' || c == ',';
        if (depth > MOST_DEPTH || values > MOST_VALUES) return 0;
    }
    return 1;
}

// A text of bounded size, with a NUL behind it that is not counted.
static firm_status read_text(const char* path, char** text, size_t* n, firm_error* err) {
    TRY(file_read_most(path, MOST_BYTES, text, n, err));
    if (bounded(*text, *n)) return FIRM_OK;
    mem_free(*text);
    return FAIL(err, FIRM_E_FORMAT,
                "%s holds more than %d values, or lists nested deeper than %d; make the file again",
                path, MOST_VALUES, MOST_DEPTH);
}

// The value that is all of the `length` bytes at `from`, of a text of n bytes.
static firm_status parse(const char* path, const char* text, size_t n, const char* from,
                         size_t length, cJSON** out, firm_error* err) {
    const char* end = from;
    // a NUL in the middle would end the parse early and hide what follows
    const char* nul = memchr(from, 0, length);
    *out = nul ? NULL : cJSON_ParseWithLengthOpts(from, length + 1, &end, 1);
    if (*out) return FIRM_OK;
    if (nul) end = nul;
    int line = 1;
    for (const char* c = text; c < end; c++) line += *c == '\n';
    return FAIL(err, FIRM_E_FORMAT,
                "%s:%d: this is not JSON (stopped at byte %zu of %zu); make the file again", path,
                line, (size_t)(end - text), n);
}

firm_status json_read_file(const char* path, cJSON** out, firm_error* err) {
    char* text;
    size_t n;
    *out = NULL;
    TRY(read_text(path, &text, &n, err));
    firm_status status =
        n ? parse(path, text, n, text, n, out, err)
          : FAIL(err, FIRM_E_FORMAT, "%s is empty; a JSON file was expected", path);
    mem_free(text);
    return status;
}

static firm_status parse_lines(const char* path, char* text, size_t n, cJSON* array,
                               firm_error* err) {
    for (char *at = text, *end; at < text + n; at = end + 1) {
        size_t left = (size_t)(text + n - at);
        cJSON* value;
        end = memchr(at, '\n', left);
        if (!end) end = text + n;
        if (end == at) continue;
        char kept = *end;
        *end = 0;  // where a value ends
        firm_status status = parse(path, text, n, at, (size_t)(end - at), &value, err);
        *end = kept;
        TRY(status);
        if (!cJSON_AddItemToArray(array, value)) {
            cJSON_Delete(value);
            return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", path);
        }
    }
    return FIRM_OK;
}

firm_status json_read_lines(const char* path, cJSON** out, firm_error* err) {
    char* text;
    size_t n;
    *out = NULL;
    TRY(read_text(path, &text, &n, err));
    cJSON* array = cJSON_CreateArray();
    firm_status status = array ? parse_lines(path, text, n, array, err)
                               : FAIL(err, FIRM_E_MEMORY, "no memory to read %s", path);
    mem_free(text);
    if (status == FIRM_OK)
        *out = array;
    else
        cJSON_Delete(array);
    return status;
}

static firm_status print_text(const cJSON* value, char** text, firm_error* err) {
    *text = cJSON_Print(value);
    return *text ? FIRM_OK : FAIL(err, FIRM_E_MEMORY, "no memory to print JSON");
}

firm_status json_write_file(const char* path, const cJSON* value, firm_error* err) {
    char* text;
    file_writer w;
    TRY(print_text(value, &text, err));
    firm_status status = file_open_write(&w, path, err);
    if (status == FIRM_OK) status = file_put(&w, text, strlen(text), err);
    if (status == FIRM_OK) status = file_put(&w, "\n", 1, err);
    if (status == FIRM_OK) status = file_commit(&w, err);
    cJSON_free(text);
    return status;
}

static firm_status put_line(file_writer* w, const cJSON* value, firm_error* err) {
    char* text = cJSON_PrintUnformatted(value);
    if (!text) return FAIL(err, FIRM_E_MEMORY, "no memory to print JSON");
    firm_status status = file_put(w, text, strlen(text), err);
    if (status == FIRM_OK) status = file_put(w, "\n", 1, err);
    cJSON_free(text);
    return status;
}

firm_status json_write_lines(const char* path, const cJSON* array, firm_error* err) {
    file_writer w;
    const cJSON* value;
    TRY(file_open_write(&w, path, err));
    cJSON_ArrayForEach(value, array) {
        firm_status status = put_line(&w, value, err);
        if (status == FIRM_OK) continue;
        file_abandon(&w);
        return status;
    }
    return file_commit(&w, err);
}

firm_status json_print(const cJSON* value, firm_error* err) {
    char* text;
    TRY(print_text(value, &text, err));
    errno = 0;
    int bad = fputs(text, stdout) < 0 || fputc('\n', stdout) == EOF || fflush(stdout) != 0;
    int code = errno;
    cJSON_free(text);
    if (bad) return FAIL(err, FIRM_E_IO, "cannot write to standard output: %s", strerror(code));
    return FIRM_OK;
}

cJSON* json_number(double value, int digits) {
    if (!isfinite(value)) return cJSON_CreateNull();
    CHECK(digits >= 1 && digits <= 15, "json_number: %d digits, 1 to 15 are possible", digits);
    // cJSON prints the shortest of 15 or 17 digits that reads back, so a rounded value stays short
    char text[40];
    snprintf(text, sizeof text, "%.*g", digits, value);
    double rounded = strtod(text, NULL);
    return cJSON_CreateNumber(rounded == 0 ? 0.0 : isfinite(rounded) ? rounded : value);
}

cJSON* json_add_number(cJSON* object, const char* key, double value, int digits) {
    cJSON* item = json_number(value, digits);
    if (item && !cJSON_AddItemToObject(object, key, item)) {
        cJSON_Delete(item);
        return NULL;
    }
    return item;
}

double json_get(const cJSON* object, const char* key, double otherwise) {
    const cJSON* item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : otherwise;
}
