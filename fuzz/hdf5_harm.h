// hdf5_harm.h - what the fuzz targets of data files share: a good file, changes to it, and the
// demand that the reader refuses the result or that what it accepts is sound.
//
// The input is a list of changes, ten bytes each: what, where, and eight of a value. `what` says:
//     0xff         the file is written in HDF5's newest format, whose structure has checksums
//     0xc0 | n     n % 4 + 1 bytes at the place in value[0..2] become value[3..6]
//     0x80 | bits  an attribute or column is taken away or replaced by another of its name
//     else         a number is changed before the file, and our own checksum, are written
// What is left of the input says where the file ends. Changed bytes in the newest format get their
// checksums made good, so that they reach the parser behind.
#ifndef FUZZ_HDF5_HARM_H
#define FUZZ_HDF5_HARM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <hdf5.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/status.h"
#include "must.h"

enum { CHANGE = 10, MOST_CHANGES = 16, MOST_SPANS = 256, SPAN_BYTES = 4096 };

typedef struct change {
    uint8_t what, where;
    union {
        uint8_t byte[8];
        uint64_t number;
        int64_t whole;
        int32_t half;
        double real;
        float single;
    } value;
} change;

typedef struct harm_target {
    const char* const* column;  // NULL-terminated names that the reader asks for
    const char* const* attribute;
    // Writes a good file but for the changed numbers.
    void (*write)(const char* path, const change* numbers, int count);
    // Reads it: MUST(refused with a sentence, or sound).
    void (*check)(const char* path);
} harm_target;

// ---- checksums of the newest format ----

#define ROTATE(x, k) (((x) << (k)) | ((x) >> (32 - (k))))

// Jenkins' lookup3, as HDF5 uses it.
static inline uint32_t harm_lookup3(const uint8_t* k, size_t n) {
    uint32_t a = 0xdeadbeef + (uint32_t)n, b = a, c = a;
    for (; n > 12; n -= 12, k += 12) {
        uint32_t w[3];
        memcpy(w, k, 12);
        a += w[0], b += w[1], c += w[2];
        a -= c, a ^= ROTATE(c, 4), c += b;
        b -= a, b ^= ROTATE(a, 6), a += c;
        c -= b, c ^= ROTATE(b, 8), b += a;
        a -= c, a ^= ROTATE(c, 16), c += b;
        b -= a, b ^= ROTATE(a, 19), a += c;
        c -= b, c ^= ROTATE(b, 4), b += a;
    }
    if (n == 0) return c;
    uint8_t rest[12] = {0};
    uint32_t w[3];
    memcpy(rest, k, n);
    memcpy(w, rest, 12);
    a += w[0], b += w[1], c += w[2];
    c ^= b, c -= ROTATE(b, 14);
    a ^= c, a -= ROTATE(c, 11);
    b ^= a, b -= ROTATE(a, 25);
    c ^= b, c -= ROTATE(b, 16);
    a ^= c, a -= ROTATE(c, 4);
    b ^= a, b -= ROTATE(a, 14);
    c ^= b, c -= ROTATE(b, 24);
    return c;
}

typedef struct span {
    size_t at, bytes;  // the checksum follows
} span;

typedef struct harm_file {
    uint8_t* byte;
    size_t size;
    span seal[MOST_SPANS];
    int seals;
} harm_file;

static inline int harm_begins_span(const harm_file* f, size_t at) {
    static const char names[][5] = {"OHDR", "OCHK", "BTHD", "BTLF", "BTIN", "FRHP",
                                    "FHDB", "FHIB", "FSHD", "FSSE", "SMTB", "SMLI",
                                    "EAHD", "EAIB", "EADB", "EASB", "FAHD", "FADB"};
    if (at == 0) return 1;  // the superblock
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (memcmp(f->byte + at, names[i], 4) == 0) return 1;
    return 0;
}

// Finds what is sealed: from a signature on, as many bytes as have the checksum behind them.
static inline void harm_find_seals(harm_file* f) {
    f->seals = 0;
    for (size_t at = 0; at + 16 < f->size && f->seals < MOST_SPANS; at++) {
        if (!harm_begins_span(f, at)) continue;
        for (size_t n = 8; n < SPAN_BYTES && at + n + 4 <= f->size; n++) {
            uint32_t sum;
            memcpy(&sum, f->byte + at + n, 4);
            if (sum && sum == harm_lookup3(f->byte + at, n)) {
                f->seal[f->seals++] = (span){at, n};
                break;
            }
        }
    }
}

static inline void harm_reseal(harm_file* f) {
    for (int i = 0; i < f->seals; i++) {
        const span* s = &f->seal[i];
        uint32_t sum = harm_lookup3(f->byte + s->at, s->bytes);
        memcpy(f->byte + s->at + s->bytes, &sum, 4);
    }
}

// ---- files ----

static inline void harm_load(const char* path, harm_file* f) {
    struct stat s;
    int fd = open(path, O_RDONLY);
    MUST(fd >= 0 && fstat(fd, &s) == 0);
    *f = (harm_file){.size = (size_t)s.st_size, .byte = malloc((size_t)s.st_size)};
    MUST(f->byte && read(fd, f->byte, f->size) == (ssize_t)f->size);
    close(fd);
}

static inline void harm_store(const char* path, const harm_file* f, size_t size) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    MUST(fd >= 0 && write(fd, f->byte, size) == (ssize_t)size);
    close(fd);
}

static inline herr_t harm_copy_link(hid_t from, const char* name, const H5L_info_t* info,
                                    void* to) {
    (void)info;
    return H5Ocopy(from, name, *(hid_t*)to, name, H5P_DEFAULT, H5P_DEFAULT);
}

static inline herr_t harm_copy_attribute(hid_t from, const char* name, const H5A_info_t* info,
                                         void* to) {
    (void)info;
    hid_t a = H5Aopen(from, name, H5P_DEFAULT), type = H5Aget_type(a), space = H5Aget_space(a);
    hid_t copy = H5Acreate2(*(hid_t*)to, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    void* value[2] = {NULL, NULL};  // one number or one text
    MUST(H5Aread(a, type, value) >= 0 && H5Awrite(copy, type, value) >= 0);
    if (H5Tis_variable_str(type) > 0) H5free_memory(value[0]);
    H5Aclose(copy);
    H5Aclose(a);
    H5Tclose(type);
    H5Sclose(space);
    return 0;
}

// The same content in the newest format.
static inline void harm_renew(const char* from, const char* to) {
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    MUST(H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST) >= 0);
    hid_t old = H5Fopen(from, H5F_ACC_RDONLY, H5P_DEFAULT);
    hid_t new = H5Fcreate(to, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    MUST(H5Literate(old, H5_INDEX_NAME, H5_ITER_INC, NULL, harm_copy_link, &new) >= 0);
    MUST(H5Aiterate2(old, H5_INDEX_NAME, H5_ITER_INC, NULL, harm_copy_attribute, &new) >= 0);
    MUST(H5Fclose(new) >= 0 && H5Fclose(old) >= 0);
    H5Pclose(access);
}

// ---- changes ----

static inline int harm_count(const char* const* names) {
    int n = 0;
    while (names[n]) n++;
    return n;
}

// An attribute or a column of the file: taken away, or replaced by another of its name.
static inline void harm_replace(const harm_target* t, hid_t file, const change* c) {
    const hid_t types[] = {H5T_STD_I64LE,  H5T_STD_I8LE, H5T_IEEE_F64LE,
                           H5T_IEEE_F32LE, H5T_C_S1,     H5T_STD_REF_OBJ};
    const hid_t type = types[c->value.byte[0] % 6];
    if (c->what & 1) {
        const char* name = t->column[c->where % harm_count(t->column)];
        if (H5Lexists(file, name, H5P_DEFAULT) > 0) H5Ldelete(file, name, H5P_DEFAULT);
        if (c->what & 2) return;
        if (c->what & 4) {
            if (c->what & 8)
                H5Lcreate_soft("/action", file, name, H5P_DEFAULT, H5P_DEFAULT);
            else
                H5Lcreate_external("/dev/zero", name, file, name, H5P_DEFAULT, H5P_DEFAULT);
            return;
        }
        hsize_t dims[8];
        const int rank = c->value.byte[1] % 8;
        for (int i = 0; i < 8; i++) dims[i] = c->value.byte[2 + i % 6];
        hid_t space = rank ? H5Screate_simple(rank, dims, NULL) : H5Screate(H5S_NULL);
        hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        if (set >= 0) H5Dclose(set);
        H5Sclose(space);
    } else {
        const char* name = t->attribute[c->where % harm_count(t->attribute)];
        if (H5Aexists(file, name) > 0) H5Adelete(file, name);
        if (c->what & 2) return;
        hid_t text = H5Tcopy(H5T_C_S1), kind = c->what & 4 ? text : type;
        H5Tset_size(text, H5T_VARIABLE);
        hsize_t dims[1] = {c->value.byte[1] % 4 + 1u};
        uint64_t value[4] = {c->value.number, 1, 2, 3};
        const char* texts[4] = {"one", "", "three", "four"};
        hid_t space =
            c->value.byte[1] & 4 ? H5Screate_simple(1, dims, NULL) : H5Screate(H5S_SCALAR);
        hid_t a = H5Acreate2(file, name, kind, space, H5P_DEFAULT, H5P_DEFAULT);
        if (a >= 0) H5Awrite(a, kind, kind == text ? (const void*)texts : (const void*)value);
        if (a >= 0) H5Aclose(a);
        H5Sclose(space);
        H5Tclose(text);
    }
}

static inline void harm_bytes(harm_file* f, const change* c) {
    const size_t place =
        ((size_t)c->value.byte[0] << 16 | (size_t)c->value.byte[1] << 8 | c->value.byte[2]) %
        f->size;
    for (size_t i = 0; i < c->where % 4u + 1 && place + i < f->size; i++)
        f->byte[place + i] = c->value.byte[3 + i];
}

// The good file, in either format; made once.
static inline const harm_file* harm_good(const harm_target* t, const char* path, int newest) {
    static harm_file good[2];
    if (good[newest].byte) return &good[newest];
    char renewed[128];
    snprintf(renewed, sizeof renewed, "%s.new", path);
    t->write(path, NULL, 0);
    if (newest) harm_renew(path, renewed);
    harm_load(newest ? renewed : path, &good[newest]);
    if (newest) {
        harm_find_seals(&good[1]);
        MUST(good[1].seals > 4 && good[1].seal[0].at == 0);
        unlink(renewed);
    }
    return &good[newest];
}

// The process that reads may die of a bad file: that is no finding, so it writes none.
static inline void harm_quiet_child(void) {
#ifndef FIRM_FUZZ_MAIN
    void __sanitizer_set_death_callback(void (*callback)(void));
    __sanitizer_set_death_callback(NULL);
#endif
}

static inline void harm_run(const harm_target* t, const uint8_t* data, size_t size) {
    static char path[64];
    change number[MOST_CHANGES], replaced[MOST_CHANGES], byte[MOST_CHANGES];
    int numbers = 0, replacements = 0, bytes = 0, newest = 0;
    if (!path[0]) pthread_atfork(NULL, NULL, harm_quiet_child);
    snprintf(path, sizeof path, "/dev/shm/firm-fuzz-%ld.h5", (long)getpid());
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    for (int n = 0; size >= CHANGE && n < MOST_CHANGES; data += CHANGE, size -= CHANGE, n++) {
        change c = {.what = data[0], .where = data[1]};
        memcpy(c.value.byte, data + 2, 8);
        if (c.what == 0xff)
            newest = 1;
        else if (c.what >= 0xc0)
            byte[bytes++] = c;
        else if (c.what >= 0x80)
            replaced[replacements++] = c;
        else
            number[numbers++] = c;
    }
    harm_file file = {0};
    if (newest || (!numbers && !replacements)) {
        const harm_file* good = harm_good(t, path, newest);
        file = *good;
        file.byte = malloc(good->size);
        MUST(file.byte);
        memcpy(file.byte, good->byte, good->size);
    } else {
        t->write(path, number, numbers);
        if (replacements) {
            hid_t h = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
            MUST(h >= 0);
            for (int i = 0; i < replacements; i++) harm_replace(t, h, &replaced[i]);
            MUST(H5Fclose(h) >= 0);
        }
        harm_load(path, &file);
    }
    for (int i = 0; i < bytes; i++) harm_bytes(&file, &byte[i]);
    harm_reseal(&file);
    size_t keep = file.size;
    if (size >= 3) keep = ((size_t)data[0] << 16 | (size_t)data[1] << 8 | data[2]) % file.size;
    harm_store(path, &file, keep);
    free(file.byte);
    t->check(path);
    unlink(path);
}

// The status of a reader: refused with one sentence that names the file, or not.
static inline int harm_accepted(firm_status status, const firm_error* err, const char* path) {
    if (status == FIRM_OK) return 1;
    MUST(status == FIRM_E_FORMAT || status == FIRM_E_TASK || status == FIRM_E_VALUE ||
         status == FIRM_E_UNAVAILABLE);
    MUST(strstr(err->message, path) && !strchr(err->message, '\n'));
    return 0;
}

#endif
