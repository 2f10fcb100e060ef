// json_test.c - JSON files: round trip, short numbers, damaged input with file and line.
#define _GNU_SOURCE
#include "io/json.h"

#include <unistd.h>

#include "check.h"
#include "core/file.h"
#include "core/mem.h"

static const char* in_temp(const char* name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", test_temp_dir(), name);
    return path;
}

static void put_text(const char* path, const char* text, size_t n) {
    FILE* f = fopen(path, "wb");
    if (!f || fwrite(text, 1, n, f) != n || fclose(f) != 0) abort();
}

static char* print_number(double value, int digits) {
    cJSON* item = json_number(value, digits);
    char* text = cJSON_PrintUnformatted(item);
    cJSON_Delete(item);
    return text;
}

TEST(io, json_numbers_are_short) {
    static const struct {
        double value;
        int digits;
        const char* want;
    } cases[] = {
        {0.1 + 0.2, 6, "0.3"}, {1.0 / 3, 4, "0.3333"}, {123456.789, 3, "123000"},  {-0.0, 4, "0"},
        {NAN, 4, "null"},      {INFINITY, 4, "null"},  {1e-12 / 3, 3, "3.33e-13"}, {100, 6, "100"},
        {99.99999, 3, "100"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char* text = print_number(cases[i].value, cases[i].digits);
        EXPECT_TEXT(text, cases[i].want);
        cJSON_free(text);
    }
}

TEST(io, json_round_trip) {
    const char* path = in_temp("a.json");
    firm_error err;
    cJSON* object = cJSON_CreateObject();
    EXPECT(json_add_number(object, "rate", 98.7654321, 4) != NULL);
    cJSON_AddStringToObject(object, "task", "tworoom \"quoted\"\n");
    REQUIRE_OK(json_write_file(path, object, &err), err);
    cJSON* back;
    REQUIRE_OK(json_read_file(path, &back, &err), err);
    EXPECT(cJSON_Compare(object, back, 1));
    EXPECT_NEAR(json_get(back, "rate", -1), 98.77, 0);
    EXPECT_NEAR(json_get(back, "Rate", -1), -1, 0);
    EXPECT_NEAR(json_get(back, "task", -2), -2, 0);
    EXPECT_NEAR(json_get(NULL, "task", -3), -3, 0);
    cJSON_Delete(object);
    cJSON_Delete(back);
}

TEST(io, json_damaged_files) {
    firm_error err;
    cJSON* value;
    const char* path = in_temp("bad.json");
    EXPECT_INT(json_read_file(in_temp("absent.json"), &value, &err), FIRM_E_MISSING);
    path = in_temp("bad.json");
    put_text(path, "{\"a\": 1,\n\"b\": }\n", 16);
    EXPECT_INT(json_read_file(path, &value, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "bad.json:2") != NULL);
    EXPECT(value == NULL);
    const char* texts[] = {"{\"a\": 1", "{\"a\": 1} x", "", "\x89PNG", "{'a': 1}", "[1, 2"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        put_text(path, texts[i], strlen(texts[i]));
        EXPECT_INT(json_read_file(path, &value, &err), FIRM_E_FORMAT);
        EXPECT(strstr(err.message, "bad.json") != NULL);
    }
    put_text(path, "{}\0{}", 5);  // a NUL does not hide what follows
    EXPECT_INT(json_read_file(path, &value, &err), FIRM_E_FORMAT);
    char deep[5000];
    memset(deep, '[', sizeof deep);
    put_text(path, deep, sizeof deep);
    EXPECT_INT(json_read_file(path, &value, &err), FIRM_E_FORMAT);
    EXPECT_INT(json_read_file(test_temp_dir(), &value, &err), FIRM_E_USAGE);
}

// What a text would make is bounded before it is made: depth, values, and the file itself.
TEST(io, json_is_bounded) {
    firm_error err = {0};
    cJSON* value;
    char path[512], text[600];
    snprintf(path, sizeof path, "%s/large.json", test_temp_dir());
    for (int depth = 100; depth <= 101; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        put_text(path, text, (size_t)(2 * depth));
        EXPECT_INT(json_read_file(path, &value, &err), depth == 100 ? FIRM_OK : FIRM_E_FORMAT);
        EXPECT(depth == 100 || strstr(err.message, "deeper than 100"));
        cJSON_Delete(value);
    }
    // brackets inside a text are none
    snprintf(text, sizeof text, "[\"%0200d\\\"[[[\"]", 0);
    for (char* c = text + 2; *c == '0'; c++) *c = '[';
    put_text(path, text, strlen(text));
    EXPECT_INT(json_read_file(path, &value, &err), FIRM_OK);
    cJSON_Delete(value);

    size_t n = (size_t)2 * ((4 << 20) + 1);
    char* many = mem_alloc(n);
    for (size_t i = 0; i < n; i += 2) memcpy(many + i, ",1", 2);
    many[0] = '[';
    many[n - 1] = ']';
    put_text(path, many, n);
    int64_t before = mem_count();
    EXPECT_INT(json_read_file(path, &value, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "large.json") && strstr(err.message, "4194304 values"));
    EXPECT(mem_count() - before <= 1);  // the text
    mem_free(many);

    EXPECT_INT(truncate(path, (off_t)1 << 40), 0);  // a hole of a terabyte
    EXPECT_INT(json_read_file(path, &value, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "large.json") && strstr(err.message, "268435456 bytes"));
    unlink(path);
}

TEST(io, json_full_disk) {
    firm_error err = {0};
    cJSON* object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "task", "tworoom");
    if (access("/dev/full", W_OK) != 0) {
        test_skip("there is no /dev/full");
    } else {
        EXPECT_INT(json_write_file("/dev/full", object, &err), FIRM_E_IO);
        EXPECT(strstr(err.message, "/dev/full") && strstr(err.message, "space"));
        // standard output that is full
        fflush(stdout);
        int keep = dup(STDOUT_FILENO);
        FILE* full = fopen("/dev/full", "w");
        dup2(fileno(full), STDOUT_FILENO);
        firm_status status = json_print(object, &err);
        dup2(keep, STDOUT_FILENO);
        close(keep);
        fclose(full);
        clearerr(stdout);
        EXPECT_INT(status, FIRM_E_IO);
        EXPECT(strstr(err.message, "standard output") != NULL);
    }
    cJSON_Delete(object);
}
