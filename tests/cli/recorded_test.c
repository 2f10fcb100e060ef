// recorded_test.c - recorded data alone, from the command line to a deployed controller: pictures,
// actions and states under a task file give what the built-in task gives, and what needs a
// simulator says so.
#include "../data/recording.h"
#include "program.h"

static int episodes_recorded(void) {
    return test_short() ? 12 : 30;  // a picture is 150 kB
}

// A folder with robot.h5 and robot.ini, and f.h5: the same episodes with pictures in the program's
// own layout.
static int make_recording(char folder[512]) {
    firm_error err = {0};
    pool* p;
    episodes* e;
    char path[600];
    fresh_folder(folder);
    if (firm_run(folder, 0, "collect tworoom --episodes %d --seed 4 --pixels -o f.h5 --quiet",
                 episodes_recorded())
            ->code)
        return 0;
    collect_options opt = {.episodes = episodes_recorded(), .seed = 4};
    if (pool_create(1, &p, &err) != FIRM_OK ||
        episodes_collect(env_find("tworoom"), &opt, p, &e, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        return 0;
    }
    put_file(folder, "robot.ini", RECORDING_TASK, strlen(RECORDING_TASK));
    snprintf(path, sizeof path, "%s/robot.h5", folder);
    int made = recording_write(&(recording){0}, e, path);
    episodes_free(e);
    pool_free(p);
    return made;
}

static double at(const cJSON* j, const char* key, int i) {
    const cJSON* v = cJSON_GetObjectItemCaseSensitive(j, key);
    if (i >= 0) v = cJSON_GetArrayItem(v, i);
    return cJSON_IsNumber(v) ? v->valuedouble : NAN;
}

// The same pictures, coordinates, split and seed: the grounder is the same to the bit, the rest but
// for the rounding of chi.
static void expect_equal(const char* folder) {
    cJSON* own = JSON_OF(firm_run(folder, 0,
                                  "train tworoom --data f.h5 --sources F --config smoke -o own "
                                  "--json --quiet"));
    cJSON* file = JSON_OF(firm_run(folder, 0,
                                   "train robot.ini --data robot.h5 --sources F --config smoke "
                                   "-o run --json --quiet"));
    EXPECT_KEYS(file, "task stages grounder_error rollout_error");
    const cJSON *a = cJSON_GetObjectItemCaseSensitive(own, "stages"),
                *b = cJSON_GetObjectItemCaseSensitive(file, "stages");
    for (int i = 0; i < cJSON_GetArraySize(a); i++) {
        double want = at(cJSON_GetArrayItem(a, i), "gate", -1);
        EXPECT_NEAR(at(cJSON_GetArrayItem(b, i), "gate", -1), want, i < 3 ? 0 : 0.01 * want);
    }
    for (int k = 0; k < 5; k++)
        EXPECT_NEAR(at(file, "rollout_error", k), at(own, "rollout_error", k),
                    0.01 * at(own, "rollout_error", k));
    cJSON_Delete(own);
    cJSON_Delete(file);
}

// The model knows its task: libfirm alone plans with it.
static void expect_deployed(const char* folder) {
    char path[600];
    firm_model* m = NULL;
    firm_controller* ctl = NULL;
    firm_model_info info;
    firm_error err = {0};
    firm_step step;
    static uint8_t rgb[224 * 224 * 3];
    snprintf(path, sizeof path, "%s/run/model.safetensors", folder);
    REQUIRE_OK(firm_model_load(path, &m, &err), err);
    EXPECT_INT(firm_model_info_get(m, &info), FIRM_OK);
    EXPECT_TEXT(info.task, "robot");
    EXPECT_TEXT(info.config_name[1], "agent_y");
    EXPECT_NEAR(info.distance_tolerance[0], 16, 0);
    firm_controller_params params = firm_controller_params_default();
    params.candidates = 16;
    params.iterations = 2;
    params.threads = 1;
    REQUIRE_OK(firm_controller_create(m, &params, &ctl, &err), err);
    memset(rgb, 200, sizeof rgb);
    EXPECT_INT(firm_controller_push(ctl, rgb, NULL), FIRM_OK);
    memset(rgb, 90, sizeof rgb);
    EXPECT_INT(firm_controller_goal(ctl, rgb), FIRM_OK);
    EXPECT_INT(firm_controller_act(ctl, 0, &step), FIRM_OK);
    EXPECT(isfinite(step.action[0]) && fabsf(step.action[0]) <= 1);
    firm_controller_free(ctl);
    firm_model_free(m);
}

TEST(cli, recorded_data_alone) {
    char folder[512];
    if (!make_recording(folder)) return;
    cJSON* j = JSON_OF(firm_run(folder, 0, "describe robot.ini --data robot.h5 --json"));
    EXPECT_INT(at(j, "episodes", -1), episodes_recorded());
    EXPECT(
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(j, "state"), "pose[1]"));
    cJSON_Delete(j);
    expect_equal(folder);

    j = JSON_OF(firm_run(folder, 0,
                         "eval robot.ini --model run/model.safetensors --data robot.h5 -o "
                         "run/eval-held.json --json --quiet"));
    cJSON* t = JSON_OF(firm_run(folder, 0,
                                "train robot.ini --data robot.h5 --sources F --config smoke -o run "
                                "--resume --json --quiet"));
    EXPECT_KEYS(j,
                "task model data_hash held_out_episodes held_out_segments grounder_error "
                "rollout_error rollout_error_p95 seconds");
    EXPECT(!cJSON_GetObjectItemCaseSensitive(j, "arms"));
    for (int k = 0; k < 5 && t; k++)  // what the run's own last gate said
        EXPECT_NEAR(at(j, "rollout_error", k), at(t, "rollout_error", k), 2e-3);
    cJSON_Delete(j);
    cJSON_Delete(t);

    // a pack holds the pictures; a run from it needs nothing else
    EXPECT_INT(
        firm_run(folder, 0,
                 "pack robot.ini --data robot.h5 --sources F --pictures --config smoke --set "
                 "train.frame_pool=40 -o p.h5 --quiet")
            ->code,
        0);
    EXPECT_REFUSAL(firm_run(folder, 0,
                            "pack robot.ini --data robot.h5 --sources F --config smoke "
                            "--set train.frame_pool=40 -o q.h5 --quiet"),
                   "pack", "add --pictures");
    EXPECT_INT(firm_run(folder, 0,
                        "train robot.ini --pack p.h5 --sources F --config smoke --set "
                        "train.frame_pool=40 -o packed --quiet")
                   ->code,
               0);
    // nor do searches in the imagination
    EXPECT_INT(
        firm_run(folder, 0,
                 "intervene robot.ini --imagined --pack p.h5 --model packed/model.safetensors "
                 "--anchors 4 --candidates 8 --set intervene.imagined_iterations=2 --set "
                 "intervene.imagined_kept=3 -o imagined.h5 --quiet")
            ->code,
        0);
    j = JSON_OF(firm_run(folder, 0,
                         "train robot.ini --pack imagined.h5 --config smoke --set "
                         "train.frame_pool=40 --set stage.rollout-f.sources=FD --set "
                         "stage.rollout-f.loss=F --set stage.rollout-fi.sources=D --set "
                         "stage.rollout-fi.loss=F -o student --json --quiet"));
    EXPECT_NEAR(at(cJSON_GetObjectItemCaseSensitive(j, "data"), "imagined_rollouts", -1), 4 * 7, 0);
    cJSON_Delete(j);
    EXPECT_INT(firm_run(folder, 0, "report run -o page")->code, 0);
    size_t n;
    char* page = get_file(folder, "page/index.html", &n);
    EXPECT(page && strstr(page, "Held-out episodes"));
    free(page);
    expect_deployed(folder);
}

TEST(cli, recorded_data_has_no_simulator) {
    char folder[512];
    fresh_folder(folder);
    put_file(folder, "robot.ini", RECORDING_TASK, strlen(RECORDING_TASK));
    static const char* const lines[][2] = {
        {"collect", "collect robot.ini -o x.h5"},
        {"intervene", "intervene robot.ini --data robot.h5 -o x.h5"},
        {"audit", "audit robot.ini --data robot.h5"},
        {"trials", "trials robot.ini --data robot.h5 -o x.h5"},
        {"demo", "demo robot.ini"},
        {"bench", "bench env robot.ini"},
        {"eval", "eval robot.ini --data robot.h5 --arms random"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        EXPECT_REFUSAL(firm_run(folder, 0, "%s", lines[i][1]), lines[i][0], "needs a simulator");
    EXPECT_REFUSAL(
        firm_run(folder, 0, "train robot.ini --data robot.h5 --sources F -o run --quiet"), "train",
        "robot.h5");
    const outcome* o = firm_run(folder, 0, "tasks robot.ini");
    EXPECT(o->code == 0 && strstr(o->out, "no simulator") && !strstr(o->out, "policies"));
    EXPECT_REFUSAL(firm_run(folder, 0, "describe none.ini --data robot.h5"), "describe",
                   "none.ini");
    put_file(folder, "bad.ini", "[task]\nname = a b\n", 18);
    EXPECT_REFUSAL(firm_run(folder, 0, "describe bad.ini --data robot.h5"), "describe", "bad.ini");
    EXPECT_INT(folder_entries(folder, NULL, 0), 2);
}
