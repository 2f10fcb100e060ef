// pictures.h - frames by scene number, drawn when first asked for and kept in memory, packed: most
// of a frame is background, and unpacking one is much faster than drawing a robot arm. Thread-safe;
// the same scene always gives the same bytes.
#ifndef DATA_PICTURES_H
#define DATA_PICTURES_H

#include <stdint.h>

#include "env/env.h"

typedef struct pictures pictures;

// Draws a scene into (224, 224, 3) bytes; `worker` names the calling thread.
typedef firm_status (*picture_fn)(void* ctx, int worker, int64_t scene, uint8_t* rgb);

// `background` is any typical frame, copied; budget: bytes to keep packed frames in, 0 draws
// always.
firm_status pictures_open(int64_t scenes, picture_fn draw, void* ctx, const uint8_t* background,
                          size_t budget, pictures** out, firm_error* err);
firm_status pictures_get(pictures* p, int worker, int64_t scene, uint8_t* rgb);
void pictures_free(pictures* p);

// Packed frames as such, for files. Packs into `to` of at least picture_bound() bytes and returns
// the size; level 1 (fast) to 9 (small). Unpacking says 0 if the bytes are no packed frame.
size_t picture_bound(void);
size_t picture_pack(const uint8_t* rgb, const uint8_t* background, int level, uint8_t* to);
int picture_unpack(const uint8_t* from, size_t n, const uint8_t* background, uint8_t* rgb);

#endif
