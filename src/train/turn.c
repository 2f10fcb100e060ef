// turn.c - pictures turned, flipped and shifted: where a keypoint must go is then known exactly.
#include <string.h>

#include "core/rng.h"
#include "train/frontend.h"

enum { FARTHEST = 12 };  // pixels of a shift

turning turning_of(int64_t number) {
    rng r = rng_start(0, RNG_STREAM(RNG_BATCH, 0xFFFD) ^ ((uint64_t)number << 16));
    turning t = {.xx = 1, .yy = 1};
    for (uint32_t quarter = rng_below(&r, 4); quarter; quarter--)
        t = (turning){-t.yx, -t.yy, t.xx, t.xy, 0, 0};
    if (rng_below(&r, 2)) {
        t.xx = -t.xx;
        t.xy = -t.xy;
    }
    t.dx = (int)rng_below(&r, 2 * FARTHEST + 1) - FARTHEST;
    t.dy = (int)rng_below(&r, 2 * FARTHEST + 1) - FARTHEST;
    return t;
}

static int inside(int v, int last) {
    return v < 0 ? 0 : v > last ? last : v;
}

// Each pixel of the result looks up where it came from; what lies outside repeats the border.
// Coordinates are doubled and counted from the middle, so that they are whole: 2 i - last.
void turn_frame(const turning* t, int side, const uint8_t* rgb, uint8_t* out) {
    const int last = side - 1;
    for (int v = 0; v < side; v++)
        for (int u = 0; u < side; u++, out += 3) {
            int x = 2 * (u - t->dx) - last, y = 2 * (v - t->dy) - last;
            // the inverse of a signed permutation is its transpose
            int from_x = inside((t->xx * x + t->yx * y + last) / 2, last);
            int from_y = inside((t->xy * x + t->yy * y + last) / 2, last);
            memcpy(out, rgb + (from_y * side + from_x) * 3, 3);
        }
}
