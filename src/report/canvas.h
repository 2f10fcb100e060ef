// canvas.h - a small anti-aliased rasteriser for the animation. Shapes are first gathered in a
// coverage mask (the larger coverage wins, so that a translucent line has no darker joints), then
// blended once.
#ifndef REPORT_CANVAS_H
#define REPORT_CANVAS_H

#include <stdint.h>

typedef struct canvas {
    int width, height;
    uint8_t* rgb;                  // (height, width, 3)
    uint8_t* mask;                 // (height, width) coverage 0..255 of what is being drawn
    int left, top, right, bottom;  // part of the mask in use; right and bottom exclusive
} canvas;

typedef struct colour {
    uint8_t r, g, b;
} colour;

int canvas_create(canvas* c, int width, int height);  // 0 when out of memory
void canvas_free(canvas* c);

// Coordinates are continuous: pixel (i, j) covers [i, i+1) x [j, j+1).
void canvas_line(canvas* c, double x0, double y0, double x1, double y1, double width);
void canvas_disc(canvas* c, double x, double y, double radius);
void canvas_ring(canvas* c, double x, double y, double radius, double width);
void canvas_text(canvas* c, double x, double y, double dot,
                 const char* text);                      // font.c; top left corner
void canvas_blend(canvas* c, colour ink, double alpha);  // paints the mask and clears it

void canvas_fill(canvas* c, int x, int y, int width, int height, colour ink);
// A picture scaled to width x height: whole-number factors repeat pixels, others average areas.
void canvas_picture(canvas* c, int x, int y, int width, int height, const uint8_t* rgb,
                    int from_width, int from_height);

#endif
