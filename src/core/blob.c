// blob.c - see blob.h.
#include "core/blob.h"

#include <string.h>

void blob_field(blob* b, void* field, size_t bytes) {
    if (b->way == BLOB_SAVE) memcpy(b->at, field, bytes);
    if (b->way == BLOB_RESTORE) memcpy(field, b->at, bytes);
    if (b->way != BLOB_COUNT) b->at += bytes;
    b->bytes += bytes;
}
