// episodes_read.c - reads a data set written here or by the public tools, and checks it before
// anything else sees it: the task, the columns' widths and lengths, that every number is finite
// where it must be, and the checksum where there is one. Each refusal is one sentence that names
// the file and the cure.
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "data/episodes_internal.h"
#include "data/made_for.h"

typedef struct source {
    hdf5_file* file;
    const char* path;
    const env_spec* spec;
    int fields;  // columns of the state, by the names found
    state_field field[STATE_FIELDS];
} source;

static int width_of(void* user, const char* column) {
    return hdf5_width(((source*)user)->file, column);
}

// ---- is it this task's? -------------------------------------------------------------------------

// All that is needed, as wide as the task has it.
static int complete(const source* s) {
    int fits = hdf5_width(s->file, "action") == s->spec->task.action_dim &&
               hdf5_width(s->file, "ep_len") == 1 && hdf5_width(s->file, "ep_offset") == 1;
    for (int i = 0; i < s->fields; i++)
        fits = fits && hdf5_width(s->file, s->field[i].name) == s->field[i].width;
    return fits;
}

static firm_status check_task(source* s, firm_error* err) {
    char kind[32], task[TASK_NAME], columns[192];
    hdf5_list(s->file, columns, sizeof columns);
    if (hdf5_get_text(s->file, "kind", kind, sizeof kind) && strcmp(kind, "episodes") != 0)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s holds %s, not episodes; give a file made by `firm collect`", s->path, kind);
    s->fields = episodes_state_fields(s->spec, s->field);
    for (int i = 0;
         i < 3 && !hdf5_width(s->file, s->field[0].name) && s->spec->layout->state_also[i]; i++)
        if (hdf5_width(s->file, s->spec->layout->state_also[i]))
            s->field[0].name = s->spec->layout->state_also[i];

    // a file with nothing to tell its task by is taken for what it was named as
    made_for_name(s->file, task);
    const char* found = task[0] ? task : env_guess_task(width_of, s);
    if (!found && !complete(s))
        return FAIL(
            err, FIRM_E_FORMAT,
            "%s is not a data set of any known task: it has columns %s; give one made by `firm "
            "collect %s`",
            s->path, columns[0] ? columns : "(none)", s->spec->task.name);
    if (found && strcmp(found, s->spec->task.name) != 0)
        return FAIL(
            err, FIRM_E_TASK,
            "%s looks like a data set of '%s', not of '%s': it has columns %s; name the task it "
            "was made for",
            s->path, found, s->spec->task.name, columns);
    if (found) TRY(made_for_check(s->file, s->path, s->spec, err));
    for (int i = 0; i < s->fields; i++)
        if (!hdf5_width(s->file, s->field[i].name))
            return FAIL(err, FIRM_E_FORMAT, "%s has no column '%s'; it has %s; collect it again",
                        s->path, s->field[i].name, columns);
    return FIRM_OK;
}

static firm_status check_shape(const source* s, const char* name, int width, int64_t rows,
                               firm_error* err) {
    int rank;
    int64_t dims[HDF5_MAX_RANK];
    TRY(hdf5_shape(s->file, name, &rank, dims, err));
    if (dims[0] != rows)
        return FAIL(err, FIRM_E_FORMAT,
                    "column '%s' of %s has %lld rows but the episodes add up to %lld; the file is "
                    "incomplete: collect it again",
                    name, s->path, (long long)dims[0], (long long)rows);
    if (hdf5_width(s->file, name) != width)
        return FAIL(
            err, FIRM_E_TASK,
            "column '%s' of %s has %d numbers per row where %s has %d; name the task it was made "
            "for",
            name, s->path, hdf5_width(s->file, name), s->spec->task.name, width);
    return FIRM_OK;
}

// ---- episodes -----------------------------------------------------------------------------------

static firm_status check_lengths(const source* s, const episodes* e, firm_error* err) {
    int64_t next = 0;
    for (int i = 0; i < e->count; i++) {
        if (e->length[i] < 1 || e->offset[i] != next)
            return FAIL(
                err, FIRM_E_FORMAT,
                "episode %d of %s has %d rows from row %lld on, expected from row %lld; ep_len and "
                "ep_offset do not fit: collect it again",
                i, s->path, e->length[i], (long long)e->offset[i], (long long)next);
        next += e->length[i];
    }
    if (next != e->rows)
        return FAIL(
            err, FIRM_E_FORMAT,
            "the episodes of %s add up to %lld rows, its columns have %lld; collect it again",
            s->path, (long long)next, (long long)e->rows);
    return FIRM_OK;
}

// the per-row episode numbers, where the file has them, must say the same as ep_len
static firm_status check_index(const source* s, const episodes* e, firm_error* err) {
    const char* names[] = {"ep_idx", "episode_idx"};
    for (int k = 0; k < 2; k++) {
        if (!hdf5_width(s->file, names[k])) continue;
        TRY(check_shape(s, names[k], 1, e->rows, err));
        int32_t* index = mem_calloc((size_t)e->rows, sizeof *index);
        if (!index) return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", s->path);
        firm_status status = hdf5_get(s->file, names[k], HDF5_INT32, index, err);
        for (int i = 0; i < e->count && status == FIRM_OK; i++)
            if (index[e->offset[i]] != i || index[e->offset[i] + e->length[i] - 1] != i)
                status = FAIL(err, FIRM_E_FORMAT,
                              "'%s' of %s does not fit ep_len at episode %d; collect it again",
                              names[k], s->path, i);
        mem_free(index);
        TRY(status);
    }
    return FIRM_OK;
}

// the column that holds number k of the state
static const char* field_of(const source* s, int k) {
    int i = 0;
    while (i < s->fields - 1 && k >= s->field[i].at + s->field[i].width) i++;
    return s->field[i].name;
}

static firm_status check_numbers(const source* s, const episodes* e, firm_error* err) {
    const int state = s->spec->state->dim, action = s->spec->task.action_dim;
    for (int i = 0; i < e->count; i++)
        for (int t = 0; t < e->length[i]; t++) {
            const int64_t row = e->offset[i] + t;
            for (int k = 0; k < state; k++)
                if (!isfinite(e->state[row * state + k]))
                    return FAIL(err, FIRM_E_VALUE,
                                "'%s' of %s is not finite in episode %d, row %d; collect it again",
                                field_of(s, k), s->path, i, t);
            if (!env_fits(s->spec, e->state + row * state))
                return FAIL(err, FIRM_E_VALUE,
                            "the state of %s in episode %d, row %d, cannot occur in %s (see "
                            "docs/environments.md); collect it again",
                            s->path, i, t, s->spec->task.name);
            for (int k = 0; k < action && t < e->length[i] - 1; k++)
                if (!isfinite(e->action[row * action + k]))
                    return FAIL(
                        err, FIRM_E_VALUE,
                        "'action' of %s is not finite in episode %d, row %d; only an episode's "
                        "last row may be so: collect it again",
                        s->path, i, t);
        }
    return FIRM_OK;
}

firm_status episodes_open_pixels(hdf5_file* file, const char* path, episodes* e, firm_error* err) {
    if (!hdf5_width(file, "pixels")) return FIRM_OK;
    int rank;
    const int side = e->spec->task.image;
    int64_t dims[HDF5_MAX_RANK];
    TRY(hdf5_shape(file, "pixels", &rank, dims, err));
    if (rank != 4 || dims[0] != e->rows || dims[1] != side || dims[2] != side || dims[3] != 3)
        return FAIL(
            err, FIRM_E_FORMAT,
            "'pixels' of %s does not have %lld frames of %d x %d x 3; collect it again without "
            "--pixels",
            path, (long long)e->rows, side, side);
    if (!hdf5_holds_bytes(file, "pixels"))
        return FAIL(err, FIRM_E_FORMAT, "'pixels' of %s does not hold bytes; collect it again",
                    path);
    e->pixels = file;
    return FIRM_OK;
}

static firm_status read_state(const source* s, episodes* e, firm_error* err) {
    if (s->fields == 1) return hdf5_get(s->file, s->field[0].name, HDF5_DOUBLE, e->state, err);
    const int dim = s->spec->state->dim;
    firm_status status = FIRM_OK;
    for (int i = 0; i < s->fields && status == FIRM_OK; i++) {
        const state_field* f = &s->field[i];
        double* part = mem_calloc((size_t)e->rows, sizeof *part * (size_t)f->width);
        if (!part) return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", s->path);
        status = hdf5_get(s->file, f->name, HDF5_DOUBLE, part, err);
        for (int64_t row = 0; row < e->rows && status == FIRM_OK; row++)
            memcpy(e->state + row * dim + f->at, part + row * f->width,
                   sizeof *part * (size_t)f->width);
        mem_free(part);
    }
    return status;
}

static firm_status fill(const source* s, episodes* e, firm_error* err) {
    TRY(hdf5_get(s->file, "ep_len", HDF5_INT32, e->length, err));
    TRY(hdf5_get(s->file, "ep_offset", HDF5_INT64, e->offset, err));
    TRY(check_lengths(s, e, err));
    TRY(check_index(s, e, err));
    TRY(read_state(s, e, err));
    TRY(hdf5_get(s->file, "action", HDF5_FLOAT, e->action, err));
    TRY(check_numbers(s, e, err));
    hdf5_get_u64(s->file, "seed", &e->seed);
    e->hash = episodes_hash(e);
    uint64_t checksum;
    if (hdf5_get_u64(s->file, "checksum", &checksum) && checksum != e->hash)
        return FAIL(
            err, FIRM_E_FORMAT,
            "%s does not match its checksum: states or actions were changed or damaged; copy or "
            "collect it again",
            s->path);
    return episodes_open_pixels(s->file, s->path, e, err);
}

static firm_status read_open(source* s, episodes** out, firm_error* err) {
    TRY(check_task(s, err));
    int rank;
    int64_t dims[HDF5_MAX_RANK], more[HDF5_MAX_RANK];
    TRY(hdf5_shape(s->file, s->field[0].name, &rank, dims, err));
    const int64_t rows = dims[0];
    TRY(hdf5_shape(s->file, "ep_len", &rank, dims, err));
    TRY(hdf5_shape(s->file, "ep_offset", &rank, more, err));
    if (rows < 1 || rows > INT_MAX || dims[0] < 1 || dims[0] != more[0] || dims[0] > rows ||
        hdf5_width(s->file, "ep_len") != 1 || hdf5_width(s->file, "ep_offset") != 1)
        return FAIL(
            err, FIRM_E_FORMAT,
            "%s has %lld rows in %lld episodes with %lld offsets, which cannot be; collect it "
            "again",
            s->path, (long long)rows, (long long)dims[0], (long long)more[0]);
    for (int i = 0; i < s->fields; i++)
        TRY(check_shape(s, s->field[i].name, s->field[i].width, rows, err));
    TRY(check_shape(s, "action", s->spec->task.action_dim, rows, err));

    episodes* e;
    TRY(episodes_alloc(s->spec, (int)dims[0], rows, &e, err));
    firm_status status = fill(s, e, err);
    if (status != FIRM_OK) {
        e->pixels = NULL;  // the caller closes the file
        episodes_free(e);
        return status;
    }
    *out = e;
    return FIRM_OK;
}

firm_status episodes_read(const char* path, const env_spec* spec, episodes** out, firm_error* err) {
    *out = NULL;
    if (spec->layout->recording) return recording_read(path, spec, out, err);
    source s = {.path = path, .spec = spec};
    TRY(hdf5_open(path, &s.file, err));
    firm_status status = read_open(&s, out, err);
    // a file with pixels stays open with the episodes; any other is done with
    if (status != FIRM_OK || !(*out)->pixels) hdf5_close(s.file);
    return status;
}
