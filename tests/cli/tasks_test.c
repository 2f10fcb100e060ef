// tasks_test.c - the whole path of every task but TwoRoom with its smoke settings: collect,
// intervene, pack, train a few updates of every stage, evaluate; and from the pack, with frames
// drawn again or unpacked, the same model. (TwoRoom: whole_path_test.c.)
#include "env/env.h"
#include "io/json.h"
#include "program.h"

typedef struct path {
    const char *task, *collect, *intervene;
    int stages;
    const char* structured;  // how to make structured interventions; NULL: none
    int slow;                // drawing takes long: one trial, only the pack with pictures
} path;

static int same_bytes(const char* folder, const char* a, const char* b) {
    size_t n = 0, k = 0;
    char *one = get_file(folder, a, &n), *two = get_file(folder, b, &k);
    int same = one && two && n == k && memcmp(one, two, n) == 0;
    free(one);
    free(two);
    return same;
}

static void check_train(const path* p, const cJSON* j) {
    EXPECT_KEYS(j, "task seed device stages grounder_error rollout_error seconds model");
    const cJSON *s, *e = cJSON_GetObjectItemCaseSensitive(j, "grounder_error");
    EXPECT_INT(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(j, "stages")), p->stages);
    cJSON_ArrayForEach(s, cJSON_GetObjectItemCaseSensitive(j, "stages")) {
        EXPECT_KEYS(s, "name updates seconds gate gate_limit pass");
        EXPECT(isfinite(json_get(s, "gate", NAN)));
    }
    const env_spec* env = env_find(p->task);
    EXPECT_KEYS(e, "units units_p95");
    for (int i = 0; i < env->task.distances; i++)
        EXPECT_KEYS(cJSON_GetObjectItemCaseSensitive(e, env->task.distance[i].name),
                    "unit mean max");
}

static void run_path(const path* p) {
    char folder[512], inputs[128];
    cJSON* j;
    fresh_folder(folder);
    EXPECT_INT(
        firm_run(folder, 0, "collect %s -o f.h5 --seed 4 --quiet %s", p->task, p->collect)->code,
        0);
    EXPECT_INT(
        firm_run(folder, 0, "intervene %s --data f.h5 -o i.h5 --quiet %s", p->task, p->intervene)
            ->code,
        0);
    if (p->structured)
        EXPECT_INT(firm_run(folder, 0, "intervene %s --data f.h5 -o s.h5 --quiet %s", p->task,
                            p->structured)
                       ->code,
                   0);
    snprintf(inputs, sizeof inputs, "--data f.h5 --branches i.h5%s",
             p->structured ? " --structured s.h5" : "");
    if ((j = JSON_OF(firm_run(folder, 0,
                              "train %s %s -o run --config smoke-%s --seed 2 --json --quiet",
                              p->task, inputs, p->task)))) {
        check_train(p, j);
        cJSON_Delete(j);
    }
    // the short form leaves packs without pictures to tests/train, and those of slow tasks to
    // others
    for (int pictures = p->slow + test_short(); pictures < 2; pictures++) {
        const char* how = pictures ? "--pictures" : "";
        j = JSON_OF(firm_run(folder, 0, "pack %s %s -o p%d.h5 --config smoke-%s %s --json --quiet",
                             p->task, inputs, pictures, p->task, how));
        EXPECT_KEYS(j, "task file frames_as frames bytes records pairs");
        cJSON_Delete(j);
        EXPECT_INT(firm_run(folder, 0,
                            "train %s --pack p%d.h5 -o packed%d --config smoke-%s --seed 2 --quiet",
                            p->task, pictures, pictures, p->task)
                       ->code,
                   0);
        EXPECT(same_bytes(folder, "run/model.safetensors",
                          pictures ? "packed1/model.safetensors" : "packed0/model.safetensors"));
    }
    j = JSON_OF(firm_run(folder, 0,
                         "eval %s --model run/model.safetensors --data f.h5 --trials %d --set "
                         "plan.contract_candidates=16 --set plan.contract_elites=4 --set "
                         "plan.contract_iterations=2 --json --quiet",
                         p->task, p->slow ? 1 : 2));
    EXPECT_KEYS(j, "task model mode offset trials arms");
    cJSON_Delete(j);
}

// runs restricted to one source, from a pack made for them, and the two diagnostics
static void run_ablations(const char* task, const char* collect) {
    static const char* const ablation[] = {"--sources F", "--sources I", "--sources I --mismatch",
                                           "--no-fiber"};
    char folder[512];
    fresh_folder(folder);
    EXPECT_INT(firm_run(folder, 0, "collect %s -o f.h5 --seed 4 --quiet %s", task, collect)->code,
               0);
    EXPECT_INT(firm_run(folder, 0,
                        "intervene %s --data f.h5 -o i.h5 --quiet --anchors 8 --branches 3", task)
                   ->code,
               0);
    EXPECT_INT(firm_run(folder, 0,
                        "pack %s --data f.h5 --branches i.h5 -o p.h5 --ablations --config smoke-%s "
                        "--set train.structured=optional --quiet",
                        task, task)
                   ->code,
               0);
    const int first = test_short();  // recorded_test.c trains with --sources F
    for (int i = first; i < 4; i++) {
        cJSON* j = JSON_OF(firm_run(folder, 0,
                                    "train %s --pack p.h5 -o run%d --config smoke-%s --set "
                                    "train.structured=optional --json --quiet %s",
                                    task, i, task, ablation[i]));
        EXPECT_INT(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "no_fiber")), i == 3);
        EXPECT_INT(cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(j, "mismatch")), i == 2);
        cJSON_Delete(j);
    }
    if (!first) EXPECT(!same_bytes(folder, "run0/model.safetensors", "run1/model.safetensors"));
    EXPECT(!same_bytes(folder, "run1/model.safetensors", "run2/model.safetensors"));
}

TEST(cli, ablations) {
#ifdef FIRM_MUJOCO
    run_ablations("reacher", "--episodes 30");
#endif
#ifdef FIRM_CHIPMUNK
    // the short form trains Push-T in pusht_training_path alone
    if (!test_short()) run_ablations("pusht", "--policy weak --episodes 30");
#endif
}

TEST(cli, cube_path) {
#ifdef FIRM_MUJOCO
    run_path(&(path){"cube", "--episodes 6", "--anchors 5 --branches 2", 6, NULL, 1});
#else
    test_skip("built without MuJoCo; run `make mujoco`");
#endif
}

TEST(cli, reacher_path) {
#ifdef FIRM_MUJOCO
    run_path(&(path){"reacher", "--episodes 30", "--anchors 10 --branches 4", 8, NULL, 0});
#else
    test_skip("built without MuJoCo; run `make mujoco`");
#endif
}

TEST(cli, pusht_training_path) {
#ifdef FIRM_CHIPMUNK
    run_path(&(path){"pusht", "--policy weak --episodes 30", "--anchors 10 --branches 4", 8,
                     "--structured --anchors 6 --branches 4", 0});
#else
    test_skip("built without Chipmunk");
#endif
}
