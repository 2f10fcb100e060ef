// render/pygame.h - drawing on a 512 x 512 RGB canvas by pygame 2.6.1's rules, pixel for pixel, for
// tasks whose reference pictures were made with it.
//
// Coordinates are whole pixels, x right, y down; what lies outside the canvas is cut off. Every
// call grows the canvas's box of touched pixels, so that a picture with few moving parts can be
// renewed in part.
#ifndef ENV_RENDER_PYGAME_H
#define ENV_RENDER_PYGAME_H

#include <stdint.h>

enum { PYGAME_SIZE = 512, PYGAME_MAX_POINTS = 8 };

typedef struct pygame_box {
    int left, top, right, bottom;  // inclusive; empty when left > right
} pygame_box;

typedef struct pygame_canvas {
    uint8_t pixel[PYGAME_SIZE * PYGAME_SIZE * 3];
    pygame_box box;  // touched since pygame_box_reset
} pygame_canvas;

typedef struct pygame_colour {
    uint8_t rgb[3];
} pygame_colour;

typedef struct pygame_point {
    int x, y;
} pygame_point;

void pygame_box_reset(pygame_canvas* c);
void pygame_fill(pygame_canvas* c, pygame_colour colour);
void pygame_polygon(pygame_canvas* c, const pygame_point* p, int n,
                    pygame_colour colour);  // filled
void pygame_circle(pygame_canvas* c, pygame_point centre, int radius,
                   pygame_colour colour);  // filled
void pygame_line(pygame_canvas* c, pygame_point from, pygame_point to, int width,
                 pygame_colour colour);
void pygame_aaline(pygame_canvas* c, pygame_point from, pygame_point to, pygame_colour colour);

#endif
