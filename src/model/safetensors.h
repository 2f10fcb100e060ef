// safetensors.h - the container of model files: a little-endian 64-bit header size, a JSON header
//     {"__metadata__": {key: text}, name: {"dtype": "F32", "shape": [..], "data_offsets": [a, b]}}
// padded with spaces to 8 bytes, then the tensors one after another. Any safetensors reader opens
// the files written here. Read here are those that carry one of our checksums (digest.h), and
// others where the caller says so.
//
// checkpoint.c gives names and numbers their meaning.
#ifndef MODEL_SAFETENSORS_H
#define MODEL_SAFETENSORS_H

#include "core/status.h"
#include "model/header.h"

enum {
    SAFETENSORS_RANK = 4,
    SAFETENSORS_NAME = 128,              // longest tensor name with its NUL, printable ASCII
    SAFETENSORS_FRAME = 8,               // bytes of the header's size
    SAFETENSORS_HEADER_LIMIT = 1 << 20,  // bytes; ours have about 20 000
};

typedef enum safetensors_type {
    SAFETENSORS_F32,
    SAFETENSORS_F16,
    SAFETENSORS_BF16,
    SAFETENSORS_I64  // counts; whole numbers as floats in memory
} safetensors_type;

typedef struct safetensors_tensor {
    const char* name;
    safetensors_type type;  // in the file
    int rank;
    size_t dim[SAFETENSORS_RANK];
    size_t count;          // product of dim; may be 0
    const float* value;    // writing: the numbers, converted to `type` on the way
    const uint8_t* bytes;  // reading: where they lie in the file, not aligned
} safetensors_tensor;

typedef struct safetensors_text {
    const char *key, *value;
} safetensors_text;

// A parsed file. Points into the bytes it was parsed from, which must outlive it.
typedef struct safetensors {
    header header;
    safetensors_text* text;  // the metadata, by key
    int texts;
    safetensors_tensor* tensor;  // by name
    int tensors;
} safetensors;

// What to do with a file that another program rewrote so that its checksum no longer fits.
typedef enum safetensors_trust {
    SAFETENSORS_REFUSE_CHANGES,
    SAFETENSORS_ACCEPT_CHANGES,  // damaged files are refused all the same
    SAFETENSORS_FOREIGN          // files without our checksum or any metadata are read, too
} safetensors_trust;

// Checks everything the container promises: sizes, checksum, names, types, shapes, and that the
// tensors fill the data without gap or overlap. `file` is used in messages. Safe on any bytes.
firm_status safetensors_parse(const char* file, const char* bytes, size_t n,
                              safetensors_trust trust, safetensors* out, firm_error* err);
void safetensors_free(safetensors* s);  // fine on a zeroed or failed one
const safetensors_tensor* safetensors_find(const safetensors* s, const char* name);  // or NULL
const char* safetensors_value(const safetensors* s, const char* key);  // of the metadata, or NULL
void safetensors_copy(const safetensors_tensor* t, float* to);         // (count) as float32
int safetensors_finite(const safetensors_tensor* t);                   // whether all numbers are
size_t safetensors_bytes(const safetensors_tensor* t);                 // that it takes in the file
const char* safetensors_type_name(safetensors_type type);  // "F32", "F16", "BF16", "I64"

// Bytes of the JSON header as the frame says; 0 if these are no container, or a cut one.
size_t safetensors_header(const char* bytes, size_t n);

// Reads the whole file; one that cannot be a container is refused before that. mem_free(*bytes).
firm_status safetensors_load(const char* path, char** bytes, size_t* n, firm_error* err);

// Writes the file whole or not at all; adds the digest to the metadata. Bytes of a text that are
// no UTF-8 become '?'. A number too large for float16 is FIRM_E_VALUE.
firm_status safetensors_write(const char* path, const safetensors_text* text, int texts,
                              const safetensors_tensor* tensor, int tensors, firm_error* err);

// Puts the right digest, or else the right checksum, into bytes changed by a test or fuzzer; 0 if
// they have no place for it. Where the contents cannot be read, the digest stays as it is.
int safetensors_seal(char* bytes, size_t n);
// Whether a byte may stand in a tensor's name, as in all names we print.
int safetensors_printable(const char* text,
                          size_t room);  // 1 .. room - 1 printable ASCII characters

#endif
