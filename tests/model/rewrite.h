// rewrite.h - a model file written again by another program: the same texts and tensors in another
// layout. Like Python's safetensors, tensors come by type and name, and metadata in an order of its
// own; unlike it, with spaces and escapes wherever JSON allows them.
#ifndef TESTS_MODEL_REWRITE_H
#define TESTS_MODEL_REWRITE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "model/safetensors.h"

static inline int rewrite_order(const void* a, const void* b) {
    const safetensors_tensor *x = a, *y = b;
    return x->type != y->type ? (int)x->type - (int)y->type : strcmp(x->name, y->name);
}

static inline void rewrite_text(FILE* f, const char* text) {
    fputc('"', f);
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || strchr("\"\\=", *text))
            fprintf(f, "\\u%04X", (unsigned char)*text);
        else
            fputc(*text, f);
    fputc('"', f);
}

static inline void rewrite_tensor(FILE* f, const safetensors_tensor* t, size_t offset) {
    rewrite_text(f, t->name);
    fprintf(f, " :\n\t{\"data_offsets\": [%zu, %zu ], ", offset, offset + safetensors_bytes(t));
    fprintf(f, "\"shape\":[ ");
    for (int d = 0; d < t->rank; d++) fprintf(f, d ? ", %zu" : "%zu", t->dim[d]);
    fprintf(f, "],\"dtype\" : \"%s\"},\r\n", safetensors_type_name(t->type));
}

static inline void rewrite_header(FILE* f, const safetensors* s) {
    size_t offset = 0;
    fprintf(f, "{ ");
    for (int i = 0; i < s->tensors; i++) {
        rewrite_tensor(f, &s->tensor[i], offset);
        offset += safetensors_bytes(&s->tensor[i]);
    }
    fprintf(f, "\"__metadata__\" : {");
    for (int i = s->texts; i-- > 0;) {
        rewrite_text(f, s->text[i].key);
        fprintf(f, " : ");
        rewrite_text(f, s->text[i].value);
        fprintf(f, i ? " ,\n" : "\n}}");
    }
}

// The caller frees the bytes.
static inline char* rewritten(const char* file, size_t n, size_t* size) {
    safetensors s;
    firm_error err = {0};
    char *json = NULL, *bytes = NULL;
    size_t length = 0;
    if (safetensors_parse("file", file, n, SAFETENSORS_REFUSE_CHANGES, &s, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        abort();
    }
    qsort(s.tensor, (size_t)s.tensors, sizeof *s.tensor, rewrite_order);
    FILE* f = open_memstream(&json, &length);
    rewrite_header(f, &s);
    fclose(f);
    uint64_t padded = (length + 7) / 8 * 8;
    f = open_memstream(&bytes, size);
    fwrite(&padded, 1, 8, f);
    fprintf(f, "%s%*s", json, (int)(padded - length), "");
    for (int i = 0; i < s.tensors; i++)
        fwrite(s.tensor[i].bytes, 1, safetensors_bytes(&s.tensor[i]), f);
    fclose(f);
    free(json);
    safetensors_free(&s);
    return bytes;
}

#endif
