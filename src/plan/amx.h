// amx.h - a thread's AMX tiles, for the kernels that use them: palette 1, eight tiles of 16 rows of
// 64 bytes.
//
// A tile product adds to C (16 x 16 float32) the product of A (16 rows of 32 inputs) and B (16
// pairs of inputs x 16 columns, the two of a pair side by side).
#ifndef PLAN_AMX_H
#define PLAN_AMX_H

#include <immintrin.h>

enum { TILE_ROWS = 16, TILE_BYTES = 64 };

typedef struct tile_config {
    unsigned char palette, start_row, reserved[14];
    unsigned short row_bytes[16];
    unsigned char rows[16];
} tile_config;

static void amx_begin(void) {
    tile_config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.row_bytes[i] = TILE_BYTES;
        c.rows[i] = TILE_ROWS;
    }
    // gcc's intrinsic says that it reads eight bytes; the instruction reads all of c
    __asm__ volatile("" : : "r"(&c) : "memory");
    _tile_loadconfig(&c);
}

static void amx_end(void) {
    _tile_release();
}

#endif
