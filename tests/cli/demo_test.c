// demo_test.c - `firm demo` without a model: every task is planned through its true simulator, and
// both the page and the output say so. (With a model: whole_path_test.c.)
#define _GNU_SOURCE  // setenv
#include "env/env.h"
#include "io/json.h"
#include "program.h"

static const char* text_of(const cJSON* j, const char* key) {
    const cJSON* item = cJSON_GetObjectItemCaseSensitive(j, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

// Runs the demo with a search too small to be good and looks at what it leaves.
static void demo_of(const char* task, const char* search) {
    char folder[512], page[600];
    fresh_folder(folder);
    cJSON* j = JSON_OF(
        firm_run(folder, 0, "demo %s --oracle --seed 7 %s -o out --json --quiet", task, search));
    if (!j) return;
    EXPECT_KEYS(j, "task success controls solves ms_per_solve distances seconds page note");
    EXPECT(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(j, "model")));
    EXPECT(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(j, "params")));
    EXPECT(strstr(text_of(j, "note"), "true simulator") != NULL);
    // a goal that has yet to be reached, and an end that was measured
    const cJSON* d;
    double worst = 0;
    cJSON_ArrayForEach(d, cJSON_GetObjectItemCaseSensitive(j, "distances")) {
        double units = json_get(d, "start", 0) / json_get(d, "tolerance", 1);
        worst = test_worse(worst, units);
        EXPECT(isfinite(json_get(d, "end", NAN)));
    }
    EXPECT(worst >= 1 && isfinite(worst));
    EXPECT(json_get(j, "controls", 0) >= 1 && json_get(j, "solves", 0) >= 1);
    cJSON_Delete(j);

    size_t n;
    snprintf(page, sizeof page, "%s/out", folder);
    char* html = get_file(page, "index.html", &n);
    EXPECT(html != NULL && n > 10000);
    if (html) {
        EXPECT(strstr(html, "class=\"caveat\">As asked: this plan was searched") != NULL);
        EXPECT(strstr(html, "No trained model took part") != NULL);
        EXPECT(strstr(html, "from pixels with a compact") == NULL);
    }
    free(html);
}

TEST(cli, demo_without_a_model) {
    demo_of("tworoom", "");
#ifdef FIRM_MUJOCO
    demo_of("reacher", "--set plan.reach_candidates=24");
#endif
}

// Recording goals takes seconds here, a minute under the sanitizers.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#ifdef FIRM_CHIPMUNK
TEST(cli, demo_of_pusht) {
    demo_of("pusht",
            "--offset 25 --set plan.reach_candidates=40 --set plan.reach_elites=8 --set "
            "plan.reach_iterations=2");
}
#endif
#ifdef FIRM_MUJOCO
TEST(cli, demo_of_cube) {
    demo_of("cube",
            "--offset 10 --set plan.reach_candidates=12 --set plan.reach_iterations=1 --set "
            "plan.reach_horizon=2 --set plan.reach_horizon_max=2");
}
#endif
#endif

TEST(cli, demo_refuses) {
    char folder[512];
    fresh_folder(folder);
    EXPECT_REFUSAL(firm_run(folder, 0, "demo tworoom --oracle --model m.safetensors"), "demo",
                   "leave out --model");
    EXPECT_REFUSAL(firm_run(folder, 0, "demo tworoom --oracle --offset 200 -o out --quiet"), "demo",
                   "smaller --offset");
#ifdef FIRM_MUJOCO
    // the library is there, its scenes are not
    setenv("FIRM_MODELS_DIR", folder, 1);
    EXPECT_REFUSAL(firm_run(folder, 0, "demo reacher --oracle -o out"), "demo", "FIRM_MODELS_DIR");
    EXPECT_REFUSAL(firm_run(folder, 0, "demo cube --oracle -o out"), "demo", "FIRM_MODELS_DIR");
    unsetenv("FIRM_MODELS_DIR");
#else
    EXPECT_REFUSAL(firm_run(folder, 0, "demo reacher --oracle -o out"), "demo", "make mujoco");
    EXPECT_REFUSAL(firm_run(folder, 0, "demo cube --oracle -o out"), "demo", "make mujoco");
#endif
    EXPECT_INT(folder_entries(folder, NULL, 0), 0);
}
