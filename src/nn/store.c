// store.c - the parameter block: declaring, sealing, initial values.
#include "nn/store.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"

enum { ENTRY_ALIGN = 16 };  // floats: every entry starts on a cache line

firm_status nn_store_create(nn_store** out, firm_error* err) {
    *out = mem_calloc(1, sizeof **out);
    if (!*out) return FAIL(err, FIRM_E_MEMORY, "no memory for a parameter store");
    return FIRM_OK;
}

void nn_store_free(nn_store* s) {
    if (!s) return;
    mem_free(s->entry);
    mem_free(s->value);
    mem_free(s);
}

int nn_store_find(const nn_store* s, const char* name) {
    for (int i = 0; i < s->entries; i++)
        if (strcmp(s->entry[i].name, name) == 0) return i;
    return -1;
}

int nn_store_declare(nn_store* s, const char* name, nn_init init, float scale, int rank,
                     const int* dim) {
    int found = nn_store_find(s, name);
    if (found >= 0) {
        const nn_entry* e = &s->entry[found];
        CHECK(e->rank == rank && memcmp(e->dim, dim, (size_t)rank * sizeof *dim) == 0,
              "parameter %s declared twice with different shapes", name);
        return found;
    }
    CHECK(!s->value, "parameter %s is not in the sealed store", name);
    if (s->entries == s->cap) {
        int cap = s->cap ? 2 * s->cap : 64;
        nn_entry* grown =
            mem_realloc(s->entry, (size_t)s->cap * sizeof *grown, (size_t)cap * sizeof *grown);
        if (!grown) {
            s->broken = 1;
            return 0;
        }
        s->entry = grown;
        s->cap = cap;
    }
    nn_entry* e = &s->entry[s->entries];
    memset(e, 0, sizeof *e);
    CHECK(strlen(name) < sizeof e->name, "parameter name %s is too long", name);
    snprintf(e->name, sizeof e->name, "%s", name);
    e->rank = rank;
    e->count = 1;
    for (int i = 0; i < rank; i++) {
        e->dim[i] = dim[i];
        e->count *= (size_t)dim[i];
    }
    e->init = init;
    e->scale = scale;
    e->offset = s->count;
    s->count += (e->count + ENTRY_ALIGN - 1) / ENTRY_ALIGN * ENTRY_ALIGN;
    return s->entries++;
}

int nn_store_declare_buffer(nn_store* s, const char* name, nn_init init, int n) {
    int at = nn_store_declare(s, name, init, 0, 1, &n);
    if (!s->broken) s->entry[at].buffer = 1;
    return at;
}

void nn_store_init(nn_store* s, const char* prefix, uint64_t seed) {
    for (int i = 0; i < s->entries; i++) {
        const nn_entry* e = &s->entry[i];
        if (strncmp(e->name, prefix, strlen(prefix)) != 0) continue;
        float* v = s->value + e->offset;
        uint64_t stream = RNG_STREAM(RNG_INIT, rng_hash_text(e->name) >> 16);
        if (e->init == NN_INIT_NORMAL) {
            rng_fill_normal(seed, stream, 0, v, (int64_t)e->count);
            for (size_t j = 0; j < e->count; j++) v[j] *= e->scale;
        } else if (e->init == NN_INIT_UNIFORM) {
            for (size_t j = 0; j < e->count; j++) {
                uint32_t word[4];
                rng_block(seed, stream, j / 4, word);
                v[j] = (2 * rng_unit(word[j % 4]) - 1) * e->scale;
            }
        } else {
            for (size_t j = 0; j < e->count; j++) v[j] = e->init == NN_INIT_ONE ? 1.0f : 0.0f;
        }
    }
}

firm_status nn_store_seal(nn_store* s, uint64_t seed, firm_error* err) {
    CHECK(!s->value, "store sealed twice");
    if (!s->broken) s->value = mem_calloc(s->count, sizeof *s->value);
    if (!s->value) return FAIL(err, FIRM_E_MEMORY, "no memory for %zu parameters", s->count);
    nn_store_init(s, "", seed);
    return FIRM_OK;
}

size_t nn_store_params(const nn_store* s, const char* prefix) {
    size_t n = 0;
    for (int i = 0; i < s->entries; i++)
        if (!s->entry[i].buffer && strncmp(s->entry[i].name, prefix, strlen(prefix)) == 0)
            n += s->entry[i].count;
    return n;
}
