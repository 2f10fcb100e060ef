// hdf5_child.h - how hdf5_read.c and its child process talk; see hdf5_child.c. Inside src/data
// only.
//
// Both ends are one program, so plain structs travel over the socket. First the child sends a
// hdf5_catalogue with its columns and attributes behind it. Then each hdf5_request is answered with
// a hdf5_reply and, if that says HDF5_FINE, the numbers asked for.
#ifndef DATA_HDF5_CHILD_H
#define DATA_HDF5_CHILD_H

#include <stdint.h>

#include "data/hdf5_read.h"

enum {
    HDF5_NAME = 96,  // bytes of a name; what has a longer one is left out
    HDF5_TEXT = 512,
    HDF5_COLUMNS = 256,
    HDF5_ATTRIBUTES = 256,
    HDF5_SLAB = 256 << 20  // bytes of the largest chunk or answer
};

typedef enum hdf5_verdict {
    HDF5_FINE,
    HDF5_FOREIGN,  // no HDF5 file
    HDF5_CUT,      // HDF5 cannot open it
    HDF5_LINKED,   // `name` is a link to elsewhere
    HDF5_OUTSIDE,  // `name` keeps its numbers in another file
    HDF5_CROWDED,  // more columns or attributes than any data set has
    HDF5_DAMAGED,  // contradicts itself
    HDF5_NO_MEMORY,
    HDF5_NO_FILTER,   // cannot be decompressed
    HDF5_UNREADABLE,  // `code` says why, if the system did
    HDF5_VERDICTS
} hdf5_verdict;

typedef enum hdf5_kind { HDF5_OTHER, HDF5_REAL, HDF5_INTEGER, HDF5_FLAG, HDF5_STRING } hdf5_kind;

typedef struct hdf5_column {
    char name[HDF5_NAME];
    int32_t kind;
    int32_t size;    // bytes of a number in the file
    int32_t rank;    // 0: a shape that no column has
    int32_t filter;  // one that is not supported; 0: none
    int64_t dims[HDF5_MAX_RANK];
    int64_t chunk_rows;  // read together
    int64_t stored;      // bytes in the file
    int64_t growth;      // by which its filters can multiply them at most
} hdf5_column;

typedef struct hdf5_attribute {
    char name[HDF5_NAME];
    int32_t kind;  // HDF5_INTEGER or HDF5_STRING
    uint64_t number;
    char text[HDF5_TEXT];
} hdf5_attribute;

typedef struct hdf5_catalogue {
    int32_t verdict, columns, attributes;
    char name[HDF5_NAME];  // of what the verdict is about
} hdf5_catalogue;

typedef struct hdf5_request {
    int32_t column, number;  // as which hdf5_number
    int64_t first, rows;
} hdf5_request;

typedef struct hdf5_reply {
    int32_t verdict, code;
} hdf5_reply;

// Serves the file over the socket until the other end is closed; never returns. Only for a process
// fresh from fork(): it gives up the caller's files, signals and limits.
_Noreturn void hdf5_child_serve(const char* path, int socket);

#endif
