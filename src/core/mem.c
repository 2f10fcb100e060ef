// mem.c - counted, aligned allocation with failure injection for tests.
#define _DEFAULT_SOURCE
#include "core/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// Blocks from LARGE on lie on whole huge pages: packed weights and activations are read in an order
// that misses the translation buffer at each turn, which costs most in a virtual machine.
enum { ALIGN = 64, HUGE_PAGE = 1 << 21, LARGE = HUGE_PAGE / 2 };

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
    size_t align = bytes >= LARGE ? HUGE_PAGE : ALIGN;
    if (bytes > SIZE_MAX - align) return NULL;
    size_t rounded = (bytes + align - 1) / align * align;
    void* p = aligned_alloc(align, rounded ? rounded : align);
#ifdef MADV_HUGEPAGE
    // only advice: a system without huge pages serves small ones
    if (p && align == HUGE_PAGE) (void)madvise(p, rounded, MADV_HUGEPAGE);
#endif
    return p;
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
