// safetensors.c - reading the container: nothing in the bytes is trusted. Frame and checksum come
// first, so that a cut or damaged file is called that and not something subtler; then every size in
// the header is checked against the file. Memory taken is bounded by the size of the header.
#define _GNU_SOURCE
#include "model/safetensors.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "core/file.h"
#include "core/mem.h"
#include "model/half.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "model files are little-endian and are read without swapping bytes"
#endif

enum { FRAME = 8, DIGITS = 8 };  // bytes of the header size; of the checksum's text

static const char checksum_key[] = "\"firm.checksum\":\"";

// ---- frame and checksum -------------------------------------------------------------------------

static uint64_t header_size(const char* bytes) {
    uint64_t size;
    memcpy(&size, bytes, sizeof size);
    return size;
}

static int could_be_container(const char* start, size_t n) {
    return n > FRAME && header_size(start) >= 2 && header_size(start) <= SAFETENSORS_HEADER_LIMIT &&
           start[FRAME] == '{';
}

static firm_status not_a_model(const char* file, firm_error* err) {
    return FAIL(err, FIRM_E_FORMAT,
                "%s is not a model file; give a .safetensors file that firm wrote", file);
}

static firm_status check_frame(const char* file, const char* bytes, size_t n, firm_error* err) {
    if (n <= FRAME)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s is cut short or no model file: it has %zu bytes; copy it again", file, n);
    if (!could_be_container(bytes, n)) return not_a_model(file, err);
    if (header_size(bytes) > n - FRAME)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s is cut short: %zu of more than %zu bytes; copy it again", file, n,
                    (size_t)header_size(bytes) + FRAME);
    return FIRM_OK;
}

// Where the checksum's digits are, or 0. The key's quotes make the search exact: inside a JSON text
// they would be written \".
static size_t find_digits(const char* bytes, size_t n) {
    if (!could_be_container(bytes, n) || header_size(bytes) > n - FRAME) return 0;
    size_t end = FRAME + (size_t)header_size(bytes), length = sizeof checksum_key - 1;
    const char* key = memmem(bytes + FRAME, end - FRAME, checksum_key, length);
    if (!key) return 0;
    size_t at = (size_t)(key - bytes) + length;
    return end - at >= DIGITS ? at : 0;
}

static void checksum(const char* bytes, size_t n, size_t digits, char text[DIGITS + 1]) {
    uLong crc = crc32_z(0, (const Bytef*)bytes, digits);
    crc = crc32_z(crc, (const Bytef*)"00000000", DIGITS);
    crc = crc32_z(crc, (const Bytef*)bytes + digits + DIGITS, n - digits - DIGITS);
    snprintf(text, DIGITS + 1, "%08lx", (unsigned long)crc);
}

int safetensors_seal(char* bytes, size_t n) {
    size_t digits = find_digits(bytes, n);
    if (!digits) return 0;
    char text[DIGITS + 1];
    checksum(bytes, n, digits, text);
    memcpy(bytes + digits, text, DIGITS);
    return 1;
}

// A whole number that a double holds exactly; 0 if the item is something else.
static int whole(const cJSON* item, size_t* out) {
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > 0x1p53) return 0;
    *out = (size_t)item->valuedouble;
    return (double)*out == item->valuedouble;
}

// The sentence for a wrong checksum: the header, as far as it can be read, tells a cut file.
static firm_status explain_damage(const char* file, const cJSON* header, size_t n, size_t start,
                                  firm_error* err) {
    size_t end = 0, value;
    for (const cJSON* t = header ? header->child : NULL; t; t = t->next) {
        const cJSON* range = cJSON_GetObjectItemCaseSensitive(t, "data_offsets");
        if (cJSON_IsArray(range) && whole(cJSON_GetArrayItem(range, 1), &value) && value > end)
            end = value;
    }
    if (end > n - start)
        return FAIL(err, FIRM_E_FORMAT, "%s is cut short: %zu of %zu bytes; copy it again", file, n,
                    start + end);
    return FAIL(err, FIRM_E_FORMAT, "%s is damaged: its checksum does not fit; copy it again",
                file);
}

// ---- header -------------------------------------------------------------------------------------

int safetensors_printable(const char* text, size_t room) {
    size_t n = strnlen(text, room);
    for (size_t i = 0; i < n; i++)
        if (text[i] < ' ' || text[i] > '~') return 0;
    return n > 0 && n < room;
}

static int by_text(const void* a, const void* b) {
    return strcmp(*(const char* const*)a, *(const char* const*)b);
}

// Members of an object have names of their own: a second one would hide behind the first.
static firm_status check_unique(const char* file, const cJSON* object, firm_error* err) {
    size_t count = (size_t)cJSON_GetArraySize(object), i = 0;
    const char** name = mem_calloc(count + 1, sizeof *name);
    if (!name) return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", file);
    for (const cJSON* c = object->child; c; c = c->next) name[i++] = c->string;
    qsort(name, count, sizeof *name, by_text);
    firm_status status = FIRM_OK;
    for (i = 1; i < count && status == FIRM_OK; i++)
        if (strcmp(name[i - 1], name[i]) == 0)
            status =
                FAIL(err, FIRM_E_FORMAT, "%s names %s twice in its header; make the file again",
                     file, safetensors_printable(name[i], 128) ? name[i] : "something");
    mem_free(name);
    return status;
}

static firm_status read_shape(const char* file, const cJSON* shape, safetensors_tensor* t,
                              firm_error* err) {
    t->rank = 0;
    t->count = 1;
    for (const cJSON* d = shape->child; d; d = d->next) {
        size_t dim;
        if (t->rank == SAFETENSORS_RANK || !whole(d, &dim) ||
            __builtin_mul_overflow(t->count, dim, &t->count))
            return FAIL(err, FIRM_E_FORMAT,
                        "%s: the shape of tensor %s is not 0 to %d counts; make the file again",
                        file, t->name, SAFETENSORS_RANK);
        t->dim[t->rank++] = dim;
    }
    return FIRM_OK;
}

static firm_status read_tensor(const char* file, const cJSON* item, const char* data, size_t size,
                               safetensors_tensor* t, firm_error* err) {
    t->name = item->string;
    if (!safetensors_printable(t->name, SAFETENSORS_NAME))
        return FAIL(err, FIRM_E_FORMAT, "%s: a tensor has an unreadable name; make the file again",
                    file);
    const cJSON* type = cJSON_GetObjectItemCaseSensitive(item, "dtype");
    const cJSON* shape = cJSON_GetObjectItemCaseSensitive(item, "shape");
    const cJSON* range = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    size_t begin, end;
    if (!cJSON_IsObject(item) || cJSON_GetArraySize(item) != 3 || !cJSON_IsString(type) ||
        !cJSON_IsArray(shape) || !cJSON_IsArray(range) || cJSON_GetArraySize(range) != 2)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: tensor %s lacks dtype, shape or data_offsets; make the file again", file,
                    t->name);
    if (strcmp(type->valuestring, "F32") == 0)
        t->type = SAFETENSORS_F32;
    else if (strcmp(type->valuestring, "F16") == 0)
        t->type = SAFETENSORS_F16;
    else
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: tensor %s is neither F32 nor F16; convert it to one of them", file,
                    t->name);
    TRY(read_shape(file, shape, t, err));
    size_t bytes = t->type == SAFETENSORS_F16 ? 2 : 4;
    if (!whole(range->child, &begin) || !whole(range->child->next, &end) || begin > end ||
        end > size || t->count > size / bytes || end - begin != t->count * bytes)
        return FAIL(
            err, FIRM_E_FORMAT,
            "%s: the data_offsets of tensor %s do not fit its shape and the file's %zu bytes "
            "of data; make the file again",
            file, t->name, size);
    t->bytes = (const uint8_t*)data + begin;
    return FIRM_OK;
}

static int by_place(const void* a, const void* b) {
    const safetensors_tensor *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return (x->count > 0) - (y->count > 0);  // empty ones come first
}

static int by_name(const void* a, const void* b) {
    return strcmp(((const safetensors_tensor*)a)->name, ((const safetensors_tensor*)b)->name);
}

static firm_status check_places(const char* file, safetensors* s, const char* data, size_t size,
                                firm_error* err) {
    qsort(s->tensor, (size_t)s->tensors, sizeof *s->tensor, by_place);
    const uint8_t *at = (const uint8_t*)data, *last = at + size;
    for (int i = 0; i < s->tensors; i++) {
        const safetensors_tensor* t = &s->tensor[i];
        if (t->bytes != at)
            return FAIL(err, FIRM_E_FORMAT,
                        "%s: the data of tensor %s does not follow its neighbour's; make the file "
                        "again",
                        file, t->name);
        at += t->count * (t->type == SAFETENSORS_F16 ? 2 : 4);
    }
    if (at != last)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s has %zu bytes that belong to no tensor; make the file again", file,
                    (size_t)(last - at));
    qsort(s->tensor, (size_t)s->tensors, sizeof *s->tensor, by_name);
    return FIRM_OK;
}

static firm_status read_header(const char* file, safetensors* s, const char* data, size_t size,
                               firm_error* err) {
    if (!cJSON_IsObject(s->header))
        return FAIL(err, FIRM_E_FORMAT,
                    "%s has a header that is no JSON object; make the file again", file);
    TRY(check_unique(file, s->header, err));
    s->metadata = cJSON_GetObjectItemCaseSensitive(s->header, "__metadata__");
    if (!cJSON_IsObject(s->metadata)) return not_a_model(file, err);
    TRY(check_unique(file, s->metadata, err));
    for (const cJSON* c = s->metadata->child; c; c = c->next)
        if (!cJSON_IsString(c))
            return FAIL(err, FIRM_E_FORMAT, "%s has metadata that is not text; make the file again",
                        file);
    size_t count = (size_t)cJSON_GetArraySize(s->header);
    s->tensor = mem_calloc(count, sizeof *s->tensor);
    if (!s->tensor) return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", file);
    for (const cJSON* c = s->header->child; c; c = c->next)
        if (c != s->metadata) TRY(read_tensor(file, c, data, size, &s->tensor[s->tensors++], err));
    return check_places(file, s, data, size, err);
}

firm_status safetensors_parse(const char* file, const char* bytes, size_t n, safetensors* out,
                              firm_error* err) {
    memset(out, 0, sizeof *out);
    TRY(check_frame(file, bytes, n, err));
    size_t start = FRAME + (size_t)header_size(bytes), digits = find_digits(bytes, n);
    if (!digits)
        return FAIL(
            err, FIRM_E_FORMAT,
            "%s carries no checksum of firm: it is damaged or another program wrote it; copy "
            "it again, or give a file that firm wrote",
            file);
    char text[DIGITS + 1];
    const char* end = NULL;
    checksum(bytes, n, digits, text);
    out->header = cJSON_ParseWithLengthOpts(bytes + FRAME, start - FRAME, &end, 0);
    firm_status status = FIRM_OK;
    if (memcmp(text, bytes + digits, DIGITS) != 0)
        status = explain_damage(file, out->header, n, start, err);
    else if (!out->header)
        status =
            FAIL(err, FIRM_E_FORMAT, "%s has a header that is not JSON; make the file again", file);
    for (; status == FIRM_OK && end < bytes + start; end++)
        if (*end != ' ')
            status = FAIL(err, FIRM_E_FORMAT,
                          "%s has something behind its JSON header; make the file again", file);
    if (status == FIRM_OK) status = read_header(file, out, bytes + start, n - start, err);
    if (status != FIRM_OK) safetensors_free(out);
    return status;
}

void safetensors_free(safetensors* s) {
    cJSON_Delete(s->header);
    mem_free(s->tensor);
    memset(s, 0, sizeof *s);
}

// ---- contents -----------------------------------------------------------------------------------

const safetensors_tensor* safetensors_find(const safetensors* s, const char* name) {
    safetensors_tensor key = {.name = name};
    if (s->tensors == 0) return NULL;
    return bsearch(&key, s->tensor, (size_t)s->tensors, sizeof key, by_name);
}

const char* safetensors_value(const safetensors* s, const char* key) {
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(s->metadata, key));
}

void safetensors_copy(const safetensors_tensor* t, float* to) {
    if (t->type == SAFETENSORS_F32) {
        if (t->count) memcpy(to, t->bytes, t->count * sizeof *to);
        return;
    }
    for (size_t i = 0; i < t->count; i++) {
        uint16_t half;
        memcpy(&half, t->bytes + 2 * i, sizeof half);
        to[i] = half_to_float(half);
    }
}

firm_status safetensors_load(const char* path, char** bytes, size_t* n, firm_error* err) {
    *bytes = NULL;
    *n = 0;
    // a data set of many gigabytes given by mistake is recognised by its first bytes
    struct stat s;
    if (stat(path, &s) == 0 && S_ISREG(s.st_mode)) {
        char start[FRAME + 1];
        FILE* f = fopen(path, "rbe");
        size_t got = f ? fread(start, 1, sizeof start, f) : 0;
        if (f) fclose(f);
        if (got == sizeof start && !could_be_container(start, got)) return not_a_model(path, err);
    }
    return file_read_all(path, bytes, n, err);
}
