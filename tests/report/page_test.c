// page_test.c - the report as a whole: from sample runs to a page that stands alone, is well
// formed, shows what was given and nothing else, and is the same bytes every time.
#include <cjson/cJSON.h>
#include <dirent.h>

#include "check.h"
#include "core/file.h"
#include "core/mem.h"
#include "report/report.h"
#include "sample.h"

static int contains(const char* text, const char* what) {
    return strstr(text, what) != NULL;
}

static int count_of(const char* text, const char* what) {
    int n = 0;
    for (const char* p = text; (p = strstr(p, what)); p += strlen(what)) n++;
    return n;
}

static int is_void(const char* name) {
    static const char* const list[] = {"meta", "img", "input", "br", "link", "hr"};
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (strcmp(list[i], name) == 0) return 1;
    }
    return 0;
}

// Tags open and close in order, attributes are quoted, no stray '<' or '&'. html: void elements and
// raw script and style contents are allowed for.
static void check_markup(const char* what, const char* text, int html) {
    char stack[64][24];
    int depth = 0;
    for (const char* p = text; *p; p++) {
        if (*p == '&') {
            size_t n = strcspn(p, "; <\n");
            if (p[n] != ';' || n > 8) {
                test_fail(__FILE__, __LINE__, "%s: stray & at '%.20s'", what, p);
                return;
            }
        }
        if (*p != '<') continue;
        if (p[1] == '!' || p[1] == '?') {
            p = strchr(p, '>');
            if (!p) break;
            continue;
        }
        int closing = p[1] == '/';
        char name[24] = "";
        size_t n = strspn(p + 1 + closing,
                          "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (n == 0 || n >= sizeof name) {
            test_fail(__FILE__, __LINE__, "%s: not a tag at '%.30s'", what, p);
            return;
        }
        memcpy(name, p + 1 + closing, n);
        const char* q = p + 1 + closing + n;
        int quoted = 0;
        while (*q && (quoted || *q != '>')) {
            if (*q == '"') quoted = !quoted;
            if (*q == '<') {
                test_fail(__FILE__, __LINE__, "%s: < inside the tag '%.40s'", what, p);
                return;
            }
            q++;
        }
        if (!*q) {
            test_fail(__FILE__, __LINE__, "%s: the tag '%.40s' does not end", what, p);
            return;
        }
        int empty = q[-1] == '/' || (html && is_void(name));
        if (closing) {
            if (depth == 0 || strcmp(stack[depth - 1], name) != 0) {
                test_fail(__FILE__, __LINE__, "%s: </%s> closes <%s>", what, name,
                          depth ? stack[depth - 1] : "nothing");
                return;
            }
            depth--;
        } else if (!empty) {
            if (depth == 64) {
                test_fail(__FILE__, __LINE__, "%s: too deep", what);
                return;
            }
            memcpy(stack[depth++], name, sizeof name);
        }
        p = q;
        if (!closing && (strcmp(name, "script") == 0 || strcmp(name, "style") == 0)) {
            char end[32];
            snprintf(end, sizeof end, "</%s", name);
            p = strstr(q, end);
            if (!p) break;
            p--;
        }
    }
    if (depth) test_fail(__FILE__, __LINE__, "%s: <%s> is never closed", what, stack[depth - 1]);
}

// Every .svg of the folder is checked; returns how many there are.
static int check_svgs(const char* folder) {
    DIR* dir = opendir(folder);
    int n = 0;
    if (!dir) return 0;
    for (struct dirent* e; (e = readdir(dir));) {
        size_t size, k = strlen(e->d_name);
        if (k < 5 || strcmp(e->d_name + k - 4, ".svg") != 0) continue;
        char* text = sample_read(folder, e->d_name, &size);
        EXPECT(text && strncmp(text, "<svg xmlns=\"http://www.w3.org/2000/svg\"", 38) == 0);
        if (text) {
            check_markup(e->d_name, text, 0);
            EXPECT_INT(count_of(text, "http"), 1);  // the name space, which nobody fetches
            EXPECT(!contains(text, "nan") && !contains(text, "inf\""));
        }
        mem_free(text);
        n++;
    }
    closedir(dir);
    return n;
}

TEST(report, page_from_runs) {
    char runs[3][1024], out[1024], page[1024];
    firm_error err;
    size_t size;
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "pages-run%d", i + 1);
        sample_run(name, i + 1, i == 0, runs[i]);
    }
    snprintf(out, sizeof out, "%s/pages-out/deep", test_temp_dir());
    const char* inputs[] = {runs[0], runs[1], runs[2]};
    REQUIRE_OK(report_write(inputs, 3, out, page, &err), err);
    EXPECT(file_exists(page));
    char* text = sample_read(out, "index.html", &size);
    EXPECT(text != NULL);
    if (!text) return;
    EXPECT_INT(strlen(text), size);
    check_markup("index.html", text, 1);
    EXPECT(!contains(text, "http://") && !contains(text, "https://"));
    EXPECT(!contains(text, "<link") && !contains(text, "@import") && !contains(text, "url("));
    EXPECT_INT(count_of(text, " src=\""), count_of(text, " src=\"data:image/png;base64,"));
    static const char* const wanted[] = {"FIRM-WM on TwoRoom",
                                         "mean of 3",
                                         "seed 2",
                                         "oracle-dynamics",
                                         "99.0<span class=\"sd\"> \u00b1 1.0",
                                         "Paired differences",
                                         "Every trial",
                                         "Rollout error",
                                         "rescued",
                                         "passed",
                                         "<td>1.613</td>",
                                         "3\u2009000",
                                         "Reset-replay",
                                         "9f3ac41d0b77e215",
                                         "seed 42 \u00b7",
                                         "version 0.1.0",
                                         "thin dash l1",
                                         "grounder 0.166 px",
                                         "class=\"player\"",
                                         "<noscript>",
                                         "of peak",
                                         "log scale",
                                         "candidates = 300"};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        if (!contains(text, wanted[i]))
            test_fail(__FILE__, __LINE__, "the page lacks '%s'", wanted[i]);
    }
    // 2 success, 2 trials, 1 by distance, 6 pairs, 1 rollout, 5 curves, 1 distance
    EXPECT_INT(check_svgs(out), 18);
    EXPECT_INT(count_of(text, "<svg class=\"fig\""), 18);
    // the episode comes first, then the answer; everything else is folded
    const char *episode = strstr(text, "id=\"episode\""), *answer = strstr(text, "id=\"success\""),
               *fold = strstr(text, "<details class=\"fold\"");
    EXPECT(episode && answer && fold && episode < answer && answer < fold);
    EXPECT(!contains(fold, "<section") && !contains(text, "not run"));
    char* apng = sample_read(out, "episode-tworoom-reach-1.png", &size);
    EXPECT(apng != NULL && size > 10000 && size < 400000);
    mem_free(apng);
    mem_free(text);
}

TEST(report, page_same_bytes) {
    char run[1024], out[2][1024], page[1024];
    firm_error err;
    size_t size[2] = {0, 1};
    char* text[2];
    sample_run("same-run", 1, 1, run);
    const char* inputs[] = {run};
    for (int i = 0; i < 2; i++) {
        snprintf(out[i], sizeof out[i], "%s/same-out%d", test_temp_dir(), i);
        REQUIRE_OK(report_write(inputs, 1, out[i], page, &err), err);
        text[i] = sample_read(out[i], "index.html", &size[i]);
    }
    EXPECT(size[0] == size[1] && text[0] && text[1] && memcmp(text[0], text[1], size[0]) == 0);
    mem_free(text[0]);
    mem_free(text[1]);
}

TEST(report, page_escapes_text) {
    char run[1024], out[1024], page[1024];
    firm_error err;
    size_t size;
    sample_folder("escape <b>&amp;\"'", run);
    const char* evil = "</script><script>alert(1)</script> & \"x\" '\x01\xff";
    cJSON* t = sample_trace(3, evil, "reach<i>");
    cJSON* d = cJSON_GetArrayItem(cJSON_GetObjectItem(t, "distances"), 0);
    cJSON_ReplaceItemInObject(d, "name", cJSON_CreateString(evil));
    sample_put_json(run, "trace-evil.json", t);
    cJSON* e = sample_eval(evil, "contract<", 25, 1, 90);
    cJSON* arms = cJSON_GetObjectItem(e, "arms");
    cJSON_AddItemToObject(arms, "<img src=x onerror=y>",
                          cJSON_Duplicate(cJSON_GetObjectItem(arms, "firm"), 1));
    cJSON_ReplaceItemInObject(e, "config_hash", cJSON_CreateString(evil));
    sample_put_json(run, "eval-evil.json", e);
    e = sample_train(evil, 1);
    cJSON_ReplaceItemInObject(cJSON_GetArrayItem(cJSON_GetObjectItem(e, "stages"), 0), "name",
                              cJSON_CreateString(evil));
    sample_put_json(run, "train.json", e);
    sample_put(run, "config.ini", "<script>&");
    sample_put(run, "metrics.csv",
               "stage,update,loss,<b>,lr,seconds\n<i>&,1,0.5,1,1,1\n<i>&,2,0.4,1,1,1\n");
    snprintf(out, sizeof out, "%s/escape-out", test_temp_dir());
    const char* inputs[] = {run};
    REQUIRE_OK(report_write(inputs, 1, out, page, &err), err);
    char* text = sample_read(out, "index.html", &size);
    EXPECT(text != NULL);
    if (!text) return;
    check_markup("index.html", text, 1);
    EXPECT(!contains(text, "<script>alert") && !contains(text, "<img src=x") &&
           !contains(text, "<script>&"));
    EXPECT(contains(text, "&lt;script&gt;alert(1)"));
    EXPECT(contains(text, "&lt;img src=x onerror=y&gt;"));
    EXPECT(contains(text, "\\u003c/script\\u003e"));
    EXPECT(!contains(text, "\x01") && !contains(text, "\xff"));
    EXPECT_INT(count_of(text, "<script"), 2);  // the player's data and the page's script
    EXPECT(check_svgs(out) >= 3);
    mem_free(text);
}

TEST(report, page_from_single_files) {
    char run[1024], out[1024], page[1024], file[1100];
    firm_error err;
    size_t size;
    sample_folder("single-run", run);
    sample_put_json(run, "whatever.json", sample_trace(6, "tworoom", "reach"));
    snprintf(file, sizeof file, "%s/whatever.json", run);
    snprintf(out, sizeof out, "%s/single-out", test_temp_dir());
    const char* inputs[] = {file};
    REQUIRE_OK(report_write(inputs, 1, out, page, &err), err);
    char* text = sample_read(out, "index.html", &size);
    EXPECT(text && contains(text, "class=\"player\"") && !contains(text, "id=\"success\"") &&
           !contains(text, "id=\"training\""));
    if (text) check_markup("index.html", text, 1);
    mem_free(text);
}

// Evaluations without their training record: seed and sources come from the model's quoted
// provenance.
TEST(report, page_from_evaluations_alone) {
    char run[1024], out[1024], page[1024], file[2][1100];
    firm_error err;
    size_t size;
    sample_folder("alone-run", run);
    cJSON* e = sample_eval("reacher", "contract", 25, 2, 90);
    sample_put_json(run, "one.json", e);
    e = sample_eval("reacher", "contract", 25, 3, 90);
    cJSON_ReplaceItemInObject(e, "provenance",
                              cJSON_CreateString("version=100 sources=I data_seed=9 seed=3"));
    sample_put_json(run, "two.json", e);
    snprintf(file[0], sizeof file[0], "%s/one.json", run);
    snprintf(file[1], sizeof file[1], "%s/two.json", run);
    snprintf(out, sizeof out, "%s/alone-out", test_temp_dir());
    const char* inputs[] = {file[0], file[1]};
    REQUIRE_OK(report_write(inputs, 2, out, page, &err), err);
    char* text = sample_read(out, "index.html", &size);
    EXPECT(text && contains(text, "firm, intervention only") &&
           contains(text, "71.7<span class=\"sd\"> \u00b1 4.6"));
    EXPECT(text && contains(text, "seed 2") && contains(text, "seed 3") &&
           !contains(text, "seed 9"));
    mem_free(text);
}

TEST(report, page_ablations_and_gaps) {
    char run[2][1024], out[1024], page[1024];
    firm_error err;
    size_t size;
    for (int i = 0; i < 2; i++) {
        sample_folder(i ? "ablation-both" : "ablation-factual", run[i]);
        cJSON* t = sample_train("reacher", 1);
        if (!i) cJSON_AddStringToObject(t, "sources", "F");
        sample_put_json(run[i], "train.json", t);
        cJSON* e = sample_eval("reacher", "contract", 25, 1, 90);
        cJSON_DeleteItemFromObject(e, "pairs");
        cJSON_DeleteItemFromObject(cJSON_GetObjectItem(cJSON_GetObjectItem(e, "arms"), "random"),
                                   "outcomes");
        cJSON_DeleteItemFromObject(cJSON_GetObjectItem(cJSON_GetObjectItem(e, "arms"), "random"),
                                   "ci95");
        sample_put_json(run[i], "eval-a.json", e);
    }
    // one stage without any value, one that diverged
    sample_put(run[0], "metrics.csv",
               "stage,update,loss,lr,seconds\r\na,1,,1,1\r\na,2,,1,1\r\nb,1,0.5,1,1\r\nb,2,nan,1,"
               "1\r\nb,3,inf,1,1\r\nb,4,0.1,1,1\r\nb,5,0.");
    snprintf(out, sizeof out, "%s/ablation-out", test_temp_dir());
    const char* inputs[] = {run[0], run[1]};
    REQUIRE_OK(report_write(inputs, 2, out, page, &err), err);
    char* text = sample_read(out, "index.html", &size);
    EXPECT(text && contains(text, "firm, factual only") &&
           contains(text, "89.3<span class=\"sd\"> \u00b1 1.5") &&
           contains(text, "92.7<span class=\"sd\"> \u00b1 2.1"));
    EXPECT(text && !contains(text, "id=\"pairs\"") && contains(text, "ablation-both"));
    if (text) check_markup("index.html", text, 1);
    check_svgs(out);
    char* curve = sample_read(out, "curve-reacher-b.svg", &size);
    EXPECT(curve != NULL);
    EXPECT(sample_read(out, "curve-reacher-a.svg", &size) == NULL);
    mem_free(curve);
    mem_free(text);
}

TEST(report, page_out_of_memory) {
    char run[1024], out[1024], page[1024];
    firm_error err;
    sample_folder("memory-run", run);
    sample_put_json(run, "trace-a.json", sample_trace(2, "tworoom", "reach"));
    sample_put_json(run, "eval-a.json", sample_eval("tworoom", "contract", 25, 1, 95));
    sample_put_json(run, "train.json", sample_train("tworoom", 1));
    sample_put(run, "metrics.csv", "stage,update,loss,lr,seconds\na,1,1,1,1\na,2,0.5,1,1\n");
    snprintf(out, sizeof out, "%s/memory-out", test_temp_dir());
    const char* inputs[] = {run};
    int failures = 0;
    // every third point of failure: all kinds of allocation are met, in a second or two (the
    // short form: every seventh)
    for (int64_t n = 0;; n += test_short() ? 7 : 3) {
        mem_fail_after(n);
        firm_status status = report_write(inputs, 1, out, page, &err);
        mem_fail_after(-1);
        if (status == FIRM_OK) break;
        failures++;
        EXPECT_INT(status, FIRM_E_MEMORY);
        EXPECT(!file_exists(page[0] ? page : "/nonexistent"));
        if (failures > 3000) {
            test_fail(__FILE__, __LINE__, "never succeeds");
            break;
        }
    }
    EXPECT(failures > 20);
}
