// image_test.c - PNG in and out: exact round trips, every colour type, and damaged or wrong files.
#define _GNU_SOURCE
#include "io/image.h"

#include <png.h>
#include <unistd.h>

#include "check.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/rng.h"

static const char* in_temp(const char* name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", test_temp_dir(), name);
    return path;
}

static void put_bytes(const char* path, const void* bytes, size_t n) {
    FILE* f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) abort();
}

static void noise(uint8_t* rgb, size_t n, uint64_t seed) {
    rng r = rng_start(seed, RNG_STREAM(RNG_TEST, 2));
    for (size_t i = 0; i < n; i++) rgb[i] = (uint8_t)rng_u32(&r);
}

TEST(io, image_round_trip) {
    static const int sizes[][2] = {{1, 1}, {7, 3}, {224, 224}, {1, 300}, {513, 2}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int w = sizes[i][0], h = sizes[i][1];
        size_t n = (size_t)w * (size_t)h * 3;
        uint8_t *rgb = malloc(n), *back = malloc(n);
        firm_error err;
        noise(rgb, n, i);
        const char* path = in_temp("a.png");
        REQUIRE_OK(image_write_png(path, w, h, rgb, &err), err);
        REQUIRE_OK(image_read_png(path, w, h, back, &err), err);
        EXPECT(memcmp(rgb, back, n) == 0);
        free(rgb);
        free(back);
    }
}

// One pixel row of `bits` per sample in colour type `type`, written with plain libpng.
static void write_kind(const char* path, int width, int height, int bits, int type, int interlaced,
                       const uint8_t* rows, size_t row_bytes) {
    FILE* f = fopen(path, "wb");
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    if (!f || setjmp(png_jmpbuf(png))) abort();
    png_init_io(png, f);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, bits, type,
                 interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_color palette[2] = {{10, 20, 30}, {200, 100, 50}};
    png_byte alpha[2] = {255, 0};
    if (type == PNG_COLOR_TYPE_PALETTE) {
        png_set_PLTE(png, info, palette, 2);
        png_set_tRNS(png, info, alpha, 2, NULL);
    }
    png_write_info(png, info);
    int passes = interlaced ? png_set_interlace_handling(png) : 1;
    for (int p = 0; p < passes; p++)
        for (int y = 0; y < height; y++) png_write_row(png, rows + (size_t)y * row_bytes);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    fclose(f);
}

static void expect_pixels(int line, const char* path, int w, int h, const uint8_t* want) {
    uint8_t got[64];
    firm_error err;
    if (image_read_png(path, w, h, got, &err) != FIRM_OK)
        test_fail(__FILE__, line, "%s", err.message);
    else
        for (int i = 0; i < w * h * 3; i++)
            if (got[i] != want[i])
                test_fail(__FILE__, line, "byte %d is %d, expected %d", i, got[i], want[i]);
}

TEST(io, image_reads_all_kinds) {
    const char* path = in_temp("kind.png");
    // 2 x 1 pixels each
    write_kind(path, 2, 1, 8, PNG_COLOR_TYPE_GRAY, 0, (const uint8_t[]){7, 200}, 2);
    expect_pixels(__LINE__, path, 2, 1, (const uint8_t[]){7, 7, 7, 200, 200, 200});
    write_kind(path, 2, 1, 1, PNG_COLOR_TYPE_GRAY, 0, (const uint8_t[]){0x40}, 1);
    expect_pixels(__LINE__, path, 2, 1, (const uint8_t[]){0, 0, 0, 255, 255, 255});
    write_kind(path, 2, 1, 16, PNG_COLOR_TYPE_GRAY, 0, (const uint8_t[]){0x80, 0x80, 0xff, 0xff},
               4);
    expect_pixels(__LINE__, path, 2, 1, (const uint8_t[]){128, 128, 128, 255, 255, 255});
    write_kind(path, 2, 1, 8, PNG_COLOR_TYPE_GRAY_ALPHA, 0, (const uint8_t[]){7, 0, 9, 255}, 4);
    expect_pixels(__LINE__, path, 2, 1, (const uint8_t[]){7, 7, 7, 9, 9, 9});
    write_kind(path, 2, 1, 8, PNG_COLOR_TYPE_RGB_ALPHA, 0,
               (const uint8_t[]){1, 2, 3, 0, 4, 5, 6, 128}, 8);
    expect_pixels(__LINE__, path, 2, 1, (const uint8_t[]){1, 2, 3, 4, 5, 6});
    write_kind(path, 2, 1, 1, PNG_COLOR_TYPE_PALETTE, 0, (const uint8_t[]){0x40}, 1);
    expect_pixels(__LINE__, path, 2, 1, (const uint8_t[]){10, 20, 30, 200, 100, 50});
    const uint8_t square[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    write_kind(path, 2, 2, 8, PNG_COLOR_TYPE_RGB, 1, square, 6);
    expect_pixels(__LINE__, path, 2, 2, square);
}

TEST(io, image_wrong_files) {
    uint8_t rgb[8 * 6 * 3], back[8 * 8 * 3];
    firm_error err = {0};
    noise(rgb, sizeof rgb, 3);
    const char* path = in_temp("goal.png");
    EXPECT_INT(image_read_png(path, 8, 8, back, &err), FIRM_E_MISSING);
    REQUIRE_OK(image_write_png(path, 8, 6, rgb, &err), err);
    EXPECT_INT(image_read_png(path, 8, 8, back, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "goal.png is 8 x 6; the model takes 8 x 8: resize it") != NULL);

    put_bytes(path, "\xff\xd8\xff\xe0 a JPEG", 11);
    EXPECT_INT(image_read_png(path, 8, 6, back, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "goal.png is not a PNG") != NULL);
    put_bytes(path, "", 0);
    EXPECT_INT(image_read_png(path, 8, 6, back, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "empty") != NULL);
    EXPECT_INT(image_read_png(test_temp_dir(), 8, 6, back, &err), FIRM_E_USAGE);

    uint8_t* bytes;
    size_t n;
    EXPECT_INT(image_encode_png(0, 5, rgb, &bytes, &n, &err), FIRM_E_USAGE);
    EXPECT_INT(image_encode_png(5, -5, rgb, &bytes, &n, &err), FIRM_E_USAGE);
    EXPECT(bytes == NULL);
    EXPECT_INT(image_write_png(in_temp("no-such-folder/x.png"), 8, 6, rgb, &err), FIRM_E_MISSING);
}

// Cut anywhere, or with any one bit flipped: an error or the exact picture, never a crash.
TEST(io, image_damage) {
    enum { W = 12, H = 10, N = W * H * 3 };
    uint8_t rgb[N], back[N];
    uint8_t* bytes;
    size_t n;
    firm_error err = {0};
    noise(rgb, N, 4);
    REQUIRE_OK(image_encode_png(W, H, rgb, &bytes, &n, &err), err);
    const char* path = in_temp("damaged.png");
    for (size_t cut = 0; cut < n; cut++) {
        put_bytes(path, bytes, cut);
        if (image_read_png(path, W, H, back, &err) != FIRM_E_FORMAT)
            test_fail(__FILE__, __LINE__, "accepted with %zu of %zu bytes", cut, n);
        EXPECT(strstr(err.message, "damaged.png") != NULL);
    }
    EXPECT(strstr(err.message, "cut off") != NULL);
    for (size_t at = 0; at < n; at++) {
        bytes[at] ^= (uint8_t)(1 << at % 8);
        put_bytes(path, bytes, n);
        if (image_read_png(path, W, H, back, &err) == FIRM_OK && memcmp(back, rgb, N) != 0)
            test_fail(__FILE__, __LINE__, "a flipped bit in byte %zu went unnoticed", at);
        bytes[at] ^= (uint8_t)(1 << at % 8);
    }
    mem_free(bytes);
}

// allocations of reading a picture whose second chunk has this name and claims a gigabyte
static int64_t allocations_with(const char* name, const uint8_t* png, size_t n) {
    enum { HEAD = 33, SIDE = 12 };
    uint8_t back[SIDE * SIDE * 3], claim[12] = {0x40, 0, 0, 0, 0, 0, 0, 0, 'a', 0, 'b', 'c'};
    uint8_t* longer = mem_alloc(n + sizeof claim);
    firm_error err = {0};
    const char* path = in_temp("claim.png");
    if (!longer) return -1;
    memcpy(claim + 4, name, 4);
    memcpy(longer, png, HEAD);
    memcpy(longer + HEAD, claim, sizeof claim);
    memcpy(longer + HEAD + sizeof claim, png + HEAD, n - HEAD);
    put_bytes(path, longer, n + sizeof claim);
    mem_free(longer);
    int64_t before = mem_count();
    EXPECT_INT(image_read_png(path, SIDE, SIDE, back, &err), FIRM_E_FORMAT);
    EXPECT(strstr(err.message, "cut off") != NULL);
    return mem_count() - before;
}

// Texts and profiles take as little memory as a chunk that nobody knows: none of their own.
TEST(io, image_takes_no_memory_for_texts) {
    static const char* const names[] = {"tEXt", "zTXt", "iTXt", "iCCP", "sPLT", "eXIf"};
    uint8_t rgb[12 * 12 * 3], *bytes;
    size_t n;
    firm_error err = {0};
    noise(rgb, sizeof rgb, 5);
    REQUIRE_OK(image_encode_png(12, 12, rgb, &bytes, &n, &err), err);
    const int64_t unknown = allocations_with("teSt", bytes, n);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        EXPECT_INT(allocations_with(names[i], bytes, n), unknown);
    mem_free(bytes);
}

TEST(io, image_base64) {
    static const char* cases[][2] = {{"", ""},
                                     {"f", "Zg=="},
                                     {"fo", "Zm8="},
                                     {"foo", "Zm9v"},
                                     {"foob", "Zm9vYg=="},
                                     {"fooba", "Zm9vYmE="},
                                     {"foobar", "Zm9vYmFy"},
                                     {"\xff\xfe\xfd", "//79"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char* text = image_base64((const uint8_t*)cases[i][0], strlen(cases[i][0]));
        EXPECT_TEXT(text, cases[i][1]);
        mem_free(text);
    }
}
