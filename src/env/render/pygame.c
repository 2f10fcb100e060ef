// render/pygame.c - filled polygons, discs, wide lines and anti-aliased lines as pygame 2.6.1 draws
// them.
//
// Written from the documented behaviour and checked against pygame's pictures
// (tests/golden/pusht*). The rules are peculiar and all of them show: discs have an even diameter,
// polygon edges are cut towards zero, wide lines grow sideways only, and a line that leaves the
// canvas keeps the error term of the uncut line.
#include "env/render/pygame.h"

#include <math.h>
#include <stdlib.h>

enum { SIZE = PYGAME_SIZE, LAST = PYGAME_SIZE - 1 };

static int min_int(int a, int b) {
    return a < b ? a : b;
}

static int max_int(int a, int b) {
    return a > b ? a : b;
}

void pygame_box_reset(pygame_canvas* c) {
    c->box = (pygame_box){SIZE, SIZE, -1, -1};
}

static void touch(pygame_canvas* c, int left, int right, int y) {
    pygame_box* b = &c->box;
    b->left = min_int(b->left, left);
    b->right = max_int(b->right, right);
    b->top = min_int(b->top, y);
    b->bottom = max_int(b->bottom, y);
}

// Pixels x1 .. x2 of row y, in either order.
static void span(pygame_canvas* c, int x1, int x2, int y, pygame_colour colour) {
    int left = max_int(min_int(x1, x2), 0), right = min_int(max_int(x1, x2), LAST);
    if (y < 0 || y > LAST || left > right) return;
    uint8_t* p = c->pixel + 3 * (y * SIZE + left);
    for (int x = left; x <= right; x++, p += 3) {
        p[0] = colour.rgb[0];
        p[1] = colour.rgb[1];
        p[2] = colour.rgb[2];
    }
    touch(c, left, right, y);
}

void pygame_fill(pygame_canvas* c, pygame_colour colour) {
    for (int y = 0; y < SIZE; y++) span(c, 0, LAST, y, colour);
}

// ---- polygon ------------------------------------------------------------------------------------

static int crossings(const pygame_point* p, int n, int y, int lowest, int* at) {
    int count = 0;
    for (int i = 0; i < n; i++) {
        pygame_point a = p[i ? i - 1 : n - 1], b = p[i];
        if (a.y == b.y) continue;
        if (a.y > b.y) {
            pygame_point t = a;
            a = b;
            b = t;
        }
        // an edge owns its upper end; only the polygon's lowest row has lower ends
        if (!((y >= a.y && y < b.y) || (y == lowest && b.y == lowest))) continue;
        int x = (int)((double)((y - a.y) * (b.x - a.x)) / (b.y - a.y) + a.x), k = count++;
        for (; k > 0 && at[k - 1] > x; k--) at[k] = at[k - 1];
        at[k] = x;
    }
    return count;
}

void pygame_polygon(pygame_canvas* c, const pygame_point* p, int n, pygame_colour colour) {
    int top = p[0].y, bottom = top, left = p[0].x, right = left;
    for (int i = 1; i < n; i++) {
        top = min_int(top, p[i].y);
        bottom = max_int(bottom, p[i].y);
        left = min_int(left, p[i].x);
        right = max_int(right, p[i].x);
    }
    if (top == bottom) {
        span(c, left, right, top, colour);
        return;
    }
    for (int y = max_int(top, 0); y <= min_int(bottom, LAST); y++) {
        int at[PYGAME_MAX_POINTS], count = crossings(p, n, y, bottom, at);
        for (int i = 0; i + 1 < count; i += 2) span(c, at[i], at[i + 1], y, colour);
    }
    // a horizontal edge below the inside belongs to no pair above
    for (int i = 0; i < n; i++) {
        pygame_point a = p[i ? i - 1 : n - 1], b = p[i];
        if (a.y == b.y && a.y > top && a.y < bottom) span(c, a.x, b.x, a.y, colour);
    }
}

// ---- disc ---------------------------------------------------------------------------------------

// Midpoint circle; both halves of each axis are equally long, so the disc is 2 * radius wide.
void pygame_circle(pygame_canvas* c, pygame_point o, int radius, pygame_colour colour) {
    int f = 1 - radius, fy = -2 * radius, x = 0, y = radius;
    while (x < y) {
        if (f >= 0) {
            y--;
            fy += 2;
            f += fy;
        }
        x++;
        f += 2 * x + 1;
        if (f >= 0) {
            span(c, o.x - x, o.x + x - 1, o.y + y - 1, colour);
            span(c, o.x - x, o.x + x - 1, o.y - y, colour);
        }
        span(c, o.x - y, o.x + y - 1, o.y + x - 1, colour);
        span(c, o.x - y, o.x + y - 1, o.y - x, colour);
    }
}

// ---- wide line ----------------------------------------------------------------------------------

static int inside(int x, int y) {
    return x >= 0 && x < SIZE && y >= 0 && y < SIZE;
}

static int rounded(double v) {
    return (int)(v < 0 ? v - 0.5 : v + 0.5);
}

// One axis of the Liang-Barsky cut to 0 .. SIZE (inclusive: the canvas is taken one pixel too
// large). Narrows the part [*first, *last] of the line; 0 when the line runs past the canvas.
static int cut_axis(int from, int delta, double* first, double* last) {
    if (delta == 0) return from >= 0 && from <= SIZE;
    double low = -(double)from / delta, high = (double)(SIZE - from) / delta;
    if (delta < 0) {
        double t = low;
        low = high;
        high = t;
    }
    if (low > *first) *first = low;
    if (high < *last) *last = high;
    return 1;
}

typedef struct brush {
    int upright;        // the line is steep: the brush is a horizontal run
    int before, after;  // pixels to the left or above, right or below
    pygame_colour colour;
} brush;

static void paint(pygame_canvas* c, const brush* b, int x, int y) {
    if (b->upright) {
        span(c, x - b->before, x + b->after, y, b->colour);
        return;
    }
    for (int k = -b->before; k <= b->after; k++) span(c, x, x, y + k, b->colour);
}

void pygame_line(pygame_canvas* c, pygame_point from, pygame_point to, int width,
                 pygame_colour colour) {
    const int dx = abs(to.x - from.x), dy = abs(to.y - from.y);
    const int sx = from.x < to.x ? 1 : -1, sy = from.y < to.y ? 1 : -1;
    const brush b = {dx <= dy, (width - 1) / 2, width / 2, colour};
    double first = 0.0, last = 1.0;
    if (!cut_axis(from.x, to.x - from.x, &first, &last) ||
        !cut_axis(from.y, to.y - from.y, &first, &last) || first > last)
        return;
    int x = from.x + rounded((to.x - from.x) * first),
        y = from.y + rounded((to.y - from.y) * first);
    int end_x = from.x + rounded((to.x - from.x) * last),
        end_y = from.y + rounded((to.y - from.y) * last);
    int error = (dx > dy ? dx : -dy) / 2;
    for (;;) {
        int arrived = (x - end_x) * sx >= 0 && (y - end_y) * sy >= 0;
        if (arrived) {
            // beyond the cut, as long as one end of the brush is still on the canvas
            int more = b.upright ? y != to.y && (inside(x - b.before, y) || inside(x + b.after, y))
                                 : x != to.x && (inside(x, y - b.before) || inside(x, y + b.after));
            if (!more) break;
        }
        paint(c, &b, x, y);
        int e = error;
        if (e > -dx) {
            error -= dy;
            x += sx;
        }
        if (e < dy) {
            error += dx;
            y += sy;
        }
    }
    paint(c, &b, x, y);
}

// ---- anti-aliased line --------------------------------------------------------------------------

static void blend(pygame_canvas* c, int x, int y, float share, pygame_colour colour) {
    if (!inside(x, y)) return;
    uint8_t* p = c->pixel + 3 * (y * SIZE + x);
    for (int k = 0; k < 3; k++)
        p[k] = (uint8_t)(share * (float)colour.rgb[k] + (1.0f - share) * (float)p[k]);
    touch(c, x, x, y);
}

// Both ends are whole pixels at full strength; between them each step along the longer axis is
// shared by two pixels. One is added to the running coordinate so that truncation rounds down.
void pygame_aaline(pygame_canvas* c, pygame_point from, pygame_point to, pygame_colour colour) {
    int steep = abs(to.x - from.x) < abs(to.y - from.y);
    int a0 = steep ? from.y : from.x, b0 = steep ? from.x : from.y;
    int a1 = steep ? to.y : to.x, b1 = steep ? to.x : to.y;
    if (a0 > a1) {
        int t = a0;
        a0 = a1;
        a1 = t;
        t = b0;
        b0 = b1;
        b1 = t;
    }
#define BLEND(along, across, share) \
    blend(c, steep ? (across) : (along), steep ? (along) : (across), share, colour)
    BLEND(a0, b0, 1.0f);
    if (a0 == a1) return;
    BLEND(a1, b1, 1.0f);
    float slope = (float)(b1 - b0) / (float)(a1 - a0), at = (float)b0 + 1.0f + slope;
    for (int a = a0 + 1; a < a1; a++, at += slope) {
        int b = (int)at;
        float share = 1.0f - at + (float)b;
        BLEND(a, b - 1, share);
        if ((float)b < at) BLEND(a, b, 1.0f - share);
    }
#undef BLEND
}
