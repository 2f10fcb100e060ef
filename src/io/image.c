// image.c - PNG files through libpng: goal images and frames in, report pictures out.
//
// libpng reports errors by longjmp. Each setjmp stands in a function of its own whose state lives
// in a `codec` of the caller, so no local variable is read after a jump. libpng's memory comes from
// core/mem.h, its warnings are dropped, its errors become our sentence.
#include "io/image.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "core/file.h"
#include "core/mem.h"

// of a picture's file: more than any picture of a model's size needs
enum { MOST_BYTES = 64 << 20 };

typedef struct codec {
    png_structp png;
    png_infop info;
    const uint8_t* in;  // reading: the whole file
    size_t in_size, in_at;
    uint8_t* out;  // writing: grows
    size_t out_size, out_room;
    int truncated, no_memory, wrong_size;
    int width, height;  // of the file
    char message[120];  // libpng's own words
} codec;

// ---- callbacks ----------------------------------------------------------------------------------

static void on_error(png_structp png, png_const_charp text) {
    codec* c = png_get_error_ptr(png);
    snprintf(c->message, sizeof c->message, "%s", text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text) {
    (void)png, (void)text;
}

static png_voidp on_alloc(png_structp png, png_alloc_size_t n) {
    void* p = mem_alloc(n);
    codec* c = png_get_mem_ptr(png);
    if (!p && c) c->no_memory = 1;
    return p;
}

static void on_free(png_structp png, png_voidp p) {
    (void)png;
    mem_free(p);
}

static void on_read(png_structp png, png_bytep to, size_t n) {
    codec* c = png_get_io_ptr(png);
    if (n > c->in_size - c->in_at) {
        c->truncated = 1;
        png_error(png, "the file ends too early");
    }
    memcpy(to, c->in + c->in_at, n);
    c->in_at += n;
}

static void on_write(png_structp png, png_bytep from, size_t n) {
    codec* c = png_get_io_ptr(png);
    if (n > c->out_room - c->out_size) {
        size_t room = (c->out_size + n) * 2;
        uint8_t* larger = mem_realloc(c->out, c->out_size, room);
        if (!larger) {
            c->no_memory = 1;
            png_error(png, "out of memory");
        }
        c->out = larger;
        c->out_room = room;
    }
    memcpy(c->out + c->out_size, from, n);
    c->out_size += n;
}

static void on_flush(png_structp png) {
    (void)png;
}

// ---- reading ------------------------------------------------------------------------------------

// 1 when rgb (height, width, 3) is filled; 0 with the reason in *c.
static int decode(codec* c, int width, int height, uint8_t* rgb) {
    if (setjmp(png_jmpbuf(c->png))) return 0;
    png_set_read_fn(c->png, c, on_read);
    // texts, profiles and the like are passed over, however long they claim to be
    png_set_keep_unknown_chunks(c->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_read_info(c->png, c->info);
    c->width = (int)png_get_image_width(c->png, c->info);
    c->height = (int)png_get_image_height(c->png, c->info);
    if (c->width != width || c->height != height) {
        c->wrong_size = 1;
        return 0;
    }
    png_set_expand(c->png);  // palette and grey below 8 bits to 8, transparency to alpha
    png_set_scale_16(c->png);
    png_set_gray_to_rgb(c->png);
    png_set_strip_alpha(c->png);
    int passes = png_set_interlace_handling(c->png);
    png_read_update_info(c->png, c->info);
    if (png_get_rowbytes(c->png, c->info) != (size_t)width * 3)
        png_error(c->png, "unexpected row size");
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < height; y++)
            png_read_row(c->png, rgb + (size_t)y * (size_t)width * 3, NULL);
    png_read_end(c->png, NULL);  // checks the rest: a file cut in its last bytes is damaged, too
    return 1;
}

static firm_status decode_failed(const codec* c, const char* path, int width, int height,
                                 firm_error* err) {
    if (c->wrong_size)
        return FAIL(err, FIRM_E_FORMAT, "%s is %d x %d; the model takes %d x %d: resize it", path,
                    c->width, c->height, width, height);
    if (c->no_memory) return FAIL(err, FIRM_E_MEMORY, "no memory to read %s", path);
    if (c->truncated)
        return FAIL(err, FIRM_E_FORMAT,
                    "%s is cut off after %zu bytes; copy or save the picture again", path,
                    c->in_size);
    return FAIL(err, FIRM_E_FORMAT, "%s is a damaged PNG (%s); save the picture again", path,
                c->message);
}

static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

static uint32_t number_at(const uint8_t* p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

int image_png_size(const uint8_t* bytes, size_t n, uint32_t* width, uint32_t* height) {
    *width = *height = 0;
    if (n < 24 || memcmp(bytes, signature, 8) != 0 || memcmp(bytes + 12, "IHDR", 4) != 0) return 0;
    *width = number_at(bytes + 16);
    *height = number_at(bytes + 20);
    return 1;
}

firm_status image_decode_png(const char* name, const uint8_t* bytes, size_t n, int width,
                             int height, uint8_t* rgb, firm_error* err) {
    codec c = {.in = bytes, .in_size = n};
    firm_status status = FIRM_OK;
    if (n == 0) return FAIL(err, FIRM_E_FORMAT, "%s is empty; a PNG picture was expected", name);
    if (memcmp(bytes, signature, n < 8 ? n : 8) != 0)
        return FAIL(err, FIRM_E_FORMAT, "%s is not a PNG picture; convert it to PNG", name);
    c.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &c, on_error, on_warning, &c, on_alloc,
                                     on_free);
    if (c.png) c.info = png_create_info_struct(c.png);
    if (!c.info)
        status = FAIL(err, FIRM_E_MEMORY, "no memory to read %s", name);
    else if (!decode(&c, width, height, rgb))
        status = decode_failed(&c, name, width, height, err);
    if (c.png) png_destroy_read_struct(&c.png, &c.info, NULL);
    return status;
}

firm_status image_read_png(const char* path, int width, int height, uint8_t* rgb, firm_error* err) {
    char* bytes;
    size_t n;
    TRY(file_read_most(path, MOST_BYTES, &bytes, &n, err));
    firm_status status = image_decode_png(path, (const uint8_t*)bytes, n, width, height, rgb, err);
    mem_free(bytes);
    return status;
}

// ---- writing ------------------------------------------------------------------------------------

static int encode(codec* c, int width, int height, const uint8_t* rgb) {
    if (setjmp(png_jmpbuf(c->png))) return 0;
    png_set_write_fn(c->png, c, on_write, on_flush);
    png_set_IHDR(c->png, c->info, (png_uint_32)width, (png_uint_32)height, 8, PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(c->png, c->info);
    for (int y = 0; y < height; y++) png_write_row(c->png, rgb + (size_t)y * (size_t)width * 3);
    png_write_end(c->png, NULL);
    return 1;
}

firm_status image_encode_png(int width, int height, const uint8_t* rgb, uint8_t** bytes, size_t* n,
                             firm_error* err) {
    *bytes = NULL;
    *n = 0;
    if (width < 1 || height < 1 || width > 1000000 || height > 1000000)
        return FAIL(err, FIRM_E_USAGE, "a picture of %d x %d pixels cannot be written", width,
                    height);
    codec c = {0};
    firm_status status = FIRM_OK;
    c.png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &c, on_error, on_warning, &c, on_alloc,
                                      on_free);
    if (c.png) c.info = png_create_info_struct(c.png);
    if (!c.info) {
        status = FAIL(err, FIRM_E_MEMORY, "no memory to write a PNG of %d x %d", width, height);
    } else if (encode(&c, width, height, rgb)) {
        *bytes = c.out;
        *n = c.out_size;
        c.out = NULL;
    } else if (c.no_memory) {
        status = FAIL(err, FIRM_E_MEMORY, "no memory to write a PNG of %d x %d", width, height);
    } else {
        status = FAIL(err, FIRM_E_INTERNAL, "writing a PNG of %d x %d failed: %s", width, height,
                      c.message);
    }
    if (c.png) png_destroy_write_struct(&c.png, &c.info);
    mem_free(c.out);
    return status;
}

firm_status image_write_png(const char* path, int width, int height, const uint8_t* rgb,
                            firm_error* err) {
    uint8_t* bytes;
    size_t n;
    file_writer w;
    TRY(image_encode_png(width, height, rgb, &bytes, &n, err));
    firm_status status = file_open_write(&w, path, err);
    if (status == FIRM_OK) status = file_put(&w, bytes, n, err);
    if (status == FIRM_OK) status = file_commit(&w, err);
    mem_free(bytes);
    return status;
}

char* image_base64(const uint8_t* bytes, size_t n) {
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (n > SIZE_MAX / 4 * 3 - 8) return NULL;
    char* text = mem_alloc((n + 2) / 3 * 4 + 1);
    if (!text) return NULL;
    char* to = text;
    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i;
        uint32_t group = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (left > 2 ? bytes[i + 2] : 0u);
        *to++ = digit[group >> 18];
        *to++ = digit[group >> 12 & 63];
        *to++ = left > 1 ? digit[group >> 6 & 63] : '=';
        *to++ = left > 2 ? digit[group & 63] : '=';
    }
    *to = 0;
    return text;
}
