// resize.h - pictures of recorded data brought to the task's size, once: when a frame is first
// read.
#ifndef DATA_RESIZE_H
#define DATA_RESIZE_H

#include <stdint.h>

#include "core/status.h"

enum { RESIZE_LEAST = 8, RESIZE_MOST = 4096 };  // pixels a side of a recorded picture

typedef struct resize resize;

// From (height, width, 3) bytes to (size, size, 3). Along an axis that shrinks, a pixel is the
// average over the area it covers; along one that grows, it is interpolated between the nearest
// two. One resize serves one thread at a time.
firm_status resize_create(int height, int width, int size, resize** out, firm_error* err);
void resize_run(resize* r, const uint8_t* from, uint8_t* to);
uint8_t* resize_source(resize* r);  // room for one picture to be resized
void resize_free(resize* r);        // NULL is fine

#endif
