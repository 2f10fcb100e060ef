// recording.c - episodes of recorded data alone: columns that a task file names, in an HDF5 file
// that nobody here wrote. Everything is checked before training sees it: each refusal is one
// sentence that names the file, the place and the cure. Coordinates that look wrong but can be used
// are warned of.
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "data/episodes_internal.h"
#include "data/records.h"
#include "data/resize.h"

#define BEYOND 0.01     // of the range: how far recorded actions may leave the bounds
#define LEAST_STEP 0.5  // of period_ms: rows nearer or farther apart are of another rate
#define MOST_STEP 1.5
#define CONSTANT 1e-4  // a coordinate that moves less can hardly be seen
#define LARGE 10.0     // about 1 is what training is made for

typedef struct source {
    hdf5_file* file;
    const char* path;
    const env_spec* spec;
    const env_recording* columns;
    int64_t rows;
} source;

// ---- columns ------------------------------------------------------------------------------------

static firm_status check_column(const source* s, const char* name, firm_error* err) {
    int rank;
    int64_t dims[HDF5_MAX_RANK];
    char list[160];
    hdf5_list(s->file, list, sizeof list);
    if (!hdf5_width(s->file, name))
        return FAIL(err, FIRM_E_FORMAT, "%s has no column '%.60s'; it has %s; name another",
                    s->path, name, list[0] ? list : "none");
    TRY(hdf5_shape(s->file, name, &rank, dims, err));
    if (dims[0] == s->rows) return FIRM_OK;
    return FAIL(err, FIRM_E_FORMAT,
                "column '%.60s' of %s has %lld rows and '%.60s' has %lld; a row of each must be of "
                "the same moment: bring them together",
                name, s->path, (long long)dims[0], s->columns->action, (long long)s->rows);
}

static firm_status check_pictures(const source* s, firm_error* err) {
    int rank;
    int64_t dims[HDF5_MAX_RANK];
    const char* name = s->columns->image;
    TRY(check_column(s, name, err));
    TRY(hdf5_shape(s->file, name, &rank, dims, err));
    if (rank != 4 || dims[3] != 3 || dims[1] < RESIZE_LEAST || dims[1] > RESIZE_MOST ||
        dims[2] < RESIZE_LEAST || dims[2] > RESIZE_MOST || !hdf5_holds_bytes(s->file, name))
        return FAIL(err, FIRM_E_FORMAT,
                    "column '%.60s' of %s holds no pictures: they are (rows, height, width, 3) "
                    "bytes of %d to %d pixels a side",
                    name, s->path, RESIZE_LEAST, RESIZE_MOST);
    return FIRM_OK;
}

static firm_status check_columns(source* s, firm_error* err) {
    const env_recording* c = s->columns;
    char kind[32];
    int rank, width = hdf5_width(s->file, c->action), wanted = s->spec->task.action_dim;
    int64_t dims[HDF5_MAX_RANK];
    if (hdf5_get_text(s->file, "kind", kind, sizeof kind) && strcmp(kind, "episodes") != 0)
        return FAIL(err, FIRM_E_FORMAT, "%s holds %s, not episodes; give recorded episodes",
                    s->path, kind);
    if (width) {
        TRY(hdf5_shape(s->file, c->action, &rank, dims, err));
        s->rows = dims[0];
    }
    TRY(check_column(s, c->action, err));
    if (s->rows < 1 || s->rows > INT_MAX)
        return FAIL(err, FIRM_E_FORMAT, "%s has %lld rows; give 1 to %d", s->path,
                    (long long)s->rows, INT_MAX);
    if (width != wanted)
        return FAIL(err, FIRM_E_TASK,
                    "column '%.60s' of %s has %d numbers a row where the task %s has %d actions; "
                    "write count = %d under [action]",
                    c->action, s->path, width, s->spec->task.name, wanted, width);
    TRY(check_pictures(s, err));
    if (c->time) TRY(check_column(s, c->time, err));
    for (int k = 0; k < s->spec->state->dim; k++) {
        TRY(check_column(s, c->state[k].column, err));
        width = hdf5_width(s->file, c->state[k].column);
        if (c->state[k].index >= width)
            return FAIL(err, FIRM_E_FORMAT,
                        "column '%.60s' of %s has %d numbers a row, so there is no %.60s[%d]; "
                        "count from 0",
                        c->state[k].column, s->path, width, c->state[k].column, c->state[k].index);
    }
    return FIRM_OK;
}

// A whole column as doubles, whichever numbers it holds; the caller frees it.
static firm_status get_column(const source* s, const char* name, double** out, firm_error* err) {
    const size_t n = (size_t)s->rows * (size_t)hdf5_width(s->file, name);
    double* value = *out = mem_calloc(n, sizeof *value);
    if (!value) return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", s->path);
    if (hdf5_holds_reals(s->file, name)) return hdf5_get(s->file, name, HDF5_DOUBLE, value, err);
    // 64 bits each, like a double: in place
    int64_t* whole = (int64_t*)(void*)value;
    TRY(hdf5_get(s->file, name, HDF5_INT64, whole, err));
    for (size_t i = 0; i < n; i++) {
        int64_t v;
        memcpy(&v, whole + i, sizeof v);
        value[i] = (double)v;
    }
    return FIRM_OK;
}

// ---- episodes -----------------------------------------------------------------------------------

// Rows of one number after the other make an episode.
static firm_status cut_by_index(const source* s, const char* name, int* count, int** length,
                                firm_error* err) {
    int64_t* index = mem_calloc((size_t)s->rows, sizeof *index);
    firm_status status = index ? check_column(s, name, err)
                               : FAIL(err, FIRM_E_MEMORY, "no memory to read %s", s->path);
    if (status == FIRM_OK && hdf5_width(s->file, name) != 1)
        status = FAIL(err, FIRM_E_FORMAT, "column '%s' of %s is no list of episode numbers", name,
                      s->path);
    if (status == FIRM_OK) status = hdf5_get(s->file, name, HDF5_INT64, index, err);
    *count = 0;
    for (int64_t i = 0; i < s->rows && status == FIRM_OK; i++)
        *count += i == 0 || index[i] != index[i - 1];
    int* rows = *length = status == FIRM_OK ? mem_calloc((size_t)*count, sizeof *rows) : NULL;
    if (status == FIRM_OK && !rows)
        status = FAIL(err, FIRM_E_MEMORY, "no memory to read %s", s->path);
    int at = -1;
    for (int64_t i = 0; i < s->rows && status == FIRM_OK; i++) {
        at += i == 0 || index[i] != index[i - 1];
        rows[at]++;
    }
    mem_free(index);
    return status;
}

static firm_status cut_by_length(const source* s, int* count, int** length, firm_error* err) {
    int rank;
    int64_t dims[HDF5_MAX_RANK];
    TRY(hdf5_shape(s->file, "ep_len", &rank, dims, err));
    if (rank != 1 || dims[0] < 1 || dims[0] > s->rows)
        return FAIL(err, FIRM_E_FORMAT, "ep_len of %s is no list of episode lengths", s->path);
    *count = (int)dims[0];
    *length = mem_calloc((size_t)*count, sizeof **length);
    if (!*length) return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", s->path);
    return hdf5_get(s->file, "ep_len", HDF5_INT32, *length, err);
}

static firm_status cut(const source* s, int* count, int** length, firm_error* err) {
    *length = NULL;
    if (hdf5_width(s->file, "ep_len")) return cut_by_length(s, count, length, err);
    if (hdf5_width(s->file, "ep_idx")) return cut_by_index(s, "ep_idx", count, length, err);
    if (hdf5_width(s->file, "episode_idx"))
        return cut_by_index(s, "episode_idx", count, length, err);
    return FAIL(err, FIRM_E_FORMAT,
                "nothing in %s says where episodes begin; add ep_len, the rows of each, or ep_idx, "
                "the number of the episode in every row",
                s->path);
}

static firm_status check_lengths(const source* s, const episodes* e, firm_error* err) {
    int64_t rows = 0;
    const int needed = RECORD_FRAMES - 1 + task_span(&s->spec->task) + 1;
    for (int i = 0; i < e->count; i++) {
        if (e->length[i] < needed)
            return FAIL(err, FIRM_E_FORMAT,
                        "episode %d of %s has %d rows; a history and a rollout need %d: leave it "
                        "out, or record longer ones",
                        i, s->path, e->length[i], needed);
        rows += e->length[i];
    }
    if (rows != s->rows)
        return FAIL(err, FIRM_E_FORMAT,
                    "the episodes of %s add up to %lld rows, its columns have %lld", s->path,
                    (long long)rows, (long long)s->rows);
    if (e->count < 2)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s has one episode; some must be held out to judge by: record more", s->path);
    return FIRM_OK;
}

static firm_status check_offsets(const source* s, const episodes* e, firm_error* err) {
    int rank;
    int64_t dims[HDF5_MAX_RANK];
    if (!hdf5_width(s->file, "ep_offset")) return FIRM_OK;
    TRY(hdf5_shape(s->file, "ep_offset", &rank, dims, err));
    int64_t* offset = dims[0] == e->count ? mem_calloc((size_t)e->count, sizeof *offset) : NULL;
    firm_status status = offset ? hdf5_get(s->file, "ep_offset", HDF5_INT64, offset, err)
                                : FAIL(err, FIRM_E_FORMAT,
                                       "ep_offset of %s has %lld entries for %d episodes; leave it "
                                       "out",
                                       s->path, (long long)dims[0], e->count);
    for (int i = 0; i < e->count && status == FIRM_OK; i++)
        if (offset[i] != e->offset[i])
            status = FAIL(err, FIRM_E_FORMAT,
                          "ep_offset of %s says that episode %d begins at row %lld, ep_len says "
                          "%lld; leave one out",
                          s->path, i, (long long)offset[i], (long long)e->offset[i]);
    mem_free(offset);
    return status;
}

// ---- numbers ------------------------------------------------------------------------------------

static firm_status fill_states(const source* s, episodes* e, firm_error* err) {
    const int dim = s->spec->state->dim;
    const env_source* from = s->columns->state;
    for (int k = 0; k < dim; k++) {
        int first = 0;  // the first number that comes from this column reads it for all
        while (strcmp(from[first].column, from[k].column) != 0) first++;
        if (first < k) continue;
        double* value = NULL;
        const int width = hdf5_width(s->file, from[k].column);
        firm_status status = get_column(s, from[k].column, &value, err);
        for (int j = k; j < dim && status == FIRM_OK; j++)
            if (strcmp(from[j].column, from[k].column) == 0)
                for (int64_t row = 0; row < e->rows; row++)
                    e->state[row * dim + j] = value[row * width + from[j].index];
        mem_free(value);
        TRY(status);
    }
    return FIRM_OK;
}

static firm_status fill_actions(const source* s, episodes* e, firm_error* err) {
    double* value = NULL;
    const int64_t n = e->rows * s->spec->task.action_dim;
    firm_status status = get_column(s, s->columns->action, &value, err);
    for (int64_t i = 0; i < n && status == FIRM_OK; i++) e->action[i] = (float)value[i];
    mem_free(value);
    // whatever the last row of an episode says, nothing came of it
    for (int i = 0; i < e->count && status == FIRM_OK; i++)
        for (int k = 0; k < s->spec->task.action_dim; k++)
            e->action[(e->offset[i] + e->length[i] - 1) * s->spec->task.action_dim + k] = NAN;
    return status;
}

static firm_status check_actions(const source* s, const episodes* e, firm_error* err) {
    const task_typed* t = &s->spec->task;
    const float slack = (float)BEYOND * (t->action_high - t->action_low);
    for (int i = 0; i < e->count; i++)
        for (int at = 0; at < e->length[i] - 1; at++)
            for (int k = 0; k < t->action_dim; k++) {
                float a = e->action[(e->offset[i] + at) * t->action_dim + k];
                if (!isfinite(a))
                    return FAIL(err, FIRM_E_VALUE,
                                "'%.60s' of %s is not finite in episode %d, row %d; only an "
                                "episode's last row may be so",
                                s->columns->action, s->path, i, at);
                if (a < t->action_low - slack || a > t->action_high + slack)
                    return FAIL(err, FIRM_E_VALUE,
                                "'%.60s' of %s is %g in episode %d, row %d, where actions go from "
                                "%g to %g; write the true low and high under [action]",
                                s->columns->action, s->path, (double)a, i, at,
                                (double)t->action_low, (double)t->action_high);
            }
    return FIRM_OK;
}

static firm_status check_states(const source* s, const episodes* e, firm_error* err) {
    const int dim = s->spec->state->dim;
    for (int64_t i = 0; i < e->rows * dim; i++) {
        if (isfinite(e->state[i])) continue;
        const env_source* from = &s->columns->state[i % dim];
        int at = episodes_of_row(e, i / dim);
        return FAIL(err, FIRM_E_VALUE,
                    "%.60s[%d] of %s is not finite in episode %d, row %lld; repair it or leave the "
                    "episode out",
                    from->column, from->index, s->path, at, (long long)(i / dim - e->offset[at]));
    }
    return FIRM_OK;
}

static firm_status check_times(const source* s, const episodes* e, firm_error* err) {
    double* time = NULL;
    const int period = s->spec->task.period_ms;
    if (!s->columns->time) return FIRM_OK;
    firm_status status =
        period ? get_column(s, s->columns->time, &time, err)
               : FAIL(err, FIRM_E_VALUE, "%s names a column of times, so its period_ms cannot be 0",
                      s->spec->task.name);
    for (int i = 0; i < e->count && status == FIRM_OK; i++)
        for (int at = 1; at < e->length[i] && status == FIRM_OK; at++) {
            double ms = 1000 * (time[e->offset[i] + at] - time[e->offset[i] + at - 1]);
            if (!(ms > LEAST_STEP * period && ms < MOST_STEP * period))
                status =
                    FAIL(err, FIRM_E_VALUE,
                         "rows %d and %d of episode %d of %s are %.4g ms apart where period_ms "
                         "says %d; bring the recording to one rate",
                         at - 1, at, i, s->path, ms, period);
        }
    mem_free(time);
    return status;
}

// Every coordinate of every row is a number; what hardly moves or is far from 1 is warned of.
static firm_status check_configs(const source* s, const episodes* e, firm_error* err) {
    const task_typed* t = &s->spec->task;
    float low[FIRM_MAX_CONFIG], high[FIRM_MAX_CONFIG], c[FIRM_MAX_CONFIG];
    for (int64_t row = 0; row < e->rows; row++) {
        env_config(s->spec, e->state + row * s->spec->state->dim, c);
        for (int k = 0; k < t->config_dim; k++) {
            if (!isfinite(c[k])) {
                int i = episodes_of_row(e, row);
                return FAIL(err, FIRM_E_VALUE,
                            "the coordinate %s is not finite in episode %d of %s, row %lld; look "
                            "at the columns it is made of",
                            t->config_name[k], i, s->path, (long long)(row - e->offset[i]));
            }
            low[k] = row && low[k] < c[k] ? low[k] : c[k];
            high[k] = row && high[k] > c[k] ? high[k] : c[k];
        }
    }
    for (int k = 0; k < t->config_dim; k++) {
        double span = (double)high[k] - (double)low[k];
        if (span < CONSTANT && k >= 2 * t->pairs)
            log_warn("the coordinate %s of %s is %g throughout: nothing can be learned about it",
                     t->config_name[k], s->path, (double)low[k]);
        else if (span > 2 * LARGE || fabs((double)low[k]) > LARGE || fabs((double)high[k]) > LARGE)
            log_warn(
                "the coordinate %s of %s goes from %g to %g; divide it in [config] so that it "
                "stays within about 1, and multiply in [distance]",
                t->config_name[k], s->path, (double)low[k], (double)high[k]);
    }
    return FIRM_OK;
}

// ---- the whole ----------------------------------------------------------------------------------

static firm_status fill(const source* s, episodes* e, firm_error* err) {
    TRY(check_lengths(s, e, err));
    TRY(check_offsets(s, e, err));
    TRY(fill_states(s, e, err));
    TRY(fill_actions(s, e, err));
    TRY(check_states(s, e, err));
    TRY(check_actions(s, e, err));
    TRY(check_times(s, e, err));
    TRY(check_configs(s, e, err));
    hdf5_get_u64(s->file, "seed", &e->seed);
    e->hash = episodes_hash(e);
    e->pixels = s->file;
    return FIRM_OK;
}

static firm_status read_open(source* s, episodes** out, firm_error* err) {
    int count, *length;
    episodes* e = NULL;
    TRY(check_columns(s, err));
    firm_status status = cut(s, &count, &length, err);
    if (status == FIRM_OK) status = episodes_alloc(s->spec, count, s->rows, &e, err);
    if (status == FIRM_OK) {
        memcpy(e->length, length, (size_t)count * sizeof *length);
        int64_t row = 0;
        for (int i = 0; i < count; i++) {
            e->offset[i] = row;
            row += length[i] > 0 ? length[i] : 0;
        }
        status = fill(s, e, err);
    }
    mem_free(length);
    if (status == FIRM_OK)
        *out = e;
    else
        episodes_free(e);
    return status;
}

firm_status recording_read(const char* path, const env_spec* spec, episodes** out,
                           firm_error* err) {
    *out = NULL;
    source s = {.path = path, .spec = spec, .columns = spec->layout->recording};
    TRY(hdf5_open(path, &s.file, err));
    firm_status status = read_open(&s, out, err);
    if (status != FIRM_OK) hdf5_close(s.file);  // else the episodes keep it, for the pictures
    return status;
}
