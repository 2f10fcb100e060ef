// rows_record.c - writes an episodes file from another program's bytes: a header of lines, then
// numbers (docs/formats.md, "Rows"). The file is written aside and read back by episodes_read(),
// with every check that a foreign file meets; only then it gets its checksum and its name.
#define _GNU_SOURCE
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "data/episodes_internal.h"
#include "data/hdf5.h"
#include "data/made_for.h"
#include "data/rows.h"

enum {
    LINE = 256,
    COLUMNS = 64,
    ROW_BYTES = 16 << 20,  // most bytes of a row
    BLOCK = 16 << 20,      // bytes read at a time
    CHUNK_ROWS = 1000,
    PICTURE_CHUNK = 16
};

typedef struct column {
    char name[LINE];
    int kind;  // of `kinds`
    int rank;  // of a row
    hsize_t width[HDF5_MAX_RANK];
    int64_t row_bytes;
} column;

typedef struct recording {
    const env_spec* spec;
    const char* path;
    FILE* in;
    int count, columns;  // episodes
    int64_t rows;
    int* length;  // (count)
    column column[COLUMNS];
    char* block;  // (BLOCK)
    hid_t flag;
} recording;

static const struct {
    const char* name;
    int bytes;
} kinds[] = {{"f4", 4}, {"f8", 8}, {"i8", 8}, {"u1", 1}, {"b1", 1}};
enum { F4, F8, I8, U1, B1, KINDS };

// ---- the header ---------------------------------------------------------------------------------

static firm_status next_line(const recording* r, char line[LINE], firm_error* err) {
    if (!fgets(line, LINE, r->in) || !strchr(line, '\n'))
        return FAIL(err, FIRM_E_FORMAT,
                    "the rows for %s end in their header, or a line is too long", r->path);
    return FIRM_OK;
}

// A whole number of 1 .. most, else 0.
static int64_t whole(const char* word, int64_t most) {
    char* end = NULL;
    const long long n = word && *word >= '0' && *word <= '9' ? strtoll(word, &end, 10) : 0;
    return end && *end == 0 && n >= 1 && n <= most ? n : 0;
}

static firm_status read_counts(recording* r, firm_error* err) {
    char line[LINE], *rest = NULL;
    TRY(next_line(r, line, err));
    const char* word = strtok_r(line, " \n", &rest);
    const int ours = word && strcmp(word, "rows-1") == 0;
    r->count = (int)whole(strtok_r(NULL, " \n", &rest), INT_MAX);
    r->rows = whole(strtok_r(NULL, " \n", &rest), INT_MAX);
    r->columns = (int)whole(strtok_r(NULL, " \n", &rest), COLUMNS);
    if (!ours || r->count < 1 || r->rows < r->count || r->columns < 1)
        return FAIL(err, FIRM_E_FORMAT,
                    "the rows for %s must begin with: rows-1 EPISODES ROWS COLUMNS, with at most "
                    "%d columns",
                    r->path, COLUMNS);
    return FIRM_OK;
}

// Names that the program itself gives.
static int taken(const recording* r, const char* name) {
    static const char* const own[] = {"ep_len", "ep_offset", "step_idx", "ep_idx", "episode_idx"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(name, own[i]) == 0) return 1;
    for (int i = 0; i < r->columns && r->column[i].name[0]; i++)
        if (strcmp(name, r->column[i].name) == 0) return 1;
    return 0;
}

static int plain(const char* name) {
    for (const char* c = name; *c; c++)
        if (*c < 33 || *c > 126 || *c == '/' || (*c == '@' && strcmp(name, "@state") != 0))
            return 0;
    return strcmp(name, ".") != 0 && strlen(name) <= 90;
}

static firm_status read_column(recording* r, column* c, firm_error* err) {
    char line[LINE], *rest = NULL;
    TRY(next_line(r, line, err));
    const char *name = strtok_r(line, " \n", &rest), *type = strtok_r(NULL, " \n", &rest);
    for (c->kind = 0; type && c->kind < KINDS; c->kind++)
        if (strcmp(kinds[c->kind].name, type) == 0) break;
    if (!name || !type || c->kind == KINDS || !plain(name) || taken(r, name))
        return FAIL(err, FIRM_E_FORMAT,
                    "'%.60s' of the rows for %s must be NAME TYPE WIDTH.., a new name without / "
                    "and @, and f4, f8, i8, u1 or b1",
                    name ? name : "", r->path);
    c->row_bytes = kinds[c->kind].bytes;
    for (const char* word; (word = strtok_r(NULL, " \n", &rest)) && c->rank < HDF5_MAX_RANK - 1;) {
        const int64_t width = whole(word, ROW_BYTES);
        c->width[c->rank++] = (hsize_t)width;
        c->row_bytes = c->row_bytes * width > ROW_BYTES ? 0 : c->row_bytes * width;
    }
    if (c->row_bytes < 1 || (rest && *rest))
        return FAIL(err, FIRM_E_FORMAT,
                    "a row of '%.60s' of the rows for %s has a shape that is not possible; it has "
                    "at most %d bytes",
                    name, r->path, ROW_BYTES);
    memcpy(c->name, name, strlen(name) + 1);  // a part of a line as long
    return FIRM_OK;
}

static firm_status take(const recording* r, void* out, size_t bytes, firm_error* err) {
    if (fread(out, 1, bytes, r->in) == bytes) return FIRM_OK;
    return FAIL(err, FIRM_E_FORMAT, "the rows for %s end before all numbers were there", r->path);
}

static firm_status read_lengths(recording* r, firm_error* err) {
    int64_t sum = 0;
    r->length = mem_calloc((size_t)r->count, sizeof *r->length);
    if (!r->length) return FAIL(err, FIRM_E_MEMORY, "no memory for %d episodes", r->count);
    TRY(take(r, r->length, (size_t)r->count * sizeof *r->length, err));
    for (int i = 0; i < r->count; i++) {
        if (r->length[i] < 1)
            return FAIL(err, FIRM_E_FORMAT, "episode %d of the rows for %s has %d rows", i, r->path,
                        r->length[i]);
        sum += r->length[i];
    }
    if (sum == r->rows) return FIRM_OK;
    return FAIL(err, FIRM_E_FORMAT, "the episodes for %s add up to %lld rows, not to %lld", r->path,
                (long long)sum, (long long)r->rows);
}

static firm_status read_header(recording* r, firm_error* err) {
    TRY(read_counts(r, err));
    for (int i = 0; i < r->columns; i++) TRY(read_column(r, &r->column[i], err));
    return read_lengths(r, err);
}

// ---- columns ------------------------------------------------------------------------------------

static firm_status copy_column(recording* r, hdf5_writer* w, const column* c, firm_error* err) {
    const hid_t file_type[] = {H5T_IEEE_F32LE, H5T_IEEE_F64LE, H5T_STD_I64LE, H5T_STD_U8LE,
                               r->flag};
    const hid_t memory[] = {H5T_NATIVE_FLOAT, H5T_NATIVE_DOUBLE, H5T_NATIVE_INT64, H5T_NATIVE_UINT8,
                            r->flag};
    hsize_t dims[HDF5_MAX_RANK] = {(hsize_t)r->rows};
    memcpy(dims + 1, c->width, (size_t)c->rank * sizeof *dims);
    const int pictures = c->rank == 3;
    hid_t dataset;
    TRY(hdf5_dataset(w, c->name, file_type[c->kind], c->rank + 1, dims,
                     pictures ? PICTURE_CHUNK : CHUNK_ROWS, pictures, &dataset, err));
    // whole chunks at a time, so that each is compressed once
    int64_t most = BLOCK / c->row_bytes / PICTURE_CHUNK * PICTURE_CHUNK;
    if (most < 1) most = 1;
    firm_status status = FIRM_OK;
    for (int64_t row = 0; row < r->rows && status == FIRM_OK; row += most) {
        const int64_t left = r->rows - row, some = left < most ? left : most;
        status = take(r, r->block, (size_t)(some * c->row_bytes), err);
        for (int64_t i = 0; c->kind == B1 && i < some * c->row_bytes; i++)
            r->block[i] = r->block[i] != 0;
        if (status == FIRM_OK)
            status = hdf5_put_rows(w, dataset, memory[c->kind], row, some, r->block, err);
    }
    H5Dclose(dataset);
    return status;
}

// `@state` becomes the columns that hold the task's state in a file.
static firm_status copy_state(recording* r, hdf5_writer* w, const column* c, firm_error* err) {
    const env_spec* spec = r->spec;
    const int dim = spec->state->dim;
    if (spec->layout->recording || c->kind != F8 || c->rank != 1 || c->width[0] != (hsize_t)dim)
        return FAIL(err, FIRM_E_FORMAT,
                    "@state of the rows for %s must be f8 with the %d numbers of the task's state; "
                    "tasks of recordings have columns instead",
                    r->path, dim);
    double* all = mem_alloc((size_t)(r->rows * c->row_bytes));
    double* part = mem_alloc((size_t)(r->rows * c->row_bytes));
    firm_status status = all && part ? take(r, all, (size_t)(r->rows * c->row_bytes), err)
                                     : FAIL(err, FIRM_E_MEMORY, "no memory for the states");
    state_field field[STATE_FIELDS];
    const int fields = episodes_state_fields(spec, field);
    for (int k = 0; k < fields && status == FIRM_OK; k++) {
        const hsize_t dims[2] = {(hsize_t)r->rows, (hsize_t)field[k].width};
        for (int64_t i = 0; i < r->rows; i++)
            memcpy(part + i * field[k].width, all + i * dim + field[k].at,
                   (size_t)field[k].width * sizeof *part);
        status = hdf5_put(w, field[k].name,
                          spec->layout->state_bits == 32 ? H5T_IEEE_F32LE : H5T_IEEE_F64LE,
                          H5T_NATIVE_DOUBLE, field[k].width > 1 ? 2 : 1, dims, part, err);
    }
    mem_free(all);
    mem_free(part);
    return status;
}

static firm_status put_index(const recording* r, hdf5_writer* w, firm_error* err) {
    const hsize_t count = (hsize_t)r->count, rows = (hsize_t)r->rows;
    int64_t* step = mem_calloc((size_t)r->rows, sizeof *step);
    int64_t* offset = mem_calloc((size_t)r->count, sizeof *offset);
    int32_t* index = mem_calloc((size_t)r->rows, sizeof *index);
    firm_status status = FIRM_OK;
    if (!step || !offset || !index) status = FAIL(err, FIRM_E_MEMORY, "no memory for the index");
    int64_t row = 0;
    for (int i = 0; i < r->count && status == FIRM_OK; i++) {
        offset[i] = row;
        for (int t = 0; t < r->length[i]; t++, row++) step[row] = t, index[row] = i;
    }
    const char* name = r->spec->layout->episode_column;
    const hid_t i32 = H5T_STD_I32LE, i64 = H5T_STD_I64LE;
    if (status == FIRM_OK)
        status = hdf5_put(w, "ep_len", i32, H5T_NATIVE_INT32, 1, &count, r->length, err);
    if (status == FIRM_OK)
        status = hdf5_put(w, "ep_offset", i64, H5T_NATIVE_INT64, 1, &count, offset, err);
    if (status == FIRM_OK)
        status = hdf5_put(w, "step_idx", i64, H5T_NATIVE_INT64, 1, &rows, step, err);
    if (status == FIRM_OK)
        status = hdf5_put(w, name ? name : "ep_idx", i32, H5T_NATIVE_INT32, 1, &rows, index, err);
    mem_free(step);
    mem_free(offset);
    mem_free(index);
    return status;
}

static firm_status put_all(recording* r, hdf5_writer* w, firm_error* err) {
    // the program that reads the file judges a recording's columns by the task file alone
    if (!r->spec->layout->recording) TRY(made_for_put(w, r->spec, err));
    TRY(hdf5_put_text(w, "kind", "episodes", err));
    TRY(hdf5_put_text(w, "policy", "given", err));
    TRY(put_index(r, w, err));
    for (int i = 0; i < r->columns; i++) {
        const column* c = &r->column[i];
        TRY(strcmp(c->name, "@state") == 0 ? copy_state(r, w, c, err) : copy_column(r, w, c, err));
    }
    if (fgetc(r->in) == EOF) return FIRM_OK;
    return FAIL(err, FIRM_E_FORMAT, "more rows came for %s than its header says", r->path);
}

// Sentences about the file that is written aside name the file that was asked for.
static firm_status read_back(const recording* r, hdf5_writer* w, episodes** out, firm_error* err) {
    TRY(hdf5_flush(w, err));
    firm_error why = {0};
    firm_status status = episodes_read(w->temp.path, r->spec, out, &why);
    const char* at = status == FIRM_OK ? NULL : strstr(why.message, w->temp.path);
    if (status != FIRM_OK)
        return at ? FAIL(err, status, "%.*s%s%s", (int)(at - why.message), why.message, r->path,
                         at + strlen(w->temp.path))
                  : FAIL(err, status, "%s", why.message);
    return hdf5_put_u64(w, "checksum", (*out)->hash, err);
}

static firm_status record(recording* r, episodes** out, firm_error* err) {
    hdf5_writer w;
    r->block = mem_alloc(BLOCK);
    r->flag = hdf5_flag_type();
    if (!r->block || r->flag < 0) return FAIL(err, FIRM_E_MEMORY, "no memory to write %s", r->path);
    TRY(read_header(r, err));
    TRY(hdf5_create(&w, r->path, err));
    firm_status status = put_all(r, &w, err);
    if (status == FIRM_OK) status = read_back(r, &w, out, err);
    if (status == FIRM_OK) return hdf5_commit(&w, err);
    hdf5_abandon(&w);
    return status;
}

firm_status rows_record(const env_spec* spec, const char* path, FILE* in, episodes** out,
                        firm_error* err) {
    recording* r = mem_calloc(1, sizeof *r);
    *out = NULL;
    if (!r) return FAIL(err, FIRM_E_MEMORY, "no memory to write %s", path);
    *r = (recording){.spec = spec, .path = path, .in = in, .flag = -1};
    firm_status status = record(r, out, err);
    if (status != FIRM_OK) episodes_free(*out), *out = NULL;
    if (r->flag >= 0) H5Tclose(r->flag);
    mem_free(r->length);
    mem_free(r->block);
    mem_free(r);
    return status;
}
