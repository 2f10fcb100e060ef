// bad_files_test.c - data sets that are missing, cut, foreign, damaged or cannot be written: each
// gets one sentence and leaves nothing half-written. Files in the public tools' own style are read.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/branches.h"
#include "data/frames.h"
#include "data/hdf5.h"
#include "env/env.h"
#include "support.h"

static const env_spec* task(void) {
    return env_find("tworoom");
}

static void expect_refused(const char* path, firm_status want, const char* word) {
    firm_error err;
    episodes* e;
    firm_status got = episodes_read(path, task(), &e, &err);
    expect_failure(got, want, &err, word);
    if (got == FIRM_OK)
        episodes_free(e);
    else
        EXPECT(strstr(err.message, path) != NULL);
}

// ---- a data set as the public tools write it, with one thing wrong ----

typedef struct oddity {
    const char *state, *index;  // names of the state and episode-number columns
    int state_width, action_width;
    int64_t short_action;                         // rows missing from the action column
    int bad_length, bad_index;                    // ep_len / ep_idx that do not fit
    double state_at_7, action_at_7, action_last;  // values put there
    const char* more;                             // one more column of width 3
    int pixels;
} oddity;

enum { ROWS = 60, EPISODES = 2, LENGTH = 30 };
static const oddity fine = {.state = "pos_agent",
                            .index = "ep_idx",
                            .state_width = 2,
                            .action_width = 2,
                            .state_at_7 = 60,
                            .action_at_7 = 0.5,
                            .action_last = NAN};

static void put_rows(hdf5_writer* w, const char* name, hid_t type, hid_t memory, hsize_t rows,
                     hsize_t width, const void* data) {
    firm_error err;
    hsize_t dims[2] = {rows, width};
    if (hdf5_put(w, name, type, memory, width > 1 ? 2 : 1, dims, data, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
}

static uint8_t frame_byte(int row, int i) {
    return (uint8_t)(row * 31 + i / 2048);
}

static const char* public_file(const char* name, const oddity* o) {
    firm_error err;
    hdf5_writer w;
    const char* path = temp_path(name);
    double state[ROWS * 8], action[ROWS * 8];
    int32_t index[ROWS], length[EPISODES];
    int64_t offset[EPISODES];
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < o->state_width; k++)
            state[i * o->state_width + k] = i == 7 ? o->state_at_7 : 50 + i;
        for (int k = 0; k < o->action_width; k++)
            action[i * o->action_width + k] = i == 7                     ? o->action_at_7
                                              : i % LENGTH == LENGTH - 1 ? o->action_last
                                                                         : 0.25;
        index[i] = i / LENGTH + (i >= LENGTH ? o->bad_index : 0);
    }
    for (int i = 0; i < EPISODES; i++) {
        length[i] = LENGTH + (i == 1 ? o->bad_length : 0);
        offset[i] = i * LENGTH;
    }
    if (hdf5_create(&w, path, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        return path;
    }
    put_rows(&w, o->state, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, ROWS, (hsize_t)o->state_width, state);
    put_rows(&w, "action", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, (hsize_t)(ROWS - o->short_action),
             (hsize_t)o->action_width, action);
    put_rows(&w, "distance_to_target", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, ROWS, 1, state);
    put_rows(&w, o->index, H5T_STD_I32LE, H5T_NATIVE_INT32, ROWS, 1, index);
    put_rows(&w, "ep_len", H5T_STD_I64LE, H5T_NATIVE_INT32, EPISODES, 1, length);
    put_rows(&w, "ep_offset", H5T_STD_I64LE, H5T_NATIVE_INT64, EPISODES, 1, offset);
    if (o->more) put_rows(&w, o->more, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, ROWS / 3, 3, state);
    if (o->pixels) {
        static uint8_t rgb[ROWS][ENV_FRAME_BYTES];
        for (int i = 0; i < ROWS; i++)
            for (int k = 0; k < ENV_FRAME_BYTES; k++) rgb[i][k] = frame_byte(i, k);
        hsize_t dims[4] = {ROWS, ENV_IMAGE, ENV_IMAGE, 3};
        hid_t dataset;
        EXPECT_INT(hdf5_dataset(&w, "pixels", H5T_STD_U8LE, 4, dims, 100, 1, &dataset, &err),
                   FIRM_OK);
        EXPECT_INT(hdf5_put_rows(&w, dataset, H5T_NATIVE_UINT8, 0, ROWS, rgb, &err), FIRM_OK);
        H5Dclose(dataset);
    }
    EXPECT_INT(hdf5_commit(&w, &err), FIRM_OK);
    return path;
}

TEST(data, reads_public_files) {
    firm_error err;
    static const char* state_names[] = {"pos_agent", "state", "proprio"};
    for (int i = 0; i < 3; i++) {
        oddity o = fine;
        o.state = state_names[i];
        o.index = i ? "episode_idx" : "ep_idx";
        episodes* e;
        REQUIRE_OK(episodes_read(public_file("public.h5", &o), task(), &e, &err), err);
        EXPECT_INT(e->count, EPISODES);
        EXPECT_INT(e->rows, ROWS);
        EXPECT(e->seed == UINT64_MAX);
        EXPECT(e->state[2 * 7] == 60 && e->state[2 * 8] == 58);
        EXPECT(e->action[2 * 7] == 0.5f && isnan(e->action[2 * 29]) && !isnan(e->action[2 * 30]));
        episodes_free(e);
    }
    // a last action that is a number is fine too
    oddity o = fine;
    o.action_last = 0.0;
    episodes* e;
    REQUIRE_OK(episodes_read(public_file("public.h5", &o), task(), &e, &err), err);
    episodes_free(e);
}

// The first filter of the column `pixels`.
static int filter_of(const char* path) {
    unsigned flags, config;
    size_t values = 0;
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t set = H5Dopen2(file, "pixels", H5P_DEFAULT), plist = H5Dget_create_plist(set);
    int filter = H5Pget_filter2(plist, 0, &flags, &values, NULL, 0, NULL, &config);
    H5Pclose(plist);
    H5Dclose(set);
    H5Fclose(file);
    return filter;
}

TEST(data, reads_blosc_pixels) {
    if (H5Zfilter_avail(HDF5_BLOSC) <= 0) {
        test_skip("the HDF5 Blosc plugin is not installed");
        return;
    }
    firm_error err;
    oddity o = fine;
    o.pixels = 1;
    episodes* e;
    frames* f;
    const char* path = public_file("blosc.h5", &o);
    REQUIRE_OK(episodes_read(path, task(), &e, &err), err);
    // it really is compressed with filter 32001
    EXPECT_INT(filter_of(path), HDF5_BLOSC);
    REQUIRE_OK(frames_open(e, 1, 1 << 20, &f, &err), err);
    static uint8_t rgb[ENV_FRAME_BYTES];
    for (int row = 0; row < ROWS; row += 7) {
        EXPECT_INT(frames_get(f, 0, row, rgb), FIRM_OK);
        int wrong = 0;
        for (int k = 0; k < ENV_FRAME_BYTES; k++) wrong += rgb[k] != frame_byte(row, k);
        EXPECT_INT(wrong, 0);
    }
    frames_free(f);
    episodes_free(e);
}

// A file that Python's h5py and hdf5plugin wrote in the released files' style; see
// scripts/reference/blosc_file.py for its numbers.
TEST(data, reads_blosc_of_python) {
    if (H5Zfilter_avail(HDF5_BLOSC) <= 0) {
        test_skip("the HDF5 Blosc plugin is not installed");
        return;
    }
    char path[1024];
    firm_error err;
    episodes* e;
    frames* f;
    snprintf(path, sizeof path, "%s/tests/golden/blosc-tworoom.h5", test_source_dir());
    REQUIRE_OK(episodes_read(path, task(), &e, &err), err);
    EXPECT_INT(e->count, 2);
    EXPECT_INT(e->rows, 60);
    for (int r = 0; r < 60; r++) {
        EXPECT(e->state[2 * r] == 50 + r && e->state[2 * r + 1] == 60 + r / 2.0);
        if (r % 30 == 29)
            EXPECT(isnan(e->action[2 * r]) && isnan(e->action[2 * r + 1]));
        else
            EXPECT(e->action[2 * r] == (float)(r / 100.0) &&
                   e->action[2 * r + 1] == -(float)(r / 100.0));
    }
    EXPECT_INT(filter_of(path), HDF5_BLOSC);
    REQUIRE_OK(frames_open(e, 1, 1 << 20, &f, &err), err);
    static uint8_t rgb[ENV_FRAME_BYTES];
    for (int row = 0; row < 60; row++) {
        EXPECT_INT(frames_get(f, 0, row, rgb), FIRM_OK);
        int wrong = 0;
        for (int k = 0; k < ENV_FRAME_BYTES; k++) wrong += rgb[k] != frame_byte(row, k);
        EXPECT_INT(wrong, 0);
    }
    frames_free(f);
    episodes_free(e);
}

TEST(data, refuses_missing_and_foreign_files) {
    expect_refused(temp_path("nowhere.h5"), FIRM_E_MISSING, "does not exist");
    expect_refused(test_temp_dir(), FIRM_E_USAGE, "folder");
    const char* text = temp_path("text.h5");
    FILE* f = fopen(text, "w");
    fputs("this is not a data set\n", f);
    fclose(f);
    expect_refused(text, FIRM_E_FORMAT, "not an HDF5 file");
    f = fopen(temp_path("empty.h5"), "w");
    fclose(f);
    expect_refused(temp_path("empty.h5"), FIRM_E_FORMAT, "not an HDF5 file");

    firm_error err;
    hdf5_writer w;
    const char* foreign = temp_path("foreign.h5");
    REQUIRE_OK(hdf5_create(&w, foreign, &err), err);
    put_rows(&w, "temperature", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 2, 1, (double[]){1, 2});
    REQUIRE_OK(hdf5_commit(&w, &err), err);
    expect_refused(foreign, FIRM_E_FORMAT, "temperature");
}

TEST(data, refuses_cut_files) {
    firm_error err;
    episodes* e = small_set(10, 1, NULL);
    const char *path = temp_path("whole.h5"), *cut = temp_path("cut.h5");
    REQUIRE_OK(episodes_write(e, NULL, NULL, path, &err), err);
    episodes_free(e);
    struct stat s;
    stat(path, &s);
    char* bytes = malloc((size_t)s.st_size);
    FILE* f = fopen(path, "rb");
    EXPECT(fread(bytes, 1, (size_t)s.st_size, f) == (size_t)s.st_size);
    fclose(f);
    for (int i = 0; i < 20; i++) {
        size_t keep = i == 19 ? (size_t)s.st_size - 1 : (size_t)s.st_size * (size_t)(i + 1) / 20;
        if (keep == (size_t)s.st_size) continue;
        f = fopen(cut, "wb");
        fwrite(bytes, 1, keep, f);
        fclose(f);
        expect_refused(cut, FIRM_E_FORMAT, "damaged");
    }
    free(bytes);
}

// hostile_test.c flips bytes everywhere; here one aimed change: the file says which check failed.
TEST(data, notices_changed_states) {
    firm_error err;
    episodes* e = small_set(4, 1, NULL);
    const char* path = temp_path("good.h5");
    REQUIRE_OK(episodes_write(e, NULL, NULL, path, &err), err);
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    hid_t column = H5Dopen2(file, "pos_agent", H5P_DEFAULT);
    e->state[40] += 1.0;
    H5Dwrite(column, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, e->state);
    H5Dclose(column);
    H5Fclose(file);
    expect_refused(path, FIRM_E_FORMAT, "checksum");
    episodes_free(e);
}

TEST(data, refuses_other_tasks) {
    oddity o = fine;
    o.more = "block_pose";
    expect_refused(public_file("pusht.h5", &o), FIRM_E_TASK, "pusht");
    expect_refused(public_file("pusht.h5", &o), FIRM_E_TASK, "block_pose");
    o.more = "privileged_block_0_pos";
    expect_refused(public_file("cube.h5", &o), FIRM_E_TASK, "cube");
    o = fine;
    o.state_width = 7;
    expect_refused(public_file("wide.h5", &o), FIRM_E_TASK, "7 numbers");
    o = fine;
    o.action_width = 5;
    expect_refused(public_file("wide.h5", &o), FIRM_E_TASK, "'action'");

    // our own files say their task
    firm_error err;
    episodes* e = small_set(3, 1, NULL);
    const char* path = temp_path("renamed.h5");
    REQUIRE_OK(episodes_write(e, NULL, NULL, path, &err), err);
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
    H5Adelete(file, "task");
    hdf5_writer w = {.file = file};
    EXPECT_INT(hdf5_put_text(&w, "task", "reacher", &err), FIRM_OK);
    H5Fclose(file);
    expect_refused(path, FIRM_E_TASK, "reacher");
    episodes_free(e);
}

TEST(data, refuses_numbers_that_are_not_finite) {
    oddity o = fine;
    o.action_at_7 = NAN;
    expect_refused(public_file("nan.h5", &o), FIRM_E_VALUE, "episode 0, row 7");
    o.action_at_7 = -INFINITY;
    expect_refused(public_file("inf.h5", &o), FIRM_E_VALUE, "episode 0, row 7");
    o = fine;
    o.state_at_7 = NAN;
    expect_refused(public_file("nan.h5", &o), FIRM_E_VALUE, "'pos_agent'");
}

TEST(data, refuses_lengths_that_do_not_fit) {
    oddity o = fine;
    o.bad_length = -1;
    expect_refused(public_file("length.h5", &o), FIRM_E_FORMAT, "add up to 59");
    o.bad_length = 1;
    expect_refused(public_file("length.h5", &o), FIRM_E_FORMAT, "add up to 61");
    o.bad_length = -LENGTH;
    expect_refused(public_file("length.h5", &o), FIRM_E_FORMAT, "episode 1");
    o = fine;
    o.bad_index = 3;
    expect_refused(public_file("index.h5", &o), FIRM_E_FORMAT, "'ep_idx'");
    o = fine;
    o.short_action = 5;
    expect_refused(public_file("short.h5", &o), FIRM_E_FORMAT, "55 rows");
}

// ---- writing where it cannot be ----

static int files_in(const char* folder) {
    DIR* d = opendir(folder);
    int n = 0;
    for (struct dirent* entry; d && (entry = readdir(d));) n += entry->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

TEST(data, refuses_unwritable_places) {
    firm_error err;
    episodes* e = small_set(3, 1, NULL);
    expect_failure(episodes_write(e, NULL, NULL, temp_path("no/such/folder/F.h5"), &err),
                   FIRM_E_MISSING, &err, "folder");
    expect_failure(episodes_write(e, NULL, NULL, test_temp_dir(), &err), FIRM_E_USAGE, &err,
                   "folder");
    expect_failure(episodes_write(e, NULL, NULL, "", &err), FIRM_E_USAGE, &err, "empty");
    expect_failure(episodes_write(e, NULL, NULL, "/proc/F.h5", &err), FIRM_E_MISSING, &err,
                   "/proc/F.h5");
    if (geteuid() != 0) {  // root may write anywhere
        const char* locked = temp_path("locked");
        mkdir(locked, 0500);
        expect_failure(episodes_write(e, NULL, NULL, temp_path("locked/F.h5"), &err), FIRM_E_IO,
                       &err, "ermission");
        chmod(locked, 0700);
    }
    episodes_free(e);
}

// In a child process: writes into `folder`, expects a refusal, then a normal exit without a word on
// stderr. Returns 0 when all of it held; 77 when the child could not set the stage.
static int child_meets_full_disk(const char* folder, int with_tmpfs, rlim_t limit, int pixels) {
    const char* log = temp_path("child.log");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(log, O_CREAT | O_TRUNC | O_WRONLY, 0600);
        if (dup2(fd, 2) < 0) exit(77);
        if (with_tmpfs) {
            char size[64];
            snprintf(size, sizeof size, "size=%llu", (unsigned long long)limit);
            if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
                mount("firm", folder, "tmpfs", 0, size))
                exit(77);
        } else {
            signal(SIGXFSZ, SIG_IGN);
            if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){limit, limit})) exit(77);
        }
        firm_error err = {0};
        episodes* e = small_set(200, 1, NULL);
        char path[1100];
        snprintf(path, sizeof path, "%s/F.h5", folder);
        if (!e) exit(1);
        if (episodes_write(e, &(collect_options){.pixels = pixels}, NULL, path, &err) != FIRM_E_IO)
            exit(2);
        if (!strstr(err.message, "F.h5") || !strstr(err.message, "space")) exit(3);
        if (files_in(folder) != 0) exit(4);
        episodes_free(e);
        exit(0);  // runs HDF5's own clean-up, which must stay quiet as well
    }
    int status = 0;
    waitpid(pid, &status, 0);
    struct stat s;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && stat(log, &s) == 0 && s.st_size > 0)
        return 5;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

TEST(data, full_disk_leaves_nothing) {
    const char* folder = temp_path("full");
    mkdir(folder, 0700);
    // limits that stop the writer in the header, in the columns, and near the end of them
    static const rlim_t limits[] = {100, 5000, 60000, 400000, 1500000, 2150000};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        int got = child_meets_full_disk(folder, 0, limits[i], 0);
        if (got)
            test_fail(__FILE__, __LINE__, "a limit of %llu bytes: child says %d",
                      (unsigned long long)limits[i], got);
    }
    EXPECT_INT(child_meets_full_disk(folder, 0, 4000000, 1), 0);
}

TEST(data, full_disk_tmpfs) {
    const char* folder = temp_path("tiny");
    mkdir(folder, 0700);
    int got = child_meets_full_disk(folder, 1, 262144, 0);
    if (got == 77) {
        test_skip("no right to mount a small tmpfs");
        return;
    }
    EXPECT_INT(got, 0);
    EXPECT_INT(child_meets_full_disk(folder, 1, 1048576, 0), 0);
    EXPECT_INT(child_meets_full_disk(folder, 1, 8388608, 1), 0);
}
