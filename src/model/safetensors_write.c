// safetensors_write.c - writing the container: the header as JSON, then two passes over the
// tensors, by name for the digest and in their own order into the file, so that no second copy of
// the weights is needed.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/mem.h"
#include "core/text.h"
#include "model/digest.h"
#include "model/half.h"

enum { CHUNK = 4096 };  // numbers converted at a time

// What is written: texts without what is no UTF-8, and both lists again as the digest has them.
typedef struct contents {
    const safetensors_tensor* tensor;
    int texts, tensors;
    safetensors_text *text, *text_by_key;
    safetensors_tensor* tensor_by_name;
    char* clean;  // memory of the texts
} contents;

// ---- contents -----------------------------------------------------------------------------------

static void contents_free(contents* c) {
    mem_free(c->text);
    mem_free(c->text_by_key);
    mem_free(c->tensor_by_name);
    mem_free(c->clean);
}

// Copies the text with '?' for each byte that is no UTF-8; returns the place behind its NUL.
static char* copy_clean(char* to, const char* text) {
    char* p = memcpy(to, text, strlen(text) + 1);
    while (*p) {
        size_t n = text_utf8(p);
        if (n == 0) *p = '?';
        p += n ? n : 1;
    }
    return p + 1;
}

static firm_status contents_make(const char* path, const safetensors_text* text, contents* c,
                                 firm_error* err) {
    size_t room = 1, texts = (size_t)c->texts, tensors = (size_t)c->tensors;
    for (size_t i = 0; i < texts; i++) room += strlen(text[i].value) + 1;
    c->text = mem_calloc(texts + 1, sizeof *c->text);
    c->text_by_key = mem_calloc(texts + 1, sizeof *c->text);
    c->tensor_by_name = mem_calloc(tensors + 1, sizeof *c->tensor);
    c->clean = mem_alloc(room);
    if (!c->text || !c->text_by_key || !c->tensor_by_name || !c->clean)
        return FAIL(err, FIRM_E_MEMORY, "no memory to write %s", path);
    char* at = c->clean;
    for (size_t i = 0; i < texts; i++) {
        c->text[i] = (safetensors_text){text[i].key, at};
        at = copy_clean(at, text[i].value);
    }
    memcpy(c->text_by_key, c->text, texts * sizeof *c->text);
    qsort(c->text_by_key, texts, sizeof *c->text, digest_by_key);
    for (size_t i = 0; i < tensors; i++) c->tensor_by_name[i] = c->tensor[i];
    qsort(c->tensor_by_name, tensors, sizeof *c->tensor, digest_by_name);
    return FIRM_OK;
}

// ---- header -------------------------------------------------------------------------------------

// Where the header is printed; with no place, its bytes are counted.
typedef struct printer {
    char* to;
    size_t n;
} printer;

static void put(printer* p, const char* bytes, size_t n) {
    if (p->to) memcpy(p->to + p->n, bytes, n);
    p->n += n;
}

static void put_plain(printer* p, const char* text) {
    put(p, text, strlen(text));
}

static void put_number(printer* p, size_t value) {
    char digits[32];
    snprintf(digits, sizeof digits, "%zu", value);
    put_plain(p, digits);
}

static void put_text(printer* p, const char* text) {
    static const char sign[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    put(p, "\"", 1);
    for (; *text; text++) {
        char escape[8];
        const char* found = strchr(sign, *text);
        if (found) {
            snprintf(escape, sizeof escape, "\\%c", letter[found - sign]);
            put_plain(p, escape);
        } else if ((unsigned char)*text < ' ') {
            snprintf(escape, sizeof escape, "\\u%04x", (unsigned char)*text);
            put_plain(p, escape);
        } else {
            put(p, text, 1);
        }
    }
    put(p, "\"", 1);
}

static void put_tensor(printer* p, const safetensors_tensor* t, size_t* offset) {
    put(p, ",", 1);
    put_text(p, t->name);
    put_plain(p, ":{\"dtype\":");
    put_text(p, safetensors_type_name(t->type));
    put_plain(p, ",\"shape\":[");
    for (int i = 0; i < t->rank; i++) {
        if (i) put(p, ",", 1);
        put_number(p, t->dim[i]);
    }
    put_plain(p, "],\"data_offsets\":[");
    put_number(p, *offset);
    put(p, ",", 1);
    put_number(p, *offset += safetensors_bytes(t));
    put_plain(p, "]}");
}

static void put_header(printer* p, const contents* c, const char* digest) {
    size_t offset = 0;
    put_plain(p, "{\"__metadata__\":{");
    put_text(p, DIGEST_KEY);
    put(p, ":", 1);
    put_text(p, digest);
    for (int i = 0; i < c->texts; i++) {
        put(p, ",", 1);
        put_text(p, c->text[i].key);
        put(p, ":", 1);
        put_text(p, c->text[i].value);
    }
    put(p, "}", 1);
    for (int i = 0; i < c->tensors; i++) put_tensor(p, &c->tensor[i], &offset);
    put(p, "}", 1);
}

// The header with its size in front and spaces behind; mem_free(*frame).
static firm_status make_frame(const char* path, const contents* c, const char* digest, char** frame,
                              size_t* n, firm_error* err) {
    printer count = {0};
    put_header(&count, c, digest);
    uint64_t padded = (count.n + 7) / 8 * 8;
    if (padded > SAFETENSORS_HEADER_LIMIT)
        return FAIL(err, FIRM_E_VALUE,
                    "cannot write %s: its settings and names take %zu bytes, more than %d; shorten "
                    "the settings",
                    path, count.n, SAFETENSORS_HEADER_LIMIT);
    *n = SAFETENSORS_FRAME + padded;
    *frame = mem_alloc(*n);
    if (!*frame) return FAIL(err, FIRM_E_MEMORY, "no memory to write %s", path);
    memcpy(*frame, &padded, SAFETENSORS_FRAME);
    memset(*frame + SAFETENSORS_FRAME, ' ', padded);
    printer p = {*frame + SAFETENSORS_FRAME, 0};
    put_header(&p, c, digest);
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

static firm_status to_whole(const char* path, const safetensors_tensor* t, size_t first,
                            size_t count, int64_t* out, firm_error* err) {
    for (size_t i = 0; i < count; i++) {
        float value = t->value[first + i];
        if (!(fabsf(value) < 9e15f) || value != floorf(value))
            return FAIL(err, FIRM_E_VALUE, "cannot write %s: %s[%zu] is %g, not a whole number",
                        path, t->name, first + i, (double)value);
        out[i] = (int64_t)value;
    }
    return FIRM_OK;
}

// The numbers of a tensor as the file has them, into the digest or else into the file.
static firm_status put_numbers(const char* path, const safetensors_tensor* t, crc* digest,
                               file_writer* w, firm_error* err) {
    uint16_t half[CHUNK];
    int64_t whole[CHUNK];
    CHECK(t->type != SAFETENSORS_BF16, "%s: bfloat16 is read, not written", t->name);
    for (size_t at = 0; at < t->count; at += CHUNK) {
        size_t count = t->count - at < CHUNK ? t->count - at : CHUNK;
        const void* bytes = t->value + at;
        size_t size = count * sizeof *t->value;
        if (t->type == SAFETENSORS_F16) {
            TRY(to_half(path, t, at, count, half, err));
            bytes = half;
            size = count * sizeof *half;
        } else if (t->type == SAFETENSORS_I64) {
            TRY(to_whole(path, t, at, count, whole, err));
            bytes = whole;
            size = count * sizeof *whole;
        }
        if (digest)
            crc_add(digest, bytes, size);
        else
            TRY(file_put(w, bytes, size, err));
    }
    return FIRM_OK;
}

static firm_status make_digest(const char* path, const contents* c, digest_text out,
                               firm_error* err) {
    crc digest;
    digest_start(&digest, c->text_by_key, c->texts);
    for (int i = 0; i < c->tensors; i++) {
        digest_tensor(&digest, &c->tensor_by_name[i]);
        TRY(put_numbers(path, &c->tensor_by_name[i], &digest, NULL, err));
    }
    digest_end(&digest, out);
    return FIRM_OK;
}

static firm_status write_file(const char* path, const contents* c, const char* frame, size_t n,
                              firm_error* err) {
    file_writer w;
    TRY(file_open_write(&w, path, err));
    firm_status status = file_put(&w, frame, n, err);
    for (int i = 0; i < c->tensors && status == FIRM_OK; i++)
        status = put_numbers(path, &c->tensor[i], NULL, &w, err);
    if (status == FIRM_OK) status = file_commit(&w, err);
    if (status != FIRM_OK) file_abandon(&w);
    return status;
}

firm_status safetensors_write(const char* path, const safetensors_text* text, int texts,
                              const safetensors_tensor* tensor, int tensors, firm_error* err) {
    contents c = {.tensor = tensor, .texts = texts, .tensors = tensors};
    digest_text digest;
    char* frame = NULL;
    size_t n = 0;
    firm_status status = contents_make(path, text, &c, err);
    if (status == FIRM_OK) status = make_digest(path, &c, digest, err);
    if (status == FIRM_OK) status = make_frame(path, &c, digest, &frame, &n, err);
    if (status == FIRM_OK) status = write_file(path, &c, frame, n, err);
    mem_free(frame);
    contents_free(&c);
    return status;
}
