// pusht_structured.c - Push-T's contact-balanced structured interventions, the data of its last
// training stage: what happens when the agent deals with the block on purpose.
//
// Anchors are balanced over three classes of moments, told from recorded states alone by the gap
// between the agent's rim and the block's outline. Branches are manoeuvres at a person's speed:
// pushes in strokes at points of the block, a slide along its outline, a circle around it, a
// retreat that comes back, and a wander that ignores it. They read the true state, which collecting
// data may and a controller may not. Used by data/branches.c through env_structured.
#ifdef FIRM_CHIPMUNK
#include <math.h>

#include "env/pusht.h"

enum { CONTACT, NEAR, FREE, CLASSES };
enum { PUSH, SLIDE, CIRCLE, RETREAT, WANDER, MANOEUVRES };

#define TOUCHING \
    1.0              // px of gap; a resting contact is 0.1 px deep, a recorded row may miss a touch
#define NEARBY 50.0  // px: about as far as a person's hand gets in one macro action (0.5 s)

#define CONTROL 0.1       // s
#define WALL_NEAR 25.0    // px; a block jammed against a wall moves in ways nobody can predict
#define FULL_SPEED 371.7  // px/s that an action of 1 settles at
#define SLOWEST 40.0      // px/s; demonstrations have a deviation of 75 px/s per axis
#define FASTEST 200.0
#define EDGE 25.0     // px from the canvas's rim where the hand turns round
#define SMOOTH 0.5f   // share of the last action in the next
#define WOBBLE 0.03f  // deviation of an unsteady hand, in actions ...
#define STEADY 0.8f   // ... and its correlation from control to control

// ---- geometry -----------------------------------------------------------------------------------

typedef struct surface {
    double gap;        // px between the agent's rim and the block's outline; negative: they overlap
    double normal[2];  // from the block to the agent
} surface;

// Distance of a point from a rectangle and the way out, both in the block's frame.
static double outside(const double side[4], double x, double y, double out[2]) {
    double dx = x - fmin(fmax(x, side[0]), side[1]), dy = y - fmin(fmax(y, side[2]), side[3]);
    double far = hypot(dx, dy);
    if (far > 0.0) {
        out[0] = dx / far, out[1] = dy / far;
        return far;
    }
    const double depth[4] = {x - side[0], side[1] - x, y - side[2], side[3] - y};
    int best = 0;
    for (int i = 1; i < 4; i++)
        if (depth[i] < depth[best]) best = i;
    out[0] = best == 0 ? -1.0 : best == 1 ? 1.0 : 0.0;
    out[1] = best == 2 ? -1.0 : best == 3 ? 1.0 : 0.0;
    return -depth[best];
}

static surface nearest(const double* s) {
    static const double bar[4] = {-60, 60, 0, 30}, stem[4] = {-15, 15, 30, 120};
    const double c = cos(s[PUSHT_ANGLE]), n = sin(s[PUSHT_ANGLE]);
    const double dx = s[PUSHT_AX] - s[PUSHT_BX], dy = s[PUSHT_AY] - s[PUSHT_BY];
    const double x = c * dx + n * dy, y = c * dy - n * dx;
    double a[2], b[2], from_bar = outside(bar, x, y, a), from_stem = outside(stem, x, y, b);
    const double* out = from_bar <= from_stem ? a : b;
    return (surface){.gap = fmin(from_bar, from_stem) - PUSHT_RADIUS,
                     .normal = {c * out[0] - n * out[1], n * out[0] + c * out[1]}};
}

static int classify(const double* states, int rows) {
    for (int i = 0; i < rows; i++)
        if (nearest(states + i * PUSHT_STATE).gap <= TOUCHING) return CONTACT;
    return nearest(states).gap <= NEARBY ? NEAR : FREE;
}

// ---- manoeuvres ---------------------------------------------------------------------------------

typedef struct manoeuvre {
    int kind;
    double speed;   // px/s
    double side;    // 1 or -1: which way round
    double lean;    // slide: inward per way along; circle: px to stay away; else rad of tilt
    double aim[2];  // a point of the block, in its frame, that a push goes for
    double stroke;  // px that this push has left
    int leaving;    // controls of going away from the block that are left
    double heading, turning;  // wander: rad, and rad per control
    float last[2];            // the action before
    float wobble[2];
} manoeuvre;
_Static_assert(sizeof(manoeuvre) <= ENV_MANOEUVRE_BYTES, "a manoeuvre fits its memory");

// A new push: anywhere in the bar (120 x 30) or the stem (30 x 90), not so far that every push
// ends at a wall.
static void take_aim(manoeuvre* m, rng* r) {
    int bar = rng_below(r, 7) < 4;
    m->aim[0] = bar ? rng_uniform(r, -60, 60) : rng_uniform(r, -15, 15);
    m->aim[1] = bar ? rng_uniform(r, 0, 30) : rng_uniform(r, 30, 120);
    m->stroke = rng_uniform(r, 15, 90);
}

static void begin(int kind, const double* s, rng* r, void* memory) {
    manoeuvre* m = memory;
    *m = (manoeuvre){.kind = kind};
    m->speed = rng_uniform(r, SLOWEST, FASTEST);
    m->side = rng_below(r, 2) ? 1.0 : -1.0;
    m->lean = kind == SLIDE    ? rng_uniform(r, 0.1, 0.6)
              : kind == CIRCLE ? rng_uniform(r, 3.0, 40.0)
                               : rng_uniform(r, -1.0, 1.0);
    m->heading = rng_uniform(r, -PUSHT_PI, PUSHT_PI);
    m->leaving = kind == RETREAT ? 4 + (int)rng_below(r, 12) : 0;
    take_aim(m, r);
    // the hand is in motion already
    m->last[0] = (float)(s[PUSHT_VX] / FULL_SPEED);
    m->last[1] = (float)(s[PUSHT_VY] / FULL_SPEED);
}

// Pushes in strokes: towards the aim until the stroke is spent or a wall is near, then away from
// the block for a moment, then at another point.
static void push(manoeuvre* m, const double* s, const surface* at, rng* r, double way[2]) {
    const double c = cos(s[PUSHT_ANGLE]), n = sin(s[PUSHT_ANGLE]);
    if (at->gap <= TOUCHING && m->leaving == 0) {
        m->stroke -= m->speed * CONTROL;
        if (m->stroke <= 0.0 || pusht_wall_gap(s) < WALL_NEAR) {
            m->leaving = 3 + (int)rng_below(r, 4);
            take_aim(m, r);
        }
    }
    if (m->leaving > 0) {
        m->leaving--;
        way[0] = cos(m->lean) * at->normal[0] - sin(m->lean) * at->normal[1];
        way[1] = sin(m->lean) * at->normal[0] + cos(m->lean) * at->normal[1];
        return;
    }
    way[0] = s[PUSHT_BX] + c * m->aim[0] - n * m->aim[1] - s[PUSHT_AX];
    way[1] = s[PUSHT_BY] + n * m->aim[0] + c * m->aim[1] - s[PUSHT_AY];
}

// Which way to go, not of length one.
static void choose_way(manoeuvre* m, const double* s, rng* r, double way[2]) {
    const surface at = nearest(s);
    double in = 0.0;  // px towards the block per px along its outline
    switch (m->kind) {
        case PUSH:
        case RETREAT: push(m, s, &at, r, way); return;
        case WANDER:
            m->turning = 0.8 * m->turning + 0.15 * rng_gauss(r);
            m->heading += m->turning;
            way[0] = cos(m->heading);
            way[1] = sin(m->heading);
            return;
        case SLIDE: in = at.gap > TOUCHING ? m->lean + at.gap / 20.0 : m->lean; break;
        case CIRCLE: in = (at.gap - m->lean) / 10.0; break;
    }
    in = fmin(fmax(in, -2.0), 2.0);
    way[0] = -at.normal[1] * m->side - in * at.normal[0];
    way[1] = at.normal[0] * m->side - in * at.normal[1];
}

// The agent could leave the canvas, walls do not stop it; a person turns round.
static void stay_inside(manoeuvre* m, const double* s, double way[2]) {
    int turned = 0;
    for (int k = 0; k < 2; k++)
        if ((s[k] < EDGE && way[k] < 0.0) || (s[k] > PUSHT_CANVAS - EDGE && way[k] > 0.0)) {
            way[k] = -way[k];
            turned = 1;
        }
    if (turned) m->heading = atan2(way[1], way[0]);
}

static void act(void* memory, const double* s, rng* r, float* action) {
    manoeuvre* m = memory;
    double way[2];
    choose_way(m, s, r, way);
    stay_inside(m, s, way);
    const double length = fmax(hypot(way[0], way[1]), 1e-9);
    const float fresh = sqrtf(1.0f - STEADY * STEADY);
    for (int k = 0; k < 2; k++) {
        const float wanted = (float)(m->speed / FULL_SPEED * way[k] / length);
        m->last[k] = SMOOTH * m->last[k] + (1.0f - SMOOTH) * wanted;
        m->wobble[k] = STEADY * m->wobble[k] + fresh * WOBBLE * rng_gauss(r);
        const float a = m->last[k] + m->wobble[k];
        action[k] = a < -1.0f ? -1.0f : a > 1.0f ? 1.0f : a;
    }
}

const env_structured pusht_structured = {
    .anchors = 512,
    .per_anchor = 16,
    .column = "contact_class",
    .classes = CLASSES,
    .class_name = {"contact", "near", "free"},
    .manoeuvres = MANOEUVRES,
    .manoeuvre_name = {"push", "slide", "circle", "retreat", "wander"},
    .classify = classify,
    .begin = begin,
    .act = act,
};
#else
typedef int pusht_structured_needs_chipmunk;
#endif
