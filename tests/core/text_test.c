// text_test.c - text stays in its room, and words of a file are what they should be. The sources
// are searched for calls that do neither.
#define _GNU_SOURCE
#include "core/text.h"

#include <ftw.h>
#include <locale.h>
#include <sys/stat.h>

#include "check.h"

TEST(core, text_utf8) {
    static const struct {
        const char* text;
        size_t want;
    } known[] = {
        {"", 1},
        {"a", 1},
        {"\x7f", 1},
        {"\xc3\xa4", 2},
        {"\xe2\x82\xac", 3},
        {"\xf0\x9f\xa6\xbe", 4},
        {"\xed\x9f\xbf", 3},  // the last before the surrogates
        {"\xed\xa0\x80", 0},  // a surrogate
        {"\xef\xbf\xbf", 3},
        {"\xf4\x8f\xbf\xbf", 4},  // the last there is
        {"\xf4\x90\x80\x80", 0},
        {"\xf5\x80\x80\x80", 0},
        {"\x80", 0},
        {"\xc0\x80", 0},  // longer than need be
        {"\xc1\xbf", 0},
        {"\xe0\x9f\xbf", 0},
        {"\xf0\x8f\xbf\xbf", 0},
        {"\xc3", 0},  // cut
        {"\xe2\x82", 0},
        {"\xf0\x9f\xa6", 0},
        {"\xc3"
         "a",
         0},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        EXPECT_INT(text_utf8(known[i].text), known[i].want);
}

TEST(core, text_add_stays_in_its_room) {
    char text[9] = "";
    text[8] = '!';
    EXPECT_INT(text_add(text, 8, "%s", "abc"), 1);
    EXPECT_INT(text_add(text, 8, "%d", 4567), 1);
    EXPECT_TEXT(text, "abc4567");
    EXPECT_INT(text_add(text, 8, "%s", ""), 1);
    EXPECT_INT(text_add(text, 8, "%g", 1e225), 0);
    EXPECT_TEXT(text, "abc4567");
    text[4] = 0;
    EXPECT_INT(text_add(text, 8, "%.3f", 1e225), 0);
    EXPECT_TEXT(text, "abc4999");
    EXPECT_INT(text[8], '!');
    memset(text, 'x', sizeof text);  // no NUL in its room: nothing is added
    EXPECT_INT(text_add(text, 8, "y"), 0);
    EXPECT_INT(text[8], 'x');
}

TEST(core, words_are_read_in_order) {
    char name[6];
    words w = {"alpha -12 0.5 1e3 nan"};
    words_text(&w, name, sizeof name);
    EXPECT_TEXT(name, "alpha");
    EXPECT_INT(words_whole(&w, -12, 5), -12);
    EXPECT_NEAR(words_number(&w, 0.5, 1), 0.5, 0);
    EXPECT_NEAR(words_number(&w, 0, 1000), 1000, 0);
    EXPECT(!words_end(&w));
    EXPECT(isnan(words_number(&w, -INFINITY, INFINITY)));
    EXPECT(words_end(&w));
    EXPECT_INT(words_whole(&w, -9, 9), 0);  // one too many
    EXPECT(!words_end(&w));
}

TEST(core, words_that_do_not_fit_spoil_the_line) {
    static const char* const whole[] = {"",
                                        " ",
                                        "x",
                                        "1x",
                                        "0x1",
                                        "+1",
                                        "-",
                                        "1.0",
                                        "1e0",
                                        "2",
                                        " 1",
                                        "1 ",
                                        "-1",
                                        "1\n",
                                        "99999999999999999999",
                                        "1\t",
                                        "1  1",
                                        "١",
                                        "-99999999999999999999"};
    static const char* const number[] = {"",  " ",  "x",   "1x",  "1,5",   "\n1", "\t1",
                                         "2", "-1", "nan", "inf", "1e400", "1 "};
    char name[4];
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        words w = {whole[i]};
        EXPECT_INT(words_whole(&w, 0, 1), i == 16 ? 1 : 0);
        if (words_end(&w)) test_fail(__FILE__, __LINE__, "'%s' was read", whole[i]);
    }
    for (size_t i = 0; i < sizeof number / sizeof *number; i++) {
        words w = {number[i]};
        EXPECT_NEAR(words_number(&w, 0, 1.9), 0, 0);
        if (words_end(&w)) test_fail(__FILE__, __LINE__, "'%s' was read", number[i]);
    }
    words w = {"abcd 1"};
    words_text(&w, name, sizeof name);
    EXPECT_TEXT(name, "");
    EXPECT_INT(words_whole(&w, 0, 9), 0);
    EXPECT(!words_end(&w));
}

TEST(core, words_have_points_in_every_language) {
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8")) {
        test_skip("no language with decimal commas here");
        return;
    }
    words w = {"2.5"};
    EXPECT_NEAR(words_number(&w, 0, 9), 2.5, 0);
    EXPECT(words_end(&w));
    setlocale(LC_NUMERIC, "C");
}

// ---- the sources --------------------------------------------------------------------------------

// Calls that write past a buffer or take any text for a number, and text_add's own work done by
// hand.
static const char* const banned[] = {
    "sprintf(", "strcpy(", "strcat(", "strncat(", "gets(",   "atoi(",      "atol(",      "atof(",
    "sscanf(",  "fscanf(", "scanf(",  "strncpy(", "alloca(", "snprintf(+", "+=snprintf("};
static int found, files;
static char first[512];

// `call` as a word of its own in a line without blanks
static int calls(const char* line, const char* call) {
    for (const char* at = line; (at = strstr(at, call)); at++) {
        int part = at > line && (at[-1] == '_' || (at[-1] >= 'a' && at[-1] <= 'z'));
        if (!part || call[0] == '+') return 1;
    }
    return 0;
}

// "snprintf(text + n, ...": a first argument that is a sum
static int sums(const char* line) {
    const char* at = strstr(line, "snprintf(");
    if (!at || (at > line && at[-1] == 'v')) return 0;
    at += strlen("snprintf(");
    at += strcspn(at, "+,");
    return at[0] == '+' && at[1] != '+';
}

static int look(const char* path, const struct stat* s, int type, struct FTW* f) {
    (void)s, (void)f;
    const char* end = strrchr(path, '.');
    if (type != FTW_F || !end || (strcmp(end, ".c") && strcmp(end, ".h") && strncmp(end, ".cu", 3)))
        return 0;
    FILE* file = fopen(path, "r");
    char line[1024];
    files++;
    for (int number = 1; file && fgets(line, sizeof line, file); number++) {
        char tight[1024];
        size_t n = 0;
        for (char* c = line; *c; c++)
            if (*c != ' ') tight[n++] = *c;
        tight[n] = 0;
        char* comment = strstr(tight, "//");
        if (comment) *comment = 0;
        int bad =
            strstr(path, "/core/text.c") ? 0 : sums(tight) || strstr(tight, "+=(size_t)snprintf");
        for (size_t i = 0; i < sizeof banned / sizeof *banned; i++) bad |= calls(tight, banned[i]);
        if (bad && found++ == 0) snprintf(first, sizeof first, "%.300s:%d", path, number);
    }
    if (file) fclose(file);
    return 0;
}

TEST(core, no_source_prints_or_reads_unchecked) {
    char src[600];
    snprintf(src, sizeof src, "%s/src", test_source_dir());
    found = files = 0;
    EXPECT_INT(nftw(src, look, 16, FTW_PHYS), 0);
    EXPECT(files > 150);
    if (found)
        test_fail(__FILE__, __LINE__, "%d calls, the first in %s; use core/text.h", found, first);
    EXPECT(calls("n+=snprintf(a,", "+=snprintf(") && calls("x=atoi(b)", "atoi("));
    EXPECT(!calls("snprintf(a,9,", "sprintf(") && !calls("vsnprintf(a,9,", "sprintf("));
    EXPECT(sums("snprintf(a+n,9-n,") && !sums("snprintf(a,n+1,"));
}
