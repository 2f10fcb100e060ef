// run_test.c - `firm train --device cuda` as a program: a run repeated, and a run killed and
// resumed, give the same model bytes; train.json and bench tell the device.
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
