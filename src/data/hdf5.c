// hdf5.c - see hdf5.h. HDF5 reports a failure as a stack of records; the innermost one often
// carries the system's errno, which is what a person can act on, so the sentences below are made
// from it.
#define _GNU_SOURCE
#include "data/hdf5.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "data/hdf5_disk.h"

// HDF5 prints its stacks to stderr unless told not to, thread by thread.
static void quiet(void) {
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
#ifdef __SANITIZE_ADDRESS__
    // HDF5 unloads the Blosc plugin at exit and with it the only pointer to Blosc's own memory;
    // holding on to the library keeps the leak checker from calling that a leak of ours
    dlopen("libblosc.so.1", RTLD_NOW | RTLD_NODELETE);
#endif
}

// ---- errors -------------------------------------------------------------------------------------

static herr_t find_errno(unsigned n, const H5E_error2_t* record, void* user) {
    (void)n;
    const char* at = record->desc ? strstr(record->desc, "errno = ") : NULL;
    if (at) *(int*)user = atoi(at + strlen("errno = "));
    return 0;
}

static herr_t find_filter(unsigned n, const H5E_error2_t* record, void* user) {
    (void)n;
    if (record->desc && strstr(record->desc, "filter")) *(int*)user = 1;
    return 0;
}

static firm_status write_failed(const hdf5_writer* w, firm_error* err) {
    if (w->failed)
        return FAIL(err, FIRM_E_IO, "cannot write %s: %s; free some space or choose another folder",
                    w->path, strerror(w->failed));
    return FAIL(
        err, FIRM_E_IO,
        "cannot write %s: HDF5 refused; check free space and memory, or choose another folder",
        w->path);
}

static firm_status read_failed(const char* path, const char* name, firm_error* err) {
    int code = 0, filter = 0;
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, find_errno, &code);
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, find_filter, &filter);
    if (code) return FAIL(err, FIRM_E_IO, "cannot read '%s' of %s: %s", name, path, strerror(code));
    if (filter)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "cannot decompress '%s' of %s; install hdf5-filter-plugin-blosc-serial, or the "
                    "file is damaged",
                    name, path);
    return FAIL(err, FIRM_E_FORMAT,
                "cannot read '%s' of %s; the file is damaged: copy or collect it again", name,
                path);
}

// ---- writing ------------------------------------------------------------------------------------

firm_status hdf5_create(hdf5_writer* w, const char* path, firm_error* err) {
    quiet();
    w->file = -1;
    w->failed = 0;
    w->temp[0] = 0;
    snprintf(w->path, sizeof w->path, "%s", path);
    TRY(file_temp_name(path, w->temp, err));
    w->file = hdf5_disk_create(w->temp, &w->failed);
    if (w->file < 0) {
        firm_status s = write_failed(w, err);
        hdf5_abandon(w);
        return s;
    }
    return FIRM_OK;
}

// lz4, level 5, byte shuffle: what the public files use. The first four numbers are the filter's
// own.
static int add_blosc(hid_t plist) {
    unsigned info = 0;
    if (H5Zfilter_avail(HDF5_BLOSC) <= 0 || H5Zget_filter_info(HDF5_BLOSC, &info) < 0) return 0;
    if (!(info & H5Z_FILTER_CONFIG_ENCODE_ENABLED)) return 0;
    const unsigned values[7] = {0, 0, 0, 0, 5, 1, 1};  // level 5, byte shuffle, lz4
    return H5Pset_filter(plist, HDF5_BLOSC, H5Z_FLAG_OPTIONAL, 7, values) >= 0;
}

// Creates a dataset whose first axis can grow; value (nullable): what entries hold that are never
// written.
static firm_status create_dataset(hdf5_writer* w, const char* name, hid_t type, int rank,
                                  const hsize_t* dims, int64_t chunk, int compress,
                                  const void* value, hid_t* out, firm_error* err) {
    hsize_t most[HDF5_MAX_RANK], block[HDF5_MAX_RANK];
    for (int i = 0; i < rank; i++) most[i] = block[i] = dims[i];
    most[0] = H5S_UNLIMITED;
    block[0] = (hsize_t)chunk;
    hid_t space = H5Screate_simple(rank, dims, most);
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
    *out = -1;
    // no time of writing in the file: the same data give the same bytes
    if (space >= 0 && plist >= 0 && H5Pset_obj_track_times(plist, 0) >= 0 &&
        H5Pset_chunk(plist, rank, block) >= 0 &&
        (!value || H5Pset_fill_value(plist, type, value) >= 0) &&
        (!compress || add_blosc(plist) || H5Pset_deflate(plist, 1) >= 0))
        *out = H5Dcreate2(w->file, name, type, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    firm_status status = *out < 0 ? write_failed(w, err) : FIRM_OK;
    if (space >= 0) H5Sclose(space);
    if (plist >= 0) H5Pclose(plist);
    return status;
}

firm_status hdf5_dataset(hdf5_writer* w, const char* name, hid_t type, int rank,
                         const hsize_t* dims, int64_t chunk, int compress, hid_t* out,
                         firm_error* err) {
    return create_dataset(w, name, type, rank, dims, chunk, compress, NULL, out, err);
}

firm_status hdf5_put_constant(hdf5_writer* w, const char* name, hid_t type, int rank,
                              const hsize_t* dims, int64_t chunk, const void* value,
                              firm_error* err) {
    hid_t dataset;
    TRY(create_dataset(w, name, type, rank, dims, chunk, 0, value, &dataset, err));
    return H5Dclose(dataset) < 0 ? write_failed(w, err) : FIRM_OK;
}

firm_status hdf5_put_rows(hdf5_writer* w, hid_t dataset, hid_t memory_type, int64_t first,
                          int64_t rows, const void* data, firm_error* err) {
    hsize_t start[HDF5_MAX_RANK] = {(hsize_t)first}, count[HDF5_MAX_RANK];
    hid_t space = H5Dget_space(dataset), memory = -1;
    int rank = space < 0 ? -1 : H5Sget_simple_extent_dims(space, count, NULL);
    herr_t ok = -1;
    if (rank > 0) {
        count[0] = (hsize_t)rows;
        memory = H5Screate_simple(rank, count, NULL);
        if (memory >= 0 &&
            H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0)
            ok = H5Dwrite(dataset, memory_type, memory, space, H5P_DEFAULT, data);
    }
    firm_status status = ok < 0 || w->failed ? write_failed(w, err) : FIRM_OK;
    if (memory >= 0) H5Sclose(memory);
    if (space >= 0) H5Sclose(space);
    return status;
}

firm_status hdf5_put(hdf5_writer* w, const char* name, hid_t file_type, hid_t memory_type, int rank,
                     const hsize_t* dims, const void* data, firm_error* err) {
    // vectors and scalars: 1000 rows a chunk, as the public files; larger rows: about 1 MB
    hsize_t width = 1;
    for (int i = 1; i < rank; i++) width *= dims[i];
    int64_t chunk = width <= 125 ? 1000 : (int64_t)(125000 / width) + 1;
    hid_t dataset;
    TRY(hdf5_dataset(w, name, file_type, rank, dims, chunk, 0, &dataset, err));
    firm_status status = hdf5_put_rows(w, dataset, memory_type, 0, (int64_t)dims[0], data, err);
    if (H5Dclose(dataset) < 0 && status == FIRM_OK) status = write_failed(w, err);
    return status;
}

static firm_status put_attribute(hdf5_writer* w, const char* name, hid_t type, const void* value,
                                 firm_error* err) {
    hid_t space = H5Screate(H5S_SCALAR), attribute = -1;
    herr_t ok = -1;
    if (space >= 0) attribute = H5Acreate2(w->file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    if (attribute >= 0) ok = H5Awrite(attribute, type, value);
    firm_status status = ok < 0 ? write_failed(w, err) : FIRM_OK;
    if (attribute >= 0) H5Aclose(attribute);
    if (space >= 0) H5Sclose(space);
    return status;
}

firm_status hdf5_put_text(hdf5_writer* w, const char* attribute, const char* text,
                          firm_error* err) {
    hid_t type = H5Tcopy(H5T_C_S1);  // of variable length and UTF-8: what h5py reads as str
    firm_status status = FIRM_OK;
    if (type < 0 || H5Tset_size(type, H5T_VARIABLE) < 0 || H5Tset_cset(type, H5T_CSET_UTF8) < 0)
        status = write_failed(w, err);
    if (status == FIRM_OK) status = put_attribute(w, attribute, type, &text, err);
    if (type >= 0) H5Tclose(type);
    return status;
}

firm_status hdf5_put_u64(hdf5_writer* w, const char* attribute, uint64_t value, firm_error* err) {
    return put_attribute(w, attribute, H5T_NATIVE_UINT64, &value, err);
}

firm_status hdf5_commit(hdf5_writer* w, firm_error* err) {
    // closing writes what HDF5 still holds back, so a full disk may show only now
    herr_t ok = H5Fflush(w->file, H5F_SCOPE_GLOBAL);
    if (H5Fclose(w->file) < 0) ok = -1;
    w->file = -1;
    if (ok < 0 || w->failed) {
        firm_status status = write_failed(w, err);
        hdf5_abandon(w);
        return status;
    }
    firm_status status = file_move(w->temp, w->path, err);
    w->temp[0] = 0;
    return status;
}

void hdf5_abandon(hdf5_writer* w) {
    quiet();
    if (w->file >= 0) H5Fclose(w->file);
    w->file = -1;
    if (w->temp[0]) unlink(w->temp);
    w->temp[0] = 0;
}

// ---- reading ------------------------------------------------------------------------------------

firm_status hdf5_open(const char* path, hid_t* file, firm_error* err) {
    quiet();
    *file = -1;
    struct stat s;
    if (stat(path, &s) != 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return FAIL(err, FIRM_E_MISSING, "%s does not exist; check the name, or make it first",
                        path);
        return FAIL(err, FIRM_E_IO, "cannot read %s: %s", path, strerror(errno));
    }
    if (S_ISDIR(s.st_mode))
        return FAIL(err, FIRM_E_USAGE, "%s is a folder; give the name of a file", path);
    if (access(path, R_OK) != 0)
        return FAIL(err, FIRM_E_IO, "cannot read %s: %s; change its permissions", path,
                    strerror(errno));
    if (H5Fis_hdf5(path) <= 0)
        return FAIL(err, FIRM_E_FORMAT, "%s is not an HDF5 file; give one made by `firm collect`",
                    path);
    *file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (*file < 0)
        return FAIL(err, FIRM_E_FORMAT, "%s is cut short or damaged; copy it again or make it anew",
                    path);
    return FIRM_OK;
}

static hid_t open_dataset(hid_t file, const char* name) {
    if (H5Lexists(file, name, H5P_DEFAULT) <= 0) return -1;
    return H5Dopen2(file, name, H5P_DEFAULT);
}

static int shape_of(hid_t dataset, hsize_t dims[HDF5_MAX_RANK]) {
    hid_t space = H5Dget_space(dataset);
    if (space < 0) return -1;
    int rank = H5Sget_simple_extent_ndims(space);
    if (rank < 1 || rank > HDF5_MAX_RANK || H5Sget_simple_extent_dims(space, dims, NULL) < 0)
        rank = -1;
    H5Sclose(space);
    return rank;
}

int hdf5_width(hid_t file, const char* name) {
    hid_t dataset = open_dataset(file, name);
    if (dataset < 0) return 0;
    hsize_t dims[HDF5_MAX_RANK], width = 1;
    int rank = shape_of(dataset, dims);
    H5Dclose(dataset);
    for (int i = 1; i < rank; i++) {
        if (dims[i] > (1u << 20)) return 0;
        width *= dims[i];
        if (width > (1u << 20)) return 0;
    }
    return rank < 1 ? 0 : (int)width;
}

firm_status hdf5_shape(hid_t file, const char* path, const char* name, int* rank,
                       hsize_t dims[HDF5_MAX_RANK], firm_error* err) {
    hid_t dataset = open_dataset(file, name);
    if (dataset < 0)
        return FAIL(err, FIRM_E_FORMAT, "%s has no column '%s'; it is not a complete data set",
                    path, name);
    *rank = shape_of(dataset, dims);
    H5Dclose(dataset);
    if (*rank < 1)
        return FAIL(err, FIRM_E_FORMAT, "column '%s' of %s has a shape that does not fit", name,
                    path);
    return FIRM_OK;
}

firm_status hdf5_get(hid_t file, const char* path, const char* name, hid_t memory_type, void* out,
                     firm_error* err) {
    hid_t dataset = open_dataset(file, name);
    if (dataset < 0) return read_failed(path, name, err);
    hid_t type = H5Dget_type(dataset);
    firm_status status = FIRM_OK;
    if (type < 0 || H5Tget_class(type) != H5Tget_class(memory_type))
        status = FAIL(err, FIRM_E_FORMAT,
                      "column '%s' of %s holds another kind of value than expected", name, path);
    else if (H5Dread(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) < 0)
        status = read_failed(path, name, err);
    if (type >= 0) H5Tclose(type);
    H5Dclose(dataset);
    return status;
}

int hdf5_get_row(hid_t dataset, int64_t row, void* out) {
    quiet();
    hsize_t start[HDF5_MAX_RANK] = {(hsize_t)row}, count[HDF5_MAX_RANK];
    hid_t space = H5Dget_space(dataset), memory = -1;
    herr_t ok = -1;
    int rank = space < 0 ? -1 : H5Sget_simple_extent_dims(space, count, NULL);
    if (rank > 0) {
        count[0] = 1;
        memory = H5Screate_simple(rank, count, NULL);
        if (memory >= 0 &&
            H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0)
            ok = H5Dread(dataset, H5T_NATIVE_UINT8, memory, space, H5P_DEFAULT, out);
    }
    if (memory >= 0) H5Sclose(memory);
    if (space >= 0) H5Sclose(space);
    return ok < 0;
}

int hdf5_get_text(hid_t file, const char* attribute, char* out, size_t size) {
    out[0] = 0;
    if (H5Aexists(file, attribute) <= 0) return 0;
    hid_t a = H5Aopen(file, attribute, H5P_DEFAULT);
    if (a < 0) return 0;
    hid_t type = H5Aget_type(a);
    int found = 0;
    if (type >= 0 && H5Tget_class(type) == H5T_STRING && H5Aget_storage_size(a) > 0) {
        if (H5Tis_variable_str(type) > 0) {  // as h5py writes texts
            char* text = NULL;
            if (H5Aread(a, type, &text) >= 0 && text) {
                snprintf(out, size, "%s", text);
                H5free_memory(text);
                found = 1;
            }
        } else if (H5Tget_size(type) < 4096) {
            char text[4097] = "";
            if (H5Aget_storage_size(a) == H5Tget_size(type) && H5Aread(a, type, text) >= 0) {
                snprintf(out, size, "%s", text);
                found = 1;
            }
        }
    }
    if (type >= 0) H5Tclose(type);
    H5Aclose(a);
    return found;
}

int hdf5_get_u64(hid_t file, const char* attribute, uint64_t* out) {
    if (H5Aexists(file, attribute) <= 0) return 0;
    hid_t a = H5Aopen(file, attribute, H5P_DEFAULT);
    if (a < 0) return 0;
    hid_t type = H5Aget_type(a);
    int found = type >= 0 && H5Tget_class(type) == H5T_INTEGER &&
                H5Aget_storage_size(a) == H5Tget_size(type) &&
                H5Aread(a, H5T_NATIVE_UINT64, out) >= 0;
    if (type >= 0) H5Tclose(type);
    H5Aclose(a);
    return found;
}

typedef struct name_list {
    char* out;
    size_t size, used;
} name_list;

static herr_t add_name(hid_t group, const char* name, const H5L_info_t* info, void* user) {
    (void)group, (void)info;
    name_list* list = user;
    size_t n = strlen(name) + (list->used ? 2 : 0);
    if (list->used + n + 5 > list->size) {
        if (list->used + 4 < list->size) memcpy(list->out + list->used, " ...", 5);
        return 1;
    }
    list->used += (size_t)snprintf(list->out + list->used, list->size - list->used, "%s%s",
                                   list->used ? ", " : "", name);
    return 0;
}

void hdf5_list(hid_t file, char* out, size_t size) {
    name_list list = {out, size, 0};
    out[0] = 0;
    H5Literate(file, H5_INDEX_NAME, H5_ITER_INC, NULL, add_name, &list);
}

uint64_t hdf5_hash(uint64_t hash, const void* data, size_t bytes) {
    const unsigned char* p = data;
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
        uint32_t word;
        memcpy(&word, p + i, 4);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15ull;
        hash ^= hash >> 29;
    }
    return hash;
}
