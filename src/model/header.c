// header.c - a recursive reader over a copy of the bytes, in which texts lose their escapes in
// place. Every value but the root has a '[', ',' or ':' before it, so that the number of items is
// known before one is read.
#include "model/header.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/text.h"
#include "model/safetensors.h"

typedef struct reader {
    char* at;  // in a text that ends with a NUL
    header_item* item;
    size_t items;
    const char** name;  // room for the names of one object
    const char* twice;  // a name that an object has twice
    int depth;
} reader;

static int read_value(reader* r, header_item* v);

static void skip_space(reader* r) {
    while (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r') r->at++;
}

// Whether the next character that is no space is c, which is passed then.
static int take(reader* r, char c) {
    skip_space(r);
    if (*r->at != c) return 0;
    r->at++;
    return 1;
}

// ---- texts --------------------------------------------------------------------------------------

// The four hexadecimal digits at p, or -1.
static int hex4(const char* p) {
    int value = 0;
    for (int i = 0; i < 4; i++) {
        int c = p[i], digit = c >= '0' && c <= '9'   ? c - '0'
                              : c >= 'a' && c <= 'f' ? c - 'a' + 10
                              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                     : -1;
        if (digit < 0) return -1;
        value = 16 * value + digit;
    }
    return value;
}

static char* put_utf8(char* to, int code) {
    if (code < 0x80) {
        *to++ = (char)code;
        return to;
    }
    if (code < 0x800) {
        *to++ = (char)(0xc0 | code >> 6);
    } else {
        if (code < 0x10000) {
            *to++ = (char)(0xe0 | code >> 12);
        } else {
            *to++ = (char)(0xf0 | code >> 18);
            *to++ = (char)(0x80 | (code >> 12 & 63));
        }
        *to++ = (char)(0x80 | (code >> 6 & 63));
    }
    *to++ = (char)(0x80 | (code & 63));
    return to;
}

// The character that stands as \uXXXX at *from, or as a pair of these; 0 if there is none. A NUL
// would end the text early and is none.
static int read_unicode(const char** from) {
    int code = hex4(*from + 2);
    if (code < 0 || (code >= 0xdc00 && code < 0xe000)) return 0;
    *from += 6;
    if (code < 0xd800 || code >= 0xe000) return code;
    if ((*from)[0] != '\\' || (*from)[1] != 'u') return 0;
    int low = hex4(*from + 2);
    if (low < 0xdc00 || low >= 0xe000) return 0;
    *from += 6;
    return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
}

// The character that the escape at *from stands for, or 0.
static int read_escape(const char** from) {
    static const char sign[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    char c = (*from)[1];
    if (c == 'u') return read_unicode(from);
    const char* found = c ? strchr(sign, c) : NULL;
    if (!found) return 0;
    *from += 2;
    return meaning[found - sign];
}

static int read_text(reader* r, const char** out) {
    if (!take(r, '"')) return 0;
    const char* from = r->at;
    char* to = r->at;
    *out = to;
    while (*from != '"') {
        if (*from == '\\') {
            int code = read_escape(&from);
            if (code == 0) return 0;
            to = put_utf8(to, code);  // shorter than the escape
        } else {
            size_t n = (unsigned char)*from < ' ' ? 0 : text_utf8(from);
            if (n == 0) return 0;
            memmove(to, from, n);
            to += n;
            from += n;
        }
    }
    r->at = (char*)from + 1;
    *to = 0;
    return 1;
}

// ---- numbers and words --------------------------------------------------------------------------

static int is_digit(char c) {
    return c >= '0' && c <= '9';
}

// Passes one digit or more.
static int take_digits(reader* r) {
    const char* first = r->at;
    while (is_digit(*r->at)) r->at++;
    return r->at > first;
}

static int read_number(reader* r, header_item* v) {
    const uint64_t most = (uint64_t)1 << 53;
    int plain = *r->at != '-';
    if (!plain) r->at++;
    const char* first = r->at;
    if (!take_digits(r) || (*first == '0' && r->at > first + 1)) return 0;
    uint64_t value = 0;
    for (const char* p = first; p < r->at && value <= most; p++)
        value = 10 * value + (uint64_t)(*p - '0');
    if (*r->at == '.') {
        r->at++;
        if (!take_digits(r)) return 0;
        plain = 0;
    }
    if (*r->at == 'e' || *r->at == 'E') {
        r->at++;
        if (*r->at == '+' || *r->at == '-') r->at++;
        if (!take_digits(r)) return 0;
        plain = 0;
    }
    v->kind = plain && value <= most ? HEADER_WHOLE : HEADER_OTHER;
    v->whole = (size_t)value;
    return 1;
}

static int read_word(reader* r, header_item* v) {
    static const char* const word[] = {"true", "false", "null"};
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(word[i]);
        if (strncmp(r->at, word[i], n) != 0) continue;
        r->at += n;
        v->kind = HEADER_OTHER;
        return 1;
    }
    return 0;
}

// ---- objects and arrays -------------------------------------------------------------------------

static int by_text(const void* a, const void* b) {
    return strcmp(*(const char* const*)a, *(const char* const*)b);
}

// A second member of one name would hide behind the first.
static int names_differ(reader* r, const header_item* object) {
    size_t count = 0;
    for (const header_item* c = object->child; c; c = c->next) r->name[count++] = c->name;
    if (count > 1) qsort(r->name, count, sizeof *r->name, by_text);
    for (size_t i = 1; i < count; i++)
        if (strcmp(r->name[i - 1], r->name[i]) == 0) r->twice = r->name[i];
    return !r->twice;
}

static int read_member(reader* r, header_item* parent, const header_item*** last) {
    header_item* v = &r->item[r->items++];
    if (parent->kind == HEADER_OBJECT && !(read_text(r, &v->name) && take(r, ':'))) return 0;
    parent->count++;
    **last = v;
    *last = &v->next;
    return read_value(r, v);
}

static int read_members(reader* r, header_item* v, char close) {
    const header_item** last = &v->child;
    if (++r->depth > HEADER_DEPTH) return 0;
    if (!take(r, close)) {
        do {
            if (!read_member(r, v, &last)) return 0;
        } while (take(r, ','));
        if (!take(r, close)) return 0;
    }
    r->depth--;
    return v->kind == HEADER_ARRAY || names_differ(r, v);
}

static int read_value(reader* r, header_item* v) {
    skip_space(r);
    switch (*r->at) {
        case '{':
        case '[':
            v->kind = *r->at == '{' ? HEADER_OBJECT : HEADER_ARRAY;
            r->at++;
            return read_members(r, v, v->kind == HEADER_OBJECT ? '}' : ']');
        case '"': v->kind = HEADER_TEXT; return read_text(r, &v->text);
        default: return is_digit(*r->at) || *r->at == '-' ? read_number(r, v) : read_word(r, v);
    }
}

// ---- the whole ----------------------------------------------------------------------------------

static size_t most_items(const char* bytes, size_t n) {
    size_t count = 2;  // the root, and a member that fails before its ':'
    for (size_t i = 0; i < n; i++) count += bytes[i] == '[' || bytes[i] == ',' || bytes[i] == ':';
    return count;
}

firm_status header_read(const char* file, const char* bytes, size_t n, header* out,
                        firm_error* err) {
    size_t most = most_items(bytes, n);
    memset(out, 0, sizeof *out);
    out->text = mem_alloc(n + 1);
    out->items = mem_calloc(most, sizeof(header_item));
    reader r = {out->text, out->items, 1, mem_calloc(most, sizeof *r.name), NULL, 0};
    if (!r.at || !r.item || !r.name) {
        mem_free(r.name);
        return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", file);
    }
    memcpy(r.at, bytes, n);
    r.at[n] = 0;
    int ok = read_value(&r, r.item);
    mem_free(r.name);
    if (r.twice)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s names %s twice in its header; copy it again or make it anew", file,
                    safetensors_printable(r.twice, 128) ? r.twice : "something");
    if (!ok)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s has a header that is not JSON as safetensors has it; copy it again or make "
                    "it anew",
                    file);
    out->root = r.item;
    out->used = (size_t)(r.at - (char*)out->text);
    return FIRM_OK;
}

void header_free(header* h) {
    mem_free(h->text);
    mem_free(h->items);
    memset(h, 0, sizeof *h);
}

const header_item* header_find(const header_item* object, const char* name) {
    for (const header_item* c = object->kind == HEADER_OBJECT ? object->child : NULL; c;
         c = c->next)
        if (strcmp(c->name, name) == 0) return c;
    return NULL;
}
