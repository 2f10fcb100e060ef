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
