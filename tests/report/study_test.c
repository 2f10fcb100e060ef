// study_test.c - the tables beside the paper's: names of files and folders, what is missing, rows
// apart, ablations and the error budget, from results whose numbers are known.
#include <cjson/cJSON.h>

#include "check.h"
#include "core/file.h"
#include "core/mem.h"
#include "report/names.h"
#include "report/report.h"
#include "report/series.h"
#include "sample.h"

static int contains(const char* text, const char* what) {
    return strstr(text, what) != NULL;
}

// ---- names --------------------------------------------------------------------------------------

TEST(report, names_of_results) {
    static const struct {
        const char *stem, *task, *run, *edition, *variant;
        int seed;
    } cases[] = {
        {"eval-tworoom-1-contract-25", "tworoom", "tworoom-1", "", "", 1},
        {"train-tworoom-12", "tworoom", "tworoom-12", "", "", 12},
        {"eval-pusht-plus-2-reach-50", "pusht", "pusht-plus-2", "plus", "", 2},
        {"eval-cube-ablation-F-3-contract-25", "cube", "cube-ablation-F-3", "", "factual only", 3},
        {"train-reacher-ablation-no-fiber-1", "reacher", "reacher-ablation-no-fiber-1", "",
         "no history fiber", 1},
        {"train-reacher-ablation-mismatch-1", "reacher", "reacher-ablation-mismatch-1", "",
         "mismatched outcomes", 1},
        {"eval-tworoom-shipped-reach-90", "tworoom", "tworoom-shipped", "shipped", "", -1},
        {"eval-cube-plus-1-half-contract-25", "cube", "cube-plus-1-half", "plus half", "", 1},
        {"eval-cube-lewm-contract-25", "cube", "cube-lewm", "lewm", "", -1},
        {"audit-cube", "cube", "cube", "", "", -1},
    };
    result_name n;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        EXPECT(names_of_file(cases[i].stem, cases[i].task, &n));
        EXPECT_TEXT(n.run, cases[i].run);
        EXPECT_TEXT(n.edition, cases[i].edition);
        EXPECT_TEXT(n.variant, cases[i].variant);
        EXPECT_INT(n.seed, cases[i].seed);
    }
    EXPECT(!names_of_file("eval-contract-25", "tworoom", &n));
    EXPECT(!names_of_file("eval-tworooms-1", "tworoom", &n));
    EXPECT(!names_of_file("eval", "tworoom", &n) && !names_of_file("eval-cube", "", &n));
    names_of_folder("out/cube-plus/ablation-I-seed-2", "cube", &n);
    EXPECT_TEXT(n.edition, "plus");
    EXPECT_TEXT(n.variant, "intervention only");
    names_of_folder("out/cube-plus/ensemble-2", "cube", &n);
    EXPECT_TEXT(n.edition, "plus ensemble");
    names_of_folder("out/cube-plus/ensemble-2/member-1", "cube", &n);
    EXPECT_TEXT(n.edition, "plus ensemble member");
    names_of_folder("out/cube/ensemble-2", "cube", &n);
    EXPECT_TEXT(n.edition, "");
    names_of_folder("plus/cube/shipped", "cube", &n);
    EXPECT_TEXT(n.edition, "");
    EXPECT(names_study_folder("cube") && names_study_folder("pusht-plus") &&
           names_study_folder("seed-3") && names_study_folder("lewm") &&
           names_study_folder("ablation-F-seed-1"));
    EXPECT(!names_study_folder("cubes") && !names_study_folder("seed-x") &&
           !names_study_folder("report") && !names_study_folder("cube-old"));
}

// ---- results with known numbers -----------------------------------------------------------------

enum { TRIALS = 20 };

static void add_arm(cJSON* arms, const char* name, int wins, int first, int solved) {
    cJSON *arm = cJSON_AddObjectToObject(arms, name), *outcomes = cJSON_CreateArray();
    for (int i = 0; i < TRIALS; i++) {
        int won = i < solved || (i >= first && i < first + wins);
        cJSON_AddItemToArray(outcomes, cJSON_CreateNumber(won));
    }
    cJSON_AddNumberToObject(arm, "success_rate", 100.0 * (solved + wins) / TRIALS);
    cJSON_AddNumberToObject(arm, "solved_at_start", solved);
    cJSON_AddNumberToObject(arm, "success_rate_unsolved", 100.0 * wins / (TRIALS - solved));
    cJSON_AddItemToObject(arm, "outcomes", outcomes);
}

// Trials 0..3 are solved at the start; an arm wins `wins` of the others, from trial 4 on.
static cJSON* result(const char* task, const char* mode, int offset, int seed, const char* arms,
                     const int* wins) {
    cJSON *j = cJSON_CreateObject(), *rows, *solved, *all;
    cJSON_AddStringToObject(j, "task", task);
    cJSON_AddStringToObject(j, "mode", mode);
    cJSON_AddNumberToObject(j, "offset", offset);
    cJSON_AddNumberToObject(j, "trials", TRIALS);
    cJSON_AddStringToObject(j, "data_hash", "00aa");
    if (seed) cJSON_AddNumberToObject(j, "model_seed", seed);
    rows = cJSON_AddArrayToObject(j, "start_rows");
    solved = cJSON_AddArrayToObject(j, "start_solved");
    for (int i = 0; i < TRIALS; i++) {
        cJSON_AddItemToArray(rows, cJSON_CreateNumber(100 + 7 * i));
        cJSON_AddItemToArray(solved, cJSON_CreateNumber(i < 4));
    }
    all = cJSON_AddObjectToObject(j, "arms");
    for (int k = 0; *arms; k++) {
        char name[32];
        size_t n = strcspn(arms, ",");
        snprintf(name, sizeof name, "%.*s", (int)n, arms);
        add_arm(all, name, wins[k], 4, 4);
        arms += n + (arms[n] == ',');
    }
    return j;
}

#define WINS(...)   \
    (const int[]) { \
        __VA_ARGS__ \
    }

static char* markdown_of(const char* input, const char* name) {
    char path[1024];
    firm_error err;
    size_t size;
    snprintf(path, sizeof path, "%s/%s.md", test_temp_dir(), name);
    const char* inputs[] = {input};
    if (report_markdown(inputs, 1, path, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        return NULL;
    }
    snprintf(path, sizeof path, "%s.md", name);
    return sample_read(test_temp_dir(), path, &size);
}

static void expect_lines(const char* text, const char* const* line, int count) {
    for (int i = 0; i < count; i++)
        if (!contains(text, line[i]))
            test_fail(__FILE__, __LINE__, "the tables lack '%s'", line[i]);
}

// What is in the flat folder: two seeds of Reacher, one of them ablated, and TASK-plus of Cube.
static void flat_folder(char folder[1024]) {
    sample_folder("flat-results", folder);
    sample_put_json(folder, "eval-reacher-1-contract-25.json",
                    result("reacher", "contract", 25, 1, "firm,oracle-config", WINS(12, 14)));
    sample_put_json(folder, "eval-reacher-2-contract-25.json",
                    result("reacher", "contract", 25, 2, "firm,oracle-config", WINS(14, 14)));
    sample_put_json(folder, "eval-reacher-oracle-contract-25.json",
                    result("reacher", "contract", 25, 0, "oracle-dynamics,random", WINS(16, 0)));
    sample_put_json(folder, "eval-reacher-ablation-F-1-contract-25.json",
                    result("reacher", "contract", 25, 1, "firm", WINS(8)));
    sample_put_json(folder, "eval-cube-plus-1-contract-25.json",
                    result("cube", "contract", 25, 1, "firm", WINS(4)));
    sample_put_json(folder, "train-reacher-1.json", sample_train("reacher", 1));
}

TEST(report, study_from_a_flat_folder) {
    char folder[1024];
    flat_folder(folder);
    char* text = markdown_of(folder, "flat");
    if (!text) return;
    static const char* const lines[] = {
        // main table: (16 + 18) / 40 and (12 + 14) / 32; Cube's row of its own
        "| method | Reacher, % | OGBench-Cube, % |\n|---|---:|---:|\n",
        "| **FIRM in C, contract** | 85.0 \u00b1 7.1 | \u2013 |\n"
        "| FIRM in C, contract; not solved at the start | 81.2 \u00b1 8.8 | \u2013 |\n"
        "| **FIRM in C, contract, plus** | \u2013 | 40.0 |\n"
        "| FIRM in C, contract, plus; not solved at the start | \u2013 | 25.0 |\n\n",
        // modes: means and counts
        "| Reacher | main | contract, 25 | 2 | 85.0 \u00b1 7.1 | 64.0 to 94.8 | 81.2 \u00b1 8.8 | "
        "57.0 "
        "to 93.4 |",
        "| OGBench-Cube | plus | contract, 25 | 1 | 40.0 | 21.9 to 61.3 | 25.0 | 10.2 to 49.5 |",
        // seeds
        "| Reacher | main | 1 | 80.0 | 58.4 to 91.9 |",
        // ablation: 85 - 60 points ahead on the same trials; the paper's 92.7 - 89.3
        "| Reacher | factual only | 1 | 60.0 |", "| 89.3 \u00b1 1.5 | 25.0 |",
        // budget of the 16: 100, 87.5 and 81.25 %
        "| Reacher | main | contract | 16 | 100.0 | 87.5 | 81.2 | 0.0 (0.0 to 19.4) | 12.5 (",
        "| Reacher | main | 1 | cpu | 68.4 |"};
    expect_lines(text, lines, (int)(sizeof lines / sizeof *lines));
    EXPECT(!contains(text, "nan") && !contains(text, "inf "));
    // what nobody ran has no line, and what no line has no column
    EXPECT(!contains(text, "not run") && !contains(text, "TwoRoom") && !contains(text, "Push-T") &&
           !contains(text, "intervention only") && !contains(text, "reach, 50") &&
           !contains(text, "planner, s per episode"));
    mem_free(text);
}

// LeWM in files of its own, as one of two arms, and on other trials.
TEST(report, study_pairs_firm_with_lewm) {
    char folder[1024];
    flat_folder(folder);
    cJSON* other = result("reacher", "reach", 25, 0, "lewm", WINS(3));
    cJSON_ReplaceItemInObjectCaseSensitive(other, "data_hash", cJSON_CreateString("00bb"));
    cJSON* both = result("cube", "contract", 50, 1, "firm,lewm", WINS(5, 8));
    cJSON* arms = cJSON_GetObjectItemCaseSensitive(both, "arms");
    cJSON_AddNumberToObject(cJSON_GetObjectItemCaseSensitive(arms, "firm"), "seconds_per_episode",
                            0.25);
    cJSON_AddNumberToObject(cJSON_GetObjectItemCaseSensitive(arms, "lewm"), "seconds_per_episode",
                            3);
    sample_put_json(folder, "eval-reacher-lewm-contract-25.json",
                    result("reacher", "contract", 25, 0, "lewm", WINS(10)));
    sample_put_json(folder, "eval-reacher-lewm-reach-25.json", other);
    sample_put_json(folder, "eval-reacher-1-reach-25.json",
                    result("reacher", "reach", 25, 1, "firm", WINS(9)));
    sample_put_json(folder, "eval-cube-1-contract-50.json", both);
    char* text = markdown_of(folder, "paired");
    if (!text) return;
    static const char* const lines[] = {
        "## FIRM and LeWM on the same trials",
        // 16 and 14 of 20, trials 14 and 15 rescued; the paper's first seed
        "| Reacher | contract, 25 | main, 1 | 80.0 | 70.0 | +10.0 (-6.9 to 27.1) | 2 / 0 | \u2013 "
        "| "
        "\u2013 | +7 (0 to 15) | 11 / 4 | 8.2 |",
        "| Reacher | contract, 25 | main, 2 | 90.0 | 70.0 | +20.0 (-1.0 to 40.7) | 4 / 0 |",
        "| OGBench-Cube | contract, 50 | main, 1 | 45.0 | 60.0 | -15.0 (-30.9 to 3.0) | 0 / 3 | "
        "0.250 / 3.000 | 12.0 | \u2013 | \u2013 | \u2013 |",
        // both seeds: the mean of 16 and 18
        "| **Reacher** | contract, 25 | main, all 2 | 85.0 | 70.0 | +15.0 (2.5 to 30.0) | \u2013 | "
        "\u2013 |",
        // the published numbers say which they are; ours stand beside them
        "| LeWM, mean of three seeds | 82.7 \u00b1 4.4 | 67.3",
        "released checkpoint (89 / 88 / 90 / 70 %",
        "| **LeWM trained in C, contract** | 70.0 | \u2013 |"};
    expect_lines(text, lines, (int)(sizeof lines / sizeof *lines));
    // other data: nothing can be paired
    EXPECT(!contains(text, "| Reacher | reach, 25 | main, 1 | 65.0"));
    EXPECT(!contains(text, "nan") && !contains(text, "while it learned"));
    mem_free(text);
}

// Times of different devices have no ratio.
TEST(report, study_times_of_one_device) {
    char folder[1024];
    sample_folder("lewm-devices", folder);
    static const char* const device[] = {"cpu", "cuda"};
    for (int i = 0; i < 2; i++) {
        cJSON* firm = result("cube", "contract", 25 + 25 * i, 1, "firm", WINS(5));
        cJSON* lewm = result("cube", "contract", 25 + 25 * i, 0, "lewm", WINS(8));
        cJSON_AddStringToObject(firm, "device", "cuda");
        cJSON_AddStringToObject(lewm, "device", device[i]);
        cJSON* arm = cJSON_GetObjectItemCaseSensitive(firm, "arms")->child;
        cJSON_AddNumberToObject(arm, "seconds_per_episode", 0.25);
        arm = cJSON_GetObjectItemCaseSensitive(lewm, "arms")->child;
        cJSON_AddNumberToObject(arm, "seconds_per_episode", 3);
        sample_put_json(folder, i ? "eval-cube-1-contract-50.json" : "eval-cube-1-contract-25.json",
                        firm);
        sample_put_json(folder,
                        i ? "eval-cube-lewm-contract-50.json" : "eval-cube-lewm-contract-25.json",
                        lewm);
    }
    char* text = markdown_of(folder, "devices");
    if (!text) return;
    static const char* const lines[] = {"| 0.250 / 3.000 | \u2013 | +18 (8 to 28)",
                                        "| 0.250 / 3.000 | 12.0 | \u2013 |"};
    expect_lines(text, lines, 2);
    mem_free(text);
}

// Success on the way, in the order of the updates, beside the run's length; none of it is averaged
// or paired.
TEST(report, study_shows_how_lewm_learned) {
    char folder[1024], name[64];
    static const int updates[] = {30000, 7500, 15000};
    sample_folder("lewm-curve", folder);
    for (int i = 0; i < 3; i++) {
        cJSON *j = result("cube", "contract", 25, 0, "lewm", WINS(12 - 4 * i)),
              *lewm = cJSON_AddObjectToObject(j, "lewm");
        if (i) cJSON_AddNumberToObject(lewm, "updates", updates[i]);  // else the name says it
        cJSON_AddStringToObject(j, "draw", "tuning");
        snprintf(name, sizeof name, "eval-cube-lewm-curve-u%d-contract-25.json", updates[i]);
        sample_put_json(folder, name, j);
    }
    sample_put_json(folder, "eval-cube-1-contract-25.json",
                    result("cube", "contract", 25, 1, "firm", WINS(9)));
    cJSON* train = cJSON_CreateObject();
    cJSON_AddStringToObject(train, "world", "lewm");
    cJSON_AddStringToObject(train, "task", "cube");
    cJSON_AddNumberToObject(train, "updates", 30000);
    cJSON_AddNumberToObject(train, "batch", 128);
    cJSON_AddNumberToObject(train, "clips", 384000);
    sample_put_json(folder, "train-cube-lewm.json", train);
    char* text = markdown_of(folder, "curve");
    if (!text) return;
    static const char* const lines[] = {
        "## LeWM while it learned",
        "| OGBench-Cube | contract, 25 | 7500 | 25 | 2.5 | 60.0 | 38.7 to 78.1 | 50.0 | 28.0 to "
        "72.0 | 20, tuning |\n"
        "| OGBench-Cube | contract, 25 | 15000 | 50 | 5.0 | 40.0 |",
        "| OGBench-Cube | contract, 25 | 30000 | 100 | 10.0 | 80.0 |"};
    expect_lines(text, lines, 3);
    EXPECT(!contains(text, "FIRM and LeWM on the same trials") &&
           !contains(text, "LeWM trained in C"));
    mem_free(text);
}

// The folders of `firm reproduce` hold the same results: the same tables, but for the files' names.
TEST(report, study_from_its_folders) {
    char folder[1024], sub[1024], out[1024], page[1024];
    firm_error err;
    static const struct {
        const char *folder, *file, *task, *arms;
        int seed, wins[2];
    } files[] = {
        {"reacher/seed-1", "eval-contract-25.json", "reacher", "firm,oracle-config", 1, {12, 14}},
        {"reacher/seed-2", "eval-contract-25.json", "reacher", "firm,oracle-config", 2, {14, 14}},
        {"reacher",
         "eval-oracle-contract-25.json",
         "reacher",
         "oracle-dynamics,random",
         0,
         {16, 0}},
        {"reacher/ablation-F-seed-1", "eval-contract-25.json", "reacher", "firm", 1, {8, 0}},
        {"cube-plus/seed-1", "eval-contract-25.json", "cube", "firm", 1, {4, 0}}};
    sample_folder("study-results", folder);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char name[128];
        snprintf(name, sizeof name, "study-results/%s", files[i].folder);
        sample_folder(name, sub);
        sample_put_json(
            sub, files[i].file,
            result(files[i].task, "contract", 25, files[i].seed, files[i].arms, files[i].wins));
    }
    sample_folder("study-results/reacher/seed-1", sub);
    sample_put_json(sub, "train.json", sample_train("reacher", 1));
    snprintf(out, sizeof out, "%s/flat-results", test_temp_dir());
    flat_folder(out);
    char *text = markdown_of(folder, "study"), *flat = markdown_of(out, "flat-again");
    EXPECT(text && flat && strcmp(text, flat) == 0);
    mem_free(text);
    mem_free(flat);
    // the page has the same tables
    snprintf(out, sizeof out, "%s/study-page", test_temp_dir());
    const char* inputs[] = {folder};
    size_t size;
    REQUIRE_OK(report_write(inputs, 1, out, page, &err), err);
    text = sample_read(out, "index.html", &size);
    EXPECT(text && contains(text, "id=\"budget\"") && contains(text, "id=\"ablation\"") &&
           !contains(text, "not run") && contains(text, "FIRM in C, contract, plus"));
    mem_free(text);
}

// Other trials are not compared: neither those of other data, nor such that only one arm met.
TEST(report, study_compares_the_same_trials_only) {
    char folder[1024];
    sample_folder("other-trials", folder);
    sample_put_json(folder, "eval-reacher-1-contract-25.json",
                    result("reacher", "contract", 25, 1, "firm,oracle-config", WINS(12, 14)));
    cJSON* j = result("reacher", "contract", 25, 0, "oracle-dynamics", WINS(16));
    cJSON_ReplaceItemInObject(j, "data_hash", cJSON_CreateString("00bb"));
    sample_put_json(folder, "eval-reacher-oracle-contract-25.json", j);
    j = result("reacher", "contract", 25, 1, "firm", WINS(8));
    cJSON* row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(j, "start_rows")) {
        // half of the trials are others
        if (row->valuedouble >= 170) cJSON_SetNumberValue(row, row->valuedouble + 1000);
    }
    sample_put_json(folder, "eval-reacher-ablation-F-1-contract-25.json", j);
    char* text = markdown_of(folder, "other-trials");
    if (!text) return;
    // the simulator's trials are none of ours; of the first ten, both models won the same
    static const char* const lines[] = {"| Reacher | main | contract | 16 | 87.5 | 75.0 | 12.5 (",
                                        "| 89.3 \u00b1 1.5 | 0.0 | 0.0 to 0.0 |"};
    expect_lines(text, lines, 2);
    mem_free(text);
}

// The shipped models' table has one row a task, and only results of fresh trials.
TEST(report, study_front_table) {
    char folder[1024];
    sample_folder("front", folder);
    cJSON* near = result("cube", "contract", 25, 1, "firm,lewm", WINS(14, 6));
    cJSON_AddBoolToObject(near, "unsolved_only", 1);
    cJSON* far = result("cube", "reach", 50, 1, "firm", WINS(16));
    cJSON_AddBoolToObject(far, "unsolved_only", 1);
    sample_put_json(folder, "eval-cube-shipped-fresh-contract-25.json", near);
    sample_put_json(folder, "eval-cube-shipped-fresh-reach-50.json", far);
    sample_put_json(folder, "eval-reacher-shipped-contract-25.json",
                    result("reacher", "contract", 25, 1, "firm", WINS(12)));
    char* text = markdown_of(folder, "front");
    if (!text) return;
    // 14, 16 and 6 of the 16 that were not solved at the start
    static const char* const lines[] = {
        "| task | contract, 25 | reach, 50 | LeWM, contract, 25 | trials | paper, contract, 25 | "
        "LeWM in the paper, 25 |",
        "| OGBench-Cube | 87.5 (64.0 to 96.5) | 100.0 (80.6 to 100.0) | 37.5 (18.5 to 61.4) | 16 | "
        "88.0 \u00b1 3.0 | 70.0 |\n\n"};
    expect_lines(text, lines, 2);
    mem_free(text);
}

static const char* place(const char* text, const char* what) {
    const char* at = strstr(text, what);
    EXPECT(at != NULL);
    return at ? at : text;
}

// The page of many results opens on the shipped models' table, without one on both planners'; all
// others are folded.
TEST(report, study_page_opens_on_one_table) {
    for (int shipped = 0; shipped < 2; shipped++) {
        char folder[1024], out[1100], page[1024], name[80], *text;
        firm_error err;
        size_t size;
        sample_folder(shipped ? "opens-shipped" : "opens", folder);
        for (int k = 0; k < 3; k++) {
            cJSON* j = result("cube", "reach", 25 + 25 * k, 1, "firm", WINS(14));
            if (shipped) cJSON_AddBoolToObject(j, "unsolved_only", 1);
            snprintf(name, sizeof name, "eval-cube-%s-reach-%d.json",
                     shipped ? "shipped-fresh" : "1", 25 + 25 * k);
            sample_put_json(folder, name, j);
        }
        snprintf(out, sizeof out, "%s-out", folder);
        const char* inputs[] = {folder};
        if (report_write(inputs, 1, out, page, &err) != FIRM_OK ||
            file_read_all(page, &text, &size, &err) != FIRM_OK) {
            test_fail(__FILE__, __LINE__, "%s", err.message);
            continue;
        }
        const char *folds = place(text, "<details class=\"fold\""),
                   *modes = place(text, "Contract is the paper"),
                   *front = strstr(text, "on fresh trials, none");
        EXPECT(place(text, "How often it arrives") < folds);
        EXPECT(shipped ? front && front < folds && modes > folds : !front && modes < folds);
        mem_free(text);
    }
}

// A report on a single run says nothing of tasks that nobody asked for.
TEST(report, study_tables_of_one_run) {
    char run[1024], out[1024], page[1024];
    firm_error err;
    size_t size;
    sample_run("lone-run", 1, 0, run);
    snprintf(out, sizeof out, "%s/lone-out", test_temp_dir());
    const char* inputs[] = {run};
    REQUIRE_OK(report_write(inputs, 1, out, page, &err), err);
    char* text = sample_read(out, "index.html", &size);
    EXPECT(text && contains(text, "FIRM in C, contract") && !contains(text, "Push-T") &&
           !contains(text, "id=\"ablation\"") && contains(text, "id=\"budget\""));
    mem_free(text);
}

TEST(report, markdown_out_of_memory) {
    char folder[1024], path[1024];
    firm_error err;
    flat_folder(folder);
    snprintf(path, sizeof path, "%s/memory.md", test_temp_dir());
    const char* inputs[] = {folder};
    int failures = 0;
    for (int64_t n = 0; failures < 4000; n += 5) {
        mem_fail_after(n);
        firm_status status = report_markdown(inputs, 1, path, &err);
        mem_fail_after(-1);
        if (status == FIRM_OK) break;
        failures++;
        EXPECT_INT(status, FIRM_E_MEMORY);
        EXPECT(!file_exists(path));
    }
    EXPECT(failures > 20 && file_exists(path));
}

// ---- intervals ----------------------------------------------------------------------------------

// Of 16 trials a wins 8 that b loses, and on each of the rest both do the same: the resampled gain
// is Binomial(16, 1/2) trials, whose 2.5 % and 97.5 % points are 4 and 12.
TEST(report, series_intervals_by_hand) {
    enum { N = 16 };
    int64_t trial[N];
    double all[N], half[N], thirds[N];
    firm_error err;
    for (int i = 0; i < N; i++) {
        trial[i] = i;
        all[i] = 1;
        half[i] = i % 2;
        thirds[i] = i % 2 ? 2 / 3.0 : 1 / 3.0;
    }
    series a = {N, trial, all, ""}, b = {N, trial, half, ""}, c = {N, trial, thirds, ""};
    estimate e;
    REQUIRE_OK(series_difference(&a, &b, &e, &err), err);
    EXPECT(e.mean == 50 && e.lo == 25 && e.hi == 75 && e.trials == N);
    REQUIRE_OK(series_difference(&b, &a, &e, &err), err);
    EXPECT(e.mean == -50 && e.lo == -75 && e.hi == -25);
    // a third for certain, and a third on half of the trials: 100 / 3 + (4 to 12) / 16 of it
    REQUIRE_OK(series_difference(&a, &c, &e, &err), err);
    EXPECT_NEAR(e.mean, 50, 1e-9);
    EXPECT_NEAR(e.lo, 100 / 3.0 * 1.25, 1e-9);
    EXPECT_NEAR(e.hi, 100 / 3.0 * 1.75, 1e-9);
    // a rate: Wilson's, with the number of trials
    e = series_rate(&a);
    EXPECT(e.mean == 100 && e.hi == 100 && e.trials == N);
    EXPECT_NEAR(e.lo, 100 * 16 / 19.841459, 1e-5);
    e = series_rate(&c);
    EXPECT_NEAR(e.mean, 50, 1e-9);
    EXPECT_NEAR(e.lo, 50 - 100 * sqrt(0.25 * 3.841459 / 19.841459), 1e-5);
    EXPECT_NEAR(e.lo + e.hi, 100, 1e-9);
    series none = {0, NULL, NULL, ""};
    e = series_rate(&none);
    EXPECT(isnan(e.mean) && isnan(e.lo) && isnan(e.hi) && e.trials == 0);
    REQUIRE_OK(series_difference(&a, &none, &e, &err), err);
    EXPECT(isnan(e.mean) && isnan(e.lo) && isnan(e.hi) && e.trials == 0);
}

// Files that were written with other intervals read like new ones: outcomes count.
TEST(report, a_run_of_successes_keeps_a_doubt) {
    cJSON* j = cJSON_Parse(
        "{\"ci95\": [100, 100], \"success_rate\": 100, "
        "\"outcomes\": [1, 1, 1, 2, 1, 1, 1, 1, true, 1]}");
    report_row r = {.json = j, .rate = 100};
    stats_interval ci = series_run_interval(&r);
    EXPECT_NEAR(ci.lo, 72.24672, 1e-5);
    EXPECT(ci.hi == 100);
    cJSON_DeleteItemFromObject(j, "outcomes");  // then the file's word
    ci = series_run_interval(&r);
    EXPECT(ci.lo == 100 && ci.hi == 100);
    cJSON_DeleteItemFromObject(j, "ci95");
    ci = series_run_interval(&r);
    EXPECT(isnan(ci.lo) && isnan(ci.hi));
    cJSON_Delete(j);
}
