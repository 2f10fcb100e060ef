// bad_input_test.c - files that are missing, damaged, of another kind or task: one sentence, exit
// 2, and nothing half-written.
#define _GNU_SOURCE
#include <hdf5.h>
#include <unistd.h>

#include "core/mem.h"
#include "env/env.h"
#include "eval/settings.h"
#include "io/image.h"
#include "model/checkpoint.h"
#include "program.h"
#include "train/shape.h"

// Every command that reads the data set `name`, in a folder that holds it; no output may appear.
static void data_is_refused(const char* folder, const char* name, const char* says) {
    const char* fix = firm_fixture();
    if (!fix) return;
    int before = folder_entries(folder, NULL, 0);
    EXPECT_REFUSAL(firm_run(folder, 0, "audit tworoom --data %s --quiet", name), "audit", says);
    EXPECT_REFUSAL(firm_run(folder, 0, "intervene tworoom --data %s -o out.h5 --quiet", name),
                   "intervene", says);
    EXPECT_REFUSAL(
        firm_run(folder, 0,
                 "train tworoom --data %s --branches %s/i.h5 -o run --config smoke --quiet", name,
                 fix),
        "train", says);
    EXPECT_REFUSAL(
        firm_run(folder, 0, "eval tworoom --arms random --data %s -o out.json --quiet", name),
        "eval", says);
    EXPECT_INT(folder_entries(folder, NULL, 0), before);
}

// Every command that reads the model `name`.
// By the commands that run a task with it.
static void model_does_not_run(const char* folder, const char* name, const char* says) {
    const char* fix = firm_fixture();
    if (!fix) return;
    int before = folder_entries(folder, NULL, 0);
    EXPECT_REFUSAL(firm_run(folder, 0, "eval tworoom --model %s -o out.json --quiet", name), "eval",
                   says);
    EXPECT_REFUSAL(firm_run(folder, 0, "demo tworoom --model %s -o out --quiet", name), "demo",
                   says);
    EXPECT_REFUSAL(firm_run(folder, 0, "bench plan tworoom --model %s --quiet", name), "bench",
                   says);
    EXPECT_REFUSAL(
        firm_run(folder, 0,
                 "plan tworoom --model %s --frames %s/frame-0.png --goal %s/frame-3.png --quiet",
                 name, fix, fix),
        "plan", says);
    EXPECT_INT(folder_entries(folder, NULL, 0), before);
}

// ... and by the one that only writes it again.
static void model_is_refused(const char* folder, const char* name, const char* says) {
    int before = folder_entries(folder, NULL, 0);
    EXPECT_REFUSAL(firm_run(folder, 0, "export %s -o out.safetensors --half --quiet", name),
                   "export", says);
    EXPECT_INT(folder_entries(folder, NULL, 0), before);
    model_does_not_run(folder, name, says);
}

TEST(cli, missing_files) {
    char folder[512];
    const char* fix = firm_fixture();
    fresh_folder(folder);
    if (!fix) return;
    data_is_refused(folder, "absent.h5", "absent.h5");
    model_is_refused(folder, "absent.safetensors", "absent.safetensors");
    EXPECT_REFUSAL(
        firm_run(folder, 0, "train tworoom --data %s/f.h5 --branches absent.h5 -o run --quiet",
                 fix),
        "train", "absent.h5");
    EXPECT_REFUSAL(firm_run(folder, 0, "report absent -o page --quiet"), "report", "absent");
    EXPECT_REFUSAL(firm_run(folder, 0,
                            "plan tworoom --model %s/run/model.safetensors --frames %s/frame-0.png "
                            "--goal absent.png",
                            fix, fix),
                   "plan", "absent.png");
    EXPECT_INT(folder_entries(folder, NULL, 0), 0);
}

TEST(cli, damaged_data) {
    char folder[512];
    size_t n;
    const char* fix = firm_fixture();
    char* bytes = fix ? get_file(fix, "f.h5", &n) : NULL;
    fresh_folder(folder);
    if (!bytes) return;
    put_file(folder, "cut.h5", bytes, n / 2);
    data_is_refused(folder, "cut.h5", "cut.h5");
    put_file(folder, "empty.h5", bytes, 0);
    data_is_refused(folder, "empty.h5", "empty.h5");
    put_file(folder, "text.h5", "hello", 5);
    data_is_refused(folder, "text.h5", "text.h5");
    free(bytes);

    bytes = get_file(fix, "i.h5", &n);
    put_file(folder, "cut-i.h5", bytes, n / 2);
    free(bytes);
    EXPECT_REFUSAL(
        firm_run(folder, 0,
                 "train tworoom --data %s/f.h5 --branches cut-i.h5 -o run --config smoke --quiet",
                 fix),
        "train", "cut-i.h5");
    // episodes where branches belong, and the other way round
    EXPECT_REFUSAL(
        firm_run(folder, 0,
                 "train tworoom --data %s/f.h5 --branches %s/f.h5 -o run --config smoke --quiet",
                 fix, fix),
        "train", "f.h5");
    EXPECT_REFUSAL(firm_run(folder, 0, "audit tworoom --data %s/i.h5 --quiet", fix), "audit",
                   "i.h5");
    EXPECT_INT(folder_entries(folder, NULL, 0), 4);
}

TEST(cli, branches_of_other_data) {
    char folder[512];
    const char* fix = firm_fixture();
    fresh_folder(folder);
    if (!fix) return;
    EXPECT_INT(
        firm_run(folder, 0, "collect tworoom -o other.h5 --episodes 30 --seed 9 --quiet")->code, 0);
    EXPECT_REFUSAL(
        firm_run(folder, 0,
                 "train tworoom --data other.h5 --branches %s/i.h5 -o run --config smoke --quiet",
                 fix),
        "train", "i.h5");
    EXPECT_INT(folder_entries(folder, NULL, 0), 1);
}

// A Push-T file in the public layout, as far as it matters here.
static void write_pusht(const char* path) {
    hsize_t actions[2] = {30, 2}, states[2] = {30, 7}, one[1] = {1};
    static const float zero[30 * 7];
    const int64_t length = 30, offset = 0;
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const struct {
        const char* name;
        int rank;
        hsize_t* dims;
        hid_t type;
        const void* data;
    } column[] = {{"action", 2, actions, H5T_NATIVE_FLOAT, zero},
                  {"state", 2, states, H5T_NATIVE_FLOAT, zero},
                  {"ep_len", 1, one, H5T_NATIVE_INT64, &length},
                  {"ep_offset", 1, one, H5T_NATIVE_INT64, &offset}};
    for (int i = 0; i < 4; i++) {
        hid_t space = H5Screate_simple(column[i].rank, column[i].dims, NULL);
        hid_t set = H5Dcreate2(file, column[i].name, column[i].type, space, H5P_DEFAULT,
                               H5P_DEFAULT, H5P_DEFAULT);
        if (H5Dwrite(set, column[i].type, H5S_ALL, H5S_ALL, H5P_DEFAULT, column[i].data) < 0)
            abort();
        H5Dclose(set);
        H5Sclose(space);
    }
    if (H5Fclose(file) < 0) abort();
}

TEST(cli, data_of_another_task) {
    char folder[512], path[600];
    fresh_folder(folder);
    snprintf(path, sizeof path, "%s/pusht.h5", folder);
    write_pusht(path);
    data_is_refused(folder, "pusht.h5", "pusht");
}

TEST(cli, nan_action_inside_an_episode) {
    char folder[512], path[600];
    size_t n;
    const char* fix = firm_fixture();
    char* bytes = fix ? get_file(fix, "f.h5", &n) : NULL;
    fresh_folder(folder);
    if (!bytes) return;
    put_file(folder, "nan.h5", bytes, n);
    free(bytes);
    snprintf(path, sizeof path, "%s/nan.h5", folder);
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT),
          set = H5Dopen2(file, "action", H5P_DEFAULT);
    hid_t space = H5Dget_space(set), memory;
    hsize_t at[2] = {10, 1}, count[2] = {1, 1};
    float bad = NAN;
    memory = H5Screate_simple(2, count, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, count, NULL);
    EXPECT(H5Dwrite(set, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, &bad) >= 0);
    H5Sclose(memory);
    H5Sclose(space);
    H5Dclose(set);
    H5Fclose(file);
    data_is_refused(folder, "nan.h5", "not finite in episode 0, row 10");
}

TEST(cli, damaged_models) {
    char folder[512];
    size_t n;
    const char* fix = firm_fixture();
    char* bytes = fix ? get_file(fix, "run/model.safetensors", &n) : NULL;
    fresh_folder(folder);
    if (!bytes) return;
    put_file(folder, "cut.safetensors", bytes, n / 2);
    model_is_refused(folder, "cut.safetensors", "cut.safetensors");
    put_file(folder, "empty.safetensors", bytes, 0);
    model_is_refused(folder, "empty.safetensors", "empty.safetensors");
    // one byte of the header and one of the weights
    const size_t at[] = {40, n - 1000};
    for (int i = 0; i < 2; i++) {
        bytes[at[i]] ^= 0x10;
        put_file(folder, "flipped.safetensors", bytes, n);
        bytes[at[i]] ^= 0x10;
        model_is_refused(folder, "flipped.safetensors", "flipped.safetensors");
    }
    free(bytes);
}

TEST(cli, model_of_another_task) {
    char folder[512], path[600];
    firm_error err;
    config* settings;
    model_shape shape;
    firm_model* model;
    fresh_folder(folder);
    snprintf(path, sizeof path, "%s/other.safetensors", folder);
    task_typed other = env_find("tworoom")->task;
    snprintf(other.name, sizeof other.name, "chess");  // a task this program has never heard of
    REQUIRE_OK(settings_load(&env_find("tworoom")->task, "smoke", NULL, 0, &settings, &err), err);
    model_shape_read(settings, &shape);
    config_free(settings);
    REQUIRE_OK(model_create(&other, &shape, 0, 1, &model, &err), err);
    REQUIRE_OK(checkpoint_write(path, model, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), err);
    firm_model_free(model);
    model_does_not_run(folder, "other.safetensors", "chess");
    // its file says all that writing it again needs
    EXPECT_INT(
        firm_run(folder, 0, "export other.safetensors -o half.safetensors --half --quiet")->code,
        0);
    // and one it knows, but not the one asked for
    REQUIRE_OK(model_create(&env_find("reacher")->task, &shape, 0, 1, &model, &err), err);
    REQUIRE_OK(checkpoint_write(path, model, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), err);
    firm_model_free(model);
    EXPECT_REFUSAL(firm_run(folder, 0, "eval tworoom --model other.safetensors --quiet"), "eval",
                   "reacher");
}

TEST(cli, wrong_pictures) {
    char folder[512], path[600];
    firm_error err;
    const char* fix = firm_fixture();
    fresh_folder(folder);
    if (!fix) return;
    static uint8_t rgb[100 * 224 * 3];
    snprintf(path, sizeof path, "%s/small.png", folder);
    REQUIRE_OK(image_write_png(path, 100, 224, rgb, &err), err);
    put_file(folder, "text.png", "no picture", 10);
    static const char* const names[] = {"small.png", "text.png"};
    for (int i = 0; i < 2; i++) {
        EXPECT_REFUSAL(
            firm_run(
                folder, 0,
                "plan tworoom --model %s/run/model.safetensors --frames %s/frame-0.png --goal %s",
                fix, fix, names[i]),
            "plan", names[i]);
        EXPECT_REFUSAL(
            firm_run(
                folder, 0,
                "plan tworoom --model %s/run/model.safetensors --frames %s --goal %s/frame-3.png",
                fix, names[i], fix),
            "plan", names[i]);
    }
    // as many controls as there are gaps between the frames, each complete
    static const char* const moves[] = {"1,0",       "1,0;0,1;1,1", "1;0", "1,0;0",
                                        "1,0;nan,0", "1,0;0,1x",    ""};
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        EXPECT_REFUSAL(firm_run(folder, 0,
                                "plan tworoom --model %s/run/model.safetensors --frames "
                                "%s/frame-0.png %s/frame-1.png "
                                "%s/frame-2.png --goal %s/frame-3.png%s%s%s",
                                fix, fix, fix, fix, fix, moves[i][0] ? " --actions '" : "",
                                moves[i], moves[i][0] ? "'" : ""),
                       "plan", "--actions");
    EXPECT_INT(folder_entries(folder, NULL, 0), 2);
}

TEST(cli, trials_of_the_training_seed) {
    const char* fix = firm_fixture();
    if (!fix) return;
    EXPECT_REFUSAL(firm_run(fix, 0, "eval tworoom --model run/model.safetensors --seed 0 --quiet"),
                   "eval", "another --seed");
}
