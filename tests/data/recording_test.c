// recording_test.c - recorded data alone: what is read is what was recorded, and what cannot be
// used is refused with the place and the cure.
#include "recording.h"

#include "core/log.h"
#include "data/stats.h"
#include "support.h"

static const env_spec* robot(const char* name, const char* words) {
    const env_spec* spec = NULL;
    firm_error err = {0};
    FILE* f = fopen(temp_path(name), "w");
    if (!f || fputs(words, f) < 0 || fclose(f) != 0) return NULL;
    if (env_open_task(temp_path(name), &spec, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", name, err.message);
    return spec;
}

static pool* workers(void) {
    static pool* p;
    firm_error err;
    if (!p && pool_create(1, &p, &err) != FIRM_OK) test_fail(__FILE__, __LINE__, "%s", err.message);
    return p;
}

TEST(data, recording_is_read_as_recorded) {
    const env_spec* spec = robot("read.ini", RECORDING_TASK);
    firm_error err = {0};
    for (int way = 0; way < 3; way++) {
        episodes *e = small_set(3, 5, workers()), *got;
        if (!e || !spec) return;
        recording r = {.by_index = way == 1, .whole = way == 2};
        int lengths[3] = {e->length[0], e->length[1], e->length[2]};
        if (!recording_write(&r, e, temp_path("read.h5"))) return;
        REQUIRE_OK(episodes_read(temp_path("read.h5"), spec, &got, &err), err);
        EXPECT_INT(got->count, 3);
        for (int i = 0; i < 3; i++) EXPECT_INT(got->length[i], lengths[i]);
        EXPECT_INT(got->rows, e->rows);
        EXPECT(got->pixels != NULL);
        float c[2], d[2];
        int64_t row = got->offset[1] + 4;
        env_config(spec, got->state + 2 * row, c);
        env_config(e->spec, e->state + 2 * row, d);
        EXPECT_NEAR(c[0], d[0], way == 2 ? 0.5 / 112 : 0);
        EXPECT_NEAR(c[1], d[1], way == 2 ? 0.5 / 112 : 0);
        EXPECT_NEAR(got->action[2 * row + 1], e->action[2 * row + 1], 0);
        EXPECT(isnan(got->action[2 * (got->offset[1] + got->length[1] - 1)]));
        EXPECT(!env_success(spec, got->state, got->state + 2 * (got->length[0] - 1)));
        episodes_free(got);
        episodes_free(e);
    }
}

TEST(data, recording_pictures_are_resized) {
    const env_spec* spec = robot("sized.ini", RECORDING_TASK);
    firm_error err = {0};
    static const int sizes[][2] = {{0, 0}, {96, 128}, {300, 240}};
    for (int i = 0; i < 3; i++) {
        episodes *e = small_set(2, 5, workers()), *got;
        if (!e || !spec) return;
        recording r = {.height = sizes[i][0], .width = sizes[i][1]};
        frames *plain, *f;
        const size_t bytes = (size_t)spec->task.image * (size_t)spec->task.image * 3;
        uint8_t *a = malloc(bytes), *b = malloc(bytes);
        if (!recording_write(&r, e, temp_path("sized.h5"))) return;
        REQUIRE_OK(episodes_read(temp_path("sized.h5"), spec, &got, &err), err);
        REQUIRE_OK(frames_open(e, 1, 0, &plain, &err), err);
        REQUIRE_OK(frames_open(got, 2, 0, &f, &err), err);
        int64_t row = got->rows - 3;
        EXPECT_INT(frames_get(plain, 0, row, a), FIRM_OK);
        EXPECT_INT(frames_get(f, 1, row, b), FIRM_OK);
        EXPECT_INT(frames_render(f, 0, got->state, b), FIRM_E_UNAVAILABLE);
        EXPECT_INT(frames_get(f, 1, row, b), FIRM_OK);
        if (i > 0) {  // what resize.c makes of the recorded picture
            resize* fit;
            REQUIRE_OK(resize_create(r.height, r.width, spec->task.image, &fit, &err), err);
            recording_picture(a, spec->task.image, r.height, r.width, resize_source(fit));
            resize_run(fit, resize_source(fit), a);
            resize_free(fit);
        }
        EXPECT(memcmp(a, b, bytes) == 0);
        frames_free(plain);
        frames_free(f);
        episodes_free(got);
        episodes_free(e);
        free(a);
        free(b);
    }
}

static void expect_bad(const recording* harm, const char* words, const char* says) {
    recording small = *harm, *r = &small;
    if (!r->height) r->height = r->width = 16;  // what is refused is not looked at
    static int number;
    char name[32];
    firm_error err = {0};
    episodes *e = small_set(3, 5, workers()), *got;
    snprintf(name, sizeof name, "bad%d.ini", number++);
    const env_spec* spec = robot(name, words ? words : RECORDING_TASK);
    if (!e || !spec || !recording_write(r, e, temp_path("bad.h5"))) return;
    firm_status status = episodes_read(temp_path("bad.h5"), spec, &got, &err);
    if (status == FIRM_OK) {
        test_fail(__FILE__, __LINE__, "'%s' was accepted", says);
        episodes_free(got);
    } else if (!strstr(err.message, says) || strchr(err.message, '\n')) {
        test_fail(__FILE__, __LINE__, "'%s' instead of '%s'", err.message, says);
    }
    episodes_free(e);
}

TEST(data, recording_refusals) {
    static const char* const columns[] = {"camera", "pose", "motor", "stamp"};
    char says[64];
    for (size_t i = 0; i < 4; i++) {
        snprintf(says, sizeof says, "has no column '%s'", columns[i]);
        expect_bad(&(recording){.leave_out = columns[i]}, NULL, says);
    }
    expect_bad(&(recording){.leave_out = "ep_len"}, NULL, "nothing in");
    expect_bad(&(recording){.short_column = "camera"}, NULL, "bring them together");
    expect_bad(&(recording){.short_column = "pose"}, NULL, "bring them together");
    expect_bad(&(recording){.short_column = "motor"}, NULL, "bring them together");
    expect_bad(&(recording){.cut = 27}, NULL, "episode 1 of");
    expect_bad(&(recording){.cut = 27}, NULL, "need 28");
    expect_bad(&(recording){.height = 7, .width = 64}, NULL, "holds no pictures");
    expect_bad(&(recording){.late = 0.03}, NULL, "rows 6 and 7 of episode 0");
    expect_bad(&(recording){.late = -0.06}, NULL, "apart where period_ms says 50");
    expect_bad(&(recording){.late = NAN}, NULL, "apart where period_ms says 50");
    expect_bad(&(recording){.action = NAN}, NULL, "'motor' of");
    expect_bad(&(recording){.action = 1.03f}, NULL, "write the true low and high");
    expect_bad(&(recording){0},
               "[task]\nname = r\nimage = pose\naction = motor\nperiod_ms = 5\n"
               "[action]\ncount = 2\n[config]\na = pose\n[distance]\nd = norm a, 1 m, 1\n",
               "holds no pictures");
    expect_bad(&(recording){0},
               "[task]\nname = r\nimage = camera\naction = motor\nperiod_ms = 5\n"
               "[action]\ncount = 3\n[config]\na = pose\n[distance]\nd = norm a, 1 m, 1\n",
               "write count = 2");
    expect_bad(&(recording){0},
               "[task]\nname = r\nimage = camera\naction = motor\nperiod_ms = 5\n"
               "[action]\ncount = 2\n[config]\na = pose[2]\n[distance]\nd = norm a, 1 m, 1\n",
               "there is no pose[2]");
    expect_bad(
        &(recording){0},
        "[task]\nname = r\nimage = camera\naction = motor\nperiod_ms = 5\n"
        "[action]\ncount = 2\n[config]\na = sqrt(pose[0] - 200)\n[distance]\nd = norm a, 1 m, 1\n",
        "the coordinate a is not finite in episode");
}

TEST(data, recording_with_a_number_that_is_none) {
    firm_error err = {0};
    episodes *e = small_set(3, 5, workers()), *got;
    const env_spec* spec = robot("nan.ini", RECORDING_TASK);
    if (!e || !spec) return;
    double* state = malloc(2 * (size_t)e->rows * sizeof *state);
    for (int64_t i = 0; i < 2 * e->rows; i++) state[i] = 100;
    state[2 * (e->offset[2] + 5)] = NAN;
    if (!recording_write(&(recording){.state = state}, e, temp_path("nan.h5"))) return;
    expect_failure(episodes_read(temp_path("nan.h5"), spec, &got, &err), FIRM_E_VALUE, &err,
                   "pose[0]");
    EXPECT(strstr(err.message, "episode 2, row 5"));
    free(state);
    episodes_free(e);
}

// What can be used but looks wrong is said aloud.
static char warned[2048];
static void note(void* user, firm_log_level level, const char* text) {
    (void)user;
    if (level == FIRM_LOG_WARN)
        snprintf(warned + strlen(warned), sizeof warned - strlen(warned), "%s\n", text);
}

TEST(data, recording_warnings) {
    firm_error err = {0};
    episodes *e = small_set(3, 5, workers()), *got;
    const env_spec* spec =
        robot("warn.ini",
              "[task]\nname = r\nimage = camera\naction = motor\nperiod_ms = 5\n"
              "[action]\ncount = 2\n[config]\nstill = 0 * pose\nhuge = pose[1]\nfine = pose / 200\n"
              "[distance]\nd = norm still huge fine, 1 m, 1\n");
    if (!e || !spec || !recording_write(&(recording){0}, e, temp_path("warn.h5"))) return;
    warned[0] = 0;
    firm_set_log(note, NULL);
    firm_status status = episodes_read(temp_path("warn.h5"), spec, &got, &err);
    firm_set_log(NULL, NULL);
    REQUIRE_OK(status, err);
    EXPECT(strstr(warned, "the coordinate still of") && strstr(warned, "0 throughout"));
    EXPECT(strstr(warned, "the coordinate huge of") && strstr(warned, "divide it in [config]"));
    EXPECT(!strstr(warned, "fine"));
    episodes_free(got);
    episodes_free(e);
}

// The process that reads a file keeps a bounded number of unpacked chunks, however many there are.
TEST(data, recording_of_many_pictures_is_read_at_random) {
    enum { BYTES = 224 * 224 * 3 };
    // as many as the reader's memory does not hold; a sanitizer has no such limit, so there a few
    // more than its cache
    const int chunks = test_short() ? 60 : 480;
    const hsize_t dims[4] = {16 * (hsize_t)chunks, 224, 224, 3};
    firm_error err = {0};
    hdf5_writer w;
    hdf5_file* f;
    hid_t set;
    uint8_t* rgb = calloc(16, BYTES);
    REQUIRE_OK(hdf5_create(&w, temp_path("many.h5"), &err), err);
    REQUIRE_OK(hdf5_dataset(&w, "camera", H5T_STD_U8LE, 4, dims, 16, 1, &set, &err), err);
    for (int i = 0; i < chunks; i++) {
        rgb[0] = (uint8_t)i;
        REQUIRE_OK(hdf5_put_rows(&w, set, H5T_NATIVE_UINT8, 16 * i, 16, rgb, &err), err);
    }
    H5Dclose(set);
    REQUIRE_OK(hdf5_commit(&w, &err), err);
    REQUIRE_OK(hdf5_open(temp_path("many.h5"), &f, &err), err);
    int bad = 0;
    for (int i = 0; i < chunks && !bad; i++) {
        int chunk = i * 7 % chunks;
        bad = hdf5_get_row(f, "camera", 16 * chunk, rgb) || rgb[0] != (uint8_t)chunk;
        if (bad) test_fail(__FILE__, __LINE__, "picture %d, after %d others", 16 * chunk, i);
    }
    hdf5_close(f);
    free(rgb);
}
