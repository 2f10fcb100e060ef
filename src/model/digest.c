// digest.c - see digest.h.
#define _GNU_SOURCE
#include "model/digest.h"

#include <stdio.h>
#include <string.h>

// ---- contents -----------------------------------------------------------------------------------

int digest_by_key(const void* a, const void* b) {
    return strcmp(((const safetensors_text*)a)->key, ((const safetensors_text*)b)->key);
}

int digest_by_name(const void* a, const void* b) {
    return strcmp(((const safetensors_tensor*)a)->name, ((const safetensors_tensor*)b)->name);
}

static void add_text(crc* c, const char* text) {
    crc_add(c, text, strlen(text) + 1);  // with its NUL
}

void digest_start(crc* c, const safetensors_text* text, int texts) {
    crc_start(c);
    for (int i = 0; i < texts; i++) {
        if (strncmp(text[i].key, "firm.", 5) != 0 || strcmp(text[i].key, DIGEST_KEY) == 0 ||
            strcmp(text[i].key, CHECKSUM_KEY) == 0)
            continue;
        add_text(c, text[i].key);
        add_text(c, text[i].value);
    }
}

void digest_tensor(crc* c, const safetensors_tensor* t) {
    char number[32];
    add_text(c, t->name);
    add_text(c, safetensors_type_name(t->type));
    for (int i = 0; i < t->rank; i++) {
        snprintf(number, sizeof number, "%zu", t->dim[i]);
        add_text(c, number);
    }
    add_text(c, "");
}

void digest_end(const crc* c, digest_text out) {
    snprintf(out, sizeof(digest_text), "%08lx", (unsigned long)crc_sum(c));
}

void digest_of(const safetensors* s, digest_text out) {
    crc c;
    digest_start(&c, s->text, s->texts);
    for (int i = 0; i < s->tensors; i++) {
        digest_tensor(&c, &s->tensor[i]);
        crc_add(&c, s->tensor[i].bytes, safetensors_bytes(&s->tensor[i]));
    }
    digest_end(&c, out);
}

// ---- bytes --------------------------------------------------------------------------------------

// The first character behind p that is no space.
static const char* skip_space(const char* p, const char* end) {
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')) p++;
    return p;
}

// The quotes make the search exact: inside a JSON text they would be written \". A text may be the
// key's own name, and a tensor too: the key has a colon and a text of eight characters behind it.
size_t digest_find(const char* bytes, size_t n, const char* key) {
    size_t header = safetensors_header(bytes, n);
    char quoted[40];
    int length = snprintf(quoted, sizeof quoted, "\"%s\"", key);
    const char *at = bytes + SAFETENSORS_FRAME, *end = at + header;
    while (header && (at = memmem(at, (size_t)(end - at), quoted, (size_t)length))) {
        const char* p = skip_space(at += length, end);
        if (p < end && *p == ':') p = skip_space(p + 1, end);
        if (end - p >= DIGEST_DIGITS + 2 && p[0] == '"' && p[DIGEST_DIGITS + 1] == '"')
            return (size_t)(p + 1 - bytes);
    }
    return 0;
}

void digest_checksum(const char* bytes, size_t n, size_t digits, digest_text out) {
    crc c;
    crc_start(&c);
    crc_add(&c, bytes, digits);
    crc_add(&c, "00000000", DIGEST_DIGITS);
    crc_add(&c, bytes + digits + DIGEST_DIGITS, n - digits - DIGEST_DIGITS);
    digest_end(&c, out);
}
