// mem.c - counted, aligned allocation with failure injection for tests.
#include "core/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

static atomic_llong allocations;
static atomic_llong fail_after = -1;

static int injected_failure(void) {
    // counts down to 0 and stays there: once one thread has failed, all do
    long long left = atomic_load_explicit(&fail_after, memory_order_relaxed);
    while (left > 0 && !atomic_compare_exchange_weak(&fail_after, &left, left - 1)) continue;
    return left == 0;
}

void* mem_alloc(size_t bytes) {
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
    if (injected_failure()) return NULL;
    if (bytes > SIZE_MAX - ALIGN) return NULL;
    size_t rounded = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return aligned_alloc(ALIGN, rounded ? rounded : ALIGN);
}

void* mem_calloc(size_t count, size_t size) {
    if (size && count > SIZE_MAX / size) return NULL;
    void* p = mem_alloc(count * size);
    if (p) memset(p, 0, count * size);
    return p;
}

void* mem_realloc(void* p, size_t old_bytes, size_t new_bytes) {
    void* fresh = mem_alloc(new_bytes);
    if (!fresh) return NULL;
    if (p) memcpy(fresh, p, old_bytes < new_bytes ? old_bytes : new_bytes);
    mem_free(p);
    return fresh;
}

char* mem_strdup(const char* text) {
    size_t n = strlen(text) + 1;
    char* copy = mem_alloc(n);
    if (copy) memcpy(copy, text, n);
    return copy;
}

void mem_free(void* p) {
    free(p);
}

int64_t mem_count(void) {
    return atomic_load(&allocations);
}
void mem_fail_after(int64_t n) {
    atomic_store(&fail_after, n);
}
