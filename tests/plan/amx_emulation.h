// amx_emulation.h - the tile instructions that net_amx.c uses, in plain C, after the definitions of
// the Intel intrinsics: palette 1, eight tiles of up to 16 rows of 64 bytes.
#ifndef TESTS_PLAN_AMX_EMULATION_H
#define TESTS_PLAN_AMX_EMULATION_H

#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// A thread's tiles; 0 rows: not configured, and using it ends the test program.
static _Thread_local struct {
    int rows, row_bytes;
    unsigned char data[16][64];
} emulated_tile[8];

static void emulated_config(const void* memory) {
    const unsigned char* c = memory;
    if (c[0] != 1 || c[1] != 0) abort();
    for (int i = 2; i < 16; i++)
        if (c[i] != 0) abort();
    for (int t = 0; t < 8; t++) {
        uint16_t bytes;
        memcpy(&bytes, c + 16 + 2 * t, sizeof bytes);
        memset(&emulated_tile[t], 0, sizeof emulated_tile[t]);
        emulated_tile[t].row_bytes = bytes;
        emulated_tile[t].rows = c[48 + t];
        if (bytes > 64 || c[48 + t] > 16) abort();
    }
}

static void emulated_release(void) {
    memset(emulated_tile, 0, sizeof emulated_tile);
}

static void emulated_zero(int t) {
    if (emulated_tile[t].rows == 0) abort();
    memset(emulated_tile[t].data, 0, sizeof emulated_tile[t].data);
}

static void emulated_load(int t, const void* from, long stride) {
    if (emulated_tile[t].rows == 0) abort();
    for (int r = 0; r < emulated_tile[t].rows; r++)
        memcpy(emulated_tile[t].data[r], (const char*)from + r * stride,
               (size_t)emulated_tile[t].row_bytes);
}

static void emulated_store(int t, void* to, long stride) {
    if (emulated_tile[t].rows == 0) abort();
    for (int r = 0; r < emulated_tile[t].rows; r++)
        memcpy((char*)to + r * stride, emulated_tile[t].data[r],
               (size_t)emulated_tile[t].row_bytes);
}

static float emulated_number(const unsigned char* row, int i) {
    uint32_t bits = (uint32_t)row[2 * i] << 16 | (uint32_t)row[2 * i + 1] << 24;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// c[m][n] += sum over k of a[m][2k] b[k][2n] + a[m][2k + 1] b[k][2n + 1]
static void emulated_dot(int c, int a, int b) {
    int pairs = emulated_tile[a].row_bytes / 4, columns = emulated_tile[b].row_bytes / 4;
    if (emulated_tile[c].rows != emulated_tile[a].rows || emulated_tile[b].rows != pairs ||
        emulated_tile[c].row_bytes != emulated_tile[b].row_bytes || pairs == 0)
        abort();
    for (int m = 0; m < emulated_tile[c].rows; m++)
        for (int n = 0; n < columns; n++) {
            float even = 0, odd = 0, sum;
            for (int k = 0; k < pairs; k++) {
                const unsigned char *x = emulated_tile[a].data[m], *y = emulated_tile[b].data[k];
                even += emulated_number(x, 2 * k) * emulated_number(y, 2 * n);
                odd += emulated_number(x, 2 * k + 1) * emulated_number(y, 2 * n + 1);
            }
            memcpy(&sum, emulated_tile[c].data[m] + 4 * n, sizeof sum);
            sum += even + odd;
            memcpy(emulated_tile[c].data[m] + 4 * n, &sum, sizeof sum);
        }
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig emulated_config
#define _tile_release emulated_release
#define _tile_zero emulated_zero
#define _tile_loadd emulated_load
#define _tile_stream_loadd emulated_load
#define _tile_stored emulated_store
#define _tile_dpbf16ps emulated_dot

#endif
