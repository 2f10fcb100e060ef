// settings_test.c - every --set counts on top of the settings that a model brings along, the last
// one too.
#include "io/json.h"
#include "program.h"

TEST(cli, every_set_reaches_the_planner) {
    cJSON* j = JSON_OF(firm_run("/", 0,
                                "bench plan tworoom --model %s/models/tworoom.safetensors "
                                "--set plan.contract_candidates=24 --set plan.contract_elites=4 "
                                "--set plan.contract_iterations=2 --set plan.reach_horizon_max=5 "
                                "--set plan.contract_horizon=3 --repeats 3 --threads 1 --json",
                                test_source_dir()));
    if (!j) return;
    EXPECT_NEAR(json_get(j, "candidates", 0), 24, 0);
    EXPECT_NEAR(json_get(j, "iterations", 0), 2, 0);
    EXPECT_NEAR(json_get(j, "horizon", 0), 3, 0);
    cJSON_Delete(j);
}

// also those of a single decision, with the model's own ones below
TEST(cli, every_set_reaches_a_single_plan) {
    const char* fix = firm_fixture();
    if (!fix) return;
    static const char line[] =
        "plan tworoom --model run/model.safetensors --frames frame-0.png --goal frame-3.png "
        "--mode contract --json --quiet";
    cJSON *own = JSON_OF(firm_run(fix, 0, "%s", line)),
          *two = JSON_OF(firm_run(fix, 0, "%s --set plan.contract_iterations=2", line));
    EXPECT_NEAR(json_get(own, "iterations", 0), 3, 0);  // configs/smoke.ini
    EXPECT_NEAR(json_get(two, "iterations", 0), 2, 0);
    cJSON_Delete(own);
    cJSON_Delete(two);
    EXPECT_REFUSAL(firm_run(fix, 0, "%s --set plan.contract_iteration=2", line), "plan",
                   "contract_iterations");
}
