// ensemble_test.c - `firm export --member` and the commands that plan with what it wrote: every
// JSON result says how many models, and what does not belong together leaves nothing behind.
#include "core/mem.h"
#include "env/env.h"
#include "io/json.h"
#include "model/checkpoint.h"
#include "program.h"

// half.safetensors: the fixture's model a little different; two.safetensors: both together.
static const char* make_two(char folder[512]) {
    const char* fix = firm_fixture();
    cJSON* j;
    fresh_folder(folder);
    if (!fix) return NULL;
    if ((j = JSON_OF(firm_run(folder, 0,
                              "export %s/run/model.safetensors -o half.safetensors --half --json",
                              fix)))) {
        EXPECT_NEAR(json_get(j, "members", 0), 1, 0);
        double params = json_get(j, "params", 0);
        cJSON_Delete(j);
        if ((j = JSON_OF(firm_run(folder, 0,
                                  "export %s/run/model.safetensors --member half.safetensors -o "
                                  "two.safetensors --json",
                                  fix)))) {
            EXPECT_NEAR(json_get(j, "members", 0), 2, 0);
            EXPECT_NEAR(json_get(j, "params", 0), 2 * params, 0);
            cJSON_Delete(j);
        }
    }
    return fix;
}

TEST(cli, ensemble_evaluated) {
    char folder[512];
    const char* fix = make_two(folder);
    if (!fix) return;
    char* first = NULL;
    for (int threads = 1; threads <= 2; threads++) {
        cJSON* j = JSON_OF(firm_run(folder, 0,
                                    "eval tworoom --model two.safetensors --trials 4 --offset 40 "
                                    "--candidates 24 --iterations 3 --seed 3 --arms "
                                    "firm,oracle-config --threads %d --json",
                                    threads));
        if (!j) continue;
        EXPECT_NEAR(json_get(j, "members", 0), 2, 0);
        cJSON* arms = cJSON_GetObjectItemCaseSensitive(j, "arms");
        cJSON* firm = cJSON_GetObjectItemCaseSensitive(arms, "firm");
        char* closest = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(firm, "closest"));
        if (first)
            EXPECT_TEXT(closest, first);
        else
            first = mem_strdup(closest);
        cJSON_free(closest);
        cJSON_Delete(j);
    }
    // what the members disagree on can be priced, and the result says so
    cJSON* j = JSON_OF(firm_run(folder, 0,
                                "eval tworoom --model two.safetensors --trials 4 --offset 40 "
                                "--candidates 24 --iterations 3 --seed 3 --set "
                                "plan.ensemble_price=50 --set plan.ensemble_quantile=1 --json"));
    if (j) {
        cJSON* plan = cJSON_GetObjectItemCaseSensitive(j, "plan");
        EXPECT_NEAR(json_get(plan, "ensemble_price", 0), 50, 0);
        EXPECT_NEAR(json_get(plan, "ensemble_quantile", 0), 1, 0);
    }
    cJSON_Delete(j);
    mem_free(first);
    j = JSON_OF(firm_run(folder, 0,
                         "eval tworoom --model %s/run/model.safetensors --trials 2 --offset "
                         "40 --candidates 24 --iterations 3 --seed 3 --mode reach --json",
                         fix));
    if (j) EXPECT_NEAR(json_get(j, "members", 0), 1, 0);
    cJSON_Delete(j);
}

TEST(cli, ensemble_solve_allocates_nothing) {
    char folder[512];
    if (!make_two(folder)) return;
    cJSON* j = JSON_OF(firm_run(folder, 0,
                                "bench plan tworoom --model two.safetensors --set "
                                "plan.contract_iterations=2 --repeats 3 --json"));
    if (j) {
        EXPECT_NEAR(json_get(j, "members", 0), 2, 0);
        EXPECT_NEAR(json_get(j, "allocations", -1), 0, 0);
        EXPECT_NEAR(json_get(j, "perception_allocations", -1), 0, 0);
        cJSON_Delete(j);
    }
    EXPECT_REFUSAL(firm_run(folder, 0, "bench plan tworoom --model two.safetensors --batch 9"),
                   "bench", "--batch");
}

// A model that differs from the fixture's in task, shape or action statistics.
static void write_other(const char* folder, const char* name, const char* fix, const char* task,
                        int wider, float stretch) {
    char path[700];
    firm_error err = {0};
    firm_model *m = NULL, *other = NULL;
    snprintf(path, sizeof path, "%s/run/model.safetensors", fix);
    REQUIRE_OK(firm_model_load(path, &m, &err), err);
    model_shape shape = m->shape;
    shape.inner += wider;
    REQUIRE_OK(model_create(&env_find(task)->task, &shape, 0, 1, &other, &err), err);
    other->stats = m->stats;
    other->stats.action_std[0] *= stretch;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    REQUIRE_OK(checkpoint_write(path, other, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), err);
    firm_model_free(other);
    firm_model_free(m);
}

TEST(cli, ensemble_refused) {
    char folder[512];
    const char* fix = make_two(folder);
    if (!fix) return;
    write_other(folder, "task.safetensors", fix, "pusht", 0, 1);
    write_other(folder, "shape.safetensors", fix, "tworoom", 8, 1);
    write_other(folder, "data.safetensors", fix, "tworoom", 0, 1.5f);
    size_t n = 0;
    char* bytes = get_file(folder, "half.safetensors", &n);
    if (bytes) put_file(folder, "cut.safetensors", bytes, n / 2);
    free(bytes);
    bytes = get_file(folder, "two.safetensors", &n);
    if (bytes) put_file(folder, "cut-two.safetensors", bytes, n - 1000);
    free(bytes);
    int before = folder_entries(folder, NULL, 0);
    static const struct {
        const char *member, *says;
    } bad[] = {
        {"absent.safetensors", "absent.safetensors"},
        {"cut.safetensors", "cut short"},
        {"task.safetensors", "task.safetensors is for the task pusht"},
        {"shape.safetensors", "shape.safetensors has model.inner"},
        {"data.safetensors", "action_std[0]"},
        {"two.safetensors", "two.safetensors is an ensemble of 2 models"},
        {"cut-two.safetensors", "cut short"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        EXPECT_REFUSAL(firm_run(folder, 0,
                                "export %s/run/model.safetensors --member half.safetensors "
                                "--member %s -o out.safetensors --quiet",
                                fix, bad[i].member),
                       "export", bad[i].says);
    EXPECT_REFUSAL(firm_run(folder, 0, "export cut-two.safetensors -o out.safetensors"), "export",
                   "cut short");
    char many[512] = "";
    for (int i = 0; i < 8; i++) strcat(many, " --member half.safetensors");
    EXPECT_REFUSAL(firm_run(folder, 0, "export half.safetensors%s -o out.safetensors", many),
                   "export", "at most 8 models");
    EXPECT_REFUSAL(firm_run(folder, 0, "export half.safetensors -o out.safetensors --member"),
                   "export", "--member");
    EXPECT_INT(folder_entries(folder, NULL, 0), before);
}
