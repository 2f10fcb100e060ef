// safetensors.c - reading the container: nothing in the bytes is trusted. A cut file is called that
// and not something subtler; every size in the header is checked against the file. Memory taken is
// bounded by the size of the header.
//
// A checksum that covers the bytes is judged before anything else. A digest covers the contents, so
// it is judged when they have been found.
#define _GNU_SOURCE
#include "model/safetensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/file.h"
#include "core/mem.h"
#include "model/digest.h"
#include "model/half.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "model files are little-endian and are read without swapping bytes"
#endif

enum { FRAME = SAFETENSORS_FRAME };

// ---- frame --------------------------------------------------------------------------------------

static uint64_t header_size(const char* bytes) {
    uint64_t size;
    memcpy(&size, bytes, sizeof size);
    return size;
}

static int could_be_container(const char* start, size_t n) {
    return n > FRAME && header_size(start) >= 2 && header_size(start) <= SAFETENSORS_HEADER_LIMIT &&
           start[FRAME] == '{';
}

size_t safetensors_header(const char* bytes, size_t n) {
    if (!could_be_container(bytes, n) || header_size(bytes) > n - FRAME) return 0;
    return (size_t)header_size(bytes);
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

// ---- whose bytes these are ----------------------------------------------------------------------

// A file as its bytes have it, before anything in it is believed.
typedef struct raw {
    const char* file;  // for messages
    const char* bytes;
    size_t n, start;          // start: where the data begins
    const header_item* root;  // NULL: the header cannot be read
} raw;

// Bytes that the file must have at least, as far as the header can be read.
static size_t least_bytes(const raw* f) {
    size_t end = 0;
    for (const header_item* t = f->root ? f->root->child : NULL; t; t = t->next) {
        const header_item* range = header_find(t, "data_offsets");
        const header_item* last = range && range->count == 2 ? range->child->next : NULL;
        if (last && last->kind == HEADER_WHOLE && last->whole > end) end = last->whole;
    }
    return f->start + end;
}

static firm_status check_length(const raw* f, firm_error* err) {
    size_t least = least_bytes(f);
    if (least <= f->n) return FIRM_OK;
    return FAIL(err, FIRM_E_FORMAT, "%s is cut short: %zu of %zu bytes; copy it again", f->file,
                f->n, least);
}

static int same_type(const header_item* a, const header_item* b) {
    const header_item *x = header_find(a, "dtype"), *y = header_find(b, "dtype");
    return x && y && x->kind == HEADER_TEXT && y->kind == HEADER_TEXT &&
           strcmp(x->text, y->text) == 0;
}

// Whether the tensors of each type stand in the order of their names, as Python's safetensors
// writes them. A model's own order is that of its modules.
static int tensors_sorted(const raw* f) {
    const header_item* before = NULL;
    for (const header_item* t = f->root ? f->root->child : NULL; t; t = t->next) {
        if (strcmp(t->name, "__metadata__") == 0) continue;
        if (before && same_type(before, t) && strcmp(before->name, t->name) > 0) return 0;
        before = t;
    }
    return f->root != NULL;
}

// Whether the file still has the layout that firm writes: the key stands first.
static int layout_of_firm(const raw* f, const char* key) {
    char start[64];
    int length = snprintf(start, sizeof start, "{\"__metadata__\":{\"%s\":\"", key);
    return f->start - FRAME >= (size_t)length &&
           memcmp(f->bytes + FRAME, start, (size_t)length) == 0 && !tensors_sorted(f);
}

// ---- checksums ----------------------------------------------------------------------------------

static firm_status judge_checksum(const raw* f, size_t digits, safetensors_trust trust,
                                  firm_error* err) {
    digest_text right;
    digest_checksum(f->bytes, f->n, digits, right);
    if (memcmp(right, f->bytes + digits, DIGEST_DIGITS) == 0) return FIRM_OK;
    TRY(check_length(f, err));
    if (layout_of_firm(f, CHECKSUM_KEY))
        return FAIL(err, FIRM_E_FORMAT, "%s is damaged: its checksum does not fit; copy it again",
                    f->file);
    if (trust != SAFETENSORS_REFUSE_CHANGES) return FIRM_OK;
    return FAIL(err, FIRM_E_FORMAT,
                "%s was rewritten by another program, and its %s holds for the bytes that firm "
                "wrote only; take the original, or write it with `firm export --accept-changes`",
                f->file, CHECKSUM_KEY);
}

static firm_status judge_digest(const raw* f, const safetensors* s, safetensors_trust trust,
                                firm_error* err) {
    digest_text right;
    const char* digest = safetensors_value(s, DIGEST_KEY);
    digest_of(s, right);
    if (digest && strcmp(right, digest) == 0) return FIRM_OK;
    if (layout_of_firm(f, DIGEST_KEY))
        return FAIL(err, FIRM_E_FORMAT, "%s is damaged: its digest does not fit; copy it again",
                    f->file);
    if (trust != SAFETENSORS_REFUSE_CHANGES) return FIRM_OK;
    return FAIL(err, FIRM_E_FORMAT,
                "%s was rewritten by another program, which changed its numbers or texts; if that "
                "was meant, write it with `firm export --accept-changes`",
                f->file);
}

static firm_status no_checksum(const char* file, firm_error* err) {
    return FAIL(err, FIRM_E_FORMAT,
                "%s carries no checksum of firm: it is damaged or another program wrote it; copy "
                "it again, or give a file that firm wrote",
                file);
}

// ---- header -------------------------------------------------------------------------------------

int safetensors_printable(const char* text, size_t room) {
    size_t n = strnlen(text, room);
    for (size_t i = 0; i < n; i++)
        if (text[i] < ' ' || text[i] > '~') return 0;
    return n > 0 && n < room;
}

static const char* const type_name[] = {"F32", "F16", "BF16", "I64"};  // by safetensors_type
enum { TYPES = sizeof type_name / sizeof *type_name };

const char* safetensors_type_name(safetensors_type type) {
    return type_name[type];
}

size_t safetensors_bytes(const safetensors_tensor* t) {
    static const size_t bytes[] = {4, 2, 2, 8};  // by safetensors_type
    return t->count * bytes[t->type];
}

static int is_kind(const header_item* item, header_kind kind) {
    return item && item->kind == kind;
}

static firm_status read_shape(const char* file, const header_item* shape, safetensors_tensor* t,
                              firm_error* err) {
    t->rank = 0;
    t->count = 1;
    for (const header_item* d = shape->child; d; d = d->next) {
        if (t->rank == SAFETENSORS_RANK || d->kind != HEADER_WHOLE ||
            __builtin_mul_overflow(t->count, d->whole, &t->count))
            return FAIL(err, FIRM_E_FORMAT,
                        "%s: the shape of tensor %s is not 0 to %d counts; copy it again or make "
                        "it anew",
                        file, t->name, SAFETENSORS_RANK);
        t->dim[t->rank++] = d->whole;
    }
    return FIRM_OK;
}

static firm_status read_type(const char* file, const char* text, safetensors_tensor* t,
                             firm_error* err) {
    for (int i = 0; i < TYPES; i++)
        if (strcmp(text, type_name[i]) == 0) {
            t->type = (safetensors_type)i;
            return FIRM_OK;
        }
    return FAIL(err, FIRM_E_FORMAT,
                "%s: tensor %s is none of F32, F16, BF16 and I64; convert it to one of them", file,
                t->name);
}

static firm_status read_tensor(const char* file, const header_item* item, const char* data,
                               size_t size, safetensors_tensor* t, firm_error* err) {
    t->name = item->name;
    if (!safetensors_printable(t->name, SAFETENSORS_NAME))
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: a tensor has an unreadable name; copy it again or make it anew", file);
    const header_item* type = header_find(item, "dtype");
    const header_item* shape = header_find(item, "shape");
    const header_item* range = header_find(item, "data_offsets");
    if (item->count != 3 || !is_kind(type, HEADER_TEXT) || !is_kind(shape, HEADER_ARRAY) ||
        !is_kind(range, HEADER_ARRAY) || range->count != 2)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: tensor %s lacks dtype, shape or data_offsets; copy it again or make it "
                    "anew",
                    file, t->name);
    TRY(read_type(file, type->text, t, err));
    TRY(read_shape(file, shape, t, err));
    const header_item *begin = range->child, *end = begin->next;
    if (begin->kind != HEADER_WHOLE || end->kind != HEADER_WHOLE || begin->whole > end->whole ||
        end->whole > size || t->count > size || end->whole - begin->whole != safetensors_bytes(t))
        return FAIL(err, FIRM_E_FORMAT,
                    "%s: the data_offsets of tensor %s do not fit its shape and the file's %zu "
                    "bytes of data; copy it again or make it anew",
                    file, t->name, size);
    t->bytes = (const uint8_t*)data + begin->whole;
    return FIRM_OK;
}

static int by_place(const void* a, const void* b) {
    const safetensors_tensor *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return (x->count > 0) - (y->count > 0);  // empty ones come first
}

static firm_status check_places(const char* file, safetensors* s, const char* data, size_t size,
                                firm_error* err) {
    qsort(s->tensor, (size_t)s->tensors, sizeof *s->tensor, by_place);
    const uint8_t *at = (const uint8_t*)data, *last = at + size;
    for (int i = 0; i < s->tensors; i++) {
        const safetensors_tensor* t = &s->tensor[i];
        if (t->bytes != at)
            return FAIL(err, FIRM_E_FORMAT,
                        "%s: the data of tensor %s does not follow its neighbour's; copy it again "
                        "or make it anew",
                        file, t->name);
        at += safetensors_bytes(t);
    }
    if (at != last)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s is damaged: %zu of its bytes belong to no tensor; copy it again or make it "
                    "anew",
                    file, (size_t)(last - at));
    qsort(s->tensor, (size_t)s->tensors, sizeof *s->tensor, digest_by_name);
    return FIRM_OK;
}

static firm_status read_texts(const char* file, const header_item* metadata, safetensors* s,
                              firm_error* err) {
    s->text = mem_calloc(metadata->count + 1, sizeof *s->text);
    if (!s->text) return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", file);
    for (const header_item* c = metadata->child; c; c = c->next) {
        if (c->kind != HEADER_TEXT)
            return FAIL(err, FIRM_E_FORMAT,
                        "%s has metadata that is not text; copy it again or make it anew", file);
        s->text[s->texts++] = (safetensors_text){c->name, c->text};
    }
    qsort(s->text, (size_t)s->texts, sizeof *s->text, digest_by_key);
    return FIRM_OK;
}

static firm_status read_contents(const raw* f, int foreign, safetensors* s, firm_error* err) {
    for (size_t i = FRAME + s->header.used; i < f->start; i++)
        if (f->bytes[i] != ' ')
            return FAIL(err, FIRM_E_FORMAT,
                        "%s has something behind its JSON header; copy it again or make it anew",
                        f->file);
    const header_item* metadata = header_find(f->root, "__metadata__");
    if (!is_kind(metadata, HEADER_OBJECT) && (metadata || !foreign))
        return not_a_model(f->file, err);
    if (metadata) TRY(read_texts(f->file, metadata, s, err));
    s->tensor = mem_calloc(f->root->count, sizeof *s->tensor);
    if (!s->tensor) return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", f->file);
    const char* data = f->bytes + f->start;
    size_t size = f->n - f->start;
    for (const header_item* c = f->root->child; c; c = c->next)
        if (c != metadata) TRY(read_tensor(f->file, c, data, size, &s->tensor[s->tensors++], err));
    return check_places(f->file, s, data, size, err);
}

// Reads what the container says; a file without a digest is judged by its bytes first.
static firm_status read_file(raw* f, size_t checksum, safetensors_trust trust, safetensors* s,
                             firm_error* err) {
    firm_status status = header_read(f->file, f->bytes + FRAME, f->start - FRAME, &s->header, err);
    f->root = s->header.root;
    if (status == FIRM_E_MEMORY) return status;
    if (checksum) TRY(judge_checksum(f, checksum, trust, err));  // damaged comes before not JSON
    if (status != FIRM_OK) return status;
    TRY(check_length(f, err));
    return read_contents(f, trust == SAFETENSORS_FOREIGN, s, err);
}

firm_status safetensors_parse(const char* file, const char* bytes, size_t n,
                              safetensors_trust trust, safetensors* out, firm_error* err) {
    memset(out, 0, sizeof *out);
    TRY(check_frame(file, bytes, n, err));
    raw f = {file, bytes, n, FRAME + safetensors_header(bytes, n), NULL};
    size_t digest = digest_find(bytes, n, DIGEST_KEY);
    size_t checksum = digest ? 0 : digest_find(bytes, n, CHECKSUM_KEY);
    if (!digest && !checksum && trust != SAFETENSORS_FOREIGN) return no_checksum(file, err);
    firm_status status = read_file(&f, checksum, trust, out, err);
    if (status == FIRM_OK && digest) status = judge_digest(&f, out, trust, err);
    if (status != FIRM_OK) safetensors_free(out);
    return status;
}

int safetensors_seal(char* bytes, size_t n) {
    digest_text right;
    size_t digits = digest_find(bytes, n, DIGEST_KEY);
    if (digits) {
        safetensors s = {0};
        raw f = {"", bytes, n, FRAME + safetensors_header(bytes, n), NULL};
        if (read_file(&f, 0, SAFETENSORS_ACCEPT_CHANGES, &s, NULL) == FIRM_OK) {
            digest_of(&s, right);
            memcpy(bytes + digits, right, DIGEST_DIGITS);
        }
        safetensors_free(&s);
        return 1;
    }
    digits = digest_find(bytes, n, CHECKSUM_KEY);
    if (!digits) return 0;
    digest_checksum(bytes, n, digits, right);
    memcpy(bytes + digits, right, DIGEST_DIGITS);
    return 1;
}

void safetensors_free(safetensors* s) {
    header_free(&s->header);
    mem_free(s->text);
    mem_free(s->tensor);
    memset(s, 0, sizeof *s);
}

// ---- contents -----------------------------------------------------------------------------------

const safetensors_tensor* safetensors_find(const safetensors* s, const char* name) {
    safetensors_tensor key = {.name = name};
    if (s->tensors == 0) return NULL;
    return bsearch(&key, s->tensor, (size_t)s->tensors, sizeof key, digest_by_name);
}

const char* safetensors_value(const safetensors* s, const char* key) {
    safetensors_text want = {.key = key};
    if (s->texts == 0) return NULL;
    const safetensors_text* found =
        bsearch(&want, s->text, (size_t)s->texts, sizeof want, digest_by_key);
    return found ? found->value : NULL;
}

void safetensors_copy(const safetensors_tensor* t, float* to) {
    if (t->type == SAFETENSORS_F32) {
        if (t->count) memcpy(to, t->bytes, t->count * sizeof *to);
        return;
    }
    for (size_t i = 0; i < t->count; i++) {
        uint16_t half;
        uint32_t wide;
        int64_t whole;
        switch (t->type) {
            case SAFETENSORS_F16:
                memcpy(&half, t->bytes + 2 * i, sizeof half);
                to[i] = half_to_float(half);
                break;
            case SAFETENSORS_BF16:
                memcpy(&half, t->bytes + 2 * i, sizeof half);
                wide = (uint32_t)half << 16;
                memcpy(&to[i], &wide, sizeof wide);
                break;
            default: memcpy(&whole, t->bytes + 8 * i, sizeof whole); to[i] = (float)whole;
        }
    }
}

int safetensors_finite(const safetensors_tensor* t) {
    enum { CHUNK = 1024 };
    float value[CHUNK];
    safetensors_tensor part = *t;
    for (size_t left = t->count; left > 0; left -= part.count) {
        part.count = left < CHUNK ? left : CHUNK;
        safetensors_copy(&part, value);
        for (size_t i = 0; i < part.count; i++)
            if (!isfinite(value[i])) return 0;
        part.bytes += safetensors_bytes(&part);
    }
    return 1;
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
