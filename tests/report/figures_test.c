// figures_test.c - what figures and tables say, number by number: whiskers of the success bars, and
// gates that were missed.
#include "report/figures.h"

#include "check.h"
#include "core/mem.h"
#include "report/report.h"
#include "report/series.h"
#include "report/svg.h"
#include "sample.h"

static int contains(const char* text, const char* part) {
    return text && strstr(text, part) != NULL;
}

static int count_of(const char* text, const char* part) {
    int n = 0;
    for (; text && (text = strstr(text, part)); text += strlen(part)) n++;
    return n;
}

// ---- whiskers -----------------------------------------------------------------------------------

// The plot's 0 to 100 % lie at x = 112 to 304, the first bar at y = 37.
TEST(report, whiskers_show_the_interval_or_the_spread) {
    cJSON* ten = cJSON_Parse("{\"outcomes\": [1,1,1,1,1,1,1,1,1,1]}");
    cJSON* named = cJSON_Parse("{\"ci95\": [25, 75]}");
    report_row one = {.json = ten, .rate = 100}, file = {.json = named, .rate = 50};
    report_row seeds[3] = {
        {.json = ten, .rate = 80}, {.json = ten, .rate = 90}, {.json = ten, .rate = 85}};
    report_entry e[3] = {
        {.arm = "firm", .variant = "", .edition = "", .rows = &one, .count = 1, .mean = 100},
        {.arm = "lewm", .variant = "", .edition = "", .rows = &file, .count = 1, .mean = 50},
        {.arm = "random",
         .variant = "",
         .edition = "",
         .rows = seeds,
         .count = 3,
         .mean = 85,
         .sd = 5}};
    e[0].sd = e[1].sd = NAN;
    report_group g = {.task = "tworoom", .mode = "reach", .offset = 50, .entries = e, .count = 3};
    figure_list list = {0};
    figure* f = figure_success(&list, &g);
    EXPECT(f != NULL);
    if (f) {
        // ten of ten: Wilson's 72.247 to 100 %, at 112 + 1.92 * 72.247 = 250.7
        EXPECT(contains(f->body.data, "d=\"M250.7 33.0V41.0M250.7 37.0H304.0M304.0 33.0V41.0\""));
        // without outcomes what the file names: 25 to 75 %
        EXPECT(contains(f->body.data, "d=\"M160.0 61.0V69.0M160.0 65.0H256.0M256.0 61.0V69.0\""));
        // three runs: their mean and one deviation, 80 to 90 %
        EXPECT(contains(f->body.data, "d=\"M265.6 89.0V97.0M265.6 93.0H284.8M284.8 89.0V97.0\""));
        EXPECT_INT(count_of(f->body.data, "class=\"whisker\""), 3);
        EXPECT_INT(count_of(f->body.data, "class=\"dot\""), 3);
        EXPECT(contains(f->body.data, "cx=\"265.6\"") && contains(f->body.data, "cx=\"284.8\""));
    }
    figure_list_free(&list);
    cJSON_Delete(ten);
    cJSON_Delete(named);
}

// ---- by distance, and pairs ---------------------------------------------------------------------

// An evaluation of four trials, the last of which is solved at the start.
static void put_eval(const char* folder, const char* mode, int offset, const char* firm) {
    char name[64], text[600];
    snprintf(name, sizeof name, "eval-tworoom-1-%s-%d.json", mode, offset);
    snprintf(
        text, sizeof text,
        "{\"task\":\"tworoom\",\"mode\":\"%s\",\"offset\":%d,\"trials\":4,\"start_solved\":[0,0,"
        "0,1],\"arms\":{\"firm\":{\"success_rate\":50,\"solved_at_start\":1,\"outcomes\":%s},"
        "\"random\":{\"success_rate\":25,\"solved_at_start\":1,\"outcomes\":[0,0,1,1]}},"
        "\"pairs\":[{\"a\":\"firm\",\"b\":\"random\",\"difference\":25}]}",
        mode, offset, firm);
    sample_put(folder, name, text);
}

// The plot's 0 to 100 % lie at y = 190 to 28. Three of three: 43.85 to 100 %, one of three: 6.15 to
// 79.23 %, without the trial that was solved at the start.
TEST(report, success_by_distance_has_intervals_of_unsolved_trials) {
    char folder[1024];
    firm_error err;
    report_data data;
    sample_folder("distances", folder);
    put_eval(folder, "reach", 25, "[1,1,1,1]");
    put_eval(folder, "reach", 75, "[0,1,0,1]");
    const char* inputs[] = {folder};
    REQUIRE_OK(report_data_read(inputs, 1, &data, &err), err);
    figure_list list = {0};
    figure* f = figure_offsets(&list, &data, "tworoom");
    EXPECT(f != NULL);
    if (f) {
        // 25 and 75 lie 4 to 54 of 58 units from the left end: x = 57.1 and 270.9, whiskers 3 to
        // the right
        EXPECT(contains(f->body.data, "M57.1 119.0H63.1M60.1 119.0V28.0M57.1 28.0H63.1"));
        EXPECT(contains(f->body.data, "M270.9 180.0H276.9M273.9 180.0V61.6M270.9 61.6H276.9"));
        EXPECT(contains(f->body.data, ">reach</text>") && !contains(f->body.data, "contract"));
    }
    EXPECT(figure_offsets(&list, &data, "reacher") == NULL);
    figure_list_free(&list);
    report_data_free(&data);
}

// Where the shipped model's fresh trials are there, the figure shows these and says so.
TEST(report, success_by_distance_is_the_shipped_models_where_it_is_there) {
    char folder[1024];
    firm_error err;
    report_data data;
    sample_folder("distances-shipped", folder);
    for (int k = 0; k < 4; k++) {
        char name[80], text[300];
        int shipped = k < 2, offset = k % 2 ? 75 : 25;
        snprintf(name, sizeof name, "eval-tworoom-%s-reach-%d.json",
                 shipped ? "shipped-fresh" : "1", offset);
        snprintf(text, sizeof text,
                 "{\"task\":\"tworoom\",\"mode\":\"reach\",\"offset\":%d,\"trials\":4,"
                 "\"unsolved_only\":%s,\"start_solved\":[0,0,0,0],\"arms\":{\"firm\":{"
                 "\"success_rate\":50,\"outcomes\":%s}}}",
                 offset, shipped ? "true" : "false", shipped ? "[1,1,1,1]" : "[0,0,0,0]");
        sample_put(folder, name, text);
    }
    const char* inputs[] = {folder};
    REQUIRE_OK(report_data_read(inputs, 1, &data, &err), err);
    figure_list list = {0};
    figure* f = figure_offsets(&list, &data, "tworoom");
    EXPECT(f != NULL);
    if (f) {
        EXPECT_TEXT(f->title,
                    "Success by distance of the goal on TwoRoom, shipped model, fresh trials");
        // both points at 100 %
        EXPECT_INT(count_of(f->body.data, "cy=\"28.0\""), 2);
    }
    figure_list_free(&list);
    report_data_free(&data);
}

TEST(report, pairs_have_a_dot_a_trial) {
    char folder[1024];
    firm_error err;
    report_data data;
    sample_folder("pair-dots", folder);
    put_eval(folder, "reach", 25, "[1,1,0,1]");
    const char* inputs[] = {folder};
    REQUIRE_OK(report_data_read(inputs, 1, &data, &err), err);
    figure_list list = {0};
    const cJSON* pair =
        cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(data.docs[0].json, "pairs"), 0);
    figure* f = figure_pair(&list, &data.docs[0], pair);
    EXPECT(f != NULL);
    if (f) {
        EXPECT_INT(count_of(f->body.data, "<circle"), 4);
        EXPECT_INT(count_of(f->body.data, "class=\"rescued\""), 2);
        EXPECT_INT(count_of(f->body.data, "class=\"miss\""), 1);
        EXPECT(contains(f->body.data, "class=\"hit\"><title>trial 4</title>"));
        EXPECT(contains(f->body.data, ">rescued: only firm</text>"));
    }
    stats_interval ci;
    REQUIRE_OK(series_pair_interval(&data.docs[0], pair, &ci, &err), err);
    stats_interval want = stats_newcombe(1, 2, 1, 0);
    EXPECT(ci.lo == 100 * want.lo && ci.hi == 100 * want.hi);
    figure_list_free(&list);
    report_data_free(&data);
}

TEST(report, names_of_arms_say_nothing_twice) {
    report_entry two[] = {{.arm = "firm", .edition = "plus", .variant = "no fiber"},
                          {.arm = "lewm", .edition = "lewm", .variant = ""},
                          {.arm = "lewm", .edition = "lewm curve u7500", .variant = ""},
                          {.arm = "lewm", .edition = "lewmish", .variant = ""}};
    const report_group g = {.entries = two, .count = 4};
    static const char* const want[] = {"firm, no fiber, plus", "lewm", "lewm, curve u7500",
                                       "lewm, lewmish"};
    for (int i = 0; i < 4; i++) {
        char name[96];
        figure_arm_name(&g, &two[i], name, sizeof name);
        EXPECT_TEXT(name, want[i]);
    }
}

// ---- seeds
// ---------------------------------------------------------------------------------------

// Three seeds with 80, 90 and 85 %: 85 in the mean, and a sample deviation of 5.
TEST(report, seeds_have_a_mean_and_a_sample_deviation) {
    static const int rate[] = {80, 90, 85};
    char folder[1024], name[64], text[256];
    firm_error err;
    report_data data;
    sample_folder("three-seeds", folder);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "eval-tworoom-%d-reach-50.json", i + 1);
        snprintf(text, sizeof text,
                 "{\"task\":\"tworoom\",\"mode\":\"reach\",\"offset\":50,\"trials\":100,"
                 "\"arms\":{\"firm\":{\"success_rate\":%d}}}",
                 rate[i]);
        sample_put(folder, name, text);
    }
    const char* inputs[] = {folder};
    REQUIRE_OK(report_data_read(inputs, 1, &data, &err), err);
    EXPECT(data.group_count == 1 && data.groups[0].count == 1);
    const report_entry* e = &data.groups[0].entries[0];
    EXPECT_INT(e->count, 3);
    EXPECT_NEAR(e->mean, 85, 1e-12);
    EXPECT_NEAR(e->sd, 5, 1e-12);
    report_data_free(&data);
}

// ---- gates --------------------------------------------------------------------------------------

// A training of five stages, three of which have a gate; `missed` of them are missed.
static cJSON* training(int missed) {
    cJSON *t = sample_train("tworoom", 1), *s;
    cJSON_ArrayForEach(s, cJSON_GetObjectItem(t, "stages")) {
        if (!cJSON_HasObjectItem(s, "gate_limit") || missed-- <= 0) continue;
        cJSON_SetNumberValue(cJSON_GetObjectItem(s, "gate"), 0.75);
        cJSON_ReplaceItemInObject(s, "pass", cJSON_CreateFalse());
    }
    return t;
}

static char* tables_of(const char* folder, const char* name) {
    char path[1100];
    firm_error err;
    size_t size;
    const char* inputs[] = {folder};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (report_markdown(inputs, 1, path, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        return NULL;
    }
    return sample_read(folder, name, &size);
}

// How many gates of the page passed and how many were missed, and what the table of runs says.
static void expect_gates(int missed, int audit, const char* says, const char* of_audit) {
    char folder[1024], out[1100], page[1024], name[64];
    firm_error err;
    size_t size;
    snprintf(name, sizeof name, "gates-%d-%d", missed, audit);
    sample_folder(name, folder);
    sample_put_json(folder, "train-tworoom-1.json", training(missed));
    snprintf(out, sizeof out,
             "{\"task\":\"tworoom\",\"anchors\":128,\"h5_mean\":0.1,\"h5_p95\":0.3,\"max\":0.5,"
             "\"pass\":%s}",
             audit ? "true" : "false");
    sample_put(folder, "audit-tworoom.json", out);
    const char* inputs[] = {folder};
    snprintf(out, sizeof out, "%s/page", folder);
    REQUIRE_OK(report_write(inputs, 1, out, page, &err), err);
    char *text = sample_read(out, "index.html", &size), *tables = tables_of(folder, "tables.md");
    EXPECT_INT(count_of(text, "<td class=\"yes\">passed</td>"), 3 - missed + audit);
    EXPECT_INT(count_of(text, "<td class=\"no\">missed</td>"), missed + !audit);
    if (!contains(tables, says)) test_fail(__FILE__, __LINE__, "the tables lack '%s'", says);
    if (!contains(tables, of_audit))
        test_fail(__FILE__, __LINE__, "the tables lack '%s'", of_audit);
    mem_free(text);
    mem_free(tables);
}

TEST(report, missed_gates_are_called_missed) {
    expect_gates(0, 1, "| all passed |", "| 128 | 0.100 | 0.300 | 0.500 | passed |");
    expect_gates(1, 0, "| missed: grounder 0.75 > 0.03 |",
                 "| 128 | 0.100 | 0.300 | 0.500 | missed |");
    expect_gates(3, 1, "| missed: grounder 0.75 > 0.03, factual 0.75 > 0.2, joint 0.75 > 0.1 |",
                 "| passed |");
}

static void expect_ticks(double hi, int want, double step) {
    double ticks[16];
    int n = svg_ticks(0, hi, want, ticks);
    EXPECT_INT(n, (int)(hi / step + 1e-9) + 1);
    for (int i = 0; i < n; i++) EXPECT_NEAR(ticks[i], i * step, 1e-9 * hi);
}

// one, two or five times a power of ten, whichever is nearest to what was asked for
TEST(report, ticks_are_round_numbers) {
    expect_ticks(10, 8, 1);
    expect_ticks(10, 6, 2);
    expect_ticks(10, 3, 2);
    expect_ticks(100, 2, 50);
    expect_ticks(0.9, 1, 1);
}
