// config_test.c - settings: defaults, files, overrides, families, and a sentence for every mistake.
#define _GNU_SOURCE
#include "io/config.h"

#include <dirent.h>
#include <locale.h>
#include <unistd.h>

#include "check.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/rng.h"

static const config_key keys[] = {
    {"plan", "candidates", CONFIG_INT, 2, 100000, "300", NULL, "sampled plans per iteration"},
    {"plan", "elites", CONFIG_INT, 1, 10000, "30", NULL, "best plans kept"},
    {"plan", "spread", CONFIG_REAL, 0, 10, "1.0", NULL, "initial spread"},
    {"plan", "mode", CONFIG_TEXT, 0, 0, "contract", "contract|reach", "planner"},
    {"stage.*", "updates", CONFIG_INT, 0, 1e9, "100", NULL, "optimiser steps"},
    {"stage.*", "rate", CONFIG_REAL, 0, 1, "1e-3", NULL, "learning rate"},
    {"stage.*", "modules", CONFIG_TEXT, 0, 0, "", NULL, "trained modules"},
    {"train", "clip", CONFIG_REAL, -INFINITY, INFINITY, "1", NULL, "gradient clip"},
    {"train", "resume", CONFIG_BOOL, 0, 0, "no", NULL, "continue"},
};
enum { KEYS = sizeof keys / sizeof keys[0] };

static config* fresh(void) {
    config* c = NULL;
    firm_error err;
    if (config_create(keys, KEYS, &c, &err) != FIRM_OK) {
        printf("config_create: %s\n", err.message);
        abort();
    }
    return c;
}

static const char* temp_file(const char* name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", test_temp_dir(), name);
    return path;
}

static void write_bytes(const char* path, const void* bytes, size_t n) {
    FILE* f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) abort();
}

// Reading `text` must be refused with `status` and a sentence that holds every piece of "a|b|c".
static void refused(int line, const char* text, firm_status status, const char* pieces) {
    config* c = fresh();
    firm_error err = {0};
    firm_status got = config_read_text(c, "x.ini", text, &err);
    if (got != status)
        test_fail(__FILE__, line, "status %d, expected %d: %s", got, status, err.message);
    char copy[256];
    snprintf(copy, sizeof copy, "%s", pieces);
    for (char* p = strtok(copy, "|"); p; p = strtok(NULL, "|"))
        if (!strstr(err.message, p))
            test_fail(__FILE__, line, "'%s' is not in '%s'", p, err.message);
    config_free(c);
}
#define REFUSED(text, status, pieces) refused(__LINE__, text, status, pieces)

TEST(io, config_defaults) {
    config* c = fresh();
    EXPECT_INT(config_int(c, "plan", "candidates"), 300);
    EXPECT_NEAR(config_real(c, "plan", "spread"), 1.0, 0);
    EXPECT_NEAR(config_real(c, "plan", "candidates"), 300, 0);
    EXPECT_TEXT(config_text(c, "plan", "mode"), "contract");
    EXPECT_INT(config_bool(c, "train", "resume"), 0);
    EXPECT(config_member(c, "stage.*", 0) == NULL);
    config_free(c);
    config_free(NULL);
}

TEST(io, config_files_and_overrides) {
    config* c = fresh();
    firm_error err;
    // BOM, CRLF, comments, blanks, indented keys, ':' as separator, no line end at the end
    REQUIRE_OK(config_read_text(c, "a.ini",
                                "\xEF\xBB\xBF[plan]\r\n# comment\r\n\r\n  candidates = 64 ; few\r\n"
                                "mode: reach\r\n[train] ; here\n\tresume = yes",
                                &err),
               err);
    EXPECT_INT(config_int(c, "plan", "candidates"), 64);
    EXPECT_TEXT(config_text(c, "plan", "mode"), "reach");
    EXPECT_INT(config_bool(c, "train", "resume"), 1);
    REQUIRE_OK(config_read_text(c, "b.ini", "[plan]\ncandidates=+0128\n", &err), err);
    EXPECT_INT(config_int(c, "plan", "candidates"), 128);
    EXPECT_TEXT(config_text(c, "plan", "mode"), "reach");
    REQUIRE_OK(config_set(c, "plan.candidates=7", &err), err);
    REQUIRE_OK(config_set(c, " plan.candidates = 8 ", &err), err);
    REQUIRE_OK(config_set(c, "train.clip=-2.5e-1", &err), err);
    EXPECT_INT(config_int(c, "plan", "candidates"), 8);
    EXPECT_NEAR(config_real(c, "train", "clip"), -0.25, 0);
    REQUIRE_OK(config_read_text(c, "empty.ini", "", &err), err);
    config_free(c);
}

TEST(io, config_families) {
    config* c = fresh();
    firm_error err = {0};
    REQUIRE_OK(
        config_read_text(c, "a.ini",
                         "[stage.tokenizer]\nupdates = 500\nmodules = E D\n[stage.grounder]\n"
                         "[stage.rollout-2]\nrate = 0.5\n",
                         &err),
        err);
    REQUIRE_OK(config_read_text(c, "b.ini", "[stage.last]\n[stage.grounder]\nupdates=9\n", &err),
               err);
    const char* want[] = {"tokenizer", "grounder", "rollout-2", "last"};
    for (int i = 0; i < 4; i++) {
        const char* name = config_member(c, "stage.*", i);
        if (!name)
            test_fail(__FILE__, __LINE__, "member %d is missing", i);
        else
            EXPECT_TEXT(name, want[i]);
    }
    EXPECT(config_member(c, "stage.*", 4) == NULL);
    EXPECT_INT(config_int(c, "stage.tokenizer", "updates"), 500);
    EXPECT_TEXT(config_text(c, "stage.tokenizer", "modules"), "E D");
    EXPECT_INT(config_int(c, "stage.grounder", "updates"), 9);
    EXPECT_INT(config_int(c, "stage.last", "updates"), 100);
    REQUIRE_OK(config_set(c, "stage.rollout-2.updates=3", &err), err);
    EXPECT_INT(config_int(c, "stage.rollout-2", "updates"), 3);
    // an override cannot invent a stage: most likely its name is misspelt
    EXPECT_INT(config_set(c, "stage.gounder.updates=3", &err), FIRM_E_VALUE);
    EXPECT(strstr(err.message, "stage.grounder") != NULL);
    config_free(c);
}

TEST(io, config_dump_reads_back) {
    config *a = fresh(), *b = fresh(), *d = fresh();
    firm_error err;
    REQUIRE_OK(config_read_text(a, "a.ini",
                                "[train]\nresume = on\n[stage.one]\nmodules = p\xC3\xA9=x;y\n"
                                "[stage.two]\nrate = 2.5E-4\n",
                                &err),
               err);
    char* text = config_dump(a);
    EXPECT(strstr(text, "resume = true\n") != NULL);
    EXPECT(strstr(text, "[stage.two]\nupdates = 100\nrate = 2.5E-4\nmodules = \n") != NULL);
    EXPECT(config_hash(a) != config_hash(b));
    REQUIRE_OK(config_read_text(b, "dump", text, &err), err);
    char* again = config_dump(b);
    EXPECT_TEXT(again, text);
    EXPECT(config_hash(a) == config_hash(b));
    // equal settings written differently: the same hash; the hash is that of the dump
    REQUIRE_OK(config_set(d, "plan.candidates=0300", &err), err);
    REQUIRE_OK(config_set(d, "train.resume=off", &err), err);
    config* plain = fresh();
    EXPECT(config_hash(d) == config_hash(plain));
    EXPECT(config_hash(a) == rng_hash_text(text));
    mem_free(text);
    mem_free(again);
    config_free(a);
    config_free(b);
    config_free(d);
    config_free(plain);
}

TEST(io, config_mistakes) {
    REFUSED("[plan]\n\ncandidats = 5\n", FIRM_E_VALUE, "x.ini:3|[plan]|'candidats'|candidates");
    REFUSED("[plan]\nupdates = 5\n", FIRM_E_VALUE, "x.ini:2|updates|[stage.*]");
    REFUSED("[plam]\n", FIRM_E_VALUE, "x.ini:1|[plam]|plan");
    REFUSED("[stage]\n", FIRM_E_VALUE, "x.ini:1|[stage]|stage.*");
    REFUSED("[stage.]\n", FIRM_E_VALUE, "[stage.]|stage.*");
    REFUSED("[stage.a.b]\n", FIRM_E_VALUE, "[stage.a.b]");
    REFUSED("[stage.*]\n", FIRM_E_VALUE, "x.ini:1");
    REFUSED("[stage.aaaaaaaaaabbbbbbbbbbccccccccccdddddddddde]\n", FIRM_E_VALUE, "x.ini:1");
    REFUSED("[]\n", FIRM_E_VALUE, "x.ini:1");
    REFUSED("[plan\ncandidates=3\n", FIRM_E_FORMAT, "x.ini:1|]");
    REFUSED("[plan] candidates = 3\n", FIRM_E_FORMAT, "x.ini:1");
    REFUSED("candidates = 3\n", FIRM_E_VALUE, "x.ini:1|candidates|[section]");
    REFUSED("[plan]\ncandidates\n", FIRM_E_FORMAT, "x.ini:2|key = value");
    REFUSED("[plan]\nnonsense\nelites = 0\n", FIRM_E_FORMAT, "x.ini:2");
    REFUSED("[plan]\nelites = 0\nnonsense\n", FIRM_E_VALUE,
            "x.ini:2|plan.elites = 0|from 1 to 10000");
    REFUSED("[plan]\ncandidates = -5\n", FIRM_E_VALUE,
            "plan.candidates = -5|a whole number from 2 to 100000");
    REFUSED("[plan]\ncandidates = 1.5\n", FIRM_E_VALUE, "x.ini:2|whole number");
    REFUSED("[plan]\ncandidates =\n", FIRM_E_VALUE, "x.ini:2|whole number");
    REFUSED("[plan]\ncandidates = 99999999999999999999\n", FIRM_E_VALUE, "x.ini:2");
    REFUSED("[plan]\ncandidates = 10 # ten\n", FIRM_E_VALUE, "x.ini:2|';'");
    REFUSED("[plan]\nspread = nan\n", FIRM_E_VALUE, "x.ini:2|a number from 0 to 10");
    REFUSED("[plan]\nspread = 1e999\n", FIRM_E_VALUE, "x.ini:2");
    REFUSED("[plan]\nspread = 0x1\n", FIRM_E_VALUE, "x.ini:2");
    REFUSED("[plan]\nspread = 1,5\n", FIRM_E_VALUE, "x.ini:2");
    REFUSED("[plan]\nspread = 1 2\n", FIRM_E_VALUE, "x.ini:2");
    REFUSED("[train]\nclip = inf\n", FIRM_E_VALUE, "a number");
    REFUSED("[plan]\nmode = rich\n", FIRM_E_VALUE, "plan.mode = rich|contract|reach");
    REFUSED("[plan]\nmode = contract|reach\n", FIRM_E_VALUE, "x.ini:2");
    REFUSED("[train]\nresume = maybe\n", FIRM_E_VALUE, "true or false");
    REFUSED("[plan]\nelites = 3\ncandidates = 5\nelites = 3\n", FIRM_E_VALUE,
            "x.ini:4|plan.elites|line 2");
    REFUSED("[plan]\n[train]\n[plan]\n", FIRM_E_VALUE, "x.ini:3|[plan]|line 1");
    REFUSED("[stage.a]\n[stage.a]\n", FIRM_E_VALUE, "x.ini:2|[stage.a]|line 1");
    REFUSED("[plan]\nelites = 3\x01\n", FIRM_E_FORMAT, "x.ini:2|0x01");
    REFUSED("[plan]\n= 3\n", FIRM_E_VALUE, "x.ini:2");
}

TEST(io, config_override_mistakes) {
    config* c = fresh();
    firm_error err = {0};
    const char* malformed[] = {"", "plan", "plan.elites", "=3", "elites=3", ".=", "  =  "};
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        firm_status got = config_set(c, malformed[i], &err);
        EXPECT(got == FIRM_E_USAGE || got == FIRM_E_VALUE);
    }
    EXPECT_INT(config_set(c, "plan.elites", &err), FIRM_E_USAGE);
    EXPECT(strstr(err.message, "section.key=value") != NULL);
    EXPECT_INT(config_set(c, "plan.elits=3", &err), FIRM_E_VALUE);
    EXPECT(strstr(err.message, "elites") != NULL);
    EXPECT_INT(config_set(c, "plan.elites=zero", &err), FIRM_E_VALUE);
    EXPECT(strstr(err.message, "from 1 to 10000") != NULL);
    EXPECT_INT(config_set(c, "plan.mode=reach\nelites = 3", &err), FIRM_E_VALUE);
    EXPECT_INT(config_set(c, "plan.mode=reach", NULL), FIRM_OK);
    EXPECT_INT(config_set(c, "plam.mode=reach", NULL), FIRM_E_VALUE);
    REQUIRE_OK(config_read_text(c, "a", "[stage.a]\n", &err), err);
    // what could not be read back from a dump is not taken
    EXPECT_INT(config_set(c, "stage.a.modules=x ;y", &err), FIRM_E_VALUE);
    EXPECT_INT(config_set(c, "stage.a.modules=;y", &err), FIRM_E_VALUE);
    char text[600] = "stage.a.modules=";
    memset(text + 16, 'm', 500);
    EXPECT_INT(config_set(c, text, &err), FIRM_E_VALUE);
    text[16 + 186] = 0;  // "modules = " and 186 bytes: the longest line
    REQUIRE_OK(config_set(c, text, &err), err);
    char* dump = config_dump(c);
    config* d = fresh();
    REQUIRE_OK(config_read_text(d, "dump", dump, &err), err);
    EXPECT_TEXT(config_text(d, "stage.a", "modules"), text + 16);
    text[16 + 186] = 'm', text[16 + 187] = 0;
    EXPECT_INT(config_set(c, text, &err), FIRM_E_VALUE);
    mem_free(dump);
    config_free(c);
    config_free(d);
}

TEST(io, config_bad_files) {
    config* c = fresh();
    firm_error err = {0};
    EXPECT_INT(config_read_file(c, temp_file("absent.ini"), &err), FIRM_E_MISSING);
    EXPECT(strstr(err.message, "absent.ini") != NULL);
    EXPECT_INT(config_read_file(c, test_temp_dir(), &err), FIRM_E_USAGE);

    const char* path = temp_file("nul.ini");
    write_bytes(path, "[plan]\nelites = 3\0 4\n", 21);
    EXPECT_INT(config_read_file(c, path, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "nul.ini:2") != NULL);

    // a long comment is fine, a long value is not
    char* line = malloc(100002);
    memset(line, 'x', 100001);
    line[0] = ';', line[100001] = 0;
    REQUIRE_OK(config_read_text(c, "long.ini", line, &err), err);
    memcpy(line, "[plan]\nmode = ", 14);
    EXPECT_INT(config_read_text(c, "long.ini", line, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "long.ini:2") != NULL);
    free(line);

    size_t big = (1 << 20) + 1;
    char* blanks = malloc(big + 1);
    memset(blanks, '\n', big);
    blanks[big] = 0;
    EXPECT_INT(config_read_text(c, "big.ini", blanks, &err), FIRM_E_FORMAT);
    free(blanks);

    // a very long name must leave the rest of the sentence readable
    char name[2000];
    memset(name, 'n', sizeof name);
    memcpy(name + sizeof name - 7, "/z.ini", 7);
    EXPECT_INT(config_read_text(c, name, "[plan]\nelits = 3\n", &err), FIRM_E_VALUE);
    EXPECT(strstr(err.message, "/z.ini:2") && strstr(err.message, "elites"));
    config_free(c);
}

// Random damage to a good file: never a crash, and what was taken still dumps and reads back.
TEST(io, config_survives_damage) {
    static const char good[] =
        "[plan]\ncandidates = 64\nspread = 0.5 ; c\nmode = reach\n\n[stage.one]\nupdates = 5\n"
        "modules = a b\n[stage.two]\nrate = 1e-4\n[train]\nresume = yes\n";
    rng r = rng_start(5, RNG_STREAM(RNG_TEST, 1));
    int accepted = 0, rejected = 0;
    for (int i = 0; i < 20000; i++) {
        char text[sizeof good];
        memcpy(text, good, sizeof good);
        int hits = 1 + (int)rng_below(&r, 4);
        for (int h = 0; h < hits; h++)
            text[rng_below(&r, sizeof good - 1)] =
                rng_below(&r, 3) ? (char)(32 + rng_below(&r, 96)) : (char)(1 + rng_below(&r, 255));
        config* c = fresh();
        firm_error err = {0};
        firm_status status = config_read_text(c, "damaged.ini", text, &err);
        if (status == FIRM_OK) {
            accepted++;
            char* dump = config_dump(c);
            config* d = fresh();
            if (config_read_text(d, "dump", dump, &err) != FIRM_OK ||
                config_hash(d) != config_hash(c))
                test_fail(__FILE__, __LINE__, "dump does not read back: %s\n%s", err.message, dump);
            mem_free(dump);
            config_free(d);
        } else {
            rejected++;
            EXPECT(strstr(err.message, "damaged.ini:") != NULL);
        }
        config_free(c);
    }
    EXPECT(accepted > 100 && rejected > 100);
}

TEST(io, config_table_mistakes) {
    config* c;
    firm_error err;
    config_key bad = {"plan", "x", CONFIG_INT, 2, 5, "9", NULL, ""};
    EXPECT_INT(config_create(&bad, 1, &c, &err), FIRM_E_INTERNAL);
    config_key twice[] = {{"plan", "x", CONFIG_INT, 2, 5, "3", NULL, ""},
                          {"plan", "x", CONFIG_INT, 2, 5, "4", NULL, ""}};
    EXPECT_INT(config_create(twice, 2, &c, &err), FIRM_E_INTERNAL);
    EXPECT(c == NULL);
}

TEST(io, config_ignores_locale) {
    const char* names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "fr_FR"};
    const char* set = NULL;
    for (int i = 0; i < 4 && !set; i++) set = setlocale(LC_NUMERIC, names[i]);
    if (!set) {
        test_skip("no locale with a decimal comma is installed");
        return;
    }
    config* c = fresh();
    firm_error err = {0};
    EXPECT_INT(config_set(c, "plan.spread=0.5", &err), FIRM_OK);
    EXPECT_NEAR(config_real(c, "plan", "spread"), 0.5, 0);
    config_free(c);
    setlocale(LC_NUMERIC, "C");
}

TEST(io, config_help_lists_all) {
    char* text = NULL;
    size_t n = 0;
    FILE* f = open_memstream(&text, &n);
    config_help(keys, KEYS, f);
    fclose(f);
    for (int i = 0; i < KEYS; i++) {
        EXPECT(strstr(text, keys[i].name) != NULL);
        EXPECT(strstr(text, keys[i].help) != NULL);
    }
    EXPECT(strstr(text, "[stage.*]") && strstr(text, "from 2 to 100000"));
    free(text);
}

// Every file of configs/ is compiled in, byte for byte.
TEST(io, config_builtin_equals_files) {
    char folder[512], path[1024];
    snprintf(folder, sizeof folder, "%s/configs", test_source_dir());
    DIR* d = opendir(folder);
    int seen = 0;
    for (struct dirent* e; d && (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        if (n < 5 || strcmp(e->d_name + n - 4, ".ini") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        char *bytes, name[256];
        size_t size;
        firm_error err;
        REQUIRE_OK(file_read_all(path, &bytes, &size, &err), err);
        snprintf(name, sizeof name, "%.*s", (int)(n - 4), e->d_name);
        const char* built = config_builtin(name);
        if (!built)
            test_fail(__FILE__, __LINE__, "%s is not compiled in", name);
        else
            EXPECT(strcmp(built, bytes) == 0 && strlen(built) == size);
        mem_free(bytes);
        seen++;
    }
    if (d) closedir(d);
    EXPECT(config_builtin("no-such-task") == NULL);
    if (!seen) test_skip("configs/ holds no ini file");
}
