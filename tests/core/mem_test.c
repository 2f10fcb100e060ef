// mem_test.c - the allocator itself, then every create and read of core with the n-th
// allocation made to fail: out of memory must come back as FIRM_E_MEMORY, without a crash and (in
// the address-sanitizer build) without a leak.
#define _GNU_SOURCE
#include "core/mem.h"

#include "check.h"
#include "core/each_failing.h"
#include "core/file.h"
#include "core/pool.h"

TEST(core, mem_basics) {
    int64_t before = mem_count();
    for (size_t n = 0; n < 300; n += 13) {
        unsigned char* p = mem_alloc(n);
        EXPECT(p && (uintptr_t)p % 64 == 0);
        memset(p, 1, n);
        p = mem_realloc(p, n, n + 100);
        for (size_t i = 0; i < n; i++) EXPECT(p[i] == 1);
        mem_free(p);
    }
    EXPECT(mem_count() - before == 48);
    unsigned char* zero = mem_calloc(10, 10);
    for (int i = 0; i < 100; i++) EXPECT(zero[i] == 0);
    mem_free(zero);
    EXPECT(mem_calloc(SIZE_MAX / 2, 3) == NULL);
    EXPECT(mem_alloc(SIZE_MAX) == NULL);
    EXPECT(mem_alloc(SIZE_MAX - 63) == NULL);
    char* copy = mem_strdup("text");
    EXPECT_TEXT(copy, "text");
    mem_free(copy);
    mem_free(NULL);
}

TEST(core, mem_injected_failure) {
    mem_fail_after(2);
    void *a = mem_alloc(1), *b = mem_alloc(1), *c = mem_alloc(1), *d = mem_alloc(1);
    mem_fail_after(-1);
    void* e = mem_alloc(1);
    EXPECT(a && b && !c && !d && e);
    mem_free(a);
    mem_free(b);
    mem_free(e);
}

static firm_status try_pool(firm_error* err) {
    pool* p;
    TRY(pool_create(3, &p, err));
    pool_free(p);
    return FIRM_OK;
}

// a pipe has no size, so that the reader must grow its buffer
static firm_status try_growing_read(firm_error* err) {
    char* bytes;
    size_t n;
    FILE* pipe = popen("head -c 300000 /dev/zero", "r");
    if (!pipe) return core_fail(err, FIRM_E_IO, __func__, "popen failed");
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fileno(pipe));
    firm_status status = file_read_all(name, &bytes, &n, err);
    pclose(pipe);
    if (status == FIRM_OK && n != 300000)
        status = core_fail(err, FIRM_E_IO, __func__, "%zu bytes", n);
    mem_free(bytes);
    return status;
}

TEST(core, mem_failure_in_pool) {
    EXPECT(FAIL_EACH(try_pool) >= 4);
}

TEST(core, mem_failure_in_growing_read) {
    EXPECT(FAIL_EACH(try_growing_read) >= 3);
}
