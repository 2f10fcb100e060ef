// ensemble_test.c - controllers of ensembles on a GPU: every member predicts there, the search runs
// on the host, and no member is left out.
#include "check.h"
#include "cli/program.h"
#include "gpu.h"
#include "io/json.h"
#include "plan/members.h"

static int gpu_there(void) {
    nn_device d;
    if (!gpu_open(&d, NN_FP32)) return 0;
    nn_device_close(&d);
    return 1;
}

// reach mode predicts on the GPU with one model, too, so copies of it plan the same to the bit
TEST(cuda, ensemble_of_copies_plans_as_one) {
    if (!gpu_there()) return;
    member_copies(FIRM_MODE_REACH, 2, 2, FIRM_DEVICE_CUDA);
}

TEST(cuda, ensemble_contract_same_for_any_threads) {
    if (!gpu_there()) return;
    firm_model* m = member_pair("tworoom", 5, 6);
    member_deeds a = member_run(m, FIRM_MODE_CONTRACT, 1, FIRM_DEVICE_CUDA),
                 b = member_run(m, FIRM_MODE_CONTRACT, 3, FIRM_DEVICE_CUDA);
    EXPECT(a.solves == 1 && memcmp(&a, &b, sizeof a) == 0);
    firm_model_free(m);
}

// what it predicted on the GPU is the mean of what the members predict on the CPU
TEST(cuda, ensemble_predicts_the_mean) {
    if (!gpu_there()) return;
    for (int truth = 0; truth < 2; truth++) {
        member_compare("tworoom", truth, FIRM_DEVICE_CUDA, 1e-4);
        member_compare("pusht", truth, FIRM_DEVICE_CUDA, 1e-4);
    }
}

TEST(cuda, ensemble_evaluated_and_measured) {
    if (!gpu_there()) return;
    const char* fix = firm_fixture();
    char folder[512];
    fresh_folder(folder);
    if (!fix) return;
    const outcome* o = firm_run(folder, 0,
                                "export %s/run/model.safetensors --member %s/run/model.safetensors "
                                "-o two.safetensors",
                                fix, fix);
    EXPECT_INT(o->code, 0);
    cJSON* j =
        JSON_OF(firm_run(folder, 0,
                         "eval tworoom --model two.safetensors --device cuda --mode contract "
                         "--trials 4 --offset 40 --json"));
    if (j) {
        EXPECT_NEAR(json_get(j, "members", 0), 2, 0);
        EXPECT_NEAR(json_get(j, "batch", 0), 1, 0);
        EXPECT_TEXT(cJSON_GetObjectItemCaseSensitive(j, "device")->valuestring, "cuda");
        EXPECT_TEXT(cJSON_GetObjectItemCaseSensitive(j, "precision")->valuestring, "tf32");
        cJSON_Delete(j);
    }
    j = JSON_OF(firm_run(folder, 0,
                         "bench plan tworoom --model two.safetensors --device cuda --repeats 3 "
                         "--json"));
    if (j) {
        EXPECT_NEAR(json_get(j, "members", 0), 2, 0);
        EXPECT_NEAR(json_get(j, "library_allocations", -1), 0, 0);
        EXPECT(!cJSON_GetObjectItemCaseSensitive(j, "batch"));
        cJSON_Delete(j);
    }
}
