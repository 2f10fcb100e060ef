// run_test.c - the program on a GPU. `firm train --device cuda`: a run repeated, and a run killed
// and resumed, give the same model bytes; train.json and bench tell the device. `firm eval --device
// cuda`: how many trials run in step changes nothing.
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/program.h"
#include "gpu.h"

static int gpu_there(void) {
    nn_device d;
    if (!gpu_open(&d, NN_FP32)) return 0;
    nn_device_close(&d);
    return 1;
}

static void train_line(char* line, size_t room, const char* fix, const char* run,
                       const char* more) {
    snprintf(line, room,
             "train tworoom --data %s/f.h5 --branches %s/i.h5 -o %s --config smoke --device cuda "
             "--quiet %s",
             fix, fix, run, more);
}

static int has(const char* folder, const char* name) {
    char path[1200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, R_OK) == 0;
}

static void expect_same(const char* folder, const char* a, const char* b) {
    size_t n = 0, k = 0;
    char *x = get_file(folder, a, &n), *y = get_file(folder, b, &k);
    if (!x || !y || n != k || memcmp(x, y, n) != 0)
        test_fail(__FILE__, __LINE__, "%s and %s differ", a, b);
    free(x);
    free(y);
}

TEST(cuda, run_repeats_and_resumes_bit_for_bit) {
    if (!gpu_there()) return;
    const char* fix = firm_fixture();
    char folder[512], line[2048];
    if (!fix) return;
    fresh_folder(folder);
    for (int i = 0; i < 2; i++) {
        train_line(line, sizeof line, fix, i ? "second" : "first", "");
        const outcome* o = firm_run(folder, 0, "%s", line);
        if (o->code != 0) test_fail(__FILE__, __LINE__, "exit %d: %s", o->code, o->err);
    }
    expect_same(folder, "first/model.safetensors", "second/model.safetensors");

    // killed once a checkpoint is there, then resumed to the end
    train_line(line, sizeof line, fix, "killed", "");
    pid_t child = firm_start(folder, line);
    int status = 0, ended = 0;
    while (!has(folder, "killed/checkpoint.safetensors") && !ended) {
        ended = waitpid(child, &status, WNOHANG) == child;
        usleep(200);
    }
    if (!ended) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    train_line(line, sizeof line, fix, "killed", "--resume");
    const outcome* o = firm_run(folder, 0, "%s", line);
    if (o->code != 0) test_fail(__FILE__, __LINE__, "exit %d: %s", o->code, o->err);
    expect_same(folder, "first/model.safetensors", "killed/model.safetensors");

    // a run belongs to its kind of device
    snprintf(line, sizeof line,
             "train tworoom --data %s/f.h5 --branches %s/i.h5 -o killed --config smoke --quiet "
             "--resume",
             fix, fix);
    EXPECT_REFUSAL(firm_run(folder, 0, "%s", line), "train", "device");
}

TEST(cuda, run_tells_the_device) {
    if (!gpu_there()) return;
    const char* fix = firm_fixture();
    char folder[512], line[2048];
    if (!fix) return;
    fresh_folder(folder);
    train_line(line, sizeof line, fix, "run", "--json");
    cJSON* j = JSON_OF(firm_run(folder, 0, "%s", line));
    if (j) {
        EXPECT_KEYS(j, "task seed device stages seconds model");
        EXPECT_TEXT(cJSON_GetObjectItemCaseSensitive(j, "device")->valuestring, "cuda");
        EXPECT_TEXT(cJSON_GetObjectItemCaseSensitive(j, "precision")->valuestring, "tf32");
        cJSON_Delete(j);
    }
    j = JSON_OF(
        firm_run("/", 0, "bench train tworoom --device cuda --config smoke --seconds 0.3 --json"));
    if (j) {
        EXPECT_KEYS(j, "task device threads frontend_frames_per_s recurrent_updates_per_s");
        EXPECT_TEXT(cJSON_GetObjectItemCaseSensitive(j, "device")->valuestring, "cuda");
        cJSON_Delete(j);
    }
}

TEST(cuda, run_eval_does_not_depend_on_the_batch) {
    if (!gpu_there()) return;
    cJSON *eval[2] = {NULL, NULL}, *arm[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        eval[i] = JSON_OF(firm_run("/", 0,
                                   "eval tworoom --model %s/models/tworoom.safetensors --device "
                                   "cuda --mode contract --trials 8 --unsolved --batch %d --json",
                                   test_source_dir(), i ? 25 : 1));
        const cJSON* arms = eval[i] ? cJSON_GetObjectItemCaseSensitive(eval[i], "arms") : NULL;
        arm[i] = arms ? cJSON_GetObjectItemCaseSensitive(arms, "firm") : NULL;
        EXPECT(arm[i] != NULL);
    }
    // not only who arrived: the same actions, hence the same ways
    static const char* const same[] = {"outcomes", "controls", "closest"};
    for (int k = 0; k < 3 && arm[0] && arm[1]; k++) {
        const cJSON *a = cJSON_GetObjectItemCaseSensitive(arm[0], same[k]),
                    *b = cJSON_GetObjectItemCaseSensitive(arm[1], same[k]);
        EXPECT_INT(cJSON_GetArraySize(a), 8);
        if (!cJSON_Compare(a, b, 1))
            test_fail(__FILE__, __LINE__, "%s differ between --batch 1 and --batch 25", same[k]);
    }
    cJSON_Delete(eval[0]);
    cJSON_Delete(eval[1]);
}
