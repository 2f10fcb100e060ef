// rows_serve.c - an episodes file for another program: one line of JSON says what there is, then
// each request, "NAME FIRST COUNT", is answered with "BYTES" and so many bytes, or with "error" and
// a sentence. The columns come from the child process of hdf5_read.h.
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "data/episodes_internal.h"
#include "data/rows.h"
#include "io/json.h"

enum { REQUEST = 256, BLOCK = 16 << 20 };  // bytes of a request, of an answer's piece

typedef struct server {
    const char* path;
    const episodes* e;
    hdf5_file* file;
    frames* f;
    pool* p;
    FILE* out;
    char* block;  // (BLOCK) bytes
    int64_t first;
    firm_status drawn;  // of the frames at work
} server;

// ---- what there is ------------------------------------------------------------------------------

static const char* const type_name[HDF5_NUMBERS] = {
    [HDF5_INT8] = "b1",  [HDF5_UINT8] = "u1", [HDF5_INT32] = "i4",
    [HDF5_INT64] = "i8", [HDF5_FLOAT] = "f4", [HDF5_DOUBLE] = "f8"};

static int add_column(cJSON* list, const hdf5_file* file, int i) {
    hdf5_number as;
    int rank;
    int64_t dims[HDF5_MAX_RANK];
    const char* name = hdf5_column_name(file, i, &as);
    // what cannot be read is not offered
    if (!name || strpbrk(name, " \n@") || hdf5_shape(file, name, &rank, dims, NULL) != FIRM_OK)
        return 1;
    cJSON* column = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(list, column)) {
        cJSON_Delete(column);
        return 0;
    }
    cJSON* shape = cJSON_AddArrayToObject(column, "shape");
    int fine = shape && cJSON_AddStringToObject(column, "name", name) &&
               cJSON_AddStringToObject(column, "type", type_name[as]);
    for (int k = 0; fine && k < rank; k++)
        fine = cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)dims[k]));
    return fine;
}

static int add_all(cJSON* j, const server* s) {
    const episodes* e = s->e;
    const task_typed* t = &e->spec->task;
    char hash[32];
    snprintf(hash, sizeof hash, "%" PRIu64, e->hash);
    int fine = cJSON_AddStringToObject(j, "task", t->name) &&
               cJSON_AddNumberToObject(j, "episodes", e->count) &&
               cJSON_AddNumberToObject(j, "rows", (double)e->rows) &&
               cJSON_AddNumberToObject(j, "state", e->spec->state->dim) &&
               cJSON_AddNumberToObject(j, "action", t->action_dim) &&
               cJSON_AddNumberToObject(j, "image", t->image) &&
               cJSON_AddNumberToObject(j, "period_ms", t->period_ms) &&
               cJSON_AddBoolToObject(j, "stored_frames", e->pixels != NULL) &&
               cJSON_AddStringToObject(j, "hash", hash);
    cJSON* names = fine ? cJSON_AddArrayToObject(j, "config") : NULL;
    for (int i = 0; (fine = fine && names) && i < t->config_dim; i++)
        fine = cJSON_AddItemToArray(names, cJSON_CreateString(t->config_name[i]));
    state_field field[STATE_FIELDS];
    const int fields = e->spec->layout->recording ? 0 : episodes_state_fields(e->spec, field);
    names = fine ? cJSON_AddArrayToObject(j, "state_columns") : NULL;
    for (int i = 0; (fine = fine && names) && i < fields; i++)
        fine = cJSON_AddItemToArray(names, cJSON_CreateString(field[i].name));
    cJSON* list = fine ? cJSON_AddArrayToObject(j, "columns") : NULL;
    for (int i = 0; (fine = fine && list) && i < hdf5_columns(s->file); i++)
        fine = add_column(list, s->file, i);
    return fine;
}

static firm_status introduce(const server* s, firm_error* err) {
    cJSON* j = cJSON_CreateObject();
    char* text = j && add_all(j, s) ? cJSON_PrintUnformatted(j) : NULL;
    cJSON_Delete(j);
    if (!text) return FAIL(err, FIRM_E_MEMORY, "no memory to describe %s", s->path);
    fprintf(s->out, "%s\n", text);
    cJSON_free(text);
    return FIRM_OK;
}

// ---- answers ------------------------------------------------------------------------------------

// One kind of numbers that can be asked for: bytes of a row, and how `rows` of them are made.
typedef struct source {
    const char* name;
    hdf5_number as;
    int64_t rows, row_bytes;
    firm_status (*fill)(server* s, const struct source* from, int64_t first, int64_t rows,
                        firm_error* err);
} source;

static firm_status fill_column(server* s, const source* from, int64_t first, int64_t rows,
                               firm_error* err) {
    return hdf5_get_rows(s->file, from->name, from->as, first, rows, s->block, err);
}

static firm_status fill_memory(server* s, const source* from, int64_t first, int64_t rows,
                               firm_error* err) {
    (void)err;
    const episodes* e = s->e;
    const void* all = from->name[1] == 'l'   ? (const void*)e->length
                      : from->name[1] == 's' ? (const void*)e->state
                                             : (const void*)e->action;
    memcpy(s->block, (const char*)all + first * from->row_bytes, (size_t)(rows * from->row_bytes));
    return FIRM_OK;
}

static firm_status fill_config(server* s, const source* from, int64_t first, int64_t rows,
                               firm_error* err) {
    (void)err;
    for (int64_t i = 0; i < rows; i++)
        env_config(s->e->spec, s->e->state + (first + i) * s->e->spec->state->dim,
                   (float*)(void*)(s->block + i * from->row_bytes));
    return FIRM_OK;
}

static void draw(void* arg, int item, int worker) {
    server* s = arg;
    uint8_t* to = (uint8_t*)s->block + (size_t)item * task_frame_bytes(&s->e->spec->task);
    firm_status status = frames_get(s->f, worker, s->first + item, to);
    if (status != FIRM_OK) __atomic_store_n(&s->drawn, status, __ATOMIC_RELAXED);
}

static firm_status fill_frames(server* s, const source* from, int64_t first, int64_t rows,
                               firm_error* err) {
    (void)from;
    s->first = first;
    s->drawn = FIRM_OK;
    pool_for(s->p, (int)rows, draw, s);
    if (s->drawn == FIRM_OK) return FIRM_OK;
    return FAIL(err, s->drawn, "cannot read or draw the frames of rows %lld to %lld of %s",
                (long long)first, (long long)(first + rows - 1), s->path);
}

static int find_column(const server* s, const char* name, source* out) {
    for (int i = 0; i < hdf5_columns(s->file); i++) {
        hdf5_number as;
        int rank;
        int64_t dims[HDF5_MAX_RANK];
        const char* found = hdf5_column_name(s->file, i, &as);
        if (!found || strcmp(found, name) != 0) continue;
        if (hdf5_shape(s->file, name, &rank, dims, NULL) != FIRM_OK) return 0;
        int64_t bytes = hdf5_number_bytes(as);
        for (int k = 1; k < rank; k++) bytes *= dims[k];
        *out = (source){found, as, dims[0], bytes, fill_column};
        return 1;
    }
    return 0;
}

static int find_source(const server* s, const char* name, source* out) {
    const episodes* e = s->e;
    const task_typed* t = &e->spec->task;
    const source own[] = {
        {"@length", HDF5_INT32, e->count, sizeof *e->length, fill_memory},
        {"@state", HDF5_DOUBLE, e->rows, (int64_t)sizeof *e->state * e->spec->state->dim,
         fill_memory},
        {"@action", HDF5_FLOAT, e->rows, (int64_t)sizeof *e->action * t->action_dim, fill_memory},
        {"@config", HDF5_FLOAT, e->rows, (int64_t)sizeof(float) * t->config_dim, fill_config},
        {"@frame", HDF5_UINT8, e->rows, (int64_t)task_frame_bytes(t), fill_frames},
    };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(own[i].name, name) == 0) return (*out = own[i]), 1;
    return find_column(s, name, out);
}

static firm_status find(const server* s, char* request, source* out, int64_t span[2],
                        firm_error* err) {
    char *rest = NULL, *end = NULL;
    const char *name = strtok_r(request, " \n", &rest), *first = strtok_r(NULL, " \n", &rest),
               *count = strtok_r(NULL, " \n", &rest);
    if (!count || strtok_r(NULL, " \n", &rest))
        return FAIL(err, FIRM_E_USAGE, "a request must be NAME FIRST COUNT");
    if (!find_source(s, name, out))
        return FAIL(err, FIRM_E_USAGE, "%s has no column '%.60s' that can be read", s->path, name);
    span[0] = strtoll(first, &end, 10);
    int whole = *end == 0;
    span[1] = strtoll(count, &end, 10);
    if (!whole || *end || span[0] < 0 || span[1] < 0 || span[0] > out->rows ||
        span[1] > out->rows - span[0])
        return FAIL(err, FIRM_E_USAGE, "rows %.20s and %.20s after it are not in '%.60s' of %s",
                    first, count, name, s->path);
    if (out->row_bytes < 1 || out->row_bytes > BLOCK)
        return FAIL(err, FIRM_E_FORMAT, "a row of '%.60s' of %s has %lld bytes; %d are possible",
                    name, s->path, (long long)out->row_bytes, BLOCK);
    return FIRM_OK;
}

// The first piece is made before its size is promised, so that most failures have a sentence. A
// later one ends the program: nothing else can be told in the middle of an answer.
static firm_status answer(server* s, char* request, firm_error* err) {
    source from;
    int64_t span[2] = {0, 0};
    firm_error why = {0};
    firm_status status = find(s, request, &from, span, &why);
    const int64_t most = status == FIRM_OK ? BLOCK / from.row_bytes : 0;
    for (int64_t done = 0; status == FIRM_OK && (done == 0 || done < span[1]); done += most) {
        const int64_t left = span[1] - done, rows = left < most ? left : most;
        if (rows) status = from.fill(s, &from, span[0] + done, rows, done ? err : &why);
        if (status != FIRM_OK && done) return status;
        if (status != FIRM_OK) break;
        if (!done) fprintf(s->out, "%lld\n", (long long)(span[1] * from.row_bytes));
        fwrite(s->block, (size_t)from.row_bytes, (size_t)rows, s->out);
    }
    if (status != FIRM_OK) fprintf(s->out, "error %s\n", why.message);
    return FIRM_OK;
}

static firm_status serve(server* s, FILE* in, firm_error* err) {
    char request[REQUEST];
    s->block = mem_alloc(BLOCK);
    if (!s->block) return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", s->path);
    TRY(introduce(s, err));
    while (fflush(s->out) == 0 && fgets(request, sizeof request, in)) {
        if (!strchr(request, '\n'))
            return FAIL(err, FIRM_E_USAGE, "a request has more than %d letters", REQUEST - 2);
        TRY(answer(s, request, err));
    }
    return FIRM_OK;  // whoever asked has gone
}

firm_status rows_serve(const char* path, const episodes* e, frames* f, pool* p, FILE* in, FILE* out,
                       firm_error* err) {
    server s = {.path = path, .e = e, .f = f, .p = p, .out = out};
    TRY(hdf5_open(path, &s.file, err));
    firm_status status = serve(&s, in, err);
    hdf5_close(s.file);
    mem_free(s.block);
    return status;
}
