// pusht_test.c - Push-T from the command line: clean JSON (Chipmunk prints a banner of its own),
// collection policies, branches, search through the true simulator, and what is said about
// training.
#include "program.h"

#ifdef FIRM_CHIPMUNK

TEST(cli, pusht_path) {
    char folder[512];
    fresh_folder(folder);
    // JSON_OF refuses anything before or after the object
    cJSON* j =
        JSON_OF(firm_run(folder, 0, "collect pusht --policy weak --episodes 12 -o f.h5 --json"));
    EXPECT_KEYS(j, "task file policy seed episodes rows mean_rows solved_at_offset seconds");
    const cJSON* policy = cJSON_GetObjectItemCaseSensitive(j, "policy");
    EXPECT_TEXT(cJSON_IsString(policy) ? policy->valuestring : "", "weak");
    cJSON_Delete(j);
    j = JSON_OF(
        firm_run(folder, 0, "intervene pusht --data f.h5 --anchors 4 --branches 3 -o i.h5 --json"));
    EXPECT_KEYS(j, "task file anchors per_anchor controls");
    cJSON_Delete(j);
    j = JSON_OF(firm_run(
        folder, 0,
        "intervene pusht --data f.h5 --structured --anchors 3 --branches 6 -o s.h5 --json"));
    EXPECT_KEYS(j, "task file anchors per_anchor controls proposal classes");
    EXPECT_KEYS(cJSON_GetObjectItemCaseSensitive(j, "classes"), "contact near free");
    cJSON_Delete(j);
    // no model is needed to search through the simulator itself
    j = JSON_OF(
        firm_run(folder, 0,
                 "eval pusht --data f.h5 --arms oracle-dynamics,random --mode reach --trials 2 "
                 "--candidates 12 --iterations 2 --json --quiet"));
    EXPECT_KEYS(cJSON_GetObjectItemCaseSensitive(j, "arms"), "oracle-dynamics random");
    cJSON_Delete(j);
    j = JSON_OF(firm_run(folder, 0, "bench env pusht --seconds 0.1 --threads 1 --json"));
    const cJSON* rate = cJSON_GetObjectItemCaseSensitive(j, "steps_per_s");
    EXPECT(cJSON_IsNumber(rate) && rate->valuedouble > 0);
    cJSON_Delete(j);

    EXPECT_REFUSAL(firm_run(folder, 0, "collect pusht --policy expert --episodes 1 -o g.h5"),
                   "collect", "demo, weak");
    EXPECT_REFUSAL(
        firm_run(folder, 0, "train pusht --data f.h5 --branches i.h5 -o run --config smoke-pusht"),
        "train", "give it with --structured, or set train.structured=optional");
    EXPECT_INT(firm_run(folder, 0, "collect tworoom --episodes 20 -o t.h5 --quiet")->code, 0);
    EXPECT_REFUSAL(firm_run(folder, 0, "intervene tworoom --data t.h5 --structured -o g.h5"),
                   "intervene", "no structured interventions");
    EXPECT_INT(folder_entries(folder, NULL, 0), 4);  // the four files, nothing half-made
}

#endif
