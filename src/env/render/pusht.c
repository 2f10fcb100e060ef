// render/pusht.c - Push-T's picture: drawn at 512 x 512 as the reference draws it with pygame, then
// shrunk to 224 x 224 by OpenCV's 8-bit bilinear rule.
//
// Order: white, green goal T (fixed), bar, stem, agent, walls, red marks at the contacts of the
// last physics step. Outlines are "fat segments" with the reference's wrong-way polygon. Walls and
// goal never move, so their picture is made once; each call draws block, agent and marks over it,
// shrinks only the boxes they touch, and puts the canvas back.
#ifdef FIRM_CHIPMUNK
#include "env/pusht.h"

#include <chipmunk/chipmunk.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "env/render/pygame.h"

enum { SIZE = PUSHT_CANVAS, SMALL = ENV_IMAGE, ITEMS = 16, WALL_ZONE = 10 };
_Static_assert((int)PUSHT_CANVAS == (int)PYGAME_SIZE, "one canvas size");

static const pygame_colour white = {{255, 255, 255}}, goal_green = {{144, 238, 144}},
                           slate = {{119, 136, 153}}, light_slate = {{143, 163, 184}},
                           royal = {{65, 105, 225}}, light_royal = {{78, 126, 255}},
                           light_gray = {{211, 211, 211}}, mark_red = {{231, 76, 60}};

// ---- shrinking ----------------------------------------------------------------------------------

// Output index d lies between source pixels s and s + 1 with weights w of 2048.
static struct {
    int source[SMALL];
    int weight[SMALL][2];
} taps;

static void make_taps(void) {
    for (int d = 0; d < SMALL; d++) {
        float f = (float)((d + 0.5) * ((double)SIZE / SMALL) - 0.5);
        int s = (int)floorf(f);
        f -= (float)s;
        taps.source[d] = s;
        taps.weight[d][0] = (int)lrintf((1.0f - f) * 2048.0f);
        taps.weight[d][1] = (int)lrintf(f * 2048.0f);
    }
}

// one source row, output columns from .. to
static void shrink_row(const uint8_t* row, int from, int to, int32_t* out) {
    for (int d = from; d <= to; d++) {
        const uint8_t* p = row + 3 * taps.source[d];
        const int w0 = taps.weight[d][0], w1 = taps.weight[d][1];
        for (int k = 0; k < 3; k++) out[3 * d + k] = p[k] * w0 + p[3 + k] * w1;
    }
}

// The part of the picture that a box of the canvas influences.
static void shrink(const pygame_canvas* c, const pygame_box* box, uint8_t* rgb) {
    if (box->left > box->right) return;
    int from_x = 0, to_x = SMALL - 1;
    while (taps.source[from_x] + 1 < box->left) from_x++;
    while (taps.source[to_x] > box->right) to_x--;
    int32_t above[3 * SMALL], below[3 * SMALL];
    for (int d = 0; d < SMALL; d++) {
        const int s = taps.source[d];
        if (s + 1 < box->top || s > box->bottom) continue;
        shrink_row(c->pixel + (size_t)s * SIZE * 3, from_x, to_x, above);
        shrink_row(c->pixel + (size_t)(s + 1) * SIZE * 3, from_x, to_x, below);
        const int b0 = taps.weight[d][0], b1 = taps.weight[d][1];
        uint8_t* out = rgb + (size_t)d * SMALL * 3;
        for (int i = 3 * from_x; i < 3 * to_x + 3; i++)
            out[i] =
                (uint8_t)(((((above[i] >> 4) * b0) >> 16) + (((below[i] >> 4) * b1) >> 16) + 2) >>
                          2);
    }
}

// ---- parts --------------------------------------------------------------------------------------

static pygame_point whole(cpVect v) {
    return (pygame_point){(int)rint(v.x), (int)rint(v.y)};
}

static void fat_segment(pygame_canvas* c, pygame_point a, pygame_point b, pygame_colour colour) {
    const int radius = 2;
    pygame_line(c, a, b, 2 * radius, colour);
    double ox = abs(b.y - a.y), oy = abs(b.x - a.x);
    if (ox == 0 && oy == 0) return;
    // without signs: leans the wrong way when dx and dy have the same one
    double scale = radius / sqrt(ox * ox + oy * oy);
    int x = (int)rint(ox * scale), y = (int)rint(oy * scale);
    pygame_point side[4] = {
        {a.x - x, a.y - y}, {a.x + x, a.y + y}, {b.x + x, b.y + y}, {b.x - x, b.y - y}};
    pygame_polygon(c, side, 4, colour);
    pygame_circle(c, a, radius, colour);
    pygame_circle(c, b, radius, colour);
}

static void walls(pygame_canvas* c) {
    static const pygame_point corner[4][2] = {
        {{5, 506}, {5, 5}}, {{5, 5}, {506, 5}}, {{506, 5}, {506, 506}}, {{5, 506}, {506, 506}}};
    for (int i = 0; i < 4; i++) fat_segment(c, corner[i][0], corner[i][1], light_gray);
}

static void goal(pygame_canvas* c) {
    // the order of Chipmunk's hulls
    static const double part[2][4][2] = {{{-60, 0}, {60, 0}, {60, 30}, {-60, 30}},
                                         {{-15, 30}, {15, 30}, {15, 120}, {-15, 120}}};
    const double cosine = cos(PUSHT_GOAL_ANGLE), sine = sin(PUSHT_GOAL_ANGLE);
    for (int i = 0; i < 2; i++) {
        pygame_point p[5];
        for (int k = 0; k < 4; k++) {
            double x = part[i][k][0], y = part[i][k][1];
            p[k] = whole(
                cpv(PUSHT_GOAL_X + cosine * x - sine * y, PUSHT_GOAL_Y + sine * x + cosine * y));
        }
        p[4] = p[0];  // the reference closes its outlines, which can add a pixel
        pygame_polygon(c, p, 5, goal_green);
    }
}

static struct {
    pygame_canvas canvas;
    uint8_t rgb[ENV_FRAME_BYTES];
} background;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void draw_background(void) {
    make_taps();
    pygame_fill(&background.canvas, white);
    goal(&background.canvas);
    walls(&background.canvas);
    shrink(&background.canvas, &(pygame_box){0, 0, SIZE - 1, SIZE - 1}, background.rgb);
    pygame_box_reset(&background.canvas);
}

// ---- the picture --------------------------------------------------------------------------------

typedef struct drawing {
    pygame_canvas* canvas;
    pygame_box touched[ITEMS];
    int items;
} drawing;

static void finish_item(drawing* d) {
    if (d->canvas->box.left > d->canvas->box.right) return;
    if (d->items < ITEMS) {
        d->touched[d->items++] = d->canvas->box;
    } else {  // more marks than slots: the last slot grows
        pygame_box *b = &d->touched[ITEMS - 1], *n = &d->canvas->box;
        if (n->left < b->left) b->left = n->left;
        if (n->top < b->top) b->top = n->top;
        if (n->right > b->right) b->right = n->right;
        if (n->bottom > b->bottom) b->bottom = n->bottom;
    }
    pygame_box_reset(d->canvas);
}

static void on_polygon(int count, const cpVect* verts, cpFloat radius, cpSpaceDebugColor outline,
                       cpSpaceDebugColor fill, cpDataPointer data) {
    (void)radius, (void)outline, (void)fill;
    drawing* d = data;
    pygame_point p[PYGAME_MAX_POINTS] = {{0, 0}};
    if (count < 3 || count >= PYGAME_MAX_POINTS) return;  // bar and stem have four
    for (int i = 0; i <= count; i++) p[i] = whole(verts[i % count]);
    pygame_polygon(d->canvas, p, count + 1, light_slate);
    for (int i = 0; i < count; i++) fat_segment(d->canvas, p[i], p[i + 1], slate);
    finish_item(d);
}

static void on_circle(cpVect at, cpFloat angle, cpFloat radius, cpSpaceDebugColor outline,
                      cpSpaceDebugColor fill, cpDataPointer data) {
    (void)angle, (void)outline, (void)fill;
    drawing* d = data;
    pygame_circle(d->canvas, whole(at), (int)rint(radius), royal);
    pygame_circle(d->canvas, whole(at), (int)rint(radius - 4), light_royal);
    finish_item(d);
}

static void on_mark(cpVect a, cpVect b, cpSpaceDebugColor colour, cpDataPointer data) {
    (void)colour;
    drawing* d = data;
    pygame_aaline(d->canvas, whole(a), whole(b), mark_red);
    finish_item(d);
}

static void on_wall(cpVect a, cpVect b, cpFloat radius, cpSpaceDebugColor outline,
                    cpSpaceDebugColor fill, cpDataPointer data) {
    (void)a, (void)b, (void)radius, (void)outline, (void)fill, (void)data;  // see pusht_draw
}

static void on_dot(cpFloat size, cpVect at, cpSpaceDebugColor colour, cpDataPointer data) {
    (void)size, (void)at, (void)colour, (void)data;
}

static cpSpaceDebugColor any_colour(cpShape* shape, cpDataPointer data) {
    (void)shape, (void)data;
    return (cpSpaceDebugColor){0, 0, 0, 0};
}

static int near_walls(const pygame_box* b) {
    return b->left < WALL_ZONE || b->top < WALL_ZONE || b->right >= SIZE - WALL_ZONE ||
           b->bottom >= SIZE - WALL_ZONE;
}

void pusht_canvas_reset(pygame_canvas* c) {
    pthread_once(&once, draw_background);
    memcpy(c, &background.canvas, sizeof *c);
}

void pusht_draw(const pusht_world* w, struct pygame_canvas* c, uint8_t* rgb) {
    drawing d = {.canvas = c};
    cpSpaceDebugDrawOptions draw = {.drawCircle = on_circle,
                                    .drawSegment = on_mark,
                                    .drawFatSegment = on_wall,
                                    .drawPolygon = on_polygon,
                                    .drawDot = on_dot,
                                    .flags = CP_SPACE_DEBUG_DRAW_SHAPES,
                                    .colorForShape = any_colour,
                                    .data = &d};
    pygame_box_reset(c);
    // Chipmunk's own order puts bar and stem before the agent
    cpSpaceDebugDraw(w->space, &draw);
    int redo = 0;
    for (int i = 0; i < d.items; i++) redo |= near_walls(&d.touched[i]);
    if (redo) walls(c);
    pygame_box_reset(c);  // walls drawn where nothing else was look as before
    draw.flags = CP_SPACE_DEBUG_DRAW_COLLISION_POINTS;
    cpSpaceDebugDraw(w->space, &draw);

    memcpy(rgb, background.rgb, sizeof background.rgb);
    for (int i = 0; i < d.items; i++) shrink(c, &d.touched[i], rgb);
    for (int i = 0; i < d.items; i++) {
        const pygame_box* b = &d.touched[i];
        const size_t bytes = 3 * (size_t)(b->right - b->left + 1);
        for (int y = b->top; y <= b->bottom; y++) {
            size_t at = 3 * ((size_t)y * SIZE + (size_t)b->left);
            memcpy(c->pixel + at, background.canvas.pixel + at, bytes);
        }
    }
}
#else
typedef int pusht_render_needs_chipmunk;
#endif
