// hdf5.c - see hdf5.h. What the disk refuses is noted by the driver of hdf5_disk.c; the sentences
// below are made from it.
#define _GNU_SOURCE
#include "data/hdf5.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
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

static firm_status write_failed(const hdf5_writer* w, firm_error* err) {
    if (w->failed) return file_failed(err, "write", w->path, w->failed);
    return FAIL(
        err, FIRM_E_IO,
        "cannot write %s: HDF5 refused; check free space and memory, or choose another folder",
        w->path);
}

// ---- writing ------------------------------------------------------------------------------------

firm_status hdf5_create(hdf5_writer* w, const char* path, firm_error* err) {
    quiet();
    w->file = -1;
    w->failed = 0;
    snprintf(w->path, sizeof w->path, "%s", path);
    TRY(file_temp_open(&w->temp, path, err));
    w->file = hdf5_disk_create(w->temp.path, &w->failed);
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

hid_t hdf5_flag_type(void) {
    hid_t type = H5Tenum_create(H5T_NATIVE_INT8);
    int8_t no = 0, yes = 1;
    if (type >= 0) {
        H5Tenum_insert(type, "FALSE", &no);
        H5Tenum_insert(type, "TRUE", &yes);
    }
    return type;
}

firm_status hdf5_flush(hdf5_writer* w, firm_error* err) {
    if (H5Fflush(w->file, H5F_SCOPE_GLOBAL) < 0 || w->failed) return write_failed(w, err);
    // shared with HDF5's own lock of readers; whoever removes left files wants it for itself
    flock(w->temp.fd, LOCK_SH);
    return FIRM_OK;
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
    return file_move(&w->temp, w->path, err);
}

void hdf5_abandon(hdf5_writer* w) {
    quiet();
    if (w->file >= 0) H5Fclose(w->file);
    w->file = -1;
    temp_remove(&w->temp);
}

// ---- checksums
// --------------------------------------------------------------------------------------

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
