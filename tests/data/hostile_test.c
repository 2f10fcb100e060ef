// hostile_test.c - data files made to do harm: attributes of other shapes, links and storage
// outside the file, claims that nothing stored backs, indices and states out of range, flipped
// bytes. Each is refused with one sentence or read as what it was; none crashes, hangs or reads
// another file.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/file.h"
#include "data/hdf5.h"
#include "env/env.h"
#include "samples.h"
#include "support.h"

static void keep(herr_t result) {
    if (result < 0) test_fail(__FILE__, __LINE__, "HDF5 refused to make the file");
}

// A data set of two episodes, open for changes.
static hid_t harmed(const char* path) {
    firm_error err;
    episodes* e = sample_episodes(2);
    if (episodes_write(e, NULL, NULL, path, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    episodes_free(e);
    return H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
}

static void expect_refused(const char* path, firm_status want, const char* word) {
    firm_error err;
    episodes* e = NULL;
    expect_failure(episodes_read(path, sample_task(), &e, &err), want, &err, word);
    EXPECT(e == NULL && strstr(err.message, path));
    episodes_free(e);
}

// ---- attributes ----

static void put_attribute(hid_t file, const char* name, hid_t type, int count, const void* data) {
    hid_t space =
        count ? H5Screate_simple(1, &(hsize_t){(hsize_t)count}, NULL) : H5Screate(H5S_SCALAR);
    hid_t a = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    keep(a >= 0 ? H5Awrite(a, type, data) : -1);
    H5Aclose(a);
    H5Sclose(space);
}

TEST(data, attributes_have_exactly_one_value) {
    const char* path = temp_path("attributes.h5");
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t text = H5Tcopy(H5T_C_S1), fixed = H5Tcopy(H5T_C_S1), wide = H5Tcopy(H5T_C_S1);
    const char *many[64], *one = "alone", *escape = "red\033[31m\nline";
    static char large[4000];
    uint64_t numbers[64] = {7, 8};
    memset(large, 'x', sizeof large - 1);
    const char* long_text = large;
    for (int i = 0; i < 64; i++) many[i] = "many";
    keep(H5Tset_size(text, H5T_VARIABLE));
    keep(H5Tset_size(fixed, 5));
    keep(H5Tset_size(wide, sizeof large));
    put_attribute(file, "texts", text, 64, many);
    put_attribute(file, "list_of_one", text, 1, &one);
    put_attribute(file, "text", text, 0, &one);
    put_attribute(file, "escape", text, 0, &escape);
    put_attribute(file, "long", text, 0, &long_text);
    put_attribute(file, "fixed", fixed, 0, "fixed");  // no room for a NUL
    put_attribute(file, "fixed_texts", fixed, 2, "fixedfixed");
    put_attribute(file, "wide", wide, 0, large);
    put_attribute(file, "numbers", H5T_NATIVE_UINT64, 64, numbers);
    put_attribute(file, "number", H5T_NATIVE_UINT64, 0, numbers);
    put_attribute(file, "small", H5T_NATIVE_INT8, 0, &(int8_t){9});
    put_attribute(file, "negative", H5T_NATIVE_INT64, 0, &(int64_t){-1});
    put_attribute(file, "real", H5T_NATIVE_DOUBLE, 0, &(double){3});
    H5Tclose(text);
    H5Tclose(fixed);
    H5Tclose(wide);
    H5Fclose(file);

    firm_error err;
    hdf5_file* f;
    char got[64];
    uint64_t n = 0;
    REQUIRE_OK(hdf5_open(path, &f, &err), err);
    EXPECT(hdf5_get_text(f, "text", got, sizeof got) && strcmp(got, "alone") == 0);
    EXPECT(hdf5_get_text(f, "list_of_one", got, sizeof got) && strcmp(got, "alone") == 0);
    EXPECT(hdf5_get_text(f, "fixed", got, sizeof got) && strcmp(got, "fixed") == 0);
    EXPECT(hdf5_get_text(f, "escape", got, sizeof got) && strcmp(got, "red?[31m?line") == 0);
    EXPECT(hdf5_get_u64(f, "number", &n) && n == 7);
    EXPECT(hdf5_get_u64(f, "small", &n) && n == 9);
    static const char* const none[] = {"texts", "long",   "fixed_texts", "wide", "numbers",
                                       "real",  "number", "negative",    "gone"};
    for (int i = 0; i < 9; i++) EXPECT(!hdf5_get_text(f, none[i], got, sizeof got) && !got[0]);
    EXPECT(!hdf5_get_text(f, "text", got, 5) && !got[0]);  // does not fit
    static const char* const no_number[] = {"numbers", "negative", "real", "text", "gone"};
    for (int i = 0; i < 5; i++) EXPECT(!hdf5_get_u64(f, no_number[i], &n) && n == 9);
    hdf5_close(f);
}

// ---- other files ----

static void replace(hid_t file, const char* name, hid_t plist, hid_t space) {
    keep(H5Ldelete(file, name, H5P_DEFAULT));
    hid_t set = H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    keep((herr_t)(set < 0 ? -1 : 0));
    H5Dclose(set);
    H5Pclose(plist);
    H5Sclose(space);
    H5Fclose(file);
}

// A file cannot make the program read another one: it is refused before anything is followed.
TEST(data, refuses_links_and_outside_storage) {
    const char *path = temp_path("links.h5"), *other = temp_path("other.h5");
    H5Fclose(harmed(other));
    const hsize_t dims[2] = {100, 2};

    hid_t file = harmed(path);
    keep(H5Ldelete(file, "pos_agent", H5P_DEFAULT));
    keep(H5Lcreate_external(other, "pos_agent", file, "pos_agent", H5P_DEFAULT, H5P_DEFAULT));
    H5Fclose(file);
    expect_refused(path, FIRM_E_FORMAT, "'pos_agent' of");
    expect_refused(path, FIRM_E_FORMAT, "is a link");

    file = harmed(path);
    keep(H5Lcreate_soft("/action", file, "more", H5P_DEFAULT, H5P_DEFAULT));
    H5Fclose(file);
    expect_refused(path, FIRM_E_FORMAT, "'more' of");

    file = harmed(path);
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(2, dims, NULL);
    keep(H5Pset_external(plist, "/etc/passwd", 0, 100 * 2 * 4));
    replace(file, "pos_agent", plist, space);
    expect_refused(path, FIRM_E_FORMAT, "another file");

    file = harmed(path);
    plist = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(2, dims, NULL);
    keep(H5Pset_virtual(plist, space, other, "pos_agent", space));
    replace(file, "pos_agent", plist, space);
    expect_refused(path, FIRM_E_FORMAT, "another file");
}

// ---- claims ----

TEST(data, refuses_filters_that_are_not_supported) {
    const char* path = temp_path("filter.h5");
    const hsize_t dims[2] = {100, 2};
    hid_t file = harmed(path), plist = H5Pcreate(H5P_DATASET_CREATE);
    keep(H5Pset_chunk(plist, 2, dims));
    keep(H5Pset_nbit(plist));
    replace(file, "pos_agent", plist, H5Screate_simple(2, dims, NULL));
    expect_refused(path, FIRM_E_FORMAT, "filter 5");
}

// A file of some kilobytes that speaks of a gigabyte is refused before memory is taken for it.
TEST(data, refuses_claims_that_nothing_stored_backs) {
    const char* path = temp_path("claims.h5");
    const hsize_t dims[2] = {40000000, 2}, chunk[2] = {1000, 2};
    for (int deflated = 0; deflated < 2; deflated++) {
        hid_t file = harmed(path), plist = H5Pcreate(H5P_DATASET_CREATE);
        keep(H5Pset_chunk(plist, 2, chunk));
        if (deflated) keep(H5Pset_deflate(plist, 9));
        replace(file, "pos_agent", plist, H5Screate_simple(2, dims, NULL));
        expect_refused(path, FIRM_E_FORMAT, "claims 320000000 bytes and stores 0");
    }
}

// What a filter really packs a thousandfold is read.
TEST(data, reads_what_compresses_well) {
    enum { N = 2000000 };
    const char* path = temp_path("zeros.h5");
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(1, &(hsize_t){N}, NULL);
    int8_t* zeros = calloc(N, 1);
    keep(H5Pset_chunk(plist, 1, &(hsize_t){N / 2}));
    keep(H5Pset_deflate(plist, 9));
    hid_t set = H5Dcreate2(file, "zeros", H5T_STD_I8LE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    keep(H5Dwrite(set, H5T_NATIVE_INT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros));
    EXPECT(H5Dget_storage_size(set) < N / 900);
    H5Dclose(set);
    H5Pclose(plist);
    H5Sclose(space);
    H5Fclose(file);

    firm_error err;
    hdf5_file* f;
    int rank;
    int64_t dims[HDF5_MAX_RANK];
    REQUIRE_OK(hdf5_open(path, &f, &err), err);
    EXPECT_INT(hdf5_shape(f, "zeros", &rank, dims, &err), FIRM_OK);
    EXPECT(rank == 1 && dims[0] == N);
    memset(zeros, 1, N);
    EXPECT_INT(hdf5_get(f, "zeros", HDF5_INT8, zeros, &err), FIRM_OK);
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += zeros[i] != 0;
    EXPECT_INT(wrong, 0);
    hdf5_close(f);
    free(zeros);
}

// ---- numbers ----

static void expect_branches_refused(const episodes* e, const branches* b, const char* word) {
    firm_error err;
    branches* back = NULL;
    const char* path = temp_path("branches.h5");
    REQUIRE_OK(branches_write(b, path, &err), err);
    expect_failure(branches_read(path, e, &back, &err), FIRM_E_VALUE, &err, word);
    EXPECT(back == NULL && strstr(err.message, path));
    branches_free(back);
}

TEST(data, branches_with_impossible_anchors_or_states_are_refused) {
    firm_error err;
    episodes* e = sample_episodes(2);
    branches *b = sample_branches(e), *back;
    const int64_t row = b->row[1], bad[] = {-1, 0, 1, e->offset[1], e->offset[1] + 1, e->rows};
    for (int i = 0; i < 6; i++) {
        b->row[1] = bad[i];
        expect_branches_refused(e, b, "anchor 1 of");
    }
    b->row[1] = row;
    const int numbers = 2 * 2 * 26 * 2;
    static const double value[] = {1e300, NAN, INFINITY, -1, 225};
    for (int i = 0; i < 5; i++) {
        const int at = i * (numbers - 1) / 4;
        const double good = b->state[at];
        b->state[at] = value[i];
        expect_branches_refused(e, b, i == 1 || i == 2 ? "is not finite" : "cannot occur");
        b->state[at] = good;
    }
    b->action[7] = NAN;
    expect_branches_refused(e, b, "action");
    b->action[7] = 0;
    REQUIRE_OK(branches_write(b, temp_path("branches.h5"), &err), err);
    REQUIRE_OK(branches_read(temp_path("branches.h5"), e, &back, &err), err);
    branches_free(back);
    branches_free(b);
    episodes_free(e);
}

static void expect_pack_refused(const pack* p, const char* what) {
    firm_error err;
    pack back;
    pack_file made;
    const char* path = temp_path("harmed-pack.h5");
    REQUIRE_OK(pack_write(p, NULL, NULL, path, &made, &err), err);
    firm_status got = pack_read(path, sample_task(), &back, &err);
    if (got != FIRM_E_FORMAT || !strstr(err.message, "damaged"))
        test_fail(__FILE__, __LINE__, "%s: status %d", what, got);
    if (got == FIRM_OK) pack_free(&back);
}

TEST(data, packs_with_impossible_numbers_are_refused) {
    firm_error err;
    episodes* e = sample_episodes(2);
    branches* b = sample_branches(e);
    pack p, back;
    pack_file made;
    EXPECT(sample_pack(e, b, &p));
#define HARM(place, value)                \
    do {                                  \
        __typeof__(place) good = (place); \
        (place) = (value);                \
        expect_pack_refused(&p, #place);  \
        (place) = good;                   \
    } while (0)
    HARM(p.list[0].p.scene[0], -1);
    HARM(p.list[0].p.scene[1], -1);
    HARM(p.set[PACK_F].history[1], -1);
    HARM(p.set[PACK_I].history[0], 2);
    HARM(p.set[PACK_F].config[3], NAN);
    HARM(p.list[0].p.config[0], INFINITY);
    HARM(p.set[PACK_I].rare[2], 2);
    HARM(p.set[PACK_I].history[3], 0);  // after one of history 1
    HARM(p.set[PACK_D].history[2], 2);
    HARM(p.set[PACK_D].action[7], NAN);
    HARM(p.set[PACK_D].config[3], INFINITY);
    HARM(p.set[PACK_D].spread[5], -0.125f);
    HARM(p.set[PACK_D].spread[14], NAN);
    HARM(p.action_mean[0], NAN);
    HARM(p.action_std[1], 0);
    const int64_t used = p.set[PACK_F].seen[0];
    HARM(e->state[2 * used], 1e300);
    HARM(e->state[2 * used + 1], NAN);
    // a record may do without frames
    p.set[PACK_F].seen[0] = p.set[PACK_F].after[1] = -1;
    REQUIRE_OK(pack_write(&p, NULL, NULL, temp_path("P.h5"), &made, &err), err);
    REQUIRE_OK(pack_read(temp_path("P.h5"), sample_task(), &back, &err), err);
    EXPECT(back.set[PACK_F].seen[0] == -1 && back.set[PACK_F].after[1] == -1);
    pack_free(&back);
    pack_free(&p);
    branches_free(b);
    episodes_free(e);
}

static firm_status draw_plain(void* ctx, int worker, int64_t scene, uint8_t* rgb) {
    (void)ctx, (void)worker;
    memset(rgb, (int)scene, ENV_FRAME_BYTES);
    return FIRM_OK;
}

static int same_numbers(const float* a, const float* b, int n) {
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

// Imagined records are read as they were written.
static void check_imagined(const pack* p, const pack* back) {
    const records *a = &p->set[PACK_D], *b = &back->set[PACK_D];
    EXPECT_INT(b->count, 3);
    EXPECT_INT(b->histories, 2);
    EXPECT(!b->chi && !b->after && !b->rare && back->imagined_hash);
    if (b->count != 3 || b->histories != 2) return;
    EXPECT(memcmp(a->history, b->history, 3 * sizeof *a->history) == 0);
    EXPECT(same_numbers(a->past, b->past, 8) && same_numbers(a->action, b->action, 3 * 50));
    EXPECT(same_numbers(a->config, b->config, 3 * 12) && same_numbers(a->spread, b->spread, 15));
    for (int i = 0; i < 6; i++)
        EXPECT(b->seen[i] == back->set[PACK_F].seen[i]);  // the same scenes, numbered anew
}

// A pack of pictures is written again with the very pictures: the same bytes.
TEST(data, pack_of_pictures_stays_what_it_is) {
    firm_error err;
    episodes* e = sample_episodes(2);
    branches* b = sample_branches(e);
    static uint8_t background[ENV_FRAME_BYTES];
    pack p, back;
    pack_file made;
    pictures* drawn;
    EXPECT(sample_pack(e, b, &p));
    REQUIRE_OK(
        pictures_open(&(pictures_of){p.scenes, ENV_FRAME_BYTES, draw_plain, NULL, background}, 0,
                      &drawn, &err),
        err);
    REQUIRE_OK(pack_write(&p, drawn, NULL, temp_path("PP.h5"), &made, &err), err);
    REQUIRE_OK(pack_read(temp_path("PP.h5"), sample_task(), &back, &err), err);
    check_imagined(&p, &back);
    REQUIRE_OK(pack_write(&back, NULL, NULL, temp_path("PS.h5"), &made, &err), err);
    EXPECT_INT(made.scenes, back.scenes);
    char *one, *two;
    size_t n, k;
    REQUIRE_OK(file_read_all(temp_path("PP.h5"), &one, &n, &err), err);
    REQUIRE_OK(file_read_all(temp_path("PS.h5"), &two, &k, &err), err);
    EXPECT(n == k && memcmp(one, two, n) == 0);
    mem_free(one);
    mem_free(two);
    // more records of the same frames are no new frames
    REQUIRE_OK(records_append(sample_task(), &p.set[PACK_D], 0, &back.set[PACK_D], &err), err);
    EXPECT_INT(back.set[PACK_D].count, 6);
    EXPECT_INT(back.set[PACK_D].history[5], 3);
    EXPECT_NEAR(back.set[PACK_D].spread[29], 0.125 * 6, 0);
    pictures_free(drawn);
    pack_free(&back);
    pack_free(&p);
    branches_free(b);
    episodes_free(e);
}

// ---- the process that reads ----

// The only child of this process.
static pid_t only_child(void) {
    char path[64];
    long child = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    FILE* f = fopen(path, "r");
    if (f && fscanf(f, "%ld", &child) != 1) child = 0;
    if (f) fclose(f);
    return (pid_t)child;
}

// Whether a line of a process's limits begins with a name and its soft limit is the value, or, with
// NULL, any but "unlimited".
static int has_limit(pid_t process, const char* name, const char* value) {
    char path[64], line[256], soft[64];
    int found = 0;
    snprintf(path, sizeof path, "/proc/%d/limits", process);
    FILE* f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0 &&
            sscanf(line + strlen(name), "%63s", soft) == 1)
            found = value ? strcmp(soft, value) == 0 : strcmp(soft, "unlimited") != 0;
    if (f) fclose(f);
    return found;
}

TEST(data, death_of_the_reading_process_is_a_sentence) {
    firm_error err;
    hdf5_file* f;
    const char* path = temp_path("killed.h5");
    int32_t length[2] = {0};
    H5Fclose(harmed(path));
    REQUIRE_OK(hdf5_open(path, &f, &err), err);
    const pid_t child = only_child();
    if (child <= 0) {
        hdf5_close(f);
        test_skip("the kernel does not list children");
        return;
    }
    EXPECT(has_limit(child, "Max address space", NULL));
    EXPECT(has_limit(child, "Max core file size", "0"));
    // what a terminal sends to the whole group does not reach it
    kill(child, SIGINT);
    kill(child, SIGTERM);
    EXPECT_INT(hdf5_get(f, "ep_len", HDF5_INT32, length, &err), FIRM_OK);
    EXPECT(length[0] > 0);
    kill(child, SIGKILL);
    expect_failure(hdf5_get(f, "ep_len", HDF5_INT32, length, &err), FIRM_E_FORMAT, &err, path);
    expect_failure(hdf5_get(f, "ep_len", HDF5_INT32, length, &err), FIRM_E_FORMAT, &err, path);
    hdf5_close(f);
    EXPECT_INT(only_child(), 0);
}

// HDF5 1.10 reads in circles when the last text of its heap says that it is 256 bytes longer. A
// limit on processor time ends that.
TEST(data, hang_of_the_reading_process_is_ended) {
    static uint8_t byte[1 << 16];
    const char *path = temp_path("hang.h5"), *text = sample_task()->sim->renderer;
    H5Fclose(harmed(path));
    int fd = open(path, O_RDWR);
    const ssize_t n = pread(fd, byte, sizeof byte, 0);
    const uint8_t* at = memmem(byte, (size_t)(n > 0 ? n : 0), text, strlen(text));
    EXPECT(at != NULL);
    if (at) EXPECT(pwrite(fd, "\1", 1, at - byte - 7) == 1);  // the second byte of its length
    close(fd);
    expect_refused(path, FIRM_E_FORMAT, "reading its structure failed");
}

// ---- flipped bytes ----

typedef struct victim {
    const char* name;
    int (*read)(const char* path, const episodes* e, firm_error* err);  // 0 refused, 1 as it was
} victim;

static int read_episodes(const char* path, const episodes* e, firm_error* err) {
    episodes* back;
    if (episodes_read(path, e->spec, &back, err) != FIRM_OK) return 0;
    EXPECT(back->hash == e->hash);
    episodes_free(back);
    return 1;
}

static int read_branches(const char* path, const episodes* e, firm_error* err) {
    branches* back;
    if (branches_read(path, e, &back, err) != FIRM_OK) return 0;
    EXPECT(back->anchors == 2 && back->row[1] == e->offset[1] + 4);
    branches_free(back);
    return 1;
}

static int read_pack(const char* path, const episodes* e, firm_error* err) {
    pack back;
    if (pack_read(path, e->spec, &back, err) != FIRM_OK) return 0;
    EXPECT(back.set[PACK_F].count == 2 && back.set[PACK_I].count == 4 && back.lists == 1);
    pack_free(&back);
    return 1;
}

static int read_trials(const char* path, const episodes* e, firm_error* err) {
    trial_set* back;
    if (trial_set_read(path, e->spec, &back, err) != FIRM_OK) return 0;
    EXPECT(back->count == 3 && back->row[2] == 410);
    trial_set_free(back);
    return 1;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Flips `count` bytes one after the other, most of them among the first, which hold the structure.
static void flip(const char* path, const victim* v, const episodes* e, int count) {
    struct stat s;
    int fd = open(path, O_RDWR), refused = 0;
    if (fd < 0 || fstat(fd, &s) != 0) {
        test_fail(__FILE__, __LINE__, "%s is not there", path);
        return;
    }
    for (int i = 0; i < count; i++) {
        firm_error err = {0};
        const off_t at = i % 4 ? 7 + i * 4000 / count : i * (s.st_size - 1) / count;
        uint8_t byte, other;
        EXPECT(pread(fd, &byte, 1, at) == 1);
        other = byte ^ (uint8_t)(i % 3 == 0 ? 0xff : 1 << i % 8);
        EXPECT(pwrite(fd, &other, 1, at) == 1);
        const double start = seconds();
        if (!v->read(path, e, &err)) {
            refused++;
            if (!strstr(err.message, path) || strchr(err.message, '\n'))
                test_fail(__FILE__, __LINE__, "%s, byte %ld: '%s'", v->name, (long)at, err.message);
        }
        if (seconds() - start > 60)
            test_fail(__FILE__, __LINE__, "%s, byte %ld: %.0f s", v->name, (long)at,
                      seconds() - start);
        EXPECT(pwrite(fd, &byte, 1, at) == 1);
    }
    close(fd);
    firm_error err;
    EXPECT_INT(v->read(path, e, &err), 1);
    if (refused < count / 20 || refused == count)
        test_fail(__FILE__, __LINE__, "%s: %d of %d refused", v->name, refused, count);
}

TEST(data, flipped_bytes_of_every_kind_of_file_are_survived) {
    static const victim kinds[] = {{"episodes.h5", read_episodes},
                                   {"branches.h5", read_branches},
                                   {"pack.h5", read_pack},
                                   {"trials.h5", read_trials}};
    firm_error err;
    episodes* e = sample_episodes(2);
    branches* b = sample_branches(e);
    trial_set* t = sample_trials();
    pack p;
    pack_file made;
    EXPECT(sample_pack(e, b, &p));
    REQUIRE_OK(episodes_write(e, NULL, NULL, temp_path(kinds[0].name), &err), err);
    REQUIRE_OK(branches_write(b, temp_path(kinds[1].name), &err), err);
    REQUIRE_OK(pack_write(&p, NULL, NULL, temp_path(kinds[2].name), &made, &err), err);
    REQUIRE_OK(trial_set_write(t, t->rows, temp_path(kinds[3].name), &err), err);
    for (int i = 0; i < 4; i++) flip(temp_path(kinds[i].name), &kinds[i], e, 30);
    trial_set_free(t);
    pack_free(&p);
    branches_free(b);
    episodes_free(e);
}
