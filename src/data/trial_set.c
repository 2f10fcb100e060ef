// trial_set.c - trials as an HDF5 file, out and in. Nothing but the columns' meaning is known here;
// src/eval/trials.c draws the trials and runs them.
#include "data/trial_set.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "data/episodes_internal.h"
#include "data/hdf5.h"
#include "data/made_for.h"
#include "env/render/compare.h"

enum {
    FORMAT = 1,        // attribute `format_version`; another layout gets another number
    CHUNK_ROWS = 100,  // a chunk is stored whole, so few rows keep a small file small
    PIXEL_CHUNK = 4    // a trial's pictures
};

static firm_status no_memory(const char* path, firm_error* err) {
    return FAIL(err, FIRM_E_MEMORY, "no memory for the trials of %s", path);
}

// ---- in memory ----------------------------------------------------------------------------------

firm_status trial_set_create(const env_spec* spec, int count, trial_set** out, firm_error* err) {
    *out = NULL;
    trial_set* s = mem_calloc(1, sizeof *s);
    firm_status status = s ? episodes_alloc(spec, count, (int64_t)count * TRIAL_ROWS, &s->rows, err)
                           : no_memory(spec->task.name, err);
    if (status == FIRM_OK) {
        s->count = count;
        s->row = mem_calloc((size_t)count, sizeof *s->row);
        s->episode = mem_calloc((size_t)count, sizeof *s->episode);
        s->draw = mem_calloc((size_t)count, sizeof *s->draw);
        if (!s->row || !s->episode || !s->draw) status = no_memory(spec->task.name, err);
    }
    if (status != FIRM_OK) {
        trial_set_free(s);
        return status;
    }
    episodes* e = s->rows;
    for (int i = 0; i < count; i++) {
        e->offset[i] = (int64_t)i * TRIAL_ROWS;
        e->length[i] = TRIAL_ROWS;
    }
    // no action leads from the start to the goal
    for (int64_t i = 0; i < e->rows * spec->task.action_dim; i++) e->action[i] = NAN;
    *out = s;
    return FIRM_OK;
}

void trial_set_free(trial_set* s) {
    if (!s) return;
    episodes_free(s->rows);
    mem_free(s->row);
    mem_free(s->episode);
    mem_free(s->draw);
    mem_free(s);
}

// The actions of trial i, which are the first rows' of its episode.
static float* actions_of(const trial_set* s, int i) {
    return s->rows->action + (int64_t)i * TRIAL_ROWS * s->rows->spec->task.action_dim;
}

// Over all that an evaluation reads, attributes included.
static uint64_t checksum_of(const trial_set* s) {
    const env_spec* spec = s->rows->spec;
    const size_t n = (size_t)s->count, a = (size_t)spec->task.action_dim;
    const uint64_t number[] = {(uint64_t)s->offset,
                               (uint64_t)(s->unsolved | s->training << 1 | (int)s->drawn << 2),
                               s->seed,
                               s->split_seed,
                               s->rows->hash,
                               s->rows->seed,
                               s->trials_hash};
    uint64_t h = hdf5_hash(HDF5_HASH_START, number, sizeof number);
    h = hdf5_hash(h, s->row, n * sizeof *s->row);
    h = hdf5_hash(h, s->episode, n * sizeof *s->episode);
    h = hdf5_hash(h, s->draw, n * sizeof *s->draw);
    h = hdf5_hash(h, s->rows->state,
                  n * TRIAL_ROWS * (size_t)spec->state->dim * sizeof *s->rows->state);
    for (int i = 0; i < s->count; i++)
        h = hdf5_hash(h, actions_of(s, i), TRIAL_ACTIONS * a * sizeof(float));
    h = hdf5_hash(h, s->action_mean, a * sizeof(float));
    return hdf5_hash(h, s->action_std, a * sizeof(float));
}

// ---- writing ------------------------------------------------------------------------------------

static firm_status write_attributes(hdf5_writer* w, const trial_set* s, firm_error* err) {
    const env_spec* spec = s->rows->spec;
    char text[32];
    TRY(made_for_put(w, spec, err));
    TRY(hdf5_put_text(w, "kind", "trials", err));
    snprintf(text, sizeof text, "%d.%d.%d", FIRM_VERSION / 10000, FIRM_VERSION / 100 % 100,
             FIRM_VERSION % 100);
    TRY(hdf5_put_text(w, "version", text, err));
    TRY(hdf5_put_text(w, "physics", spec->sim->physics, err));
    TRY(hdf5_put_text(w, "renderer", render_label(spec), err));
    const struct {
        const char* name;
        uint64_t value;
    } number[] = {
        {"format_version", FORMAT},          {"offset", (uint64_t)s->offset},
        {"unsolved", (uint64_t)s->unsolved}, {"seed", s->seed},
        {"split_seed", s->split_seed},       {"data_hash", s->rows->hash},
        {"data_seed", s->rows->seed},        {"trials_hash", s->trials_hash},
        {"checksum", checksum_of(s)},
    };
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        TRY(hdf5_put_u64(w, number[i].name, number[i].value, err));
    if (s->drawn) TRY(hdf5_put_u64(w, "drawn", (uint64_t)s->drawn, err));
    // trials of an evaluation do without
    return s->training ? hdf5_put_u64(w, "training", 1, err) : FIRM_OK;
}

static firm_status write_column(hdf5_writer* w, const char* name, hid_t file_type, hid_t type,
                                int rank, const hsize_t* dims, const void* data, firm_error* err) {
    const int64_t rows = (int64_t)dims[0];
    hid_t dataset;
    TRY(hdf5_dataset(w, name, file_type, rank, dims, rows < CHUNK_ROWS ? rows : CHUNK_ROWS, 0,
                     &dataset, err));
    firm_status status = hdf5_put_rows(w, dataset, type, 0, rows, data, err);
    if (H5Dclose(dataset) < 0 && status == FIRM_OK)
        status = FAIL(err, FIRM_E_IO, "cannot finish '%s' of %s; check free space and memory", name,
                      w->path);
    return status;
}

static firm_status write_columns(hdf5_writer* w, const trial_set* s, const float* action,
                                 firm_error* err) {
    const hsize_t n = (hsize_t)s->count, a = (hsize_t)s->rows->spec->task.action_dim,
                  dim = (hsize_t)s->rows->spec->state->dim;
    const hid_t i32 = H5T_STD_I32LE, i64 = H5T_STD_I64LE, f32 = H5T_IEEE_F32LE;
    const struct {
        const char* name;
        hid_t file_type, type;
        int rank;
        hsize_t dims[3];
        const void* data;
    } column[] = {
        {"row", i64, H5T_NATIVE_INT64, 1, {n}, s->row},
        {"episode", i32, H5T_NATIVE_INT32, 1, {n}, s->episode},
        {"draw", i32, H5T_NATIVE_INT32, 1, {n}, s->draw},
        {"state", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 3, {n, TRIAL_ROWS, dim}, s->rows->state},
        {"action", f32, H5T_NATIVE_FLOAT, 3, {n, TRIAL_ACTIONS, a}, action},
        {"action_mean", f32, H5T_NATIVE_FLOAT, 1, {a}, s->action_mean},
        {"action_std", f32, H5T_NATIVE_FLOAT, 1, {a}, s->action_std},
    };
    for (size_t i = 0; i < sizeof column / sizeof *column; i++)
        TRY(write_column(w, column[i].name, column[i].file_type, column[i].type, column[i].rank,
                         column[i].dims, column[i].data, err));
    return FIRM_OK;
}

// Row k of trial i in the data set.
static int64_t source_row(const trial_set* s, int i, int k) {
    return k < FIRM_HISTORY ? s->row[i] - (FIRM_HISTORY - 1) + k : s->row[i] + s->offset;
}

static firm_status write_pixels(hdf5_writer* w, const trial_set* s, const episodes* source,
                                firm_error* err) {
    if (!source->pixels) return FIRM_OK;  // drawn again from the states: the same bytes
    const task_typed* task = &s->rows->spec->task;
    const hsize_t side = (hsize_t)task->image;
    const hsize_t dims[4] = {(hsize_t)s->rows->rows, side, side, 3};
    uint8_t* rgb = mem_alloc(task_frame_bytes(task));
    hid_t dataset = -1;
    firm_status status =
        rgb ? hdf5_dataset(w, "pixels", H5T_STD_U8LE, 4, dims, PIXEL_CHUNK, 1, &dataset, err)
            : no_memory(w->path, err);
    for (int64_t i = 0; i < s->rows->rows && status == FIRM_OK; i++) {
        int64_t row = source_row(s, (int)(i / TRIAL_ROWS), (int)(i % TRIAL_ROWS));
        if (hdf5_get_row(source->pixels, "pixels", row, rgb))
            status = FAIL(err, FIRM_E_IO,
                          "cannot read the data set's frame of row %" PRId64
                          "; install hdf5-filter-plugin-blosc-serial, or the file is damaged",
                          row);
        else
            status = hdf5_put_rows(w, dataset, H5T_NATIVE_UINT8, i, 1, rgb, err);
    }
    if (dataset >= 0 && H5Dclose(dataset) < 0 && status == FIRM_OK)
        status = FAIL(err, FIRM_E_IO, "cannot finish 'pixels' of %s; check free space and memory",
                      w->path);
    mem_free(rgb);
    return status;
}

firm_status trial_set_write(const trial_set* s, const episodes* source, const char* path,
                            firm_error* err) {
    const size_t each = TRIAL_ACTIONS * (size_t)s->rows->spec->task.action_dim;
    float* action = mem_alloc((size_t)s->count * each * sizeof *action);
    if (!action) return no_memory(path, err);
    for (int i = 0; i < s->count; i++)
        memcpy(action + (size_t)i * each, actions_of(s, i), each * sizeof *action);
    hdf5_writer w;
    firm_status status = hdf5_create(&w, path, err);
    if (status == FIRM_OK) {
        status = write_attributes(&w, s, err);
        if (status == FIRM_OK) status = write_columns(&w, s, action, err);
        if (status == FIRM_OK) status = write_pixels(&w, s, source, err);
        if (status == FIRM_OK)
            status = hdf5_commit(&w, err);
        else
            hdf5_abandon(&w);
    }
    mem_free(action);
    return status;
}

// ---- reading ------------------------------------------------------------------------------------

static firm_status check_kind(hdf5_file* file, const char* path, const env_spec* spec,
                              firm_error* err) {
    char kind[32], task[TASK_NAME];
    made_for_name(file, task);
    uint64_t format = 0;
    if (!hdf5_get_text(file, "kind", kind, sizeof kind) || strcmp(kind, "trials") != 0)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s does not hold trials; give a file made by `firm trials`", path);
    if (strcmp(task, spec->task.name) != 0)
        return FAIL(err, FIRM_E_TASK,
                    "%s holds trials of '%s', not of '%s'; name the task they were made for", path,
                    task, spec->task.name);
    TRY(made_for_check(file, path, spec, err));
    if (!hdf5_get_u64(file, "format_version", &format) || format != FORMAT)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s has format version %" PRIu64
                    " where this program reads %d; write it again with this `firm trials`",
                    path, format, FORMAT);
    return FIRM_OK;
}

static firm_status misfit(const char* path, firm_error* err) {
    return FAIL(err, FIRM_E_FORMAT,
                "the columns of %s do not fit each other; run `firm trials` again", path);
}

static firm_status check_shapes(hdf5_file* file, const char* path, const env_spec* spec, int* count,
                                firm_error* err) {
    const int64_t a = spec->task.action_dim;
    int rank;
    int64_t n[HDF5_MAX_RANK], dims[HDF5_MAX_RANK];
    TRY(hdf5_shape(file, "row", &rank, n, err));
    if (rank != 1 || n[0] < 1 || n[0] > TRIAL_SET_MAX) return misfit(path, err);
    const struct {
        const char* name;
        int rank;
        int64_t dims[3];
    } want[] = {
        {"episode", 1, {n[0]}},
        {"draw", 1, {n[0]}},
        {"state", 3, {n[0], TRIAL_ROWS, spec->state->dim}},
        {"action", 3, {n[0], TRIAL_ACTIONS, a}},
        {"action_mean", 1, {a}},
        {"action_std", 1, {a}},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        TRY(hdf5_shape(file, want[i].name, &rank, dims, err));
        if (rank != want[i].rank || memcmp(dims, want[i].dims, sizeof *dims * (size_t)rank) != 0)
            return misfit(path, err);
    }
    *count = (int)n[0];
    return FIRM_OK;
}

static firm_status read_attributes(hdf5_file* file, const char* path, trial_set* s,
                                   uint64_t* checksum, firm_error* err) {
    uint64_t offset, unsolved, training = 0, drawn = TRIAL_ANY;
    const struct {
        const char* name;
        uint64_t* to;
    } number[] = {
        {"offset", &offset},
        {"unsolved", &unsolved},
        {"seed", &s->seed},
        {"split_seed", &s->split_seed},
        {"data_hash", &s->rows->hash},
        {"data_seed", &s->rows->seed},
        {"trials_hash", &s->trials_hash},
        {"checksum", checksum},
    };
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        if (!hdf5_get_u64(file, number[i].name, number[i].to))
            return FAIL(err, FIRM_E_FORMAT, "%s has no attribute '%s'; run `firm trials` again",
                        path, number[i].name);
    hdf5_get_u64(file, "training", &training);
    hdf5_get_u64(file, "drawn", &drawn);
    // seeds go through JSON, which is exact up to 2^53
    if (offset < 1 || offset > TRIAL_OFFSET_MAX || unsolved > 1 || training > 1 ||
        drawn > TRIAL_FRESH || s->seed > 1ull << 53)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s says offset %" PRIu64 ", unsolved %" PRIu64 ", training %" PRIu64
                    ", drawn %" PRIu64 ", seed %" PRIu64
                    ", which cannot be; run `firm trials` again",
                    path, offset, unsolved, training, drawn, s->seed);
    s->drawn = (trial_draw)drawn;
    s->training = (int)training;
    s->offset = (int)offset;
    s->unsolved = (int)unsolved;
    return FIRM_OK;
}

static firm_status read_columns(hdf5_file* file, const char* path, trial_set* s, firm_error* err) {
    const size_t each = TRIAL_ACTIONS * (size_t)s->rows->spec->task.action_dim;
    TRY(hdf5_get(file, "row", HDF5_INT64, s->row, err));
    TRY(hdf5_get(file, "episode", HDF5_INT32, s->episode, err));
    TRY(hdf5_get(file, "draw", HDF5_INT32, s->draw, err));
    TRY(hdf5_get(file, "state", HDF5_DOUBLE, s->rows->state, err));
    TRY(hdf5_get(file, "action_mean", HDF5_FLOAT, s->action_mean, err));
    TRY(hdf5_get(file, "action_std", HDF5_FLOAT, s->action_std, err));
    float* action = mem_alloc((size_t)s->count * each * sizeof *action);
    if (!action) return no_memory(path, err);
    firm_status status = hdf5_get(file, "action", HDF5_FLOAT, action, err);
    for (int i = 0; i < s->count && status == FIRM_OK; i++)
        memcpy(actions_of(s, i), action + (size_t)i * each, each * sizeof *action);
    mem_free(action);
    return status;
}

// Rows ascend, no trial starts before an episode's third row, and `draw` names each place once.
static firm_status check_order(const char* path, const trial_set* s, firm_error* err) {
    uint8_t* taken = mem_calloc((size_t)s->count, 1);
    if (!taken) return no_memory(path, err);
    firm_status status = FIRM_OK;
    for (int i = 0; i < s->count && status == FIRM_OK; i++) {
        if (s->row[i] < FIRM_HISTORY - 1 || s->row[i] > INT32_MAX || s->episode[i] < 0 ||
            s->episode[i] > s->row[i] || s->draw[i] < 0 || s->draw[i] >= s->count ||
            taken[s->draw[i]] ||
            (i && (s->row[i] <= s->row[i - 1] || s->episode[i] < s->episode[i - 1])))
            status = FAIL(err, FIRM_E_VALUE,
                          "trial %d of %s (row %" PRId64 ", episode %" PRId32 ", draw %" PRId32
                          ") does not fit the others; run `firm trials` again",
                          i, path, s->row[i], s->episode[i], s->draw[i]);
        else
            taken[s->draw[i]] = 1;
    }
    mem_free(taken);
    return status;
}

static firm_status check_numbers(const char* path, const trial_set* s, firm_error* err) {
    const env_spec* spec = s->rows->spec;
    for (int64_t row = 0; row < s->rows->rows; row++) {
        const double* state = s->rows->state + row * spec->state->dim;
        int fine = 1;
        for (int k = 0; k < spec->state->dim; k++) fine = fine && isfinite(state[k]);
        if (!fine || !env_fits(spec, state))
            return FAIL(err, FIRM_E_VALUE, "a state of trial %d of %s %s; run `firm trials` again",
                        (int)(row / TRIAL_ROWS), path,
                        fine ? "cannot occur in the task" : "is not finite");
    }
    for (int i = 0; i < s->count; i++)
        for (int k = 0; k < TRIAL_ACTIONS * spec->task.action_dim; k++)
            if (!isfinite(actions_of(s, i)[k]))
                return FAIL(err, FIRM_E_VALUE,
                            "an action of trial %d of %s is not finite; run `firm trials` again", i,
                            path);
    for (int k = 0; k < spec->task.action_dim; k++)
        if (!isfinite(s->action_mean[k]) || !isfinite(s->action_std[k]) || s->action_std[k] <= 0)
            return FAIL(err, FIRM_E_VALUE,
                        "the action statistics of %s cannot be; run `firm trials` again", path);
    return FIRM_OK;
}

static firm_status fill(hdf5_file* file, const char* path, trial_set* s, firm_error* err) {
    uint64_t checksum;
    TRY(read_attributes(file, path, s, &checksum, err));
    TRY(read_columns(file, path, s, err));
    TRY(check_order(path, s, err));
    TRY(check_numbers(path, s, err));
    if (checksum != checksum_of(s))
        return FAIL(err, FIRM_E_FORMAT,
                    "%s does not match its checksum: it was changed or damaged; copy it or run "
                    "`firm trials` again",
                    path);
    return episodes_open_pixels(file, path, s->rows, err);
}

static firm_status read_open(hdf5_file* file, const char* path, const env_spec* spec,
                             trial_set** out, firm_error* err) {
    int count;
    trial_set* s;
    TRY(check_kind(file, path, spec, err));
    TRY(check_shapes(file, path, spec, &count, err));
    TRY(trial_set_create(spec, count, &s, err));
    firm_status status = fill(file, path, s, err);
    if (status == FIRM_OK)
        *out = s;
    else
        trial_set_free(s);
    return status;
}

firm_status trial_set_read(const char* path, const env_spec* spec, trial_set** out,
                           firm_error* err) {
    *out = NULL;
    hdf5_file* file;
    TRY(hdf5_open(path, &file, err));
    firm_status status = read_open(file, path, spec, out, err);
    // a file with pictures stays open with the rows
    if (status != FIRM_OK || !(*out)->rows->pixels) hdf5_close(file);
    return status;
}
