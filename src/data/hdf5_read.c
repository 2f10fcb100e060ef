// hdf5_read.c - see hdf5_read.h: starts the child process of hdf5_child.c, keeps its catalogue and
// asks it for rows. What the child says is checked like any other input: a file that took the child
// over could make it say anything.
#define _GNU_SOURCE
#include "data/hdf5_read.h"

#include <errno.h>
#include <hdf5.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/text.h"
#include "data/hdf5_child.h"

enum {
    PATIENCE_MS = 120000,  // without a byte; the child's own limit of processor time comes first
    ASK_BYTES = 4 << 20    // of a column at a time
};

struct hdf5_file {
    pid_t process;
    int socket;
    int silent;            // 1: the child is gone or cannot be trusted
    pthread_mutex_t lock;  // one request at a time
    hdf5_catalogue catalogue;
    hdf5_column* column;
    hdf5_attribute* attribute;
    char path[];
};

// ---- talking ------------------------------------------------------------------------------------

// 1 when all bytes came.
static int take(hdf5_file* f, void* data, size_t bytes) {
    for (char* to = data; bytes && !f->silent;) {
        struct pollfd ready = {.fd = f->socket, .events = POLLIN};
        const int any = poll(&ready, 1, PATIENCE_MS);
        if (any < 0 && errno == EINTR) continue;
        ssize_t n = any > 0 ? recv(f->socket, to, bytes, 0) : 0;
        if (n < 0 && errno == EINTR) continue;
        if (any == 0) kill(f->process, SIGKILL);
        if (n <= 0) {
            f->silent = 1;
            break;
        }
        to += n;
        bytes -= (size_t)n;
    }
    return !f->silent;
}

static int ask(hdf5_file* f, const hdf5_request* r, hdf5_reply* reply) {
    if (!f->silent && send(f->socket, r, sizeof *r, MSG_NOSIGNAL) != (ssize_t)sizeof *r)
        f->silent = 1;
    return take(f, reply, sizeof *reply);
}

// ---- opening ------------------------------------------------------------------------------------

static firm_status check_path(const char* path, firm_error* err) {
    struct stat s;
    if (stat(path, &s) != 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return FAIL(err, FIRM_E_MISSING, "%s does not exist; check the name, or make it first",
                        path);
        return FAIL(err, FIRM_E_IO, "cannot read %s: %s", path, strerror(errno));
    }
    if (S_ISDIR(s.st_mode))
        return FAIL(err, FIRM_E_USAGE, "%s is a folder; give the name of a file", path);
    if (!S_ISREG(s.st_mode))
        return FAIL(err, FIRM_E_USAGE, "%s is no regular file; copy its content to one", path);
    if (access(path, R_OK) != 0)
        return FAIL(err, FIRM_E_IO, "cannot read %s: %s; change its permissions", path,
                    strerror(errno));
    return FIRM_OK;
}

static firm_status start(hdf5_file* f, firm_error* err) {
    int pair[2];
    sigset_t all, before;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return FAIL(err, FIRM_E_IO, "cannot start a process to read %s: %s", f->path,
                    strerror(errno));
    H5open();  // once here rather than in every child; it reads nothing
    // no handler of this program may run in the child
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    f->process = fork();
    if (f->process == 0) hdf5_child_serve(f->path, pair[1]);
    const int code = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(pair[1]);
    f->socket = pair[0];
    if (f->process > 0) return FIRM_OK;
    return FAIL(err, FIRM_E_IO, "cannot start a process to read %s: %s", f->path, strerror(code));
}

static firm_status damaged(const hdf5_file* f, firm_error* err) {
    return FAIL(err, FIRM_E_FORMAT,
                "%s is damaged: reading its structure failed; copy it again or make it anew",
                f->path);
}

static firm_status no_memory(const char* path, firm_error* err) {
    return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", path);
}

static firm_status judge(const hdf5_file* f, firm_error* err) {
    const char* name = f->catalogue.name;
    switch (f->catalogue.verdict) {
        case HDF5_FINE: return FIRM_OK;
        case HDF5_FOREIGN:
            return FAIL(err, FIRM_E_FORMAT,
                        "%s is not an HDF5 file; give one made by `firm collect`", f->path);
        case HDF5_CUT:
            return FAIL(err, FIRM_E_FORMAT,
                        "%s is cut short or damaged; copy it again or make it anew", f->path);
        case HDF5_LINKED:
            return FAIL(err, FIRM_E_FORMAT,
                        "'%s' of %s is a link, which is not followed; put the column itself there",
                        name, f->path);
        case HDF5_OUTSIDE:
            return FAIL(err, FIRM_E_FORMAT,
                        "column '%s' of %s is kept in another file, which is not read; put its "
                        "numbers into the file (h5repack does)",
                        name, f->path);
        case HDF5_CROWDED:
            return FAIL(
                err, FIRM_E_FORMAT,
                "%s has more than %d columns or attributes; give one made by `firm collect`",
                f->path, HDF5_COLUMNS);
        case HDF5_NO_MEMORY: return no_memory(f->path, err);
        default: return damaged(f, err);
    }
}

static int column_sound(const hdf5_column* c) {
    int64_t bytes = c->size > 8 ? c->size : 8;  // in the file or in memory
    int sound = c->kind >= HDF5_OTHER && c->kind <= HDF5_FLAG && c->rank >= 0 &&
                c->rank <= HDF5_MAX_RANK && c->size >= 1 && c->chunk_rows >= 1 && c->stored >= 0 &&
                c->growth >= 0;
    for (int i = 0; sound && i < c->rank; i++)
        sound = c->dims[i] >= 0 && !__builtin_mul_overflow(bytes, c->dims[i], &bytes);
    return sound && memchr(c->name, 0, HDF5_NAME);
}

static firm_status learn(hdf5_file* f, firm_error* err) {
    hdf5_catalogue* c = &f->catalogue;
    if (!take(f, c, sizeof *c) || !memchr(c->name, 0, HDF5_NAME) || c->columns < 0 ||
        c->columns > HDF5_COLUMNS || c->attributes < 0 || c->attributes > HDF5_ATTRIBUTES)
        return damaged(f, err);
    TRY(judge(f, err));
    f->column = mem_calloc((size_t)c->columns + 1, sizeof *f->column);
    f->attribute = mem_calloc((size_t)c->attributes + 1, sizeof *f->attribute);
    if (!f->column || !f->attribute) return no_memory(f->path, err);
    if (!take(f, f->column, (size_t)c->columns * sizeof *f->column) ||
        !take(f, f->attribute, (size_t)c->attributes * sizeof *f->attribute))
        return damaged(f, err);
    for (int i = 0; i < c->columns; i++)
        if (!column_sound(&f->column[i])) return damaged(f, err);
    for (int i = 0; i < c->attributes; i++)
        if (!memchr(f->attribute[i].name, 0, HDF5_NAME) ||
            !memchr(f->attribute[i].text, 0, HDF5_TEXT))
            return damaged(f, err);
    return FIRM_OK;
}

firm_status hdf5_open(const char* path, hdf5_file** out, firm_error* err) {
    *out = NULL;
    TRY(check_path(path, err));
    const size_t length = strlen(path) + 1;
    hdf5_file* f = mem_calloc(1, sizeof *f + length);
    if (!f) return no_memory(path, err);
    f->socket = -1;
    memcpy(f->path, path, length);
    pthread_mutex_init(&f->lock, NULL);
    firm_status status = start(f, err);
    if (status == FIRM_OK) status = learn(f, err);
    if (status == FIRM_OK)
        *out = f;
    else
        hdf5_close(f);
    return status;
}

void hdf5_close(hdf5_file* f) {
    if (!f) return;
    if (f->socket >= 0) {
        shutdown(f->socket, SHUT_RDWR);
        close(f->socket);
    }
    while (f->process > 0 && waitpid(f->process, NULL, 0) < 0 && errno == EINTR) continue;
    pthread_mutex_destroy(&f->lock);
    mem_free(f->column);
    mem_free(f->attribute);
    mem_free(f);
}

// ---- the catalogue ------------------------------------------------------------------------------

static int find_column(const hdf5_file* f, const char* name) {
    for (int i = 0; i < f->catalogue.columns; i++)
        if (strcmp(f->column[i].name, name) == 0) return i;
    return -1;
}

int hdf5_width(const hdf5_file* f, const char* name) {
    const int i = find_column(f, name);
    const hdf5_column* c = i < 0 ? NULL : &f->column[i];
    if (!c || c->rank < 1) return 0;
    int64_t width = 1;
    for (int k = 1; k < c->rank; k++) {
        if (c->dims[k] > 1 << 20) return 0;
        width *= c->dims[k];
        if (width > 1 << 20) return 0;
    }
    return (int)width;
}

static int64_t numbers_of(const hdf5_column* c) {
    int64_t n = 1;
    for (int i = 0; i < c->rank; i++) n *= c->dims[i];
    return n;
}

// What is claimed must be stored: a few bytes cannot ask for memory without end.
static firm_status check_column(const hdf5_file* f, const char* name, const hdf5_column** out,
                                firm_error* err) {
    const int i = find_column(f, name);
    if (i < 0)
        return FAIL(err, FIRM_E_FORMAT, "%s has no column '%s'; it is not a complete data set",
                    f->path, name);
    const hdf5_column* c = *out = &f->column[i];
    int64_t most;
    if (c->rank < 1)
        return FAIL(err, FIRM_E_FORMAT, "column '%s' of %s has a shape that does not fit", name,
                    f->path);
    if (c->filter)
        return FAIL(err, FIRM_E_FORMAT,
                    "column '%s' of %s is compressed in a way that is not read here (filter %d); "
                    "write it with gzip or Blosc",
                    name, f->path, c->filter);
    if (__builtin_mul_overflow(c->stored, c->growth, &most)) most = INT64_MAX;
    if (numbers_of(c) * c->size > most)
        return FAIL(err, FIRM_E_FORMAT,
                    "column '%s' of %s claims %lld bytes and stores %lld; the file is damaged: "
                    "copy it again or make it anew",
                    name, f->path, (long long)(numbers_of(c) * c->size), (long long)c->stored);
    return FIRM_OK;
}

firm_status hdf5_shape(const hdf5_file* f, const char* name, int* rank, int64_t dims[HDF5_MAX_RANK],
                       firm_error* err) {
    const hdf5_column* c;
    TRY(check_column(f, name, &c, err));
    *rank = c->rank;
    memcpy(dims, c->dims, sizeof c->dims);
    return FIRM_OK;
}

static const hdf5_attribute* find_attribute(const hdf5_file* f, const char* name, hdf5_kind kind) {
    for (int i = 0; i < f->catalogue.attributes; i++)
        if (f->attribute[i].kind == (int32_t)kind && strcmp(f->attribute[i].name, name) == 0)
            return &f->attribute[i];
    return NULL;
}

int hdf5_get_text(const hdf5_file* f, const char* attribute, char* out, size_t size) {
    const hdf5_attribute* a = find_attribute(f, attribute, HDF5_STRING);
    out[0] = 0;
    if (!a || strlen(a->text) >= size) return 0;
    memcpy(out, a->text, strlen(a->text) + 1);
    return 1;
}

int hdf5_get_u64(const hdf5_file* f, const char* attribute, uint64_t* out) {
    const hdf5_attribute* a = find_attribute(f, attribute, HDF5_INTEGER);
    if (a) *out = a->number;
    return a != NULL;
}

int hdf5_columns(const hdf5_file* f) {
    return f->catalogue.columns;
}

const char* hdf5_column_name(const hdf5_file* f, int i, hdf5_number* as) {
    const hdf5_column* c = &f->column[i];
    if (c->kind == HDF5_OTHER || c->rank < 1) return NULL;
    if (c->kind == HDF5_REAL)
        *as = c->size <= 4 ? HDF5_FLOAT : HDF5_DOUBLE;
    else if (c->kind == HDF5_FLAG)
        *as = HDF5_INT8;
    else
        *as = c->size == 1 ? HDF5_UINT8 : HDF5_INT64;
    return c->name;
}

void hdf5_list(const hdf5_file* f, char* out, size_t size) {
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < f->catalogue.columns; i++) {
        const char* name = f->column[i].name;
        if (used + strlen(name) + 7 > size) {  // room for ", ", " ..." and the end
            if (used + 5 <= size) memcpy(out + used, " ...", 5);
            return;
        }
        text_add(out, size, "%s%s", used ? ", " : "", name);
        used = strlen(out);
    }
}

// ---- numbers ------------------------------------------------------------------------------------

static firm_status unreadable(const hdf5_file* f, const char* name, const hdf5_reply* r,
                              firm_error* err) {
    if (!f->silent && r->verdict == HDF5_NO_MEMORY) return no_memory(f->path, err);
    if (!f->silent && r->verdict == HDF5_NO_FILTER)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "cannot decompress '%s' of %s; install hdf5-filter-plugin-blosc-serial, or the "
                    "file is damaged",
                    name, f->path);
    if (!f->silent && r->code > 0)
        return FAIL(err, FIRM_E_IO, "cannot read '%s' of %s: %s", name, f->path, strerror(r->code));
    return FAIL(err, FIRM_E_FORMAT,
                "cannot read '%s' of %s; the file is damaged: copy or collect it again", name,
                f->path);
}

static int same_class(const hdf5_column* c, hdf5_number as) {
    if (as == HDF5_FLOAT || as == HDF5_DOUBLE) return c->kind == HDF5_REAL;
    return c->kind == HDF5_INTEGER || c->kind == HDF5_FLAG;
}

// Whole chunks, as many as make a few megabytes.
static int64_t rows_at_once(const hdf5_column* c, int64_t row_bytes) {
    int64_t rows = ASK_BYTES / row_bytes / c->chunk_rows * c->chunk_rows;
    if (rows < c->chunk_rows) rows = c->chunk_rows;
    if (rows > HDF5_SLAB / row_bytes) rows = HDF5_SLAB / row_bytes;
    return rows < 1 ? 1 : rows;
}

firm_status hdf5_get_rows(hdf5_file* f, const char* name, hdf5_number as, int64_t first,
                          int64_t rows, void* out, firm_error* err) {
    const hdf5_column* c;
    TRY(check_column(f, name, &c, err));
    CHECK(first >= 0 && rows >= 0 && rows <= c->dims[0] - first, "rows beyond a column");
    if (!same_class(c, as))
        return FAIL(err, FIRM_E_FORMAT,
                    "column '%s' of %s holds another kind of value than expected", name, f->path);
    if (numbers_of(c) == 0) return FIRM_OK;
    const int64_t row_bytes = numbers_of(c) / c->dims[0] * hdf5_number_bytes(as);
    const int64_t most = rows_at_once(c, row_bytes);
    hdf5_reply reply = {HDF5_FINE, 0};
    pthread_mutex_lock(&f->lock);
    int fine = 1;
    for (int64_t row = 0; row < rows && fine; row += most) {
        const int64_t left = rows - row, some = left < most ? left : most;
        const hdf5_request r = {(int32_t)(c - f->column), (int32_t)as, first + row, some};
        fine = ask(f, &r, &reply) && reply.verdict == HDF5_FINE &&
               take(f, (char*)out + row * row_bytes, (size_t)(some * row_bytes));
    }
    pthread_mutex_unlock(&f->lock);
    return fine ? FIRM_OK : unreadable(f, name, &reply, err);
}

firm_status hdf5_get(hdf5_file* f, const char* name, hdf5_number as, void* out, firm_error* err) {
    const hdf5_column* c;
    TRY(check_column(f, name, &c, err));
    return hdf5_get_rows(f, name, as, 0, c->dims[0], out, err);
}

int hdf5_holds_bytes(const hdf5_file* f, const char* name) {
    const int i = find_column(f, name);
    return i >= 0 && f->column[i].kind == HDF5_INTEGER && f->column[i].size == 1;
}

int hdf5_holds_reals(const hdf5_file* f, const char* name) {
    const int i = find_column(f, name);
    return i >= 0 && f->column[i].kind == HDF5_REAL;
}

int hdf5_get_row(hdf5_file* f, const char* name, int64_t row, void* out) {
    const hdf5_column* c;
    const int width = hdf5_width(f, name);
    if (width < 1 || !hdf5_holds_bytes(f, name) || check_column(f, name, &c, NULL) != FIRM_OK ||
        row < 0 || row >= c->dims[0])
        return 1;
    const hdf5_request r = {(int32_t)(c - f->column), HDF5_UINT8, row, 1};
    hdf5_reply reply;
    pthread_mutex_lock(&f->lock);
    int fine = ask(f, &r, &reply) && reply.verdict == HDF5_FINE && take(f, out, (size_t)width);
    pthread_mutex_unlock(&f->lock);
    return !fine;
}
