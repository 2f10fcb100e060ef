// pack.c - packs as HDF5 files: one list of columns serves writing, reading and the checksum.
#include "data/pack.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/log.h"
#include "core/mem.h"
#include "core/text.h"
#include "data/hdf5.h"
#include "data/made_for.h"

enum { MOST_COLUMNS = 8 * PACK_SOURCES + 4 * PACK_LISTS + 8, BLOCK = 256 };

static const char* const source_name[PACK_SOURCES] = {"F", "I", "S", "D", "held"};

// Files number the sources of their pairs without D, which has none: held ones are 3.
enum { HELD_IN_FILE = 3 };
static int to_file(int source) {
    return source == PACK_HELD ? HELD_IN_FILE : source;
}
static int from_file(int number) {
    return number == HELD_IN_FILE ? PACK_HELD : number;
}

const double* pack_state(const pack* p, int64_t scene) {
    if (p->from.e) return scene_state(&p->from, scene);
    return p->state ? p->state + scene * p->spec->state->dim : NULL;
}

firm_status pack_frame(const pack* p, env* painter, int64_t scene, uint8_t* rgb) {
    if (scene < 0 || scene >= p->scenes) return FIRM_E_USAGE;
    if (!p->picture) return env_picture(painter, pack_state(p, scene), rgb);
    int64_t at = p->picture_at[scene], n = p->picture_at[scene + 1] - at;
    picture_background like = {p->background, task_frame_bytes(&p->spec->task)};
    return picture_unpack(p->picture + at, (size_t)n, like, rgb) ? FIRM_OK : FIRM_E_FORMAT;
}

int pack_find(const pack* p, int source, int lag) {
    for (int i = 0; i < p->lists; i++)
        if (p->list[i].source == source && p->list[i].lag == lag) return i;
    return -1;
}

void pack_free(pack* p) {
    for (int i = 0; i < PACK_SOURCES; i++) records_free(&p->set[i]);
    for (int i = 0; i < p->lists; i++) pairs_free(&p->list[i].p);
    mem_free(p->state);
    mem_free(p->background);
    mem_free(p->picture);
    mem_free(p->picture_at);
    *p = (pack){0};
}

// ---- adding -------------------------------------------------------------------------------------

firm_status pack_append(pack* p, pack_source source, const records* more, const double* state,
                        int64_t rows, firm_error* err) {
    const size_t dim = (size_t)p->spec->state->dim * sizeof *state;
    if (!p->state)
        return FAIL(err, FIRM_E_USAGE,
                    "the pack holds pictures, to which no states can be added; give one made "
                    "without --pictures");
    double* all = mem_realloc(p->state, (size_t)p->scenes * dim, (size_t)(p->scenes + rows) * dim);
    if (!all) return FAIL(err, FIRM_E_MEMORY, "no memory for %" PRId64 " more states", rows);
    p->state = all;
    memcpy((char*)all + (size_t)p->scenes * dim, state, (size_t)rows * dim);
    TRY(records_append(p->spec, more, p->scenes, &p->set[source], err));
    p->scenes += rows;
    return FIRM_OK;
}

// what of a state is kept: enough for its picture
static int drawn_dim(const env_spec* spec) {
    return spec->state->drawn ? spec->state->drawn : spec->state->dim;
}

// ---- columns ------------------------------------------------------------------------------------

typedef enum column_kind { REAL32, REAL64, INT32, INT64, SCENE, BYTE } column_kind;

static const size_t kind_bytes[] = {4, 8, 4, 8, 8, 1};

typedef struct column {
    char name[48];
    column_kind kind;
    int64_t rows;
    int width;
    void** data;
} column;

typedef struct columns {
    column item[MOST_COLUMNS];
    int count;
} columns;

static void add(columns* c, const char* prefix, const char* name, column_kind kind, int64_t rows,
                int width, void* data) {
    column* x = &c->item[c->count++];
    *x = (column){.kind = kind, .rows = rows, .width = width, .data = data};
    snprintf(x->name, sizeof x->name, "%s_%s", prefix, name);
}

static hid_t file_type(column_kind k) {
    return k == REAL32   ? H5T_IEEE_F32LE
           : k == REAL64 ? H5T_IEEE_F64LE
           : k == INT32  ? H5T_STD_I32LE
           : k == BYTE   ? H5T_STD_U8LE
                         : H5T_STD_I64LE;
}

static hid_t memory_type(column_kind k) {
    return k == REAL32   ? H5T_NATIVE_FLOAT
           : k == REAL64 ? H5T_NATIVE_DOUBLE
           : k == INT32  ? H5T_NATIVE_INT32
           : k == BYTE   ? H5T_NATIVE_UINT8
                         : H5T_NATIVE_INT64;
}

// all but the frames; counts must be known
static void list_columns(pack* p, columns* c) {
    const env_spec* e = p->spec;
    c->count = 0;
    for (int i = 0; i < PACK_SOURCES; i++) {
        records* r = &p->set[i];
        const char* name = source_name[i];
        if (r->count == 0) continue;
        add(c, name, "history", INT32, r->count, 1, &r->history);
        add(c, name, "seen", SCENE, r->histories, RECORD_FRAMES, &r->seen);
        add(c, name, "past", REAL32, r->histories, (RECORD_FRAMES - 1) * e->task.action_dim,
            &r->past);
        if (i != PACK_D) add(c, name, "after", SCENE, r->count, 1, &r->after);
        add(c, name, "action", REAL32, r->count, task_span(&e->task) * e->task.action_dim,
            &r->action);
        add(c, name, "config", REAL32, r->count, task_points(&e->task) * e->task.config_dim,
            &r->config);
        if (i == PACK_D) {
            add(c, name, "spread", REAL32, r->count, e->task.horizon, &r->spread);
            continue;
        }
        add(c, name, "chi", REAL32, r->count, task_points(&e->task) * e->task.chi_dim, &r->chi);
        add(c, name, "rare", BYTE, r->count, 1, &r->rare);
    }
    for (int i = 0; i < p->lists; i++) {
        pack_list* l = &p->list[i];
        char name[32];
        snprintf(name, sizeof name, "pairs_%s_%d", source_name[l->source], l->lag);
        add(c, name, "scene", SCENE, l->p.count, 2, &l->p.scene);
        add(c, name, "config", REAL32, l->p.count, 2 * e->task.config_dim, &l->p.config);
        add(c, name, "chi", REAL32, l->p.count, e->task.chi_dim, &l->p.chi);
        add(c, name, "rare", BYTE, l->p.count, 1, &l->p.rare);
    }
}

static uint64_t hash_column(uint64_t h, const column* c, const void* data) {
    size_t n = (size_t)c->rows * (size_t)c->width * kind_bytes[c->kind];
    // the hash takes words; the few last bytes of a byte column are padded
    h = hdf5_hash(h, data, n / 4 * 4);
    uint8_t rest[4] = {0};
    memcpy(rest, (const uint8_t*)data + n / 4 * 4, n % 4);
    return n % 4 ? hdf5_hash(h, rest, 4) : h;
}

static uint64_t hash_statistics(uint64_t h, const pack* p) {
    size_t bytes = (size_t)p->spec->task.action_dim * sizeof(float);
    return hdf5_hash(hdf5_hash(h, p->action_mean, bytes), p->action_std, bytes);
}

// Of what a run can learn from them.
static uint64_t hash_imagined(const pack* p, const columns* c) {
    uint64_t h = HDF5_HASH_START;
    if (!p->set[PACK_D].count) return 0;
    for (int i = 0; i < c->count; i++)
        if (strncmp(c->item[i].name, "D_", 2) == 0)
            h = hash_column(h, &c->item[i], *c->item[i].data);
    return h;
}

// ---- writing ------------------------------------------------------------------------------------

// number of a scene in the file, -1 where it is not used
static int64_t* renumber(const columns* c, int64_t scenes, int64_t* used, firm_error* err) {
    int64_t* number = mem_calloc((size_t)scenes + 1, sizeof *number);
    if (!number) {
        FAIL(err, FIRM_E_MEMORY, "no memory to number %" PRId64 " frames", scenes);
        return NULL;
    }
    for (int i = 0; i < c->count; i++) {
        const column* x = &c->item[i];
        const int64_t* scene = *x->data;
        for (int64_t j = 0; x->kind == SCENE && j < x->rows * x->width; j++)
            if (scene[j] >= 0) number[scene[j]] = 1;
    }
    *used = 0;
    for (int64_t i = 0; i < scenes; i++) number[i] = number[i] ? (*used)++ : -1;
    return number;
}

static firm_status put_column(hdf5_writer* w, const column* c, const int64_t* number,
                              uint64_t* hash, firm_error* err) {
    const hsize_t dims[2] = {(hsize_t)c->rows, (hsize_t)c->width};
    void* data = *c->data;
    int64_t* renamed = NULL;
    if (c->kind == SCENE) {
        int64_t n = c->rows * c->width;
        renamed = mem_alloc((size_t)n * sizeof *renamed);
        if (!renamed) return FAIL(err, FIRM_E_MEMORY, "no memory to write a pack");
        for (int64_t i = 0; i < n; i++)
            renamed[i] = ((int64_t*)data)[i] < 0 ? -1 : number[((int64_t*)data)[i]];
        data = renamed;
    }
    *hash = hash_column(*hash, c, data);
    firm_status st =
        hdf5_put(w, c->name, file_type(c->kind), memory_type(c->kind), 2, dims, data, err);
    mem_free(renamed);
    return st;
}

static firm_status put_states(hdf5_writer* w, const pack* p, const int64_t* number, int64_t used,
                              uint64_t* hash, firm_error* err) {
    const size_t dim = (size_t)drawn_dim(p->spec);
    double* state = mem_alloc((size_t)used * dim * sizeof *state);
    if (!state) return FAIL(err, FIRM_E_MEMORY, "no memory for %" PRId64 " states", used);
    for (int64_t i = 0; i < p->scenes; i++)
        if (number[i] >= 0)
            memcpy(state + (size_t)number[i] * dim, pack_state(p, i), dim * sizeof *state);
    column c = {.kind = REAL64, .rows = used, .width = (int)dim, .data = (void**)&state};
    snprintf(c.name, sizeof c.name, "state");
    firm_status st = put_column(w, &c, NULL, hash, err);
    mem_free(state);
    return st;
}

typedef struct drawing {
    pictures* from;  // NULL: those that `kept` holds already
    const pack* kept;
    picture_background background;
    size_t room;  // of a packed frame in `packed`
    int64_t scene[BLOCK];
    uint8_t* packed;              // (BLOCK, room)
    const uint8_t* bytes[BLOCK];  // of a packed frame
    size_t size[BLOCK];
    firm_status status[BLOCK];
} drawing;

static void draw_one(void* arg, int item, int worker) {
    drawing* d = arg;
    uint8_t rgb[PICTURE_MOST], *to = d->packed + (size_t)item * d->room;
    if (!d->from) {
        const int64_t* at = d->kept->picture_at + d->scene[item];
        d->bytes[item] = d->kept->picture + at[0];
        d->size[item] = (size_t)(at[1] - at[0]);
        d->status[item] = FIRM_OK;
        return;
    }
    d->bytes[item] = to;
    d->status[item] = pictures_get(d->from, worker, d->scene[item], rgb);
    if (d->status[item] != FIRM_OK) return;
    size_t n = picture_pack(rgb, d->background, 3, to);
    if (n == 0) d->status[item] = FIRM_E_MEMORY;
    for (; n % 4; n++) to[n] = 0;  // whole words, for the checksum
    d->size[item] = n;
}

static firm_status put_block(hdf5_writer* w, hid_t set, drawing* d, int n, pool* workers,
                             int64_t* at, int64_t first, uint64_t* hash, firm_error* err) {
    pool_for(workers, n, draw_one, d);
    for (int i = 0; i < n; i++) {
        if (d->status[i] != FIRM_OK)
            return FAIL(err, d->status[i], "a frame of the pack cannot be drawn");
        at[first + i + 1] = at[first + i] + (int64_t)d->size[i];
    }
    const hsize_t end = (hsize_t)at[first + n];
    if (H5Dset_extent(set, &end) < 0) return FAIL(err, FIRM_E_IO, "the pack cannot grow");
    for (int i = 0; i < n; i++) {
        *hash = hdf5_hash(*hash, d->bytes[i], d->size[i]);
        TRY(hdf5_put_rows(w, set, H5T_NATIVE_UINT8, at[first + i], (int64_t)d->size[i], d->bytes[i],
                          err));
    }
    return FIRM_OK;
}

static firm_status put_pictures(hdf5_writer* w, const pack* p, pictures* from, pool* workers,
                                const int64_t* number, int64_t used, uint64_t* hash,
                                firm_error* err) {
    const size_t bytes = task_frame_bytes(&p->spec->task), room = picture_bound(bytes) + 4;
    uint8_t* background = mem_alloc(bytes);
    int64_t* at = mem_calloc((size_t)used + 1, sizeof *at);
    drawing* d = mem_calloc(1, sizeof *d);
    hid_t set = -1;
    const hsize_t none = 0;
    if (d) *d = (drawing){.from = from, .kept = p, .room = room, .packed = mem_alloc(BLOCK * room)};
    firm_status st = background && at && d && d->packed
                         ? FIRM_OK
                         : FAIL(err, FIRM_E_MEMORY, "no memory to pack frames");
    int64_t first_scene = 0;
    while (number[first_scene] < 0) first_scene++;
    if (st == FIRM_OK && !from) memcpy(background, p->background, bytes);
    if (st == FIRM_OK && from && pictures_get(from, 0, first_scene, background) != FIRM_OK)
        st = FAIL(err, FIRM_E_VALUE, "a frame of the pack cannot be drawn");
    if (st == FIRM_OK)
        st = hdf5_dataset(w, "picture", H5T_STD_U8LE, 1, &none, 1 << 16, 0, &set, err);
    if (st == FIRM_OK) d->background = (picture_background){background, bytes};
    progress bar;
    progress_begin(&bar, "draw", used);
    int64_t done = 0;
    for (int64_t scene = first_scene; done < used && st == FIRM_OK;) {
        int n = 0;
        for (; scene < p->scenes && n < BLOCK; scene++)
            if (number[scene] >= 0) d->scene[n++] = scene;
        st = put_block(w, set, d, n, workers, at, done, hash, err);
        done += n;
        progress_step(&bar, done, "");
    }
    progress_end(&bar);
    if (set >= 0) H5Dclose(set);
    column columns[] = {
        {.name = "picture_at", .kind = INT64, .rows = used + 1, .width = 1, .data = (void**)&at},
        {.name = "background",
         .kind = BYTE,
         .rows = (int64_t)bytes,
         .width = 1,
         .data = (void**)&background}};
    for (int i = 0; i < 2 && st == FIRM_OK; i++) st = put_column(w, &columns[i], NULL, hash, err);
    if (d) mem_free(d->packed);
    mem_free(d);
    mem_free(at);
    mem_free(background);
    return st;
}

static firm_status put_notes(hdf5_writer* w, const pack* p, int64_t used, uint64_t hash,
                             firm_error* err) {
    TRY(made_for_put(w, p->spec, err));
    TRY(hdf5_put_text(w, "kind", "pack", err));
    TRY(hdf5_put_text(w, "renderer", p->spec->sim ? p->spec->sim->renderer : "recorded", err));
    TRY(hdf5_put_text(w, "selection", p->selection, err));
    TRY(hdf5_put_u64(w, "data_hash", p->data_hash, err));
    TRY(hdf5_put_u64(w, "data_seed", p->data_seed, err));
    TRY(hdf5_put_u64(w, "scenes", (uint64_t)used, err));
    for (int i = 0; i < PACK_SOURCES; i++) {
        char name[32];
        if (i == PACK_D && !p->set[i].count) continue;  // as before there was any
        snprintf(name, sizeof name, "%s_records", source_name[i]);
        TRY(hdf5_put_u64(w, name, (uint64_t)p->set[i].count, err));
        snprintf(name, sizeof name, "%s_histories", source_name[i]);
        TRY(hdf5_put_u64(w, name, (uint64_t)p->set[i].histories, err));
    }
    TRY(hdf5_put_u64(w, "lists", (uint64_t)p->lists, err));
    for (int i = 0; i < p->lists; i++) {
        char name[32], text[64];
        snprintf(name, sizeof name, "list%d", i);
        snprintf(text, sizeof text, "%d %d %d", to_file(p->list[i].source), p->list[i].lag,
                 p->list[i].p.count);
        TRY(hdf5_put_text(w, name, text, err));
    }
    return hdf5_put_u64(w, "checksum", hash, err);
}

static firm_status put_all(hdf5_writer* w, pack* p, pictures* draw, pool* workers, pack_file* made,
                           firm_error* err) {
    columns c;
    uint64_t hash = HDF5_HASH_START;
    list_columns(p, &c);
    int64_t* number = renumber(&c, p->scenes, &made->scenes, err);
    if (!number) return err->status;
    firm_status st = made->scenes ? FIRM_OK : FAIL(err, FIRM_E_VALUE, "there is nothing to pack");
    for (int i = 0; i < c.count && st == FIRM_OK; i++)
        st = put_column(w, &c.item[i], number, &hash, err);
    if (st == FIRM_OK)
        st = draw || p->picture
                 ? put_pictures(w, p, draw, workers, number, made->scenes, &hash, err)
                 : put_states(w, p, number, made->scenes, &hash, err);
    const hsize_t dim = (hsize_t)p->spec->task.action_dim;
    if (st == FIRM_OK)
        st = hdf5_put(w, "action_mean", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 1, &dim, p->action_mean,
                      err);
    if (st == FIRM_OK)
        st = hdf5_put(w, "action_std", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, 1, &dim, p->action_std,
                      err);
    hash = hash_statistics(hash, p);
    if (st == FIRM_OK) st = put_notes(w, p, made->scenes, hash, err);
    mem_free(number);
    return st;
}

firm_status pack_write(const pack* p, pictures* draw, pool* workers, const char* path,
                       pack_file* made, firm_error* err) {
    hdf5_writer w;
    pack copy = *p;  // columns point into it
    TRY(hdf5_create(&w, path, err));
    firm_status st = put_all(&w, &copy, draw, workers, made, err);
    if (st == FIRM_OK)
        st = hdf5_commit(&w, err);
    else
        hdf5_abandon(&w);
    struct stat info;
    made->bytes = st == FIRM_OK && stat(path, &info) == 0 ? (int64_t)info.st_size : 0;
    return st;
}

// ---- reading ------------------------------------------------------------------------------------

static firm_status damaged(const char* path, firm_error* err) {
    return FAIL(err, FIRM_E_FORMAT, "%s is damaged; make it again with `firm pack`", path);
}

static firm_status get_notes(hdf5_file* file, const char* path, pack* p, firm_error* err) {
    char kind[32] = "", task[TASK_NAME];
    made_for_name(file, task);
    uint64_t n = 0;
    if (!hdf5_get_text(file, "kind", kind, sizeof kind) || strcmp(kind, "pack") != 0)
        return FAIL(err, FIRM_E_FORMAT, "%s is no pack; give a file made by `firm pack`", path);
    if (strcmp(task, p->spec->task.name) != 0)
        return FAIL(err, FIRM_E_TASK, "%s is a pack of '%s', not of '%s'", path, task,
                    p->spec->task.name);
    TRY(made_for_check(file, path, p->spec, err));
    if (!hdf5_get_text(file, "selection", p->selection, sizeof p->selection) ||
        !hdf5_get_u64(file, "data_hash", &p->data_hash) ||
        !hdf5_get_u64(file, "data_seed", &p->data_seed) || !hdf5_get_u64(file, "scenes", &n) ||
        n < 1 || n > INT32_MAX)
        return damaged(path, err);
    p->scenes = (int64_t)n;
    for (int i = 0; i < PACK_SOURCES; i++) {
        char name[32];
        uint64_t count = 0, histories = 0;
        snprintf(name, sizeof name, "%s_records", source_name[i]);
        int ok = hdf5_get_u64(file, name, &count), none = i == PACK_D && !ok;
        snprintf(name, sizeof name, "%s_histories", source_name[i]);
        ok = none || (ok && hdf5_get_u64(file, name, &histories));
        if (!ok || count > INT32_MAX || histories > count || (count && !histories))
            return damaged(path, err);
        p->set[i].count = (int)count;
        p->set[i].histories = (int)histories;
    }
    if (!hdf5_get_u64(file, "lists", &n) || n > PACK_LISTS) return damaged(path, err);
    p->lists = (int)n;
    for (int i = 0; i < p->lists; i++) {
        char name[32], text[64] = "";
        pack_list* l = &p->list[i];
        snprintf(name, sizeof name, "list%d", i);
        if (!hdf5_get_text(file, name, text, sizeof text)) return damaged(path, err);
        words w = {text};
        l->source = from_file((int)words_whole(&w, 0, HELD_IN_FILE));
        l->lag = (int)words_whole(&w, 0, INT32_MAX);
        l->p.count = (int)words_whole(&w, 1, INT32_MAX);
        if (!words_end(&w)) return damaged(path, err);
    }
    return FIRM_OK;
}

static hdf5_number number_type(column_kind k) {
    return k == REAL32   ? HDF5_FLOAT
           : k == REAL64 ? HDF5_DOUBLE
           : k == INT32  ? HDF5_INT32
           : k == BYTE   ? HDF5_UINT8
                         : HDF5_INT64;
}

static firm_status get_column(hdf5_file* file, const char* path, const column* c, uint64_t* hash,
                              firm_error* err) {
    int rank;
    int64_t dims[HDF5_MAX_RANK];
    if (hdf5_width(file, c->name) == 0)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s lacks the column %s of a pack of this version; make it again with "
                    "`firm pack`",
                    path, c->name);
    TRY(hdf5_shape(file, c->name, &rank, dims, err));
    if (rank != 2 || dims[0] != c->rows || dims[1] != c->width) return damaged(path, err);
    *c->data = mem_alloc((size_t)c->rows * (size_t)c->width * kind_bytes[c->kind] + 4);
    if (!*c->data) return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", path);
    TRY(hdf5_get(file, c->name, number_type(c->kind), *c->data, err));
    *hash = hash_column(*hash, c, *c->data);
    return FIRM_OK;
}

// the rest of a state is zero: nothing but its picture is asked for
static firm_status get_states(hdf5_file* file, const char* path, pack* p, uint64_t* hash,
                              firm_error* err) {
    double* drawn = NULL;
    const size_t dim = (size_t)p->spec->state->dim, n = (size_t)drawn_dim(p->spec);
    column c = {.name = "state",
                .kind = REAL64,
                .rows = p->scenes,
                .width = (int)n,
                .data = (void**)&drawn};
    firm_status st = get_column(file, path, &c, hash, err);
    p->state = st == FIRM_OK ? mem_calloc((size_t)p->scenes, dim * sizeof *p->state) : NULL;
    if (st == FIRM_OK && !p->state) st = FAIL(err, FIRM_E_MEMORY, "no memory to read %s", path);
    for (size_t i = 0; i < (size_t)p->scenes && st == FIRM_OK; i++)
        memcpy(p->state + i * dim, drawn + i * n, n * sizeof *drawn);
    mem_free(drawn);
    return st;
}

static firm_status get_pictures(hdf5_file* file, const char* path, pack* p, uint64_t* hash,
                                firm_error* err) {
    int rank;
    int64_t dims[HDF5_MAX_RANK];
    TRY(hdf5_shape(file, "picture", &rank, dims, err));
    if (rank != 1 || dims[0] % 4) return damaged(path, err);
    p->picture = mem_alloc((size_t)dims[0] + 1);
    if (!p->picture) return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", path);
    TRY(hdf5_get(file, "picture", HDF5_UINT8, p->picture, err));
    column c[] = {{.name = "picture_at",
                   .kind = INT64,
                   .rows = p->scenes + 1,
                   .width = 1,
                   .data = (void**)&p->picture_at},
                  {.name = "background",
                   .kind = BYTE,
                   .rows = (int64_t)task_frame_bytes(&p->spec->task),
                   .width = 1,
                   .data = (void**)&p->background}};
    uint64_t before = *hash;
    for (int i = 0; i < 2; i++) TRY(get_column(file, path, &c[i], hash, err));
    *hash = before;  // in the order of writing: pictures one by one, then the two columns
    for (int64_t i = 0; i < p->scenes; i++) {
        int64_t from = p->picture_at[i], to = p->picture_at[i + 1];
        if (from < 0 || to <= from || to > dims[0] || from % 4 || to % 4) return damaged(path, err);
        *hash = hdf5_hash(*hash, p->picture + from, (size_t)(to - from));
    }
    for (int i = 0; i < 2; i++) *hash = hash_column(*hash, &c[i], *c[i].data);
    return FIRM_OK;
}

// Every index within its table, the records of a history one after the other, every number finite,
// every spread a distance, every state one of the task: later code trusts them. A record may do
// without a frame (-1), a pair may not.
static int column_plausible(const pack* p, const column* x, int is_pair) {
    const int64_t n = x->rows * x->width, least = is_pair ? 0 : -1;
    for (int64_t i = 0; i < n; i++) {
        if (x->kind == SCENE) {
            const int64_t scene = ((int64_t*)*x->data)[i];
            if (scene < least || scene >= p->scenes) return 0;
        }
        if (x->kind == REAL32 && !isfinite(((float*)*x->data)[i])) return 0;
        if (x->kind == BYTE && ((uint8_t*)*x->data)[i] > 1) return 0;
    }
    return 1;
}

static int plausible(const pack* p, const columns* c) {
    const env_spec* spec = p->spec;
    for (int i = 0; i < c->count; i++)
        if (!column_plausible(p, &c->item[i], strncmp(c->item[i].name, "pairs_", 6) == 0)) return 0;
    for (int i = 0; i < PACK_SOURCES; i++)
        for (int j = 0; j < p->set[i].count; j++) {
            const int* history = p->set[i].history + j;
            if (*history < (j ? history[-1] : 0) || *history >= p->set[i].histories) return 0;
        }
    for (int64_t i = 0; i < (int64_t)p->set[PACK_D].count * spec->task.horizon; i++)
        if (p->set[PACK_D].spread[i] < 0) return 0;
    for (int64_t i = 0; p->state && i < p->scenes; i++) {
        const double* state = p->state + i * spec->state->dim;
        for (int k = 0; k < spec->state->dim; k++)
            if (!isfinite(state[k])) return 0;
        if (!env_fits(spec, state)) return 0;
    }
    for (int k = 0; k < spec->task.action_dim; k++)
        if (!isfinite(p->action_mean[k]) || !isfinite(p->action_std[k]) || p->action_std[k] <= 0)
            return 0;
    return 1;
}

static firm_status get_all(hdf5_file* file, const char* path, pack* p, firm_error* err) {
    columns c;
    uint64_t hash = HDF5_HASH_START, checksum = 0;
    TRY(get_notes(file, path, p, err));
    list_columns(p, &c);
    for (int i = 0; i < c.count; i++) TRY(get_column(file, path, &c.item[i], &hash, err));
    if (hdf5_width(file, "state") > 0) {
        TRY(get_states(file, path, p, &hash, err));
    } else {
        TRY(get_pictures(file, path, p, &hash, err));
    }
    int rank, dim = p->spec->task.action_dim;
    int64_t dims[HDF5_MAX_RANK];
    for (int i = 0; i < 2; i++) {
        const char* name = i ? "action_std" : "action_mean";
        TRY(hdf5_shape(file, name, &rank, dims, err));
        if (rank != 1 || dims[0] != dim) return damaged(path, err);
        TRY(hdf5_get(file, name, HDF5_FLOAT, i ? p->action_std : p->action_mean, err));
    }
    hash = hash_statistics(hash, p);
    p->imagined_hash = hash_imagined(p, &c);
    if (!hdf5_get_u64(file, "checksum", &checksum) || checksum != hash || !plausible(p, &c))
        return damaged(path, err);
    return FIRM_OK;
}

firm_status pack_read(const char* path, const env_spec* spec, pack* p, firm_error* err) {
    hdf5_file* file;
    *p = (pack){.spec = spec};
    TRY(hdf5_open(path, &file, err));
    firm_status st = get_all(file, path, p, err);
    hdf5_close(file);
    if (st != FIRM_OK) pack_free(p);
    return st;
}
