// lewm_test.c - commands with a model file of LeWM: planned with, evaluated beside FIRM on the same
// trials, and refused where it does not belong.
#include "model/lewm/lewm.h"

#include "core/mem.h"
#include "io/json.h"
#include "plan/lewm_net.h"
#include "plan/lewm_toys.h"
#include "program.h"

// lewm.safetensors in a fresh folder; the fixture's path, or NULL.
static const char* make_lewm(char folder[512]) {
    const char* fix = firm_fixture();
    lewm_model* m = toy_lewm(3, 5);
    firm_error err = {0};
    char path[600];
    fresh_folder(folder);
    snprintf(path, sizeof path, "%s/lewm.safetensors", folder);
    int ok = fix && m;
    // as of a training run: settings of its own kind, and how far it came
    if (ok) {
        snprintf(m->provenance, sizeof m->provenance, "version=100 world=lewm seed=7 updates=40");
        mem_free(m->config);
        m->config = mem_strdup("[lewm]\nbatch = 128\nrate = 5e-05\n");
    }
    if (ok && lewm_write(path, m, NULL, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        ok = 0;
    }
    lewm_free(m);
    return ok ? fix : NULL;
}

TEST(cli, lewm_evaluated_beside_firm) {
    char folder[512];
    const char* fix = make_lewm(folder);
    if (!fix) return;
    char* first = NULL;
    for (int threads = 1; threads <= 2; threads++) {
        cJSON* j = JSON_OF(firm_run(folder, 0,
                                    "eval tworoom --model %s/run/model.safetensors --lewm "
                                    "lewm.safetensors --trials 3 --offset 10 --candidates 12 "
                                    "--iterations 2 --seed 3 --arms firm,lewm,random --traces 1 -o "
                                    "eval-x.json --threads %d --json",
                                    fix, threads));
        if (!j) continue;
        const cJSON *arms = cJSON_GetObjectItemCaseSensitive(j, "arms"),
                    *lewm = cJSON_GetObjectItemCaseSensitive(arms, "lewm"),
                    *origin = cJSON_GetObjectItemCaseSensitive(j, "lewm"), *pair;
        EXPECT_KEYS(lewm, "success_rate ci95 seconds_per_episode ms_per_solve outcomes closest");
        EXPECT(json_get(lewm, "seconds_per_episode", 0) > 0);
        EXPECT_NEAR(json_get(origin, "model_seed", 0), 7, 0);
        EXPECT_NEAR(json_get(origin, "updates", 0), 40, 0);
        EXPECT_KEYS(origin, "model provenance");
        int pairs = 0;
        cJSON_ArrayForEach(pair, cJSON_GetObjectItemCaseSensitive(j, "pairs")) {
            const cJSON* ratio = cJSON_GetObjectItemCaseSensitive(pair, "seconds_ratio");
            const char* b = cJSON_GetObjectItemCaseSensitive(pair, "b")->valuestring;
            EXPECT_KEYS(pair, "a b difference ci95 rescue harm seconds_ratio");
            EXPECT(strcmp(b, "lewm") == 0 ? ratio->valuedouble > 0 : cJSON_IsNull(ratio));
            pairs++;
        }
        EXPECT_INT(pairs, 3);
        char* closest = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(lewm, "closest"));
        if (first)
            EXPECT_TEXT(closest, first);
        else
            first = closest;
        if (closest != first) free(closest);
        cJSON_Delete(j);
    }
    free(first);
    // alone, in reach mode, with a trace of the arm
    cJSON* j = JSON_OF(firm_run(folder, 0,
                                "eval tworoom --lewm lewm.safetensors --trials 2 --offset 10 "
                                "--candidates 12 --iterations 2 --seed 3 --arms lewm --mode reach "
                                "--traces 1 -o eval-y.json --json"));
    if (j) EXPECT_KEYS(cJSON_GetObjectItemCaseSensitive(j, "arms"), "lewm");
    cJSON_Delete(j);
    size_t n;
    char* trace = get_file(folder, "trace-y-1.json", &n);
    EXPECT(trace && strstr(trace, "\"true_distance\"") && !strstr(trace, "plan_xy"));
    free(trace);
}

TEST(cli, lewm_plans_from_pictures) {
    char folder[512];
    const char* fix = make_lewm(folder);
    if (!fix) return;
    cJSON* j = JSON_OF(firm_run(folder, 0,
                                "plan tworoom --model lewm.safetensors --frames %s/frame-0.png "
                                "--goal %s/frame-3.png --mode contract --solver mppi --json",
                                fix, fix));
    if (!j) return;
    const cJSON* d = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(j, "distances"), 0);
    EXPECT_TEXT(cJSON_GetObjectItemCaseSensitive(d, "name")->valuestring, "latent");
    EXPECT(json_get(d, "now", -1) > 0);
    EXPECT_INT(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(j, "plan")), 25);
    EXPECT_INT(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(j, "config")), 0);
    cJSON_Delete(j);
    EXPECT_INT(firm_run(folder, 0,
                        "plan tworoom --model lewm.safetensors --frames %s/frame-0.png --goal "
                        "%s/frame-3.png --mode contract",
                        fix, fix)
                   ->code,
               0);
}

// Speed of either kind of work. The planner's count of a toy's rollout is checked by hand in
// plan/lewm_net_saves; here it is of the search that was made.
TEST(cli, lewm_benches) {
    char folder[512];
    if (!make_lewm(folder)) return;
    cJSON* j = JSON_OF(firm_run(folder, 0,
                                "bench plan tworoom --model lewm.safetensors --set "
                                "plan.contract_iterations=2 --repeats 3 --threads 1 --json"));
    if (j) {
        lewm_model* m = toy_lewm(3, 5);
        EXPECT_TEXT(cJSON_GetObjectItemCaseSensitive(j, "world")->valuestring, "lewm");
        EXPECT_NEAR(json_get(j, "gflop_per_solve", 0), 2e-9 * 300 * 2 * (double)lewm_net_macs(m, 5),
                    1e-4);
        EXPECT(json_get(j, "ms_per_solve", 0) > 0 && json_get(j, "perception_ms", 0) > 0);
        EXPECT_NEAR(json_get(j, "allocations", -1), 0, 0);
        EXPECT(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(j, "reach_ms_per_solve")));
        lewm_free(m);
    }
    cJSON_Delete(j);
    j = JSON_OF(firm_run(folder, 0,
                         "bench train tworoom --world lewm --seconds 0.1 --threads 1 --json "
                         "--set lewm.batch=3 --set lewm.patch=56 --set lewm.width=24 --set "
                         "lewm.depth=1 --set lewm.predictor_depth=1 --set lewm.projector=32"));
    if (j) {
        EXPECT_NEAR(json_get(j, "batch", 0), 3, 0);
        EXPECT_NEAR(json_get(j, "ms_per_update", 0) * json_get(j, "updates_per_s", 0), 1000, 0.1);
        EXPECT(json_get(j, "gflop_per_update", 0) > 0 && json_get(j, "fma_gflops", 0) > 0);
    }
    cJSON_Delete(j);
    EXPECT_REFUSAL(firm_run(folder, 0, "bench plan tworoom --world firm --model lewm.safetensors"),
                   "bench", "needs one of FIRM");
    EXPECT_REFUSAL(firm_run(folder, 0, "bench env tworoom --world lewm"), "bench", "--world");
}

// Weights that do not say their task become a model file that plans like the one they came from.
TEST(cli, lewm_weights_from_elsewhere) {
    char folder[512], *bytes;
    const char* fix = make_lewm(folder);
    size_t n;
    if (!fix || !(bytes = get_file(folder, "lewm.safetensors", &n))) return;
    // the sizes that shapes do not tell stay: the reference's are other ones than the toy's
    static const char* const keys[] = {"firm.format\"", "firm.task",        "firm.typed",
                                       "firm.digest",   "firm.action_mean", "firm.action_std"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char* key = strstr(bytes + 8, keys[i]);
        EXPECT(key != NULL);
        if (key) key[0] = 'x';
    }
    put_file(folder, "weights.safetensors", bytes, n);
    free(bytes);
    EXPECT_REFUSAL(firm_run(folder, 0,
                            "plan tworoom --model weights.safetensors --frames %s/frame-0.png "
                            "--goal %s/frame-3.png",
                            fix, fix),
                   "plan", "firm export --task");
    EXPECT_REFUSAL(firm_run(folder, 0, "export weights.safetensors -o x.safetensors"), "export",
                   "--statistics");
    EXPECT_REFUSAL(firm_run(folder, 0,
                            "export weights.safetensors -o x.safetensors --task tworoom "
                            "--statistics '0,0;1,0'"),
                   "export", "--statistics is '0,0;1,0'");
    EXPECT_REFUSAL(firm_run(folder, 0,
                            "export weights.safetensors -o x.safetensors --task tworoom "
                            "--statistics '0,0;1,1' --half"),
                   "export", "--half");
    cJSON* j = JSON_OF(firm_run(folder, 0,
                                "export weights.safetensors -o back.safetensors --task tworoom "
                                "--statistics '0.1,0.05;0.5,0.25' --json"));
    if (j) EXPECT(json_get(j, "params", 0) > 0);
    cJSON_Delete(j);
    // the same search in standardised controls, which then mean others
    double cost[2] = {-1, -2}, action[2] = {-1, -2};
    for (int i = 0; i < 2; i++) {
        j = JSON_OF(firm_run(folder, 0,
                             "plan tworoom --model %s.safetensors --frames %s/frame-0.png --goal "
                             "%s/frame-3.png --mode contract --json",
                             i ? "back" : "lewm", fix, fix));
        if (j) {
            cost[i] = json_get(j, "cost", -3);
            action[i] =
                cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(j, "action"), 0)->valuedouble;
        }
        cJSON_Delete(j);
    }
    EXPECT_NEAR(cost[0], cost[1], 0);
    EXPECT_NEAR(action[1], 0.1 + 0.5 * action[0], 1e-5);
}

// Evaluations of a task's LeWM: two modes, three distances, the study's trials and fresh ones.
TEST(cli, lewm_in_a_study) {
    char folder[512], from[600], to[600];
    if (!make_lewm(folder)) return;
    EXPECT_REFUSAL(firm_run(folder, 0, "reproduce --tasks tworoom --lewm . --plan-only"),
                   "reproduce", "./tworoom.safetensors");
    snprintf(from, sizeof from, "%s/lewm.safetensors", folder);
    snprintf(to, sizeof to, "%s/tworoom.safetensors", folder);
    EXPECT_INT(rename(from, to), 0);
    cJSON* j = JSON_OF(
        firm_run(folder, 0, "reproduce --tasks tworoom --lewm . --plan-only --no-estimate --json"));
    const cJSON* step;
    int found = 0;
    cJSON_ArrayForEach(step, cJSON_GetObjectItemCaseSensitive(j, "steps")) found +=
        strstr(step->valuestring, "eval tworoom --lewm ./tworoom.safetensors") &&
        strstr(step->valuestring, "--arms lewm") &&
        strstr(step->valuestring, "/tworoom/lewm/eval-");
    EXPECT_INT(found, 12);  // as many on fresh trials, and as far as the task has goals
    cJSON_Delete(j);
}

// Trained on the episodes of another split: trials of recorded data may be among them.
TEST(cli, lewm_of_another_split) {
    char folder[512], path[600];
    const char* fix = make_lewm(folder);
    lewm_model* m;
    firm_error err = {0};
    if (!fix) return;
    snprintf(path, sizeof path, "%s/lewm.safetensors", folder);
    REQUIRE_OK(lewm_read(path, NULL, &m, &err), err);
    mem_free(m->config);
    m->config = mem_strdup("[lewm]\nsplit_seed = 4\n");
    REQUIRE_OK(lewm_write(path, m, NULL, &err), err);
    lewm_free(m);
    EXPECT_REFUSAL(firm_run(folder, 0,
                            "eval tworoom --lewm lewm.safetensors --arms lewm --data %s/f.h5 "
                            "--trials 1 --offset 10 --quiet",
                            fix),
                   "eval", "lewm.split_seed 4");
}

TEST(cli, lewm_is_refused_where_it_does_not_belong) {
    char folder[512];
    const char* fix = make_lewm(folder);
    if (!fix) return;
    EXPECT_REFUSAL(firm_run(folder, 0, "eval tworoom --model lewm.safetensors --trials 1"), "eval",
                   "lewm.safetensors is a model of LeWM");
    EXPECT_REFUSAL(firm_run(folder, 0, "eval tworoom --arms lewm --trials 1"), "eval", "--lewm");
    EXPECT_REFUSAL(
        firm_run(folder, 0, "eval tworoom --lewm %s/run/model.safetensors --arms lewm --trials 1",
                 fix),
        "eval", "is a model of FIRM");
    EXPECT_REFUSAL(firm_run(folder, 0, "export lewm.safetensors -o x.safetensors"), "export",
                   "LeWM");
    EXPECT_REFUSAL(firm_run(folder, 0,
                            "export %s/run/model.safetensors --member lewm.safetensors -o "
                            "x.safetensors",
                            fix),
                   "export", "LeWM");
    EXPECT_REFUSAL(firm_run(folder, 0, "demo tworoom --model lewm.safetensors"), "demo", "LeWM");
    EXPECT_REFUSAL(firm_run(folder, 0, "eval reacher --lewm lewm.safetensors --arms lewm"), "eval",
                   "tworoom");
}
