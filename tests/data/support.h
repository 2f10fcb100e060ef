// support.h - small data sets for the tests of src/data.
#ifndef TESTS_DATA_SUPPORT_H
#define TESTS_DATA_SUPPORT_H

#include "check.h"
#include "data/episodes.h"
#include "env/env.h"

// Collects `count` TwoRoom episodes; NULL after a failed check.
static inline episodes* small_set(int count, uint64_t seed, pool* p) {
    firm_error err;
    episodes* e = NULL;
    collect_options opt = {.episodes = count, .seed = seed};
    if (episodes_collect(env_find("tworoom"), &opt, p, &e, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "collect: %s", err.message);
    return e;
}

static inline const char* temp_path(const char* name) {
    static char path[64][1024];  // enough for one test
    static int next;
    char* to = path[next++ % 64];
    snprintf(to, 1024, "%s/%s", test_temp_dir(), name);
    return to;
}

// What failed must say so in one sentence that holds `word`, and leave nothing behind.
static inline void expect_failure(firm_status got, firm_status want, const firm_error* err,
                                  const char* word) {
    EXPECT_INT(got, want);
    if (got == FIRM_OK) return;
    if (!strstr(err->message, word))
        test_fail(__FILE__, __LINE__, "'%s' does not mention '%s'", err->message, word);
    EXPECT(strchr(err->message, '\n') == NULL);
}

#endif
