// mem_test.c - every create, read and encode of io with the n-th allocation made to fail: out of
// memory must come back as FIRM_E_MEMORY, without a crash and (in the address-sanitizer build)
// without a leak.
#define _GNU_SOURCE
#include "core/mem.h"

#include "check.h"
#include "core/each_failing.h"
#include "io/config.h"
#include "io/image.h"
#include "io/json.h"

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

static void write_text(const char* name, const char* text) {
    snprintf(path, sizeof path, "%s/%s", test_temp_dir(), name);
    FILE* f = fopen(path, "wb");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0) abort();
}

TEST(io, mem_failure_in_config) {
    EXPECT(FAIL_EACH(try_config) >= 15);
    write_text("mem.ini", "[plan]\ncandidates = 9\n");
    EXPECT(FAIL_EACH(try_config_file) >= 5);
}

TEST(io, mem_failure_in_image) {
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

TEST(io, mem_failure_in_json) {
    write_text("mem.json", "{\"a\": [1, 2, 3]}\n");
    EXPECT(FAIL_EACH(try_json) >= 1);
}
