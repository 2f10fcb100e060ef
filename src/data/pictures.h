// pictures.h - frames by scene number, drawn when first asked for and kept in memory, packed: most
// of a frame is background, and unpacking one is much faster than drawing a robot arm. Thread-safe;
// the same scene always gives the same bytes.
#ifndef DATA_PICTURES_H
#define DATA_PICTURES_H

#include <stdint.h>

#include "env/env.h"

typedef struct pictures pictures;

enum { PICTURE_MOST = TASK_IMAGE_MOST * TASK_IMAGE_MOST * 3 };  // bytes of the largest frame

// Draws a scene into the bytes of a frame; `worker` names the calling thread.
typedef firm_status (*picture_fn)(void* ctx, int worker, int64_t scene, uint8_t* rgb);

// What frames are drawn, and how.
typedef struct pictures_of {
    int64_t scenes;
    size_t bytes;  // of a frame
    picture_fn draw;
    void* ctx;
    const uint8_t* background;  // any typical frame, copied
} pictures_of;
// budget: bytes to keep packed frames in, 0 draws always.
firm_status pictures_open(const pictures_of* of, size_t budget, pictures** out, firm_error* err);
firm_status pictures_get(pictures* p, int worker, int64_t scene, uint8_t* rgb);
void pictures_free(pictures* p);

// Packed frames as such, for files. A background is a typical frame and its size. Packs into `to`
// of at least picture_bound() bytes and returns the size, 0: no memory; level 1 (fast) to 9
// (small). Unpacking says 0 if the bytes are no packed frame.
typedef struct picture_background {
    const uint8_t* rgb;
    size_t bytes;
} picture_background;
size_t picture_bound(size_t bytes);
size_t picture_pack(const uint8_t* rgb, picture_background background, int level, uint8_t* to);
int picture_unpack(const uint8_t* from, size_t n, picture_background background, uint8_t* rgb);

#endif
