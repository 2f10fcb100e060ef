// header_test.c - the JSON reader of model files: what is JSON is read as it is meant, what is not
// is refused.
#include "model/header.h"

#include "check.h"
#include "core/each_failing.h"
#include "core/mem.h"

// Reads bytes of exactly that length, so that a sanitizer sees a read past their end.
static firm_status read_bytes(const char* bytes, size_t n, header* h, firm_error* err) {
    char* exact = malloc(n ? n : 1);
    memcpy(exact, bytes, n);
    firm_status status = header_read("m.safetensors", exact, n, h, err);
    free(exact);
    return status;
}

static firm_status read_line(const char* json, header* h) {
    firm_error err = {0};
    return read_bytes(json, strlen(json), h, &err);
}

static void expect_text(int line, const char* json, const char* want) {
    header h;
    if (read_line(json, &h) != FIRM_OK || h.root->kind != HEADER_TEXT ||
        strcmp(h.root->text, want) != 0 || h.used != strlen(json))
        test_fail(__FILE__, line, "%s is not read as '%s'", json, want);
    header_free(&h);
}

TEST(model, header_texts) {
    expect_text(__LINE__, "\"\"", "");
    expect_text(__LINE__, "\"a b\"", "a b");
    expect_text(__LINE__, "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t");
    expect_text(__LINE__, "\"\\u0041\\u00e4\\u20AC\"", "A\xc3\xa4\xe2\x82\xac");
    expect_text(__LINE__, "\"\\u0001\\u007f\\u0080\\u07ff\\u0800\\uffff\"",
                "\x01\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf");
    expect_text(__LINE__, "\"\\ud83e\\uddbe \\uD800\\uDC00 \\uDBFF\\uDFFF\"",
                "\xf0\x9f\xa6\xbe \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf");
    expect_text(__LINE__, "\"\xc3\xa4 \xf0\x9f\xa6\xbe\x7f\"", "\xc3\xa4 \xf0\x9f\xa6\xbe\x7f");
    expect_text(__LINE__, " \t\r\n\"x\"", "x");
}

TEST(model, header_numbers) {
    static const struct {
        const char* json;
        header_kind kind;
        size_t whole;
    } known[] = {
        {"0", HEADER_WHOLE, 0},
        {"7", HEADER_WHOLE, 7},
        {"6824842", HEADER_WHOLE, 6824842},
        {"9007199254740992", HEADER_WHOLE, 9007199254740992},  // 2^53
        {"9007199254740993", HEADER_OTHER, 0},
        {"18446744073709551617", HEADER_OTHER, 0},  // 1 if it wrapped around
        {"36893488147419103232", HEADER_OTHER, 0},
        {"99999999999999999999999999999999", HEADER_OTHER, 0},
        {"-1", HEADER_OTHER, 0},
        {"-0", HEADER_OTHER, 0},
        {"1.0", HEADER_OTHER, 0},
        {"0.5", HEADER_OTHER, 0},
        {"1e3", HEADER_OTHER, 0},
        {"1E+3", HEADER_OTHER, 0},
        {"1.25e-3", HEADER_OTHER, 0},
        {"true", HEADER_OTHER, 0},
        {"false", HEADER_OTHER, 0},
        {"null", HEADER_OTHER, 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        header h;
        if (read_line(known[i].json, &h) != FIRM_OK || h.root->kind != known[i].kind ||
            (h.root->kind == HEADER_WHOLE && h.root->whole != known[i].whole))
            test_fail(__FILE__, __LINE__, "%s is read as something else", known[i].json);
        header_free(&h);
    }
}

TEST(model, header_members) {
    const char* json =
        " { \"a\" : [ 1 , \"two\", [], {} ] ,\n\"b\":{\"a\":0,\"\":{\"a\":5}},\"A\":null}  {";
    header h;
    REQUIRE_OK(read_line(json, &h), (firm_error){0});
    EXPECT_INT(h.used, strlen(json) - 3);  // up to the brace that closes the first
    EXPECT(h.root->kind == HEADER_OBJECT && h.root->count == 3 && !h.root->name);
    const header_item* a = header_find(h.root, "a");
    EXPECT(a == h.root->child && a->kind == HEADER_ARRAY && a->count == 4);
    const header_item* c = a->child;
    EXPECT(!c->name && c->whole == 1);
    EXPECT_TEXT((c = c->next)->text, "two");
    EXPECT((c = c->next)->kind == HEADER_ARRAY && c->count == 0 && !c->child);
    EXPECT((c = c->next)->kind == HEADER_OBJECT && c->count == 0 && !c->next);
    const header_item* b = header_find(h.root, "b");
    EXPECT(b == a->next && header_find(header_find(b, ""), "a")->whole == 5);
    EXPECT(header_find(h.root, "A") == b->next && !b->next->next);
    EXPECT(!header_find(h.root, "c") && !header_find(a, "a"));
    header_free(&h);
}

TEST(model, header_not_json) {
    static const char* const bad[] = {
        "",
        " ",
        "{",
        "[",
        "}",
        "]",
        ":",
        ",",
        "{\"",
        "{\"a",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{\"a\"}",
        "{a:1}",
        "{1:1}",
        "{,}",
        "{\"a\"::1}",
        "{'a':1}",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1}",
        "{\"a\":1]",
        "\"",
        "\"a",
        "\"\\",
        "\"\\\"",
        "\"\\x\"",
        "\"\\a\"",
        "\"\\u\"",
        "\"\\u12\"",
        "\"\\u123g\"",
        "\"\\u-123\"",
        "\"\\u0000\"",
        "\"\\U0041\"",
        "\"\\u",
        "\"a\nb\"",
        "\"a\tb\"",
        "\"\x01\"",
        "\"\x1f\"",
        "01",
        "-",
        "-a",
        "-01",
        "+1",
        ".5",
        "1.",
        "1.e3",
        "1e",
        "1e+",
        "0x1",
        "[0x1]",
        "[1.2.3]",
        "[1e2e3]",
        "[00]",
        "tru",
        "[truf]",
        "nul",
        "[True]",
        "NaN",
        "Infinity",
        "[-Infinity]",
        "// a\n1",
        "/* a */ 1",
        "\xef\xbb\xbf{}",
        // surrogates that are no pair
        "\"\\ud83e\"",
        "\"\\ud83e \"",
        "\"\\ud83e\\n\"",
        "\"\\ud83e\\ud83e\"",
        "\"\\ud83e\\u0041\"",
        "\"\\uddbe\"",
        "\"\\uddbe\\uddbe\"",
        "\"\\uddbe\\ud83e\"",
        "\"\\ud83e\\udd\"",
        // no UTF-8
        "\"\xff\"",
        "\"\xc3\"",
        "\"\xc3(\"",
        "\"\xed\xa0\x80\"",
        "\"\xc0\x80\"",
        "\"\xf0\x9f\xa6\"",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        header h;
        firm_error err = {0};
        firm_status got = read_bytes(bad[i], strlen(bad[i]), &h, &err);
        // "0x1", "01" and the like: a number ends where its digits do
        int whole = got == FIRM_OK && h.used == strlen(bad[i]);
        if (whole || (got == FIRM_OK && bad[i][0] != '0') ||
            (got != FIRM_OK &&
             (got != FIRM_E_FORMAT || h.root ||
              !strstr(err.message, "m.safetensors has a header that is not JSON"))))
            test_fail(__FILE__, __LINE__, "'%s': status %d, %s", bad[i], got, err.message);
        header_free(&h);
    }
    // a NUL among the bytes ends nothing
    header h;
    firm_error err = {0};
    EXPECT_INT(read_bytes("{\"a\":\"b\0\"}", 10, &h, &err), FIRM_E_FORMAT);
    header_free(&h);
    EXPECT_INT(read_bytes("{\0}", 3, &h, &err), FIRM_E_FORMAT);
    header_free(&h);
}

TEST(model, header_twice) {
    static const struct {
        const char *json, *word;
    } bad[] = {
        {"{\"a\":1,\"b\":2,\"a\":3}", "names a twice"},
        {"{\"x\":{\"a\":1,\"\\u0061\":2}}", "names a twice"},
        {"{\"x\":[[{\"\\n\":1,\"y\":[],\"\\u000a\":2}]]}", "names something twice"},
        {"{\"\":1,\"\":2}", "names something twice"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        header h;
        firm_error err = {0};
        EXPECT_INT(read_bytes(bad[i].json, strlen(bad[i].json), &h, &err), FIRM_E_FORMAT);
        if (!strstr(err.message, bad[i].word)) test_fail(__FILE__, __LINE__, "%s", err.message);
        header_free(&h);
    }
}

static firm_status read_nested(int depth, int close) {
    char json[4 * HEADER_DEPTH] = "";
    for (int i = 0; i < depth; i++) strcat(json, "[");
    for (int i = 0; i < depth && close; i++) strcat(json, "]");
    header h;
    firm_status status = read_line(json, &h);
    header_free(&h);
    return status;
}

TEST(model, header_depth) {
    EXPECT_INT(read_nested(HEADER_DEPTH, 1), FIRM_OK);
    EXPECT_INT(read_nested(HEADER_DEPTH + 1, 1), FIRM_E_FORMAT);
    EXPECT_INT(read_nested(HEADER_DEPTH, 0), FIRM_E_FORMAT);
    // what is closed again does not count
    header h;
    firm_status got =
        read_line("[[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[],[]]", &h);
    EXPECT(got == FIRM_OK && h.root->count == 20);
    header_free(&h);
}

static firm_status try_read(firm_error* err) {
    header h;
    firm_status status = read_bytes("{\"a\":[1,2]}", 11, &h, err);
    header_free(&h);
    return status;
}

TEST(model, header_out_of_memory) {
    EXPECT_INT(FAIL_EACH(try_read), 3);
}
