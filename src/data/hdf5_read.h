// hdf5_read.h - reading data files that nobody vouches for. Inside src/data only.
//
// HDF5's own parser crashes or hangs on some damaged files, and it follows links into other files.
// So this process never parses a file: a child process does, with limits on its time and memory,
// and sends what it found as plain numbers. If it dies, the file is refused with a sentence. The
// child stays until hdf5_close, because frames are read one by one.
#ifndef DATA_HDF5_READ_H
#define DATA_HDF5_READ_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum { HDF5_MAX_RANK = 6 };

typedef struct hdf5_file hdf5_file;

// The types that numbers are converted to.
typedef enum hdf5_number {
    HDF5_INT8,
    HDF5_UINT8,
    HDF5_INT32,
    HDF5_INT64,
    HDF5_FLOAT,
    HDF5_DOUBLE,
    HDF5_NUMBERS
} hdf5_number;
int hdf5_number_bytes(hdf5_number n);

// Missing, not HDF5, cut short, damaged, linked to other files: each has its own sentence.
firm_status hdf5_open(const char* path, hdf5_file** out, firm_error* err);
void hdf5_close(hdf5_file* f);  // NULL is fine

// Columns are the datasets at the root. Numbers per row (product of all axes but the first); 0 if
// there is no such column.
int hdf5_width(const hdf5_file* f, const char* name);
// Rank and sizes. FIRM_E_FORMAT if there is no such column, its rank exceeds 6, or the file stores
// too little for what it claims: the caller may take memory for the whole of it.
firm_status hdf5_shape(const hdf5_file* f, const char* name, int* rank, int64_t dims[HDF5_MAX_RANK],
                       firm_error* err);
// The whole column, converted within its class: reals to reals, integers and flags to integers.
firm_status hdf5_get(hdf5_file* f, const char* name, hdf5_number as, void* out, firm_error* err);
// Some rows of it; first + rows must not exceed what hdf5_shape says.
firm_status hdf5_get_rows(hdf5_file* f, const char* name, hdf5_number as, int64_t first,
                          int64_t rows, void* out, firm_error* err);
int hdf5_holds_reals(const hdf5_file* f, const char* name);
// Whether its numbers are integers of one byte.
int hdf5_holds_bytes(const hdf5_file* f, const char* name);
// One row of such a column; 0 when it worked. Threads may call it side by side.
int hdf5_get_row(hdf5_file* f, const char* name, int64_t row, void* out);

// Attributes of the file with exactly one value: a text that fits into `size`, a number from 0 on.
// 1 if there.
int hdf5_get_text(const hdf5_file* f, const char* attribute, char* out, size_t size);
int hdf5_get_u64(const hdf5_file* f, const char* attribute, uint64_t* out);
// The columns one by one: the name of column i, and the numbers that hold its values without loss
// (HDF5_INT8: flags). NULL if it holds no numbers.
int hdf5_columns(const hdf5_file* f);
const char* hdf5_column_name(const hdf5_file* f, int i, hdf5_number* as);
// "action, pixels, state" - the columns, cut to fit.
void hdf5_list(const hdf5_file* f, char* out, size_t size);

#endif
