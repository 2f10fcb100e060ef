// names_test.c - no task is known by name outside of src/env: a new one needs no other change.
#define _GNU_SOURCE
#include <ftw.h>
#include <strings.h>

#include "check.h"
#include "core/file.h"
#include "core/mem.h"

static const char* const words[] = {"tworoom", "pusht", "reacher", "cube"};
static int files, hits;

static int is_source(const char* path) {
    const char* dot = strrchr(path, '.');
    return dot && (strcmp(dot, ".c") == 0 || strcmp(dot, ".h") == 0 || strcmp(dot, ".cu") == 0 ||
                   strcmp(dot, ".cuh") == 0);
}

static int look(const char* path, const struct stat* info, int kind, struct FTW* at) {
    (void)info, (void)at;
    char* text;
    size_t n;
    firm_error err;
    if (kind != FTW_F || !is_source(path) || strstr(path, "/src/env/")) return 0;
    files++;
    if (file_read_all(path, &text, &n, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        return 0;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char* found = strcasestr(text, words[i]);
        if (found && ++hits) test_fail(__FILE__, __LINE__, "%s says '%.40s'", path, found);
    }
    mem_free(text);
    return 0;
}

TEST(env, no_task_is_named_outside_of_its_folder) {
    char src[600];
    snprintf(src, sizeof src, "%s/src", test_source_dir());
    EXPECT_INT(nftw(src, look, 16, FTW_PHYS), 0);
    EXPECT(files > 250);
    EXPECT_INT(hits, 0);
}
