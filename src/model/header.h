// header.h - the JSON header of a safetensors file, read strictly (RFC 8259). Nothing in the bytes
// is trusted: objects and arrays may be nested HEADER_DEPTH deep, the members of an object have
// names of their own, texts are UTF-8 without a NUL. Memory taken is bounded by the header's size.
//
// safetensors.c gives the items their meaning.
#ifndef MODEL_HEADER_H
#define MODEL_HEADER_H

#include "core/status.h"

enum { HEADER_DEPTH = 16 };  // the format needs three

typedef enum header_kind {
    HEADER_OBJECT,
    HEADER_ARRAY,
    HEADER_TEXT,
    HEADER_WHOLE,  // a whole number from 0 to 2^53, written in digits alone
    HEADER_OTHER   // any other number, true, false, null
} header_kind;

typedef struct header_item header_item;
struct header_item {
    header_kind kind;
    const char* name;          // of an object's member; NULL in an array and at the root
    const char* text;          // HEADER_TEXT
    size_t whole;              // HEADER_WHOLE
    size_t count;              // children of an object or array
    const header_item* child;  // the first
    const header_item* next;   // of the same parent
};

typedef struct header {
    const header_item* root;  // NULL: nothing was read
    size_t used;              // bytes up to the end of the root
    void *text, *items;       // memory
} header;

// Reads one value from the start of the n bytes, which need no NUL behind them. FIRM_E_FORMAT says
// what is wrong with `file`. header_free(out), also after a failure.
firm_status header_read(const char* file, const char* bytes, size_t n, header* out,
                        firm_error* err);
void header_free(header* h);
const header_item* header_find(const header_item* object, const char* name);  // or NULL

#endif
