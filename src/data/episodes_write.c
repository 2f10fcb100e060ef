// episodes_write.c - collected episodes as one HDF5 file in the public stable-worldmodel layout: a
// dataset per column at the root, episodes one after the other, ep_len and ep_offset to find them.
//
// Columns are filled in blocks of rows, so memory stays bounded however long the file. What the
// task adds to the common columns comes from its env_spec; nothing here knows a task.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "data/episodes_internal.h"
#include "data/hdf5.h"
#include "data/made_for.h"
#include "env/render/compare.h"

enum {
    BLOCK_ROWS = 50000,  // a multiple of the chunk, so that every chunk is written once and whole
    CHUNK_ROWS = 1000,
    PIXEL_CHUNK = 16,  // frames per chunk: reading one at random costs unpacking these, 2.4 MB
    PIXEL_BLOCK = 128  // frames rendered at a time, 19 MB
};

typedef struct column column;
// Fills `rows` rows from `first` on, which lie in episode `episode` and those after it.
typedef void (*fill_fn)(const episodes* e, const column* c, int episode, int64_t first,
                        int64_t rows, void* out);

struct column {
    const char* name;
    hid_t file_type, memory_type;
    int width;  // 1: a plain (rows) dataset
    fill_fn fill;
    const env_column* view;  // for the task's own columns
    int at;                  // for parts of the state: the first of its numbers
};

// ---- common columns -----------------------------------------------------------------------------

// Calls BODY for each row with i (index in the block), ep (its episode) and t (its step).
#define EACH_ROW(BODY)                                           \
    for (int64_t i = 0, ep = episode; i < rows; i++) {           \
        while (first + i >= e->offset[ep] + e->length[ep]) ep++; \
        const int64_t t = first + i - e->offset[ep];             \
        (void)t;                                                 \
        BODY;                                                    \
    }

static void fill_action(const episodes* e, const column* c, int episode, int64_t first,
                        int64_t rows, void* out) {
    (void)episode;
    memcpy(out, e->action + first * c->width, (size_t)(rows * c->width) * sizeof(float));
}

static void fill_state(const episodes* e, const column* c, int episode, int64_t first, int64_t rows,
                       void* out) {
    (void)episode;
    const int dim = e->spec->state->dim;
    for (int64_t i = 0; i < rows; i++)
        memcpy((double*)out + i * c->width, e->state + (first + i) * dim + c->at,
               (size_t)c->width * sizeof(double));
}

static void fill_view(const episodes* e, const column* c, int episode, int64_t first, int64_t rows,
                      void* out) {
    const env_spec* spec = e->spec;
    EACH_ROW({
        const int64_t row = first + i - (c->view->before && t > 0);
        c->view->get(e->state + row * spec->state->dim,
                     e->extra ? e->extra + row * spec->layout->extra_dim : NULL,
                     (double*)out + i * c->width);
    })
}

// describes the arrival at a row, so there is none at row 0; a task whose reward is not 0
// throughout lists a "reward" column of its own
static void fill_reward(const episodes* e, const column* c, int episode, int64_t first,
                        int64_t rows, void* out) {
    (void)c;
    EACH_ROW(((double*)out)[i] = t == 0 ? NAN : 0.0)
}

// how long each frame took belongs to a run, not to the data: the same seed gives the same file
static void fill_nan(const episodes* e, const column* c, int episode, int64_t first, int64_t rows,
                     void* out) {
    (void)e, (void)c, (void)episode, (void)first;
    for (int64_t i = 0; i < rows; i++) ((double*)out)[i] = NAN;
}

static void fill_terminated(const episodes* e, const column* c, int episode, int64_t first,
                            int64_t rows, void* out) {
    (void)c;
    EACH_ROW(((int8_t*)out)[i] = t == e->length[ep] - 1 && e->ended[ep])
}

static void fill_truncated(const episodes* e, const column* c, int episode, int64_t first,
                           int64_t rows, void* out) {
    (void)c;
    EACH_ROW(((int8_t*)out)[i] = t == e->cap)
}

static void fill_step(const episodes* e, const column* c, int episode, int64_t first, int64_t rows,
                      void* out) {
    (void)c;
    EACH_ROW(((int64_t*)out)[i] = t)
}

static void fill_episode(const episodes* e, const column* c, int episode, int64_t first,
                         int64_t rows, void* out) {
    (void)c;
    EACH_ROW(((int32_t*)out)[i] = (int32_t)ep)
}

// a 63-bit number per episode, from its own key
static int64_t episode_id(uint64_t seed, int64_t episode) {
    uint32_t word[4];
    rng_block(seed, RNG_STREAM(RNG_COLLECT, episode), UINT64_MAX, word);
    return (int64_t)(((uint64_t)word[0] << 31) ^ word[1]);
}

static void fill_id(const episodes* e, const column* c, int episode, int64_t first, int64_t rows,
                    void* out) {
    (void)c;
    EACH_ROW(((int64_t*)out)[i] = episode_id(e->seed, ep))
}

// ---- writing ------------------------------------------------------------------------------------

static firm_status write_column(hdf5_writer* w, const episodes* e, const column* c, void* block,
                                firm_error* err) {
    hsize_t dims[2] = {(hsize_t)e->rows, (hsize_t)c->width};
    hid_t dataset;
    TRY(hdf5_dataset(w, c->name, c->file_type, c->width > 1 ? 2 : 1, dims, CHUNK_ROWS, 0, &dataset,
                     err));
    firm_status status = FIRM_OK;
    for (int64_t first = 0; first < e->rows && status == FIRM_OK; first += BLOCK_ROWS) {
        int64_t rows = e->rows - first < BLOCK_ROWS ? e->rows - first : BLOCK_ROWS;
        c->fill(e, c, episodes_of_row(e, first), first, rows, block);
        status = hdf5_put_rows(w, dataset, c->memory_type, first, rows, block, err);
    }
    if (H5Dclose(dataset) < 0 && status == FIRM_OK)
        status =
            FAIL(err, FIRM_E_IO, "cannot finish column '%s' of %s; check free space and memory",
                 c->name, w->path);
    return status;
}

// The same number or text in every row.
static firm_status write_constant(hdf5_writer* w, const episodes* e, const env_column* v,
                                  firm_error* err) {
    const hsize_t dims[2] = {(hsize_t)e->rows, (hsize_t)v->width};
    const double zero = 0.0;
    if (!v->text)
        return hdf5_put_constant(w, v->name, H5T_IEEE_F64LE, v->width > 1 ? 2 : 1, dims, CHUNK_ROWS,
                                 &zero, err);
    hid_t type = H5Tcopy(H5T_C_S1);
    firm_status status = FIRM_OK;
    if (type < 0 || H5Tset_size(type, strlen(v->text)) < 0 ||
        H5Tset_strpad(type, H5T_STR_NULLPAD) < 0)
        status = FAIL(err, FIRM_E_MEMORY, "no memory for column '%s' of %s", v->name, w->path);
    if (status == FIRM_OK)
        status = hdf5_put_constant(w, v->name, type, 1, dims, CHUNK_ROWS, v->text, err);
    if (type >= 0) H5Tclose(type);
    return status;
}

static int task_has(const env_spec* spec, const char* name) {
    for (int i = 0; i < spec->layout->columns; i++)
        if (strcmp(spec->layout->column[i].name, name) == 0) return 1;
    return 0;
}

static firm_status write_columns(hdf5_writer* w, const episodes* e, hid_t flag, void* block,
                                 firm_error* err) {
    const env_spec* spec = e->spec;
    const hid_t f32 = H5T_IEEE_F32LE, f64 = H5T_IEEE_F64LE, d = H5T_NATIVE_DOUBLE;
    const hid_t i64 = H5T_STD_I64LE, l = H5T_NATIVE_INT64;
    const column common[] = {
        {"action", f32, H5T_NATIVE_FLOAT, spec->task.action_dim, fill_action, NULL, 0},
        {"reward", f64, d, 1, fill_reward, NULL, 0},
        {"terminated", flag, flag, 1, fill_terminated, NULL, 0},
        {"truncated", flag, flag, 1, fill_truncated, NULL, 0},
        {"step_idx", i64, l, 1, fill_step, NULL, 0},
        {spec->layout->episode_column ? spec->layout->episode_column : "ep_idx", H5T_STD_I32LE,
         H5T_NATIVE_INT32, 1, fill_episode, NULL, 0},
        {"id", i64, l, 1, fill_id, NULL, 0},
        {"render_time", f64, d, 1, fill_nan, NULL, 0},
    };
    for (size_t i = 0; i < sizeof common / sizeof common[0]; i++)
        if (!task_has(spec, common[i].name)) TRY(write_column(w, e, &common[i], block, err));
    state_field field[STATE_FIELDS];
    const int fields = episodes_state_fields(spec, field);
    for (int i = 0; i < fields; i++) {
        column c = {field[i].name,
                    spec->layout->state_bits == 32 ? f32 : f64,
                    d,
                    field[i].width,
                    fill_state,
                    NULL,
                    field[i].at};
        TRY(write_column(w, e, &c, block, err));
    }
    for (int i = 0; i < spec->layout->columns; i++) {
        const env_column* v = &spec->layout->column[i];
        if (!v->get) {
            TRY(write_constant(w, e, v, err));
            continue;
        }
        const hid_t type = v->bits == 0 ? i64 : v->bits == 32 ? f32 : f64;
        column c = {v->name, type, d, v->width, fill_view, v, 0};
        TRY(write_column(w, e, &c, block, err));
    }
    hsize_t count = (hsize_t)e->count;
    TRY(hdf5_put(w, "ep_len", H5T_STD_I32LE, H5T_NATIVE_INT32, 1, &count, e->length, err));
    return hdf5_put(w, "ep_offset", i64, l, 1, &count, e->offset, err);
}

typedef struct rendering {
    const episodes* e;
    env** worker_env;
    int64_t first;
    uint8_t* rgb;
} rendering;

static void render_row(void* arg, int item, int worker) {
    rendering* r = arg;
    env* world = r->worker_env[worker];
    const env_spec* spec = r->e->spec;
    // a recorded state was there once, so it can be drawn
    env_picture(world, r->e->state + (r->first + item) * spec->state->dim,
                r->rgb + (size_t)item * task_frame_bytes(&spec->task));
}

static firm_status write_pixels(hdf5_writer* w, const episodes* e, pool* p, firm_error* err) {
    const int threads = pool_threads(p);
    rendering r = {.e = e};
    firm_status status = env_create_many(e->spec, threads, &r.worker_env, err);
    if (status == FIRM_OK) status = env_render_ready(r.worker_env, threads, err);
    r.rgb = mem_alloc((size_t)PIXEL_BLOCK * task_frame_bytes(&e->spec->task));
    if (status == FIRM_OK && !r.rgb)
        status = FAIL(err, FIRM_E_MEMORY, "no memory to render frames");

    hid_t dataset = -1;
    const hsize_t side = (hsize_t)e->spec->task.image;
    const hsize_t dims[4] = {(hsize_t)e->rows, side, side, 3};
    if (status == FIRM_OK)
        status = hdf5_dataset(w, "pixels", H5T_STD_U8LE, 4, dims, PIXEL_CHUNK, 1, &dataset, err);
    progress bar;
    progress_begin(&bar, "render", e->rows);
    for (r.first = 0; r.first < e->rows && status == FIRM_OK; r.first += PIXEL_BLOCK) {
        int64_t left = e->rows - r.first;
        int rows = left < PIXEL_BLOCK ? (int)left : PIXEL_BLOCK;
        pool_for(p, rows, render_row, &r);
        status = hdf5_put_rows(w, dataset, H5T_NATIVE_UINT8, r.first, rows, r.rgb, err);
        progress_step(&bar, r.first + rows, "");
    }
    progress_end(&bar);
    if (dataset >= 0 && H5Dclose(dataset) < 0 && status == FIRM_OK)
        status = FAIL(err, FIRM_E_IO, "cannot finish 'pixels' of %s; check free space and memory",
                      w->path);
    env_free_many(r.worker_env, threads);
    mem_free(r.rgb);
    return status;
}

static firm_status write_attributes(hdf5_writer* w, const episodes* e, firm_error* err) {
    const env_spec* spec = e->spec;
    char text[128];
    TRY(made_for_put(w, spec, err));
    TRY(hdf5_put_text(w, "kind", "episodes", err));
    snprintf(text, sizeof text, "%d.%d.%d", FIRM_VERSION / 10000, FIRM_VERSION / 100 % 100,
             FIRM_VERSION % 100);
    TRY(hdf5_put_text(w, "version", text, err));
    TRY(hdf5_put_u64(w, "seed", e->seed, err));
    TRY(hdf5_put_text(w, "policy", e->policy, err));
    snprintf(text, sizeof text, "episodes=%d cap=%d", e->count, e->cap);
    TRY(hdf5_put_text(w, "config", text, err));
    TRY(hdf5_put_text(w, "physics", spec->sim->physics, err));
    TRY(hdf5_put_text(w, "renderer", render_label(spec), err));
    return hdf5_put_u64(w, "checksum", e->hash, err);
}

firm_status episodes_write(const episodes* e, const collect_options* opt, pool* p, const char* path,
                           firm_error* err) {
    if (!e->ended || (e->spec->layout->extra_dim && !e->extra))
        return FAIL(err, FIRM_E_USAGE,
                    "only freshly collected episodes can be written to %s; copy the "
                    "file they were read from instead",
                    path);
    int widest = e->spec->state->dim > e->spec->task.action_dim ? e->spec->state->dim
                                                                : e->spec->task.action_dim;
    for (int i = 0; i < e->spec->layout->columns; i++)
        if (e->spec->layout->column[i].width > widest) widest = e->spec->layout->column[i].width;
    const int64_t rows = e->rows < BLOCK_ROWS ? e->rows : BLOCK_ROWS;
    void* block = mem_calloc((size_t)rows, sizeof(double) * (size_t)widest);
    if (!block) return FAIL(err, FIRM_E_MEMORY, "no memory to write %s", path);

    hdf5_writer w;
    firm_status status = hdf5_create(&w, path, err);
    if (status == FIRM_OK) {
        hid_t flag = hdf5_flag_type();
        status = flag < 0 ? FAIL(err, FIRM_E_MEMORY, "no memory to write %s", path) : FIRM_OK;
        if (status == FIRM_OK) status = write_attributes(&w, e, err);
        if (status == FIRM_OK) status = write_columns(&w, e, flag, block, err);
        if (status == FIRM_OK && opt && opt->pixels) status = write_pixels(&w, e, p, err);
        if (flag >= 0) H5Tclose(flag);
        if (status == FIRM_OK)
            status = hdf5_commit(&w, err);
        else
            hdf5_abandon(&w);
    }
    mem_free(block);
    return status;
}
