// defects_test.c - the list of seeded defects stays true: every entry still names one piece of one
// line, and would change it. scripts/defects.py tries them; this only reads.
#include "check.h"
#include "core/file.h"
#include "core/mem.h"

enum { LINE = 512, ENTRIES = 142 };

typedef struct entry {
    char name[LINE], path[LINE], old[LINE];
} entry;

static int count_of(const char* text, const char* piece) {
    int n = 0;
    for (const char* at = strstr(text, piece); at; at = strstr(at + 1, piece)) n++;
    return n;
}

// "name | file | folder | what is wrong"
static void read_head(const char* line, entry* e) {
    int fields = sscanf(line, "%500[^|] | %500[^| ] | %*[a-z] | %*[^\n]", e->name, e->path) == 2;
    if (!fields) test_fail(__FILE__, __LINE__, "not an entry: %s", line);
}

static void check_entry(const entry* e, const char* changed) {
    char path[2 * LINE], *text;
    size_t n;
    firm_error err;
    snprintf(path, sizeof path, "%s/%s", test_source_dir(), e->path);
    REQUIRE_OK(file_read_all(path, &text, &n, &err), err);
    int times = count_of(text, e->old);
    if (times != 1)
        test_fail(__FILE__, __LINE__, "%s: '%s' is %d times in %s", e->name, e->old, times,
                  e->path);
    if (strcmp(e->old, changed) == 0) test_fail(__FILE__, __LINE__, "%s changes nothing", e->name);
    mem_free(text);
}

TEST(measure, defects_of_the_list_match_their_files) {
    char path[2 * LINE], line[LINE];
    entry e = {{0}, {0}, {0}};
    int entries = 0;
    snprintf(path, sizeof path, "%s/tests/defects.txt", test_source_dir());
    FILE* in = fopen(path, "r");
    EXPECT(in != NULL);
    while (in && fgets(line, sizeof line, in)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] == 0 || line[0] == '#') continue;
        if (strncmp(line, "- ", 2) == 0) {
            snprintf(e.old, sizeof e.old, "%s", line + 2);
        } else if (strncmp(line, "+ ", 2) == 0) {
            check_entry(&e, line + 2);
            entries++;
        } else {
            read_head(line, &e);
        }
    }
    if (in) fclose(in);
    EXPECT_INT(entries, ENTRIES);
}
