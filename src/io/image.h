// image.h - PNG files: 8-bit RGB in and out.
#ifndef IO_IMAGE_H
#define IO_IMAGE_H

#include <stdint.h>

#include "core/status.h"

// Reads a PNG (any bit depth and colour type; alpha is dropped) that must be width x height.
firm_status image_read_png(const char* path, int width, int height, uint8_t* rgb, firm_error* err);
// The same of a file's bytes; `name` is what sentences call it.
firm_status image_decode_png(const char* name, const uint8_t* bytes, size_t n, int width,
                             int height, uint8_t* rgb, firm_error* err);
// What the file says its size is, before anything is decoded; 0: it is no PNG.
int image_png_size(const uint8_t* bytes, size_t n, uint32_t* width, uint32_t* height);
firm_status image_write_png(const char* path, int width, int height, const uint8_t* rgb,
                            firm_error* err);
// PNG in memory, for embedding; the caller frees *bytes with mem_free.
firm_status image_encode_png(int width, int height, const uint8_t* rgb, uint8_t** bytes, size_t* n,
                             firm_error* err);
// Standard base64 with a terminating NUL; the caller frees it with mem_free. NULL when out of
// memory.
char* image_base64(const uint8_t* bytes, size_t n);

#endif
