// pictures.c - see pictures.h.
#include "pictures.h"

#include <string.h>

enum { PICTURE_BEFORE, ROW_ABOVE, LEFT, GIVEN, LONGEST = 64 };

// How many bytes before pixel i a copy comes from; 0: there is nothing.
static size_t distance(int kind, size_t i) {
    static const size_t pixels[] = {PICTURES_SIDE * PICTURES_SIDE, PICTURES_SIDE, 1};
    return kind == GIVEN || i < pixels[kind] ? 0 : 3 * pixels[kind];
}

static int copies(const uint8_t* rgb, int kind, size_t i) {
    size_t back = distance(kind, i);
    return back && memcmp(rgb + 3 * i, rgb + 3 * i - back, 3) == 0;
}

// The longest run of copies from pixel i on.
static int longest(const uint8_t* rgb, size_t i, size_t pixels, int* kind) {
    int best = 0;
    for (int k = 0; k < GIVEN; k++) {
        int n = 0;
        while (n < LONGEST && i + (size_t)n < pixels && copies(rgb, k, i + (size_t)n)) n++;
        if (n > best) best = n, *kind = k;
    }
    return best;
}

size_t pictures_pack(const uint8_t* rgb, int count, uint8_t* out) {
    size_t pixels = (size_t)count * PICTURES_SIDE * PICTURES_SIDE, n = 0;
    for (size_t i = 0; i < pixels;) {
        int kind = GIVEN, other, length = longest(rgb, i, pixels, &kind);
        if (length == 0)
            while (length < LONGEST && i + (size_t)length < pixels &&
                   longest(rgb, i + (size_t)length, pixels, &other) < 2)
                length++;
        if (length == 0) length = 1;
        out[n++] = (uint8_t)(LONGEST * kind + length - 1);
        if (kind == GIVEN) {
            memcpy(out + n, rgb + 3 * i, 3 * (size_t)length);
            n += 3 * (size_t)length;
        }
        i += (size_t)length;
    }
    return n;
}

int pictures_unpack(const uint8_t* bytes, size_t n, int count, uint8_t* rgb) {
    size_t pixels = (size_t)count * PICTURES_SIDE * PICTURES_SIDE, at = 0, i = 0;
    while (at < n && i < pixels) {
        int kind = bytes[at] / LONGEST;
        size_t length = bytes[at++] % LONGEST + 1u, size = 3 * length;
        if (i + length > pixels || (kind == GIVEN && at + size > n)) return 0;
        if (kind == GIVEN) {
            memcpy(rgb + 3 * i, bytes + at, size);
            at += size;
        } else {
            size_t back = distance(kind, i);
            if (!back) return 0;
            // byte by byte: a repetition reads what it has just written
            for (size_t k = 3 * i; k < 3 * (i + length); k++) rgb[k] = rgb[k - back];
        }
        i += length;
    }
    return at == n && i == pixels;
}
