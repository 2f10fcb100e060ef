// seeds_test.c - one arm over several seeds: a trial counts by the share of the runs that won it,
// each run alike, and only trials that every run met count.
#include "check.h"
#include "report/series.h"

enum { RUNS = 3 };

// outcomes: 0 missed, 1 reached, 2 solved at the start
static const char* const doc[RUNS] = {
    "{\"data_hash\": \"d\", \"start_rows\": [10, 20, 30, 40]}",
    "{\"data_hash\": \"d\", \"start_rows\": [10, 20, 30, 50]}",
    "{\"data_hash\": \"d\", \"start_rows\": [30, 20, 10, 40]}",
};
static const char* const arm[RUNS] = {
    "{\"outcomes\": [1, 0, 2, 1]}",
    "{\"outcomes\": [1, 0, 2, 0]}",
    "{\"outcomes\": [2, 1, 0, 1]}",
};

TEST(report, seeds_count_alike) {
    static report_doc docs[RUNS];
    report_row rows[RUNS];
    report_entry e = {.arm = "firm", .variant = "", .edition = "", .rows = rows, .count = RUNS};
    cJSON* outcome[RUNS];
    firm_error err;
    series all, unsolved;
    for (int i = 0; i < RUNS; i++) {
        docs[i] = (report_doc){.run = i, .json = cJSON_Parse(doc[i])};
        outcome[i] = cJSON_Parse(arm[i]);
        rows[i] = (report_row){.doc = &docs[i], .json = outcome[i], .run = i};
    }
    REQUIRE_OK(series_make(&e, 0, &all, &err), err);
    EXPECT_INT(all.count, 3);  // 40 and 50 were not met by all
    static const int64_t trial[3] = {10, 20, 30};
    static const double won[3] = {2.0 / 3, 1.0 / 3, 1};
    for (int i = 0; i < 3 && all.count == 3; i++) {
        EXPECT_INT(all.trial[i], trial[i]);
        EXPECT_NEAR(all.won[i], won[i], 1e-12);
    }
    REQUIRE_OK(series_make(&e, 1, &unsolved, &err), err);
    EXPECT_INT(unsolved.count, 2);
    if (unsolved.count == 2) EXPECT_NEAR(unsolved.won[0] + unsolved.won[1], 1, 1e-12);
    series_free(&all);
    series_free(&unsolved);
    for (int i = 0; i < RUNS; i++) {
        cJSON_Delete(docs[i].json);
        cJSON_Delete(outcome[i]);
    }
}
