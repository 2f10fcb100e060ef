// fuzz_png.c - pictures from users: goal and frame files (core/image.h) and those inside a trace
// (report/trace.h), as they come, with the checksums of their chunks put right, and made up around
// the input, so that unpacking is reached. What is accepted must write and read back equal.
//
//     cmake -S . -B build-fuzz -G Ninja -DCMAKE_C_COMPILER=clang -DFIRM_FUZZ=ON
//     ninja -C build-fuzz fuzz_png && build-fuzz/fuzz/fuzz_png -max_total_time=600 CORPUS
//     fuzz/corpus/png
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "core/mem.h"
#include "io/image.h"
#include "must.h"
#include "report/trace.h"

enum { SIDE = 16, SIGNATURE = 8, ROOM = 1 << 16 };

static void as_file(const uint8_t* bytes, size_t n) {
    static uint8_t rgb[SIDE * SIDE * 3], again[SIDE * SIDE * 3];
    int fd = memfd_create("png", MFD_CLOEXEC);
    char path[64];
    firm_error err = {0};
    MUST(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    firm_status status = image_read_png(path, SIDE, SIDE, rgb, &err);
    MUST(status == FIRM_OK || (status == FIRM_E_FORMAT && strstr(err.message, path)));
    if (status == FIRM_OK) {
        uint8_t* png;
        size_t size;
        MUST(image_encode_png(SIDE, SIDE, rgb, &png, &size, NULL) == FIRM_OK);
        MUST(ftruncate(fd, 0) == 0 && pwrite(fd, png, size, 0) == (ssize_t)size);
        MUST(image_read_png(path, SIDE, SIDE, again, NULL) == FIRM_OK);
        MUST(memcmp(rgb, again, sizeof rgb) == 0);
        mem_free(png);
    }
    close(fd);
}

static void in_a_trace(const uint8_t* bytes, size_t n) {
    firm_error err = {0};
    trace t;
    char* text = image_base64(bytes, n);
    cJSON *json = cJSON_CreateObject(), *frame = cJSON_CreateObject();
    MUST(text && json && frame);
    cJSON_AddStringToObject(frame, "png", text);
    cJSON_AddItemToArray(cJSON_AddArrayToObject(json, "frames"), frame);
    firm_status status = trace_read(json, "trace.json", &t, &err);
    MUST(status == FIRM_OK || (status == FIRM_E_FORMAT && strstr(err.message, "trace.json")));
    if (status == FIRM_OK) MUST(t.image_count == 1 && t.width <= 1024 && t.height <= 1024);
    if (status == FIRM_OK) trace_free(&t);
    cJSON_Delete(json);
    mem_free(text);
}

static void put_number(uint8_t* to, uint32_t v) {
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> (24 - 8 * i));
}

// Right checksums for all chunks that are whole.
static void seal(uint8_t* bytes, size_t n) {
    for (size_t at = SIGNATURE; at + 12 <= n;) {
        size_t length = (size_t)bytes[at] << 24 | (size_t)bytes[at + 1] << 16 |
                        (size_t)bytes[at + 2] << 8 | bytes[at + 3];
        if (length > n - at - 12) return;
        put_number(bytes + at + 8 + length, (uint32_t)crc32(0, bytes + at + 4, (uInt)(length + 4)));
        at += length + 12;
    }
}

static size_t put_chunk(uint8_t* to, const char* type, const uint8_t* data, size_t n) {
    put_number(to, (uint32_t)n);
    memcpy(to + 4, type, 4);
    if (n) memcpy(to + 8, data, n);
    return n + 12;
}

// A picture of any kind whose rows are the input: depth, colour type and interlacing, a palette,
// then what is packed.
static size_t make_up(const uint8_t* data, size_t size, uint8_t* to) {
    static const uint8_t depth[] = {1, 2, 4, 8, 16, 3};
    uint8_t head[13] = {0, 0, 0, SIDE, 0, 0, 0, SIDE}, palette[48], packed[ROOM / 4];
    uLongf length = sizeof packed;
    size_t n = SIGNATURE;
    memcpy(to, "\x89PNG\r\n\x1a\n", SIGNATURE);
    head[8] = depth[data[0] % 6];
    head[9] = data[1] % 8;
    head[12] = data[2] % 3;
    for (int i = 0; i < 48; i++) palette[i] = (uint8_t)(data[i % 3] + i);
    n += put_chunk(to + n, "IHDR", head, sizeof head);
    if (data[1] & 8) n += put_chunk(to + n, "PLTE", palette, 3 * (size_t)(data[2] % 17));
    if (data[1] & 16) n += put_chunk(to + n, "tRNS", palette, data[0] % 17);
    size -= 3;
    if (size > 8192) size = 8192;
    MUST(compress(packed, &length, data + 3, size) == Z_OK);
    n += put_chunk(to + n, "IDAT", packed, length);
    n += put_chunk(to + n, "IEND", NULL, 0);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static uint8_t bytes[ROOM];
    if (size > ROOM) return 0;
    uint8_t* exact = malloc(size ? size : 1);  // exactly so long: a read past the end is seen
    MUST(exact);
    memcpy(exact, data, size);
    for (int sealed = 0; sealed < 2; sealed++) {
        as_file(exact, size);
        in_a_trace(exact, size);
        if (size >= SIGNATURE) seal(exact, size);
    }
    free(exact);
    if (size < 3) return 0;
    size_t n = make_up(data, size, bytes);
    seal(bytes, n);
    as_file(bytes, n);
    in_a_trace(bytes, n);
    return 0;
}

#include "replay.h"
