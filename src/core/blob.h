// blob.h - a state as bytes: one walk over its fields counts, saves or restores them, so that the
// three cannot differ. Bytes are of this machine's kind: a blob is no file format.
#ifndef CORE_BLOB_H
#define CORE_BLOB_H

#include <stddef.h>

typedef enum blob_way { BLOB_COUNT, BLOB_SAVE, BLOB_RESTORE } blob_way;

typedef struct blob {
    blob_way way;
    char* at;      // of the next field; not for BLOB_COUNT
    size_t bytes;  // so far
} blob;

void blob_field(blob* b, void* field, size_t bytes);
#define BLOB_FIELD(b, x) blob_field(b, &(x), sizeof(x))

#endif
