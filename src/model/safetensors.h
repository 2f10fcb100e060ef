// safetensors.h - the container of model files: a little-endian 64-bit header size, a JSON header
//     {"__metadata__": {key: text}, name: {"dtype": "F32", "shape": [..], "data_offsets": [a, b]}}
// padded with spaces to 8 bytes, then the tensors one after another. Any safetensors reader opens
// the files written here. Read here are only those that carry our checksum: the metadata key
// "firm.checksum", a CRC-32 of the whole file taken with its own eight digits set to 0.
//
// checkpoint.c gives names and numbers their meaning.
#ifndef MODEL_SAFETENSORS_H
#define MODEL_SAFETENSORS_H

#include <cjson/cJSON.h>

#include "core/status.h"

enum {
    SAFETENSORS_RANK = 4,
    SAFETENSORS_NAME = 128,             // longest tensor name with its NUL, printable ASCII
    SAFETENSORS_HEADER_LIMIT = 1 << 20  // bytes; ours have about 20 000
};

typedef enum safetensors_type { SAFETENSORS_F32, SAFETENSORS_F16 } safetensors_type;

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
    cJSON *header, *metadata;
    safetensors_tensor* tensor;  // by name
    int tensors;
} safetensors;

// Checks everything the container promises: sizes, checksum, names, types, shapes, and that the
// tensors fill the data without gap or overlap. `file` is used in messages. Safe on any bytes.
firm_status safetensors_parse(const char* file, const char* bytes, size_t n, safetensors* out,
                              firm_error* err);
void safetensors_free(safetensors* s);  // fine on a zeroed or failed one
const safetensors_tensor* safetensors_find(const safetensors* s, const char* name);  // or NULL
const char* safetensors_value(const safetensors* s, const char* key);  // of the metadata, or NULL
void safetensors_copy(const safetensors_tensor* t, float* to);         // (count) as float32

// Reads the whole file; one that cannot be a container is refused before that. mem_free(*bytes).
firm_status safetensors_load(const char* path, char** bytes, size_t* n, firm_error* err);

// Writes the file whole or not at all; adds the checksum to the metadata. Bytes of a text that are
// no UTF-8 become '?'. A number too large for float16 is FIRM_E_VALUE.
firm_status safetensors_write(const char* path, const safetensors_text* text, int texts,
                              const safetensors_tensor* tensor, int tensors, firm_error* err);

// Puts the right checksum into bytes changed by a test or fuzzer; 0 if they have no place for it.
int safetensors_seal(char* bytes, size_t n);
// Whether a byte may stand in a tensor's name, as in all names we print.
int safetensors_printable(const char* text,
                          size_t room);  // 1 .. room - 1 printable ASCII characters

#endif
