// damaged_test.c - bad input: each case is refused with one sentence that names the file, and
// nothing is written.
#include "check.h"
#include "core/file.h"
#include "core/mem.h"
#include "io/image.h"
#include "report/report.h"
#include "report/trace.h"
#include "sample.h"

static void expect_refused(const char* name, const char* file, const char* text, firm_status want,
                           const char* part) {
    char run[1024], out[1100], page[1024];
    firm_error err = {0};
    sample_folder(name, run);
    sample_put_json(run, "eval-good.json", sample_eval("tworoom", "contract", 25, 1, 95));
    if (file) sample_put(run, file, text);
    snprintf(out, sizeof out, "%s-out", run);
    const char* inputs[] = {run};
    firm_status status = report_write(inputs, 1, out, page, &err);
    if (status != want)
        test_fail(__FILE__, __LINE__, "%s: status %d (%s), expected %d", name, status, err.message,
                  want);
    if (!strstr(err.message, file ? file : "") || !strstr(err.message, part)) {
        test_fail(__FILE__, __LINE__, "%s: '%s' names neither %s nor '%s'", name, err.message, file,
                  part);
    }
    EXPECT(!file_exists(out));
    EXPECT_TEXT(page, "");
}

TEST(report, damaged_json) {
    static const struct {
        const char *file, *text, *part;
    } cases[] = {
        {"eval-b.json", "{\"task\":\"tworoom\",", ""},
        {"eval-b.json", "", ""},
        {"eval-b.json", "[1, 2]", "not a JSON object"},
        {"eval-b.json", "{\"task\":\"tworoom\"}", "keys"},
        {"eval-b.json", "{\"task\":\"tworoom\",\"arms\":{}}", "mode"},
        {"eval-b.json", "{\"task\":\"tworoom\",\"mode\":\"reach\",\"offset\":25,\"arms\":{}}",
         "arms"},
        {"eval-b.json", "{\"task\":\"tworoom\",\"mode\":\"reach\",\"offset\":25,\"arms\":[1]}",
         "arms"},
        {"eval-b.json", "{\"task\":\"tworoom\",\"mode\":\"reach\",\"offset\":-5,\"arms\":{}}",
         "offset"},
        {"eval-b.json",
         "{\"task\":\"tworoom\",\"mode\":\"reach\",\"offset\":25,\"arms\":{\"firm\":{\"success_"
         "rate\":170}}}",
         "success_rate"},
        {"eval-b.json",
         "{\"task\":\"tworoom\",\"mode\":\"reach\",\"offset\":25,\"arms\":{\"firm\":{\"success_"
         "rate\":1,\"ci95\":[1]}}}",
         "ci95"},
        {"eval-b.json",
         "{\"task\":\"tworoom\",\"mode\":\"reach\",\"offset\":25,\"arms\":{\"firm\":{\"success_"
         "rate\":1,\"outcomes\":[\"x\"]}}}",
         "outcomes"},
        {"eval-b.json",
         "{\"task\":\"tworoom\",\"mode\":\"reach\",\"offset\":25,\"arms\":{\"firm\":{\"success_"
         "rate\":1}},\"pairs\":[{}]}",
         "pair"},
        {"eval-b.json",
         "{\"task\":7,\"mode\":\"reach\",\"offset\":25,\"arms\":{\"firm\":{\"success_rate\":1}}}",
         "task"},
        {"train.json", "{\"task\":\"tworoom\",\"stages\":3}", "stages"},
        {"train.json", "{\"task\":\"tworoom\",\"stages\":[{}]}", "name"},
        {"params.json", "{\"tasks\":{\"tworoom\":{\"total\":{}}}}", "params"},
        {"trace-a.json", "{\"task\":\"tworoom\",\"frames\":[]}", "frames"},
        {"trace-a.json", "{\"task\":\"tworoom\",\"frames\":7}", "frames"},
        {"trace-a.json", "{\"task\":\"tworoom\",\"frames\":[{}]}", "png"},
        {"trace-a.json", "{\"task\":\"tworoom\",\"frames\":[{\"png\":\"AAAA\"}]}", "frame 0"},
        {"trace-a.json", "{\"task\":\"tworoom\",\"frames\":[{\"png\":\"not base64\"}]}", "frame 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[32];
        snprintf(name, sizeof name, "damaged-%02zu", i);
        expect_refused(name, cases[i].file, cases[i].text, FIRM_E_FORMAT, cases[i].part);
    }
}

TEST(report, damaged_csv) {
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"loss", "first line"},
        {"update,loss\n", "first line"},
        {"stage,step,loss\n", "update"},
        {"stage,update,loss\na,1,zero\n", "line 2"},
        {"stage,update,loss\na,1,0.5\na,2\na,3,0.4\n", "line 3"},
        {"stage,update,loss\na,,0.5\n", "line 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[32];
        snprintf(name, sizeof name, "damaged-csv-%zu", i);
        expect_refused(name, "metrics.csv", cases[i].text, FIRM_E_FORMAT, cases[i].part);
    }
}

// A good trace, spoiled in one place each.
TEST(report, damaged_trace) {
    static const char* const what[] = {"cut picture", "flipped picture", "plan", "fan", "goal",
                                       "size"};
    for (int i = 0; i < 6; i++) {
        char run[1024], out[1100], page[1024], name[32];
        firm_error err = {0};
        snprintf(name, sizeof name, "damaged-trace-%d", i);
        sample_folder(name, run);
        cJSON* t = sample_trace(3, "tworoom", "reach");
        cJSON* f = cJSON_GetArrayItem(cJSON_GetObjectItem(t, "frames"), i < 2 ? 1 : 0);
        char* png = cJSON_GetObjectItem(f, "png")->valuestring;
        if (i == 0) png[strlen(png) / 8 * 4] = 0;
        if (i == 1) memcpy(png + strlen(png) / 2, "AAAAAAAA", 8);
        if (i == 2) cJSON_ReplaceItemInObject(f, "plan_xy", cJSON_CreateString("x"));
        if (i == 3) cJSON_ReplaceItemInObject(f, "fan_xy", cJSON_Parse("[[[1,2],[3]]]"));
        if (i == 4) cJSON_ReplaceItemInObject(t, "goal_xy", cJSON_Parse("[[1,\"2\"]]"));
        // a sound PNG of 1 x 1 pixels
        if (i == 5)
            cJSON_ReplaceItemInObject(
                f, "png",
                cJSON_CreateString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+"
                                   "M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="));
        sample_put_json(run, "trace-a.json", t);
        snprintf(out, sizeof out, "%s-out", run);
        const char* inputs[] = {run};
        firm_status status = report_write(inputs, 1, out, page, &err);
        if (status != FIRM_E_FORMAT || !strstr(err.message, "trace-a.json"))
            test_fail(__FILE__, __LINE__, "%s: status %d, '%s'", what[i], status, err.message);
        EXPECT(!file_exists(out));
    }
}

// Texts inside a picture that claim a gigabyte get no memory, wherever they stand in a trace.
TEST(report, trace_takes_no_memory_for_texts) {
    enum { SIDE = 12, HEAD = 33 };
    static const char* const names[] = {"teSt", "tEXt", "zTXt", "iTXt", "iCCP", "sPLT", "eXIf"};
    uint8_t rgb[SIDE * SIDE * 3] = {0}, claim[12] = {0x40, 0, 0, 0, 0, 0, 0, 0, 'a', 0, 'b', 'c'},
                              *png;
    size_t n;
    int64_t unknown = 0;
    firm_error err = {0};
    trace t;
    REQUIRE_OK(image_encode_png(SIDE, SIDE, rgb, &png, &n, &err), err);
    uint8_t* longer = mem_alloc(n + sizeof claim);
    memcpy(longer, png, HEAD);
    memcpy(longer + HEAD + sizeof claim, png + HEAD, n - HEAD);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        memcpy(claim + 4, names[i], 4);
        memcpy(longer + HEAD, claim, sizeof claim);
        char* text = image_base64(longer, n + sizeof claim);
        cJSON *json = cJSON_CreateObject(), *frame = cJSON_CreateObject();
        cJSON_AddStringToObject(frame, "png", text);
        cJSON_AddItemToArray(cJSON_AddArrayToObject(json, "frames"), frame);
        int64_t before = mem_count();
        EXPECT_INT(trace_read(json, "trace-a.json", &t, &err), FIRM_E_FORMAT);
        EXPECT(strstr(err.message, "trace-a.json") && strstr(err.message, "damaged PNG"));
        if (i == 0) unknown = mem_count() - before;
        EXPECT_INT(mem_count() - before, unknown);
        cJSON_Delete(json);
        mem_free(text);
    }
    mem_free(longer);
    mem_free(png);
}

// A small file that asks for much: pictures that are large once unpacked, or endless plans.
TEST(report, small_files_do_not_ask_for_much) {
    enum { SIDE = 1024, FRAMES = 420 };
    firm_error err = {0};
    trace t;
    uint8_t *rgb = mem_calloc(SIDE * SIDE, 3), *png;
    size_t n;
    REQUIRE_OK(image_encode_png(SIDE, SIDE, rgb, &png, &n, &err), err);
    char* text = image_base64(png, n);
    cJSON* json = cJSON_CreateObject();
    cJSON* frames = cJSON_AddArrayToObject(json, "frames");
    for (int i = 0; i < FRAMES; i++) {
        cJSON* f = cJSON_CreateObject();
        cJSON_AddStringToObject(f, "png", text);
        cJSON_AddItemToArray(frames, f);
    }
    int64_t before = mem_count();
    REQUIRE_OK(image_decode_png("it", png, n, SIDE, SIDE, rgb, &err), err);
    const int64_t unpacking = mem_count() - before;
    before = mem_count();
    EXPECT_INT(trace_read(json, "trace-a.json", &t, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "trace-a.json") && strstr(err.message, "420 frames of 1024 x 1024"));
    // the lists of frames, and one picture
    EXPECT(mem_count() - before <= 6 + unpacking);
    while (cJSON_GetArraySize(frames) > 240) cJSON_DeleteItemFromArray(frames, 0);
    REQUIRE_OK(trace_read(json, "trace-a.json", &t, &err), err);
    EXPECT_INT(t.image_count, 1);
    trace_free(&t);

    cJSON* path = cJSON_AddArrayToObject(frames->child, "plan_xy");
    for (int i = 0; i < 256; i++)
        cJSON_AddItemToArray(path, cJSON_CreateDoubleArray((double[]){i, 2}, 2));
    REQUIRE_OK(trace_read(json, "trace-a.json", &t, &err), err);
    trace_free(&t);
    cJSON_AddItemToArray(path, cJSON_CreateDoubleArray((double[]){1, 2}, 2));
    EXPECT_INT(trace_read(json, "trace-a.json", &t, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "at most 256 a path"));
    cJSON_Delete(json);
    mem_free(text);
    mem_free(png);
    mem_free(rgb);
}

TEST(report, many_stages_of_metrics_are_refused) {
    char text[16 * 1200] = "stage,update,loss\n", row[32];
    for (int i = 0; i < 1001; i++) {
        snprintf(row, sizeof row, "s%d,1,2\n", i);
        strcat(text, row);
    }
    expect_refused("many-stages", "metrics.csv", text, FIRM_E_FORMAT, "more than 1000 stages");
}

TEST(report, nothing_to_show) {
    char run[1024], out[1100], page[1024];
    firm_error err = {0};
    sample_folder("empty-run", run);
    sample_put(run, "notes.txt", "nothing");
    snprintf(out, sizeof out, "%s-out", run);
    const char* inputs[] = {run};
    EXPECT_INT(report_write(inputs, 1, out, page, &err), FIRM_E_MISSING);
    EXPECT(strstr(err.message, "empty-run") && strstr(err.message, "firm eval"));
    // a header alone, or less of one, shows nothing either
    static const char* const early[] = {"stage,update,loss\n", "", "stage,upd",
                                        "stage,update,loss,rgb"};
    for (int i = 0; i < 4; i++) {
        sample_put(run, "metrics.csv", early[i]);
        EXPECT_INT(report_write(inputs, 1, out, page, &err), FIRM_E_MISSING);
        EXPECT(!file_exists(out));
    }
    // ... and does not stand in the way of what there is
    sample_put(run, "metrics.csv", "");
    sample_put(run, "train.json", "{\"task\":\"tworoom\",\"stages\":[]}");
    EXPECT_INT(report_write(inputs, 1, out, page, &err), FIRM_OK);
    EXPECT(file_exists(page));
    const char* missing[] = {"/nonexistent/run"};
    EXPECT_INT(report_write(missing, 1, out, page, &err), FIRM_E_MISSING);
    EXPECT(strstr(err.message, "/nonexistent/run") != NULL);
    EXPECT_INT(report_write(missing, 0, out, page, &err), FIRM_E_USAGE);
    EXPECT_INT(report_write(missing, 1, "", page, &err), FIRM_E_USAGE);
}

TEST(report, output_in_the_way) {
    char run[1024], out[1100], page[1024];
    firm_error err = {0};
    sample_folder("way-run", run);
    sample_put_json(run, "eval-a.json", sample_eval("tworoom", "contract", 25, 1, 95));
    sample_put(run, "file", "x");
    snprintf(out, sizeof out, "%s/file/out", run);
    const char* inputs[] = {run};
    EXPECT(report_write(inputs, 1, out, page, &err) != FIRM_OK);
    EXPECT(strstr(err.message, "file") != NULL);
}
