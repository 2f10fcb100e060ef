// frames.c - frames on demand. A row's frame comes from the file's pixels column or is rendered
// from the recorded state; a direct-mapped cache of fixed size keeps the latest ones. Used by
// training and eval.
#include "data/frames.h"

#include <pthread.h>
#include <string.h>

#include "core/mem.h"
#include "data/episodes_internal.h"
#include "data/resize.h"

enum { STRIPES = 64 };  // locks; slot i belongs to lock i % STRIPES

struct frames {
    const episodes* e;
    int workers;
    env** worker_env;    // (workers) each thread's renderer; NULL: the task has no simulator
    const char* column;  // of the pictures
    resize** fit;        // (workers) where recorded pictures have another size; else NULL
    int64_t slots;       // 0: no cache
    int64_t* tag;        // (slots) row held, -1: none
    size_t bytes;        // of a frame
    uint8_t* frame;      // (slots, bytes)
    pthread_mutex_t lock[STRIPES];
};

// Pictures of another size than the task's are resized as they are read.
static firm_status open_fit(frames* f, firm_error* err) {
    int rank;
    int64_t dims[HDF5_MAX_RANK];
    const int size = f->e->spec->task.image;
    TRY(hdf5_shape(f->e->pixels, f->column, &rank, dims, err));
    if (dims[1] == size && dims[2] == size) return FIRM_OK;
    f->fit = mem_calloc((size_t)f->workers, sizeof *f->fit);
    if (!f->fit) return FAIL(err, FIRM_E_MEMORY, "no memory to resize pictures");
    for (int i = 0; i < f->workers; i++)
        TRY(resize_create((int)dims[1], (int)dims[2], size, &f->fit[i], err));
    return FIRM_OK;
}

// 0 when it worked
static int read_picture(frames* f, int worker, int64_t row, uint8_t* rgb) {
    if (!f->fit) return hdf5_get_row(f->e->pixels, f->column, row, rgb);
    resize* fit = f->fit[worker];
    int bad = hdf5_get_row(f->e->pixels, f->column, row, resize_source(fit));
    if (!bad) resize_run(fit, resize_source(fit), rgb);
    return bad;
}

firm_status frames_open(const episodes* e, int workers, size_t cache_bytes, frames** out,
                        firm_error* err) {
    *out = NULL;
    if (workers < 1)
        return FAIL(err, FIRM_E_USAGE, "%d frame workers asked for; give at least 1", workers);
    frames* f = mem_calloc(1, sizeof *f);
    if (!f) return FAIL(err, FIRM_E_MEMORY, "no memory for a frame cache");
    f->e = e;
    f->workers = workers;
    f->column = episodes_pixels(e->spec);
    f->bytes = task_frame_bytes(&e->spec->task);
    for (int i = 0; i < STRIPES; i++) pthread_mutex_init(&f->lock[i], NULL);

    // no more slots than rows, and tags are part of the budget
    f->slots = (int64_t)(cache_bytes / (f->bytes + sizeof *f->tag));
    if (f->slots > e->rows) f->slots = e->rows;
    firm_status status = FIRM_OK;
    if (e->spec->sim || !e->pixels) status = env_create_many(e->spec, workers, &f->worker_env, err);
    if (status == FIRM_OK && f->worker_env) status = env_render_ready(f->worker_env, workers, err);
    if (status == FIRM_OK && e->pixels) status = open_fit(f, err);
    if (f->slots) {
        f->tag = mem_alloc((size_t)f->slots * sizeof *f->tag);
        f->frame = mem_alloc((size_t)f->slots * f->bytes);
    }
    if (status == FIRM_OK && f->slots && (!f->tag || !f->frame))
        status =
            FAIL(err, FIRM_E_MEMORY, "no memory for a frame cache of %zu MB; ask for a smaller one",
                 cache_bytes >> 20);
    for (int64_t i = 0; i < f->slots && status == FIRM_OK; i++) f->tag[i] = -1;

    // a missing decompression filter shows here, where there is a place for the sentence
    if (status == FIRM_OK && e->pixels) {
        uint8_t* first = mem_alloc(f->bytes);
        if (!first)
            status = FAIL(err, FIRM_E_MEMORY, "no memory for a frame");
        else if (read_picture(f, 0, 0, first))
            status =
                FAIL(err, FIRM_E_UNAVAILABLE,
                     "cannot read the data set's '%s'; install hdf5-filter-plugin-blosc-serial, or "
                     "the file is damaged",
                     f->column);
        mem_free(first);
    }
    if (status != FIRM_OK) {
        frames_free(f);
        return status;
    }
    *out = f;
    return FIRM_OK;
}

firm_status frames_render(frames* f, int worker, const double* state, uint8_t* rgb) {
    CHECK(worker >= 0 && worker < f->workers, "frame worker %d of %d", worker, f->workers);
    if (!f->worker_env) return FIRM_E_UNAVAILABLE;
    env* world = f->worker_env[worker];
    return env_picture(world, state, rgb);
}

static firm_status produce(frames* f, int worker, int64_t row, uint8_t* rgb) {
    if (!f->e->pixels)
        return frames_render(f, worker, f->e->state + row * f->e->spec->state->dim, rgb);
    return read_picture(f, worker, row, rgb) ? FIRM_E_IO : FIRM_OK;
}

firm_status frames_get(frames* f, int worker, int64_t row, uint8_t* rgb) {
    if (row < 0 || row >= f->e->rows) return FIRM_E_USAGE;
    if (f->slots == 0) return produce(f, worker, row, rgb);

    const int64_t slot = row % f->slots;
    uint8_t* kept = f->frame + (size_t)slot * f->bytes;
    pthread_mutex_t* lock = &f->lock[slot % STRIPES];
    pthread_mutex_lock(lock);
    int hit = f->tag[slot] == row;
    if (hit) memcpy(rgb, kept, f->bytes);
    pthread_mutex_unlock(lock);
    if (hit) return FIRM_OK;

    TRY(produce(f, worker, row, rgb));
    pthread_mutex_lock(lock);
    memcpy(kept, rgb, f->bytes);
    f->tag[slot] = row;
    pthread_mutex_unlock(lock);
    return FIRM_OK;
}

void frames_free(frames* f) {
    if (!f) return;
    for (int i = 0; f->fit && i < f->workers; i++) resize_free(f->fit[i]);
    mem_free(f->fit);
    env_free_many(f->worker_env, f->workers);
    mem_free(f->tag);
    mem_free(f->frame);
    for (int i = 0; i < STRIPES; i++) pthread_mutex_destroy(&f->lock[i]);
    mem_free(f);
}
