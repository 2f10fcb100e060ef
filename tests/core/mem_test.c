// mem_test.c - the allocator itself, then every create, read and encode of core with the n-th
// allocation made to fail: out of memory must come back as FIRM_E_MEMORY, without a crash and (in
// the address-sanitizer build) without a leak.
#define _GNU_SOURCE
#include "core/mem.h"

#include "check.h"
#include "core/each_failing.h"
#include "core/file.h"
#include "core/pool.h"
#include "io/config.h"
#include "io/image.h"
#include "io/json.h"

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

static const config_key keys[] = {
    {"plan", "candidates", CONFIG_INT, 2, 1000, "300", NULL, ""},
    {"train", "clip", CONFIG_REAL, 0, 10, "1", NULL, ""},
    {"stage.*", "updates", CONFIG_INT, 0, 1e9, "100", NULL, ""},
};

static char path[512];
static uint8_t picture[40 * 30 * 3], read_back[40 * 30 * 3];

static firm_status try_config(firm_error* err) {
    config* c;
    TRY(config_create(keys, 3, &c, err));
    // more members than the first array of sections holds
    firm_status status =
        config_read_text(c, "a.ini",
                         "[plan]\ncandidates = 5\n[stage.a]\nupdates = 1\n[stage.b]\n[stage.c]\n"
                         "[stage.d]\n[stage.e]\n[stage.f]\n[stage.g]\n[stage.h]\nupdates = 3\n",
                         err);
    if (status == FIRM_OK) status = config_set(c, "plan.candidates=7", err);
    if (status == FIRM_OK) {
        char* text = config_dump(c);
        if (!text) status = core_fail(err, FIRM_E_MEMORY, __func__, "no memory for the dump");
        mem_free(text);
    }
    config_free(c);
    return status;
}

static firm_status try_config_file(firm_error* err) {
    config* c;
    TRY(config_create(keys, 3, &c, err));
    firm_status status = config_read_file(c, path, err);
    config_free(c);
    return status;
}

static firm_status try_encode(firm_error* err) {
    uint8_t* bytes;
    size_t n;
    TRY(image_encode_png(40, 30, picture, &bytes, &n, err));
    mem_free(bytes);
    return FIRM_OK;
}

static firm_status try_write_png(firm_error* err) {
    return image_write_png(path, 40, 30, picture, err);
}

static firm_status try_read_png(firm_error* err) {
    return image_read_png(path, 40, 30, read_back, err);
}

static firm_status try_json(firm_error* err) {
    cJSON* value;
    TRY(json_read_file(path, &value, err));
    cJSON_Delete(value);
    return FIRM_OK;
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

static void write_text(const char* name, const char* text) {
    snprintf(path, sizeof path, "%s/%s", test_temp_dir(), name);
    FILE* f = fopen(path, "wb");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0) abort();
}

TEST(core, mem_failure_in_config) {
    EXPECT(FAIL_EACH(try_config) >= 15);
    write_text("mem.ini", "[plan]\ncandidates = 9\n");
    EXPECT(FAIL_EACH(try_config_file) >= 5);
}

TEST(core, mem_failure_in_image) {
    for (size_t i = 0; i < sizeof picture; i++) picture[i] = (uint8_t)(i * i >> 3);
    EXPECT(FAIL_EACH(try_encode) >= 3);
    snprintf(path, sizeof path, "%s/mem.png", test_temp_dir());
    EXPECT(FAIL_EACH(try_write_png) >= 3);
    EXPECT(FAIL_EACH(try_read_png) >= 3);
    EXPECT(memcmp(picture, read_back, sizeof picture) == 0);
    mem_fail_after(0);
    EXPECT(image_base64(picture, 10) == NULL);
    mem_fail_after(-1);
}

TEST(core, mem_failure_in_json_and_pool) {
    write_text("mem.json", "{\"a\": [1, 2, 3]}\n");
    EXPECT(FAIL_EACH(try_json) >= 1);
    EXPECT(FAIL_EACH(try_pool) >= 4);
}

TEST(core, mem_failure_in_growing_read) {
    EXPECT(FAIL_EACH(try_growing_read) >= 3);
}
