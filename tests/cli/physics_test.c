// physics_test.c - the tasks on physics engines from the command line, when something is wrong:
// scene files that are missing or damaged, recordings with actions or states that cannot be, and
// simulations that break down. One sentence, exit 2, nothing left behind, and no result that hides
// it.
#define _GNU_SOURCE  // setenv
#include <hdf5.h>
#include <unistd.h>

#include "program.h"

#if defined(FIRM_CHIPMUNK) || defined(FIRM_MUJOCO)

// Overwrites number `at` of rows first, first + stride, .. of a column. The checksum goes too: it
// would notice, and files of other tools have none.
static void patch(const char* folder, const char* name, const char* column, int first, int stride,
                  int at, double value) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t set = file < 0 ? -1 : H5Dopen2(file, column, H5P_DEFAULT);
    hid_t space = set < 0 ? -1 : H5Dget_space(set), one = H5Screate(H5S_SCALAR);
    hsize_t dims[2] = {0, 1};
    EXPECT(space >= 0 && H5Sget_simple_extent_dims(space, dims, NULL) > 0);
    for (hsize_t row = (hsize_t)first; row < dims[0]; row += (hsize_t)stride) {
        hsize_t start[2] = {row, (hsize_t)at}, count[2] = {1, 1};
        H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
        EXPECT(H5Dwrite(set, H5T_NATIVE_DOUBLE, one, space, H5P_DEFAULT, &value) >= 0);
    }
    if (H5Aexists(file, "checksum") > 0) H5Adelete(file, "checksum");
    H5Sclose(one);
    H5Sclose(space);
    H5Dclose(set);
    EXPECT(H5Fclose(file) >= 0);
}

// A recording of the task under `name`: a copy of one that is made once, by the first who asks.
static void record(const char* folder, const char* task, const char* name) {
    static char store[512];
    const char* policy = strcmp(task, "pusht") == 0 ? "--policy weak " : "";
    int episodes = strcmp(task, "cube") == 0 ? 3 : 12;
    size_t n = 0;
    if (!store[0]) fresh_folder(store);
    char* bytes = get_file(store, task, &n);
    if (!bytes) {
        EXPECT_INT(firm_run(store, 0, "collect %s %s--episodes %d -o %s --quiet", task, policy,
                            episodes, task)
                       ->code,
                   0);
        bytes = get_file(store, task, &n);
    }
    EXPECT(bytes != NULL);
    if (bytes) put_file(folder, name, bytes, n);
    free(bytes);
}

// Every command that reads the file refuses it and leaves nothing.
static void all_refuse(const char* folder, const char* task, const char* name, const char* says) {
    int before = folder_entries(folder, NULL, 0);
    EXPECT_REFUSAL(firm_run(folder, 0, "audit %s --data %s --quiet", task, name), "audit", says);
    EXPECT_REFUSAL(firm_run(folder, 0, "intervene %s --data %s -o out.h5 --quiet", task, name),
                   "intervene", says);
    EXPECT_REFUSAL(
        firm_run(folder, 0, "eval %s --arms random --trials 2 --data %s -o out.json --quiet", task,
                 name),
        "eval", says);
    EXPECT_INT(folder_entries(folder, NULL, 0), before);
}

// Numbers that are none, and states that cannot be, in a recording of the task.
static void bad_numbers(const char* task, const char* column, int at, double far) {
    const struct {
        const char* column;
        int at;
        double value;
        const char* says;
    } wrong[] = {{"action", 1, NAN, "'action'"},
                 {"action", 0, INFINITY, "'action'"},
                 {column, at, NAN, "is not finite"},
                 {column, at, -INFINITY, "is not finite"},
                 {column, at, far, "cannot occur"}};
    char folder[512];
    size_t n;
    fresh_folder(folder);
    record(folder, task, "good.h5");
    char* bytes = get_file(folder, "good.h5", &n);
    for (size_t i = 0; bytes && i < sizeof wrong / sizeof *wrong; i++) {
        put_file(folder, "bad.h5", bytes, n);
        patch(folder, "bad.h5", wrong[i].column, 20, 1 << 30, wrong[i].at, wrong[i].value);
        all_refuse(folder, task, "bad.h5", wrong[i].says);
    }
    free(bytes);
}
#endif

#ifdef FIRM_CHIPMUNK
TEST(cli, pusht_bad_numbers) {
    bad_numbers("pusht", "state", 2, 1e9);
}
#endif

#ifdef FIRM_MUJOCO
TEST(cli, reacher_bad_numbers) {
    bad_numbers("reacher", "qvel", 1, 1e6);
}

TEST(cli, cube_bad_numbers) {
    bad_numbers("cube", "qpos", 14, 50.0);
}

// Velocities a state may have, but under which MuJoCo cannot go on: it warns, and would by itself
// start again from zero.
TEST(cli, cube_breaks_down) {
    char folder[512];
    fresh_folder(folder);
    record(folder, "cube", "fast.h5");
    for (int i = 0; i < 6; i++) patch(folder, "fast.h5", "qvel", 0, 1, i, i % 2 ? -9900 : 9900);
    EXPECT_REFUSAL(firm_run(folder, 0, "audit cube --data fast.h5 --anchors 1 --quiet"), "audit",
                   "broke down");
    EXPECT_REFUSAL(
        firm_run(folder, 0,
                 "intervene cube --data fast.h5 --anchors 1 --branches 2 -o out.h5 --quiet"),
        "intervene", "broke down");
    EXPECT_REFUSAL(
        firm_run(folder, 0,
                 "eval cube --arms random --trials 1 --data fast.h5 -o out.json --quiet"),
        "eval", "simulation failed");
    EXPECT_INT(folder_entries(folder, NULL, 0), 1);
}

// No scene files, and a mesh that is cut short.
TEST(cli, scenes_missing_or_damaged) {
    char folder[512], scenes[600], line[2048];
    fresh_folder(folder);
    record(folder, "reacher", "reacher.h5");
    record(folder, "cube", "cube.h5");
    snprintf(scenes, sizeof scenes, "%s/scenes", folder);
    snprintf(line, sizeof line, "cp -r '%s/third_party/scenes' '%s'", test_source_dir(), scenes);
    EXPECT_INT(system(line), 0);
    setenv("FIRM_MODELS_DIR", folder, 1);  // which has no scenes itself
    all_refuse(folder, "reacher", "reacher.h5", "reacher/reacher.xml");
    all_refuse(folder, "cube", "cube.h5", "floor_wall.xml");
    EXPECT_REFUSAL(firm_run(folder, 0, "collect reacher --episodes 2 -o out.h5"), "collect",
                   "FIRM_MODELS_DIR");
    setenv("FIRM_MODELS_DIR", scenes, 1);
    snprintf(line, sizeof line, "%s/manipspace/robotiq_2f85/assets/pad.stl", scenes);
    EXPECT_INT(truncate(line, 100), 0);
    all_refuse(folder, "cube", "cube.h5", "pad");
    EXPECT_REFUSAL(firm_run(folder, 0, "collect cube --episodes 2 -o out.h5"), "collect",
                   "make mujoco");
    // the other task does not need it
    EXPECT_INT(firm_run(folder, 0, "audit reacher --data reacher.h5 --quiet")->code, 0);
    unsetenv("FIRM_MODELS_DIR");
    EXPECT_INT(folder_entries(folder, NULL, 0), 3);
}

// Files say which renderer their pictures are from.
TEST(cli, files_name_their_renderer) {
    static const char* const wish[] = {"native", "gl-osmesa"};
    static const char* const noted[] = {"native 1", "gl-osmesa"};
    char folder[512], path[600];
    fresh_folder(folder);
    snprintf(path, sizeof path, "%s/f.h5", folder);
    for (int i = 0; i < 2; i++) {
        char* text = NULL;
        setenv("FIRM_RENDERER", wish[i], 1);
        EXPECT_INT(firm_run(folder, 0, "collect reacher --episodes 2 -o f.h5 --quiet")->code, 0);
        unsetenv("FIRM_RENDERER");
        hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
        hid_t attribute = H5Aopen(file, "renderer", H5P_DEFAULT), type = H5Aget_type(attribute);
        EXPECT(H5Aread(attribute, type, &text) >= 0);
        EXPECT_TEXT(text ? text : "", noted[i]);
        H5free_memory(text);
        H5Tclose(type);
        H5Aclose(attribute);
        H5Fclose(file);
    }
}
#endif
