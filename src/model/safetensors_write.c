// safetensors_write.c - writing the container: the header as JSON, then two passes over the
// tensors, one for the checksum and one into the file, so that no second copy of the weights is
// needed.
#include <math.h>
#include <string.h>
#include <zlib.h>

#include "core/file.h"
#include "core/mem.h"
#include "model/half.h"
#include "model/safetensors.h"

enum { CHUNK = 4096 };  // numbers converted at a time

// ---- header -------------------------------------------------------------------------------------

// Length of the UTF-8 character at p, 0 if the bytes are none (RFC 3629: shortest form, no
// surrogates).
static size_t utf8_length(const unsigned char* p) {
    if (p[0] < 0x80) return 1;
    size_t n = p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : 0;
    if (p[0] >= 0xf0 && p[0] < 0xf5) n = 4;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;  // also stops at the NUL
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

static int add_text(cJSON* object, const char* key, const char* value) {
    char* clean = mem_strdup(value);
    if (!clean) return 0;
    for (unsigned char* p = (unsigned char*)clean; *p;) {
        size_t n = utf8_length(p);
        if (n == 0) *p = '?';
        p += n ? n : 1;
    }
    int ok = cJSON_AddStringToObject(object, key, clean) != NULL;
    mem_free(clean);
    return ok;
}

static int add_number(cJSON* array, size_t value) {
    cJSON* item = cJSON_CreateNumber((double)value);
    if (cJSON_AddItemToArray(array, item)) return 1;
    cJSON_Delete(item);
    return 0;
}

static int add_tensor(cJSON* root, const safetensors_tensor* t, size_t* offset) {
    cJSON* item = cJSON_AddObjectToObject(root, t->name);
    int half = t->type == SAFETENSORS_F16;
    int ok = cJSON_AddStringToObject(item, "dtype", half ? "F16" : "F32") != NULL;
    cJSON* shape = cJSON_AddArrayToObject(item, "shape");
    for (int i = 0; i < t->rank; i++) ok &= add_number(shape, t->dim[i]);
    cJSON* range = cJSON_AddArrayToObject(item, "data_offsets");
    ok &= add_number(range, *offset);
    *offset += t->count * (half ? 2 : 4);
    return ok && shape && add_number(range, *offset);
}

// The header with its size in front and spaces behind, checksum 00000000; mem_free(*frame).
static firm_status make_frame(const char* path, const safetensors_text* text, int texts,
                              const safetensors_tensor* tensor, int tensors, char** frame,
                              size_t* n, firm_error* err) {
    size_t offset = 0;
    cJSON* root = cJSON_CreateObject();
    cJSON* metadata = cJSON_AddObjectToObject(root, "__metadata__");
    int ok = cJSON_AddStringToObject(metadata, "firm.checksum", "00000000") != NULL;
    for (int i = 0; i < texts; i++) ok &= add_text(metadata, text[i].key, text[i].value);
    for (int i = 0; i < tensors; i++) ok &= add_tensor(root, &tensor[i], &offset);
    char* json = ok ? cJSON_PrintUnformatted(root) : NULL;
    cJSON_Delete(root);
    size_t length = json ? strlen(json) : 0;
    uint64_t padded = (length + 7) / 8 * 8;
    char* out = json ? mem_alloc(padded + 8) : NULL;
    if (out) {
        memcpy(out, &padded, 8);
        memset(out + 8, ' ', padded);
        memcpy(out + 8, json, length);
    }
    cJSON_free(json);
    if (!out) return FAIL(err, FIRM_E_MEMORY, "no memory to write %s", path);
    if (padded > SAFETENSORS_HEADER_LIMIT) {
        mem_free(out);
        return FAIL(err, FIRM_E_VALUE,
                    "cannot write %s: its settings and names take %zu bytes, more than %d; shorten "
                    "the settings",
                    path, length, SAFETENSORS_HEADER_LIMIT);
    }
    *frame = out;
    *n = padded + 8;
    return FIRM_OK;
}

// ---- data ---------------------------------------------------------------------------------------

static firm_status to_half(const char* path, const safetensors_tensor* t, size_t first,
                           size_t count, uint16_t* out, firm_error* err) {
    for (size_t i = 0; i < count; i++) {
        float value = t->value[first + i];
        out[i] = half_from_float(value);
        if (isfinite(value) && (out[i] & 0x7c00) == 0x7c00)
            return FAIL(err, FIRM_E_VALUE,
                        "cannot write %s: %s[%zu] is %g and half precision ends at 65504; write "
                        "float32",
                        path, t->name, first + i, (double)value);
    }
    return FIRM_OK;
}

// Both passes: into the checksum, or into the file when `w` is given.
static firm_status pass(const char* path, const safetensors_tensor* tensor, int tensors, uLong* crc,
                        file_writer* w, firm_error* err) {
    uint16_t half[CHUNK];
    for (int i = 0; i < tensors; i++) {
        const safetensors_tensor* t = &tensor[i];
        for (size_t at = 0; at < t->count; at += CHUNK) {
            size_t count = t->count - at < CHUNK ? t->count - at : CHUNK;
            const void* bytes = t->value + at;
            size_t size = count * sizeof *t->value;
            if (t->type == SAFETENSORS_F16) {
                TRY(to_half(path, t, at, count, half, err));
                bytes = half;
                size = count * sizeof *half;
            }
            if (w)
                TRY(file_put(w, bytes, size, err));
            else
                *crc = crc32_z(*crc, bytes, size);
        }
    }
    return FIRM_OK;
}

firm_status safetensors_write(const char* path, const safetensors_text* text, int texts,
                              const safetensors_tensor* tensor, int tensors, firm_error* err) {
    char* frame = NULL;
    size_t n = 0;
    TRY(make_frame(path, text, texts, tensor, tensors, &frame, &n, err));
    uLong crc = crc32_z(0, (const Bytef*)frame, n);
    firm_status status = pass(path, tensor, tensors, &crc, NULL, err);
    if (status == FIRM_OK) {
        static const char key[] = "{\"__metadata__\":{\"firm.checksum\":\"";  // as made above
        CHECK(memcmp(frame + 8, key, sizeof key - 1) == 0, "the header does not start as written");
        char digits[9];
        snprintf(digits, sizeof digits, "%08lx", (unsigned long)crc);
        memcpy(frame + 8 + sizeof key - 1, digits, 8);
        file_writer w;
        status = file_open_write(&w, path, err);
        if (status == FIRM_OK) {
            status = file_put(&w, frame, n, err);
            if (status == FIRM_OK) status = pass(path, tensor, tensors, NULL, &w, err);
            if (status == FIRM_OK) status = file_commit(&w, err);
            if (status != FIRM_OK) file_abandon(&w);
        }
    }
    mem_free(frame);
    return status;
}
