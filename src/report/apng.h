// apng.h - writes animated PNGs: one palette for all frames, and per frame only the rectangle that
// changed, its unchanged pixels transparent. Frames are seen twice: first all are counted, then
// encoded.
#ifndef REPORT_APNG_H
#define REPORT_APNG_H

#include <stdint.h>

#include "core/status.h"
#include "report/canvas.h"
#include "report/html.h"

typedef struct apng_bin {  // colours that agree in the high bits
    uint32_t count, r, g, b;
} apng_bin;

typedef struct apng {
    int width, height, colours;
    uint8_t palette[256][3];  // entry 0 means "as before"
    apng_bin* bins;           // (1 << 15)
    uint8_t* nearest;         // (1 << 24) palette entry of a colour, 0 not looked up yet
    uint8_t *now, *last;      // (height, width) palette entries
    uint8_t* packed;          // scan lines to compress
    uint32_t sequence;
    int frames_left, first;
    int over;  // unchanged pixels transparent: half the size, but some viewers get palettes wrong
    html out;  // the file so far
} apng;

firm_status apng_create(apng* a, int width, int height, firm_error* err);
void apng_free(apng* a);
void apng_keep(apng* a, colour c);  // a colour that must come out exactly; before apng_begin
void apng_count(apng* a, const uint8_t* rgb);                  // first pass
firm_status apng_begin(apng* a, int frames, firm_error* err);  // chooses the palette
firm_status apng_frame(apng* a, const uint8_t* rgb, int delay_ms, firm_error* err);
firm_status apng_end(apng* a, firm_error* err);  // a->out then holds the whole file

#endif
