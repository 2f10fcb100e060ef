// hdf5.h - writing HDF5 files, with errors as one sentence instead of the library's printed stacks;
// hdf5_read.h reads them. Inside src/data only.
//
// A file is written aside: hdf5_create opens a temporary file beside the path, hdf5_commit closes
// it and moves it into place. Any failure in between (a full disk, say) is found at the latest at
// the close, and hdf5_abandon removes what was written. The writer must stay where it is while the
// file is open.
#ifndef DATA_HDF5_H
#define DATA_HDF5_H

#include <hdf5.h>
#include <stdint.h>

#include "core/status.h"
#include "core/temp.h"
#include "data/hdf5_read.h"

enum { HDF5_BLOSC = 32001 };  // the number of the filter

typedef struct hdf5_writer {
    hid_t file;
    int failed;  // errno of the first write that the disk refused, else 0
    char path[1024];
    file_temp temp;
} hdf5_writer;

firm_status hdf5_create(hdf5_writer* w, const char* path, firm_error* err);
// Creates a dataset whose first axis can grow, in chunks of `chunk` rows; `compress` asks for Blosc
// lz4 when that filter is installed, else deflate. *out is closed by the caller with H5Dclose.
firm_status hdf5_dataset(hdf5_writer* w, const char* name, hid_t type, int rank,
                         const hsize_t* dims, int64_t chunk, int compress, hid_t* out,
                         firm_error* err);
// Writes rows first .. first + rows - 1 of a dataset from memory of the given type.
firm_status hdf5_put_rows(hdf5_writer* w, hid_t dataset, hid_t memory_type, int64_t first,
                          int64_t rows, const void* data, firm_error* err);
// Whole small dataset in one call.
firm_status hdf5_put(hdf5_writer* w, const char* name, hid_t file_type, hid_t memory_type, int rank,
                     const hsize_t* dims, const void* data, firm_error* err);
// A dataset whose every entry is `value`, of the file's own type: nothing of it is stored.
firm_status hdf5_put_constant(hdf5_writer* w, const char* name, hid_t type, int rank,
                              const hsize_t* dims, int64_t chunk, const void* value,
                              firm_error* err);
firm_status hdf5_put_text(hdf5_writer* w, const char* attribute, const char* text, firm_error* err);
firm_status hdf5_put_u64(hdf5_writer* w, const char* attribute, uint64_t value, firm_error* err);
hid_t hdf5_flag_type(void);  // of truth values, as h5py reads them; H5Tclose
// Everything written so far can be read from w->temp.path.
firm_status hdf5_flush(hdf5_writer* w, firm_error* err);
firm_status hdf5_commit(hdf5_writer* w, firm_error* err);  // abandons on failure
void hdf5_abandon(hdf5_writer* w);

// FNV-like hash over 64-bit words, for checksums; start with HDF5_HASH_START. bytes % 4 == 0.
#define HDF5_HASH_START 0xcbf29ce484222325ull
uint64_t hdf5_hash(uint64_t hash, const void* data, size_t bytes);

#endif
