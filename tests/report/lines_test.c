// lines_test.c - results as one file a task: read back they make the same tables, whether they came
// from a flat folder or from a study's folders; damaged files are refused by name.
#include <cjson/cJSON.h>

#include "check.h"
#include "core/file.h"
#include "core/mem.h"
#include "io/json.h"
#include "report/names.h"
#include "report/report.h"
#include "sample.h"

TEST(report, names_become_flat) {
    static const struct {
        const char *folder, *stem, *task, *flat;
    } cases[] = {
        {"out/cube-plus/seed-2", "eval-contract-25", "cube", "eval-cube-plus-2-contract-25"},
        {"out/cube/ablation-F-seed-1", "train", "cube", "train-cube-ablation-F-1"},
        {"out/cube-plus/ensemble-2", "eval-fresh-reach-25", "cube",
         "eval-cube-plus-ensemble-2-fresh-reach-25"},
        {"out/cube-plus/ensemble-2/member-1", "train", "cube",
         "train-cube-plus-ensemble-2-member-1"},
        {"out/cube/lewm", "eval-reach-50", "cube", "eval-cube-lewm-reach-50"},
        {"out/pusht", "eval-oracle-contract-25", "pusht", "eval-pusht-oracle-contract-25"},
        {"out/pusht", "audit", "pusht", "audit-pusht"},
        {"anywhere", "eval-cube-1-contract-25", "cube", "eval-cube-1-contract-25"},
    };
    char out[64];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        EXPECT(names_flat(cases[i].folder, cases[i].stem, cases[i].task, out, sizeof out));
        EXPECT_TEXT(out, cases[i].flat);
    }
    EXPECT(!names_flat("runs/mine", "eval-contract-25", "cube", out, sizeof out));
    EXPECT(!names_flat("out/cube/seed-1", "eval-contract-25", "cube", out, 12));
}

static char* tables(const char* folder, size_t* n) {
    char path[1100];
    firm_error err = {0};
    snprintf(path, sizeof path, "%s-tables.md", folder);
    if (report_markdown((const char* const[]){folder}, 1, path, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    char* text = NULL;
    if (file_read_all(path, &text, n, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return text;
}

// two tasks, two seeds, two settings, from a flat folder
TEST(report, lines_make_the_same_tables) {
    static const char* const task[] = {"tworoom", "cube"};
    char flat[1024], packed[1024], name[128];
    firm_error err = {0};
    cJSON* files = NULL;
    size_t a, b;
    sample_folder("flat", flat);
    sample_folder("packed", packed);
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "eval-%s%s-%d-contract-25.json", task[i / 4],
                 i / 2 % 2 ? "-plus" : "", 1 + i % 2);
        sample_put_json(flat, name, sample_eval(task[i / 4], "contract", 25, 1 + i % 2, 90 + i));
        snprintf(name, sizeof name, "train-%s%s-%d.json", task[i / 4], i / 2 % 2 ? "-plus" : "",
                 1 + i % 2);
        sample_put_json(flat, name, sample_train(task[i / 4], 1 + i % 2));
    }
    REQUIRE_OK(report_lines((const char* const[]){flat}, 1, packed, &files, &err), err);
    EXPECT_INT(cJSON_GetArraySize(files), 2);
    cJSON_Delete(files);
    char *one = tables(flat, &a), *two = tables(packed, &b);
    EXPECT(one && two && a == b && memcmp(one, two, a) == 0 && strstr(one, "96"));
    // and once more through the lines themselves
    REQUIRE_OK(report_lines((const char* const[]){packed}, 1, packed, &files, &err), err);
    cJSON_Delete(files);
    mem_free(two);
    two = tables(packed, &b);
    EXPECT(one && two && a == b && memcmp(one, two, a) == 0);
    mem_free(one);
    mem_free(two);
}

TEST(report, lines_of_a_study_have_flat_names) {
    char study[1024], run[1100], packed[1024];
    firm_error err = {0};
    cJSON *files = NULL, *lines = NULL;
    sample_folder("study", study);
    sample_folder("study-packed", packed);
    snprintf(run, sizeof run, "%s/tworoom", study);
    REQUIRE_OK(file_make_dirs(run, &err), err);
    snprintf(run, sizeof run, "%s/tworoom/seed-3", study);
    REQUIRE_OK(file_make_dirs(run, &err), err);
    sample_put_json(run, "eval-reach-50.json", sample_eval("tworoom", "reach", 50, 3, 91));
    sample_put_json(run, "trace-reach-50-1.json", sample_trace(3, "tworoom", "reach"));
    REQUIRE_OK(report_lines((const char* const[]){study}, 1, packed, &files, &err), err);
    cJSON_Delete(files);
    snprintf(run, sizeof run, "%s/results-tworoom.jsonl", packed);
    REQUIRE_OK(json_read_lines(run, &lines, &err), err);
    EXPECT_INT(cJSON_GetArraySize(lines), 1);  // traces stay where they are
    EXPECT_TEXT(cJSON_GetObjectItem(cJSON_GetArrayItem(lines, 0), "file")->valuestring,
                "eval-tworoom-3-reach-50.json");
    cJSON_Delete(lines);
}

// a result that is made again takes the old one's place
TEST(report, lines_hold_a_result_once) {
    char old[1024], again[1024], packed[1024], path[1100];
    firm_error err = {0};
    cJSON *files = NULL, *lines = NULL;
    sample_folder("old", old);
    sample_folder("again", again);
    sample_folder("once", packed);
    sample_put_json(old, "eval-cube-1-contract-25.json",
                    sample_eval("cube", "contract", 25, 1, 70));
    sample_put_json(old, "eval-cube-1-reach-25.json", sample_eval("cube", "reach", 25, 1, 80));
    sample_put_json(again, "eval-cube-1-contract-25.json",
                    sample_eval("cube", "contract", 25, 8, 90));
    REQUIRE_OK(report_lines((const char* const[]){old, again}, 2, packed, &files, &err), err);
    cJSON_Delete(files);
    snprintf(path, sizeof path, "%s/results-cube.jsonl", packed);
    REQUIRE_OK(json_read_lines(path, &lines, &err), err);
    EXPECT_INT(cJSON_GetArraySize(lines), 2);
    const cJSON* first = cJSON_GetObjectItem(cJSON_GetArrayItem(lines, 0), "result");
    EXPECT(strstr(cJSON_GetObjectItem(first, "provenance")->valuestring, "seed=8"));
    cJSON_Delete(lines);
}

TEST(report, lines_damaged) {
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"{\"file\":\"eval-cube-1-contract-25.json\",\"result\":", "results-cube.jsonl:1"},
        {"\n\n{]\n", "results-cube.jsonl:3"},
        {"{\"file\":\"eval-cube-1-contract-25.json\"}\n", "a line of"},
        {"{\"file\":\"other.json\",\"result\":{}}\n", "a line of"},
        {"{\"file\":5,\"result\":{}}\n", "a line of"},
        {"[1]\n", "a line of"},
        {"{\"file\":\"eval-cube-1-contract-25.json\",\"result\":[1]}\n", "not a JSON object"},
        {"{\"file\":\"eval-cube-1-contract-25.json\",\"result\":{\"task\":\"cube\"}}\n", "keys"},
        {"{\"file\":\"audit-cube.json\",\"result\":{}}\n{\"file\":\"audit-cube.json\",\"result\":{}"
         "}\n",
         "two lines of audit-cube.json"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char folder[1024], name[32], out[1100];
        firm_error err = {0};
        snprintf(name, sizeof name, "bad-%zu", i);
        sample_folder(name, folder);
        sample_put(folder, "results-cube.jsonl", cases[i].text);
        snprintf(out, sizeof out, "%s.md", folder);
        firm_status st = report_markdown((const char* const[]){folder}, 1, out, &err);
        if (st != FIRM_E_FORMAT || !strstr(err.message, "results-cube.jsonl") ||
            !strstr(err.message, cases[i].part))
            test_fail(__FILE__, __LINE__, "case %zu: status %d: %s", i, st, err.message);
        EXPECT(!file_exists(out));
    }
    // a task's name must not lead out of the folder
    char folder[1024], out[1024];
    firm_error err = {0};
    cJSON* files = NULL;
    sample_folder("outside", folder);
    sample_folder("outside-out", out);
    sample_put_json(folder, "eval-good.json", sample_eval("../x", "contract", 25, 1, 95));
    EXPECT_INT(report_lines((const char* const[]){folder}, 1, out, &files, &err), FIRM_E_FORMAT);
    EXPECT(!files && strstr(err.message, "eval-good.json"));
}
