// count_malloc.c - counts every allocation of the process, in whatever library: the program's own
// malloc and its kin forward to the C library's. `firm bench plan` shows with it that a solve
// allocates nothing. Left out under sanitizers, which bring their own, and with C libraries other
// than glibc.
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "cli/cli.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

#if defined(__GLIBC__) && !defined(SANITIZED)

extern void* __libc_malloc(size_t bytes);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* p, size_t bytes);
extern void* __libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void* p);

static atomic_llong calls;

#define COUNTED __attribute__((visibility("default")))

static void count(void) {
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
}

COUNTED void* malloc(size_t bytes) {
    count();
    return __libc_malloc(bytes);
}

COUNTED void* calloc(size_t n, size_t size) {
    count();
    return __libc_calloc(n, size);
}

COUNTED void* realloc(void* p, size_t bytes) {
    count();
    return __libc_realloc(p, bytes);
}

COUNTED void* memalign(size_t alignment, size_t bytes) {
    count();
    return __libc_memalign(alignment, bytes);
}

COUNTED void* aligned_alloc(size_t alignment, size_t bytes) {
    count();
    return __libc_memalign(alignment, bytes);
}

COUNTED int posix_memalign(void** out, size_t alignment, size_t bytes) {
    if (alignment % sizeof(void*) || alignment == 0 || (alignment & (alignment - 1))) return EINVAL;
    count();
    void* p = __libc_memalign(alignment, bytes);
    if (!p) return ENOMEM;
    *out = p;
    return 0;
}

COUNTED void free(void* p) {
    __libc_free(p);
}

int64_t cli_malloc_count(void) {
    return atomic_load_explicit(&calls, memory_order_relaxed);
}

#else

int64_t cli_malloc_count(void) {
    return -1;
}

#endif
