// draw.c - the rasteriser of canvas.h. Coverage is the signed distance to the shape's edge, clamped
// to one pixel: exact enough for thin lines and discs, and the same on every machine.
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "report/canvas.h"

int canvas_create(canvas* c, int width, int height) {
    size_t n = (size_t)width * (size_t)height;
    memset(c, 0, sizeof *c);
    c->width = width;
    c->height = height;
    c->rgb = mem_calloc(n, 3);
    c->mask = mem_calloc(n, 1);
    c->left = width;
    c->top = height;
    if (c->rgb && c->mask) return 1;
    canvas_free(c);
    return 0;
}

void canvas_free(canvas* c) {
    mem_free(c->rgb);
    mem_free(c->mask);
    memset(c, 0, sizeof *c);
}

static double clamp(double v, double lo, double hi) {
    return v < lo ? lo : v > hi ? hi : v;
}

typedef struct box {
    int left, top, right, bottom;
} box;

// Pixels that a shape can touch, within the canvas; clamped before the conversion, as points may
// lie anywhere.
static box bounds(canvas* c, double x0, double y0, double x1, double y1, double reach) {
    box b;
    b.left = (int)clamp(floor(fmin(x0, x1) - reach), 0, c->width);
    b.right = (int)clamp(ceil(fmax(x0, x1) + reach), 0, c->width);
    b.top = (int)clamp(floor(fmin(y0, y1) - reach), 0, c->height);
    b.bottom = (int)clamp(ceil(fmax(y0, y1) + reach), 0, c->height);
    if (b.left < b.right && b.top < b.bottom) {
        if (b.left < c->left) c->left = b.left;
        if (b.top < c->top) c->top = b.top;
        if (b.right > c->right) c->right = b.right;
        if (b.bottom > c->bottom) c->bottom = b.bottom;
    }
    return b;
}

static void cover(canvas* c, int x, int y, double coverage) {
    uint8_t v = (uint8_t)(clamp(coverage, 0, 1) * 255 + 0.5);
    uint8_t* m = &c->mask[(size_t)y * (size_t)c->width + (size_t)x];
    if (v > *m) *m = v;
}

// Numbers of pixels' size neither overflow nor vanish when squared: hypot() takes ten times as long to allow for that.
static double length_of(double x, double y) {
    return sqrt(x * x + y * y);
}

void canvas_line(canvas* c, double x0, double y0, double x1, double y1, double width) {
    // far points are pulled in along each axis: the picture is small and doubles are not endless
    double far = 1e5;
    x0 = clamp(x0, -far, far), y0 = clamp(y0, -far, far), x1 = clamp(x1, -far, far),
    y1 = clamp(y1, -far, far);
    double dx = x1 - x0, dy = y1 - y0, square = dx * dx + dy * dy;
    box b = bounds(c, x0, y0, x1, y1, width / 2 + 1);
    const double reach = (width / 2 + 2) * sqrt(square);
    for (int y = b.top; y < b.bottom; y++) {
        // pixels of this row within reach of the endless line: |px dy - py dx| <= reach
        int left = b.left, right = b.right;
        if (fabs(dy) > 1e-3) {
            double middle = x0 + (y + 0.5 - y0) * dx / dy, half = reach / fabs(dy);
            left = (int)clamp(floor(middle - half) - 1, b.left, b.right);
            right = (int)clamp(ceil(middle + half) + 1, b.left, b.right);
        }
        for (int x = left; x < right; x++) {
            double px = x + 0.5 - x0, py = y + 0.5 - y0;
            double along = square > 0 ? clamp((px * dx + py * dy) / square, 0, 1) : 0;
            double d = length_of(px - along * dx, py - along * dy);
            // a line thinner than a pixel is a fainter line of one pixel
            double coverage = width >= 1 ? width / 2 + 0.5 - d : width * (1 - d);
            if (coverage > 0) cover(c, x, y, coverage);
        }
    }
}

void canvas_disc(canvas* c, double x, double y, double radius) {
    box b = bounds(c, x, y, x, y, radius + 1);
    for (int j = b.top; j < b.bottom; j++) {
        for (int i = b.left; i < b.right; i++) {
            double coverage = radius + 0.5 - length_of(i + 0.5 - x, j + 0.5 - y);
            if (coverage > 0) cover(c, i, j, coverage);
        }
    }
}

void canvas_ring(canvas* c, double x, double y, double radius, double width) {
    box b = bounds(c, x, y, x, y, radius + width / 2 + 1);
    for (int j = b.top; j < b.bottom; j++) {
        for (int i = b.left; i < b.right; i++) {
            double coverage = width / 2 + 0.5 - fabs(length_of(i + 0.5 - x, j + 0.5 - y) - radius);
            if (coverage > 0) cover(c, i, j, coverage);
        }
    }
}

void canvas_blend(canvas* c, colour ink, double alpha) {
    const uint8_t paint[3] = {ink.r, ink.g, ink.b};
    for (int y = c->top; y < c->bottom; y++) {
        for (int x = c->left; x < c->right; x++) {
            size_t at = (size_t)y * (size_t)c->width + (size_t)x;
            if (!c->mask[at]) continue;
            double a = alpha * c->mask[at] / 255;
            for (int k = 0; k < 3; k++) {
                c->rgb[3 * at + k] = (uint8_t)(c->rgb[3 * at + k] * (1 - a) + paint[k] * a + 0.5);
            }
            c->mask[at] = 0;
        }
    }
    c->left = c->width;
    c->top = c->height;
    c->right = c->bottom = 0;
}

void canvas_fill(canvas* c, int x, int y, int width, int height, colour ink) {
    for (int j = y < 0 ? 0 : y; j < y + height && j < c->height; j++) {
        for (int i = x < 0 ? 0 : x; i < x + width && i < c->width; i++) {
            uint8_t* p = c->rgb + 3 * ((size_t)j * (size_t)c->width + (size_t)i);
            p[0] = ink.r, p[1] = ink.g, p[2] = ink.b;
        }
    }
}

// One row: the mean of the source pixels of rows j0 .. j1 - 1 under each pixel, at least one of them, more when the picture shrinks.
static void picture_row(uint8_t* to, int shown, int width, const uint8_t* rgb, int from_width,
                        int j0, int j1) {
    const size_t stride = 3 * (size_t)from_width;
    for (int i = 0; i < shown; i++, to += 3) {
        const int i0 = (int)((int64_t)i * from_width / width);
        int i1 = (int)((int64_t)(i + 1) * from_width / width);
        if (i1 <= i0) i1 = i0 + 1;
        const uint8_t* from = rgb + (size_t)j0 * stride + 3 * (size_t)i0;
        const unsigned n = (unsigned)((i1 - i0) * (j1 - j0));
        if (n == 1) {
            memcpy(to, from, 3);
            continue;
        }
        unsigned sum[3] = {n / 2, n / 2, n / 2};
        for (int v = j0; v < j1; v++, from += stride)
            for (int u = 0; u < i1 - i0; u++)
                for (int k = 0; k < 3; k++) sum[k] += from[3 * u + k];
        for (int k = 0; k < 3; k++) to[k] = (uint8_t)(sum[k] / n);
    }
}

void canvas_picture(canvas* c, int x, int y, int width, int height, const uint8_t* rgb,
                    int from_width, int from_height) {
    const int shown = width < c->width - x ? width : c->width - x;
    if (shown <= 0) return;
    for (int j = 0, last0 = -1, last1 = -1; j < height && y + j < c->height; j++) {
        uint8_t* to = c->rgb + 3 * ((size_t)(y + j) * (size_t)c->width + (size_t)x);
        const int j0 = (int)((int64_t)j * from_height / height);
        int j1 = (int)((int64_t)(j + 1) * from_height / height);
        if (j1 <= j0) j1 = j0 + 1;
        if (j0 == last0 && j1 == last1)  // enlarged: the row above once more
            memcpy(to, to - 3 * (size_t)c->width, 3 * (size_t)shown);
        else
            picture_row(to, shown, width, rgb, from_width, j0, j1);
        last0 = j0, last1 = j1;
    }
}
