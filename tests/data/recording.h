// recording.h - a data set as a robot would record it, for the tests of recorded data alone:
// TwoRoom episodes under other column names, with harm where a test asks for it.
#ifndef TESTS_DATA_RECORDING_H
#define TESTS_DATA_RECORDING_H

#include "check.h"
#include "core/mem.h"
#include "data/frames.h"
#include "data/hdf5.h"
#include "data/resize.h"

#define RECORDING_TASK                                                                     \
    "[task]\nname = robot\nimage = camera\naction = motor\ntime = stamp\nperiod_ms = 50\n" \
    "cost = sum\n[action]\ncount = 2\nclamped = yes\n"                                     \
    "[config]\nagent_x = pose[1] / 112 - 1\nagent_y = pose[0] / 112 - 1\n"                 \
    "[distance]\nagent = norm agent_x agent_y, 112 px, 16\n"

enum { RECORDING_CHUNK = 8 };  // pictures

typedef struct recording {
    int height, width;         // of the pictures; 0: the task's
    const char* leave_out;     // a column
    const char* short_column;  // a column that lacks its last row
    int by_index;              // ep_idx instead of ep_len
    int cut;                   // rows that the second episode keeps; 0: all
    double* state;             // (rows, 2) y, x instead of the recorded ones; NULL: those
    float action;              // of episode 1, row 3; 0: as recorded
    double late;               // seconds that row 7 of episode 0 comes late
    int arm;                   // columns qpos and xpos, as examples/tasks/robot.ini has them
    int whole;                 // poses as whole numbers
} recording;

static inline int recording_has(const recording* r, const char* name) {
    return !r->leave_out || strcmp(r->leave_out, name) != 0;
}

static inline hsize_t recording_rows(const recording* r, const char* name, int64_t rows) {
    return (hsize_t)(r->short_column && strcmp(r->short_column, name) == 0 ? rows - 1 : rows);
}

// A picture of another size: of each pixel the nearest.
static inline void recording_picture(const uint8_t* rgb, int size, int h, int width, uint8_t* out) {
    for (int y = 0; y < h; y++)
        for (int x = 0; x < width; x++) {
            int from = (2 * y + 1) * size / (2 * h) * size + (2 * x + 1) * size / (2 * width);
            memcpy(out + 3 * (y * width + x), rgb + 3 * from, 3);
        }
}

static inline firm_status recording_pictures(hdf5_writer* w, const recording* r, const episodes* e,
                                             firm_error* err) {
    const int size = e->spec->task.image, h = r->height ? r->height : size,
              width = r->width ? r->width : size;
    frames* f;
    hid_t set;
    const hsize_t dims[4] = {recording_rows(r, "camera", e->rows), (hsize_t)h, (hsize_t)width, 3};
    uint8_t* rgb = malloc((size_t)size * (size_t)size * 3);
    const size_t bytes = (size_t)h * (size_t)width * 3;
    uint8_t* out = malloc(RECORDING_CHUNK * bytes);
    TRY(frames_open(e, 1, 0, &f, err));
    TRY(hdf5_dataset(w, "camera", H5T_STD_U8LE, 4, dims, RECORDING_CHUNK, 1, &set, err));
    // whole chunks: a part of one would be unpacked and packed again
    int64_t some;
    for (int64_t row = 0; row < (int64_t)dims[0]; row += some) {
        const int64_t left = (int64_t)dims[0] - row;
        some = left < RECORDING_CHUNK ? left : RECORDING_CHUNK;
        for (int64_t i = 0; i < some; i++) {
            TRY(frames_get(f, 0, row + i, rgb));
            recording_picture(rgb, size, h, width, out + (size_t)i * bytes);
        }
        TRY(hdf5_put_rows(w, set, H5T_NATIVE_UINT8, row, some, out, err));
    }
    H5Dclose(set);
    frames_free(f);
    free(rgb);
    free(out);
    return FIRM_OK;
}

static inline firm_status recording_numbers(hdf5_writer* w, const recording* r, const episodes* e,
                                            firm_error* err) {
    const size_t n = (size_t)e->rows;
    double *pose = malloc(2 * n * sizeof *pose), *stamp = malloc(n * sizeof *stamp);
    int32_t* index = malloc(n * sizeof *index);
    for (int i = 0; i < e->count; i++)
        for (int t = 0; t < e->length[i]; t++) {
            int64_t row = e->offset[i] + t;
            pose[2 * row] = r->state ? r->state[2 * row] : e->state[2 * row + 1];
            pose[2 * row + 1] = r->state ? r->state[2 * row + 1] : e->state[2 * row];
            if (r->whole)
                for (int k = 0; k < 2; k++) pose[2 * row + k] = round(pose[2 * row + k]);
            stamp[row] = 1000.0 + 0.05 * t + (i == 0 && t >= 7 ? r->late : 0);
            index[row] = 3 * i;
        }
    if (r->action != 0) e->action[2 * (e->offset[1] + 3)] = r->action;
    const hsize_t dims[2] = {recording_rows(r, "pose", e->rows), 2}, rows = (hsize_t)e->rows;
    const hsize_t motor[2] = {recording_rows(r, "motor", e->rows), 2}, count = (hsize_t)e->count;
    const hid_t d = H5T_NATIVE_DOUBLE;
    for (size_t i = 0; r->arm && i < 2 * n; i++) pose[i] /= 200;  // rad, m
    if (r->arm) {
        TRY(hdf5_put(w, "qpos", H5T_IEEE_F64LE, d, 2, dims, pose, err));
        TRY(hdf5_put(w, "xpos", H5T_IEEE_F64LE, d, 2, dims, pose, err));
    } else if (recording_has(r, "pose"))
        TRY(hdf5_put(w, "pose", r->whole ? H5T_STD_I32LE : H5T_IEEE_F64LE, d, 2, dims, pose, err));
    if (recording_has(r, "stamp"))
        TRY(hdf5_put(w, "stamp", H5T_IEEE_F64LE, d, 1, &rows, stamp, err));
    if (recording_has(r, "motor"))
        TRY(hdf5_put(w, "motor", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 2, motor, e->action, err));
    if (r->by_index)
        TRY(hdf5_put(w, "ep_idx", H5T_STD_I32LE, H5T_NATIVE_INT32, 1, &rows, index, err));
    else if (recording_has(r, "ep_len"))
        TRY(hdf5_put(w, "ep_len", H5T_STD_I32LE, H5T_NATIVE_INT32, 1, &count, e->length, err));
    free(pose);
    free(stamp);
    free(index);
    return FIRM_OK;
}

// Writes the episodes as a recording; e is spoilt afterwards.
static inline int recording_write(const recording* r, episodes* e, const char* path) {
    firm_error err = {0};
    hdf5_writer w;
    if (r->cut) {  // the second episode ends early, and so does the file
        e->length[1] = r->cut;
        e->count = 2;
        e->rows = e->offset[1] + r->cut;
    }
    firm_status status = hdf5_create(&w, path, &err);
    if (status == FIRM_OK) status = recording_numbers(&w, r, e, &err);
    if (status == FIRM_OK && recording_has(r, "camera"))
        status = recording_pictures(&w, r, e, &err);
    if (status == FIRM_OK) status = hdf5_commit(&w, &err);
    if (status != FIRM_OK) test_fail(__FILE__, __LINE__, "%s: %s", path, err.message);
    return status == FIRM_OK;
}

#endif
