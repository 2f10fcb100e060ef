// hdf5_child.c - the process that reads an HDF5 file for hdf5_read.c. It looks at everything at the
// root once (names, shapes, storage, attributes), sends that as a catalogue and then serves rows.
//
// A hostile file may crash it, hang it or make it take memory. So it has no terminal, no other open
// file and no core dump, and limits on address space and processor time. It opens no second file:
// links, external storage and virtual datasets are refused before anything is read through them.
#define _GNU_SOURCE
#include "data/hdf5_child.h"

#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "core/mem.h"
#include "data/hdf5.h"

enum {
    ROOM = 1 << 30,         // bytes of address space beyond what the process starts with
    LOOK_SECONDS = 1,       // of processor time for the structure, hundreds of times what it takes,
    LOOK_RATE = 1 << 30,    // and one more for each of these bytes in the file
    READ_SECONDS = 1,       // for one request,
    READ_RATE = 32 << 20,   // and one more for each of these bytes of the answer
    ROW_CACHE = 64 << 20,   // unpacked chunks kept for reading rows
    DEFLATE_GROWTH = 1032,  // zlib's limit; those of Blosc's other codecs but zstd are lower
    ZSTD_GROWTH = 65536,    // blocks of 128 kB in few bytes
    BLOSC_ZSTD = 5          // Blosc's number for it
};

typedef struct child {
    int socket;
    int64_t size;  // bytes of the file
    hid_t file;
    hdf5_catalogue catalogue;
    hdf5_column* column;        // (HDF5_COLUMNS)
    hdf5_attribute* attribute;  // (HDF5_ATTRIBUTES)
    hid_t open[HDF5_COLUMNS];   // datasets, once asked for; else -1
    void* slab;                 // for answers
    size_t slab_bytes;
} child;

int hdf5_number_bytes(hdf5_number n) {
    static const int bytes[HDF5_NUMBERS] = {1, 1, 4, 8, 4, 8};
    return bytes[n];
}

// ---- limits -------------------------------------------------------------------------------------

static void limit_seconds(int64_t seconds) {
    struct itimerval timer = {.it_value = {.tv_sec = (time_t)seconds}};
    setitimer(ITIMER_PROF, &timer, NULL);  // ends the process
}

static void limit(int what, rlim_t most) {
    struct rlimit l;
    if (getrlimit(what, &l) != 0 || l.rlim_cur <= most) return;
    l.rlim_cur = most;
    setrlimit(what, &l);
}

// Address space in use, bytes; 0 if unknown.
static rlim_t address_space(void) {
    unsigned long long pages = 0;
    char text[64] = "";
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    if (read(fd, text, sizeof text - 1) > 0) pages = strtoull(text, NULL, 10);
    close(fd);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

// Only the socket stays open; what the library or the allocator prints goes nowhere.
static void give_up_files(int keep) {
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3 && nowhere >= 0; i++) dup2(nowhere, i);
    if (keep > 3) close_range(3, (unsigned)keep - 1, 0);
    close_range((unsigned)keep + 1, ~0u, 0);
}

static int prepare(int socket) {
    socket = fcntl(socket, F_DUPFD_CLOEXEC, 3);  // out of the way of the three standard ones
    if (socket < 0) _exit(1);
    // a signal to the whole group is the parent's to answer; this process ends with it
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGTSTP, SIGXFSZ};
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF, SIGCHLD};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) signal(ignored[i], SIG_IGN);
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) signal(deadly[i], SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    give_up_files(socket);
    limit(RLIMIT_CORE, 0);
    rlim_t used = address_space();
    if (used) limit(RLIMIT_AS, used + ROOM);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    return socket;
}

// ---- talking ------------------------------------------------------------------------------------

static void put(int socket, const void* data, size_t bytes) {
    for (const char* from = data; bytes;) {
        ssize_t n = send(socket, from, bytes, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) _exit(0);
        from += n;
        bytes -= (size_t)n;
    }
}

static void take(int socket, void* data, size_t bytes) {
    for (char* to = data; bytes;) {
        ssize_t n = recv(socket, to, bytes, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) _exit(0);  // the parent closed the file, or is gone
        to += n;
        bytes -= (size_t)n;
    }
}

// ---- the structure ------------------------------------------------------------------------------

// Texts of the file end up in sentences on a terminal.
static void copy_text(char* to, size_t size, const char* from, size_t n) {
    size_t i = 0;
    for (; i < n && i + 1 < size && from[i]; i++)
        to[i] = (unsigned char)from[i] < 32 || from[i] == 127 ? '?' : from[i];
    to[i] = 0;
}

static int blame(child* c, hdf5_verdict verdict, const char* name) {
    c->catalogue.verdict = (int32_t)verdict;
    copy_text(c->catalogue.name, HDF5_NAME, name, strlen(name));
    return -1;
}

static hdf5_kind kind_of(hid_t type) {
    const H5T_class_t class = H5Tget_class(type);
    if (H5Tget_size(type) > 8) return HDF5_OTHER;
    if (class == H5T_FLOAT) return HDF5_REAL;
    if (class == H5T_INTEGER) return HDF5_INTEGER;
    return class == H5T_ENUM && H5Tget_size(type) == 1 ? HDF5_FLAG : HDF5_OTHER;
}

// Sizes of all axes; a shape whose bytes cannot be counted, or that no column has, leaves rank 0.
static void look_at_shape(hid_t set, hdf5_column* c) {
    hsize_t dims[H5S_MAX_RANK], bytes = (hsize_t)c->size;
    hid_t space = H5Dget_space(set);
    int rank = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    if (rank < 1 || rank > HDF5_MAX_RANK || H5Sget_simple_extent_dims(space, dims, NULL) < 0)
        rank = 0;
    for (int i = 0; i < rank; i++) {
        if (dims[i] > (hsize_t)INT64_MAX || __builtin_mul_overflow(bytes, dims[i], &bytes) ||
            bytes > (hsize_t)INT64_MAX / 8) {
            rank = 0;
            break;
        }
        c->dims[i] = (int64_t)dims[i];
    }
    c->rank = rank;
    if (space >= 0) H5Sclose(space);
}

// How much the filters can make of what is stored; the first that is not supported is noted.
static void look_at_filters(hid_t plist, hdf5_column* c) {
    const int count = H5Pget_nfilters(plist);
    c->growth = 1;
    for (int i = 0; i < count && !c->filter; i++) {
        unsigned flags, config, value[8] = {0};
        size_t values = 8;
        const H5Z_filter_t id =
            H5Pget_filter2(plist, (unsigned)i, &flags, &values, value, 0, NULL, &config);
        if (id == H5Z_FILTER_DEFLATE)
            c->growth *= DEFLATE_GROWTH;
        else if (id == HDF5_BLOSC)
            c->growth *= values > 6 && value[6] == BLOSC_ZSTD ? ZSTD_GROWTH : DEFLATE_GROWTH;
        else if (id != H5Z_FILTER_SHUFFLE && id != H5Z_FILTER_FLETCHER32)
            c->filter = id < 0 ? -1 : id;
        if (c->growth > ZSTD_GROWTH) c->filter = id;  // no writer compresses twice
    }
}

// 0, or -1 if the file is to be refused for it.
static int look_at_storage(child* me, hid_t set, hdf5_column* c) {
    hid_t plist = H5Dget_create_plist(set);
    const H5D_layout_t layout = plist < 0 ? H5D_LAYOUT_ERROR : H5Pget_layout(plist);
    int outside = layout == H5D_VIRTUAL || (plist >= 0 && H5Pget_external_count(plist) != 0);
    hsize_t chunk[HDF5_MAX_RANK];
    c->chunk_rows = 1;
    if (!outside && layout != H5D_LAYOUT_ERROR) look_at_shape(set, c);
    if (c->rank && layout == H5D_CHUNKED) {
        hsize_t bytes = (hsize_t)c->size;
        if (H5Pget_chunk(plist, HDF5_MAX_RANK, chunk) != c->rank) c->rank = 0;
        for (int i = 0; i < c->rank; i++)
            if (chunk[i] < 1 || __builtin_mul_overflow(bytes, chunk[i], &bytes) ||
                bytes > HDF5_SLAB)
                c->rank = 0;
        if (c->rank) c->chunk_rows = (int64_t)chunk[0];
    }
    if (!outside && c->rank) {
        look_at_filters(plist, c);
        hsize_t stored = H5Dget_storage_size(set);
        c->stored = stored > (hsize_t)INT64_MAX ? INT64_MAX : (int64_t)stored;
    }
    if (plist >= 0) H5Pclose(plist);
    if (outside) return blame(me, HDF5_OUTSIDE, c->name);
    return c->stored > me->size ? blame(me, HDF5_DAMAGED, c->name) : 0;
}

// What cannot be opened, or is no dataset, is left out: files of others have such things, too.
static herr_t look_at_link(hid_t group, const char* name, const H5L_info_t* info, void* user) {
    child* me = user;
    if (info->type != H5L_TYPE_HARD) return blame(me, HDF5_LINKED, name);
    if (me->catalogue.columns == HDF5_COLUMNS) return blame(me, HDF5_CROWDED, name);
    hdf5_column* c = &me->column[me->catalogue.columns];
    *c = (hdf5_column){0};
    copy_text(c->name, HDF5_NAME, name, strlen(name));
    if (strcmp(c->name, name) != 0) return 0;
    hid_t set = H5Oopen(group, name, H5P_DEFAULT);
    if (set < 0) return 0;
    herr_t result = 0;
    if (H5Iget_type(set) == H5I_DATASET) {
        hid_t type = H5Dget_type(set);
        const size_t size = type < 0 ? 0 : H5Tget_size(type);
        if (size > 0 && size <= HDF5_SLAB) {
            c->kind = (int32_t)kind_of(type);
            c->size = (int32_t)size;
            result = look_at_storage(me, set, c);
            me->catalogue.columns++;
        }
        if (type >= 0) H5Tclose(type);
    }
    H5Oclose(set);
    return result;
}

// ---- attributes ---------------------------------------------------------------------------------

static int read_text(hid_t attribute, hid_t type, hdf5_attribute* a) {
    const size_t size = H5Tget_size(type);
    if (H5Tis_variable_str(type) > 0) {  // as h5py writes texts
        char* text = NULL;
        if (H5Aread(attribute, type, &text) < 0 || !text) return 0;
        size_t n = strnlen(text, HDF5_TEXT);
        if (n < HDF5_TEXT) copy_text(a->text, HDF5_TEXT, text, n);
        H5free_memory(text);
        return n < HDF5_TEXT;
    }
    char text[HDF5_TEXT];
    if (size < 1 || size >= HDF5_TEXT || H5Aread(attribute, type, text) < 0) return 0;
    copy_text(a->text, HDF5_TEXT, text, size);
    return 1;
}

static int read_number(hid_t attribute, hid_t type, hdf5_attribute* a) {
    if (H5Tget_size(type) > 8) return 0;
    if (H5Tget_sign(type) == H5T_SGN_NONE)
        return H5Aread(attribute, H5T_NATIVE_UINT64, &a->number) >= 0;
    int64_t value;
    if (H5Aread(attribute, H5T_NATIVE_INT64, &value) < 0 || value < 0) return 0;
    a->number = (uint64_t)value;
    return 1;
}

// The one place where attributes are read: one value, a text or an integer. Others are left out.
static herr_t look_at_attribute(hid_t file, const char* name, const H5A_info_t* info, void* user) {
    (void)info;
    child* me = user;
    if (me->catalogue.attributes == HDF5_ATTRIBUTES) return blame(me, HDF5_CROWDED, name);
    hdf5_attribute* a = &me->attribute[me->catalogue.attributes];
    *a = (hdf5_attribute){0};
    copy_text(a->name, HDF5_NAME, name, strlen(name));
    if (strcmp(a->name, name) != 0) return 0;
    hid_t attribute = H5Aopen(file, name, H5P_DEFAULT);
    if (attribute < 0) return 0;
    hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    const H5T_class_t class = type < 0 ? H5T_NO_CLASS : H5Tget_class(type);
    if (space >= 0 && H5Sget_simple_extent_npoints(space) == 1) {
        int read = class == H5T_STRING    ? read_text(attribute, type, a)
                   : class == H5T_INTEGER ? read_number(attribute, type, a)
                                          : 0;
        a->kind = class == H5T_STRING ? HDF5_STRING : HDF5_INTEGER;
        me->catalogue.attributes += read;
    }
    if (space >= 0) H5Sclose(space);
    if (type >= 0) H5Tclose(type);
    H5Aclose(attribute);
    return 0;
}

static void look(child* me, const char* path) {
    struct stat s;
    me->column = mem_calloc(HDF5_COLUMNS, sizeof *me->column);
    me->attribute = mem_calloc(HDF5_ATTRIBUTES, sizeof *me->attribute);
    if (!me->column || !me->attribute) {
        blame(me, HDF5_NO_MEMORY, "");
        return;
    }
    me->size = stat(path, &s) == 0 ? (int64_t)s.st_size : 0;
    limit_seconds(LOOK_SECONDS + me->size / LOOK_RATE);
    if (H5Fis_hdf5(path) <= 0) {
        blame(me, HDF5_FOREIGN, "");
        return;
    }
    me->file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (me->file < 0) {
        blame(me, HDF5_CUT, "");
        return;
    }
    hsize_t at = 0;
    if ((H5Literate(me->file, H5_INDEX_NAME, H5_ITER_INC, NULL, look_at_link, me) < 0 ||
         H5Aiterate2(me->file, H5_INDEX_NAME, H5_ITER_INC, &at, look_at_attribute, me) < 0) &&
        me->catalogue.verdict == HDF5_FINE)
        blame(me, HDF5_DAMAGED, "");
}

static void send_catalogue(child* me) {
    hdf5_catalogue* c = &me->catalogue;
    if (c->verdict != HDF5_FINE) c->columns = c->attributes = 0;
    put(me->socket, c, sizeof *c);
    put(me->socket, me->column, (size_t)c->columns * sizeof *me->column);
    put(me->socket, me->attribute, (size_t)c->attributes * sizeof *me->attribute);
    if (c->verdict != HDF5_FINE) _exit(0);
}

// ---- rows ---------------------------------------------------------------------------------------

static herr_t find_errno(unsigned n, const H5E_error2_t* record, void* user) {
    (void)n;
    const char* at = record->desc ? strstr(record->desc, "errno = ") : NULL;
    if (at) *(int*)user = (int)strtol(at + strlen("errno = "), NULL, 10);
    return 0;
}

static herr_t find_filter(unsigned n, const H5E_error2_t* record, void* user) {
    (void)n;
    if (record->desc && strstr(record->desc, "filter")) *(int*)user = 1;
    return 0;
}

// HDF5 reports a failure as a stack of records; the innermost one often carries the system's errno.
static hdf5_reply why_unreadable(void) {
    int code = 0, filter = 0;
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, find_errno, &code);
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, find_filter, &filter);
    return (hdf5_reply){!code && filter ? HDF5_NO_FILTER : HDF5_UNREADABLE, code};
}

static hid_t number_type(hdf5_number n) {
    return n == HDF5_INT8    ? H5T_NATIVE_INT8
           : n == HDF5_UINT8 ? H5T_NATIVE_UINT8
           : n == HDF5_INT32 ? H5T_NATIVE_INT32
           : n == HDF5_INT64 ? H5T_NATIVE_INT64
           : n == HDF5_FLOAT ? H5T_NATIVE_FLOAT
                             : H5T_NATIVE_DOUBLE;
}

static hid_t open_column(child* me, int number) {
    hid_t* set = &me->open[number];
    hid_t access = *set < 0 ? H5Pcreate(H5P_DATASET_ACCESS) : -1;
    if (access < 0) return *set;
    // 0: the oldest chunk goes first; with 1, HDF5 never lets a partly read one go, at any size
    if (H5Pset_chunk_cache(access, 521, ROW_CACHE, 0.0) >= 0)
        *set = H5Dopen2(me->file, me->column[number].name, access);
    H5Pclose(access);
    return *set;
}

// Rows of a column into the slab.
static hdf5_reply read_rows(child* me, const hdf5_request* r) {
    const hdf5_column* c = &me->column[r->column];
    hsize_t start[HDF5_MAX_RANK] = {(hsize_t)r->first}, count[HDF5_MAX_RANK] = {(hsize_t)r->rows};
    for (int i = 1; i < c->rank; i++) count[i] = (hsize_t)c->dims[i];
    hid_t set = open_column(me, r->column), space = set < 0 ? -1 : H5Dget_space(set);
    hid_t memory = H5Screate_simple(c->rank, count, NULL);
    int ready = space >= 0 && memory >= 0 &&
                H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0;
    hdf5_reply reply = {HDF5_UNREADABLE, 0};
    if (ready && H5Dread(set, number_type((hdf5_number)r->number), memory, space, H5P_DEFAULT,
                         me->slab) >= 0)
        reply.verdict = HDF5_FINE;
    else if (ready)
        reply = why_unreadable();  // before another call forgets it
    if (memory >= 0) H5Sclose(memory);
    if (space >= 0) H5Sclose(space);
    return reply;
}

static void serve(child* me) {
    hdf5_request r;
    limit_seconds(0);
    take(me->socket, &r, sizeof r);
    const hdf5_column* c = &me->column[r.column];
    size_t bytes = (size_t)r.rows * (size_t)hdf5_number_bytes((hdf5_number)r.number);
    for (int i = 1; i < c->rank; i++) bytes *= (size_t)c->dims[i];
    limit_seconds(READ_SECONDS + (int64_t)(bytes / READ_RATE));
    if (bytes > me->slab_bytes) {
        mem_free(me->slab);
        me->slab = mem_alloc(bytes);
        me->slab_bytes = me->slab ? bytes : 0;
    }
    const hdf5_reply reply = me->slab ? read_rows(me, &r) : (hdf5_reply){HDF5_NO_MEMORY, 0};
    put(me->socket, &reply, sizeof reply);
    if (reply.verdict == HDF5_FINE) put(me->socket, me->slab, bytes);
}

_Noreturn void hdf5_child_serve(const char* path, int socket) {
    child me = {.socket = prepare(socket), .file = -1};
    for (int i = 0; i < HDF5_COLUMNS; i++) me.open[i] = -1;
    look(&me, path);
    send_catalogue(&me);
    for (;;) serve(&me);
}
