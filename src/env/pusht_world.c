// pusht_world.c - Push-T's physics: the reference package's pymunk world, rebuilt on
// Chipmunk 7.0.3.
//
// Order matters everywhere: shapes are added as the reference adds them (their numbers decide the
// order of contacts), and angles are set before positions because setting an angle turns the block
// about its centre of gravity. Moment, centre of gravity and missing friction are the reference's,
// wrong as they are. Damping 0 zeroes the block's velocity inside every step, so it moves only
// while pushed.
//
// Where the agent moves clear of the block, a step of Chipmunk's changes nothing but the agent's
// position, which is computed here instead; and a space is used again rather than made anew. Same
// bits; the demonstrator needs 3/5 of the time.
#ifdef FIRM_CHIPMUNK
#define _POSIX_C_SOURCE 200809L
#include <chipmunk/chipmunk.h>
#include <chipmunk/chipmunk_structs.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "env/pusht.h"

#define DT 0.01
#define GAIN 100.0  // of the agent's controller, 1/s^2
#define BRAKE 20.0  // 1/s
#define WALL_RADIUS 2.0
#define MASS 1.0
#define MOMENT 3000.0  // twice the bar's own, as the reference computes it
#define RECALLS 2      // solver runs that bring a moment back
#define FAR 1e5        // px; the agent passes walls, so leaving the canvas is legal
#define FAST 1e6       // px/s
#define TURNS 1e6      // rad
#define AHEAD 0.1f     // of its size and its speed, by which Chipmunk widens a moving shape's box

enum { WALLS = 4, AGENT = WALLS, BAR, STEM, SHAPES };  // in pusht_world.shape

// ---- Chipmunk's banner --------------------------------------------------------------------------

// Debian's library prints two lines to stdout when the first space of a process is made. They would
// spoil `--json`, so that first space is made while stdout leads nowhere.
static void first_space(void) {
    fflush(stdout);
    int kept = dup(STDOUT_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int diverted = kept >= 0 && nowhere >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0;
    cpSpaceFree(cpSpaceNew());
    fflush(stdout);
    if (diverted) dup2(kept, STDOUT_FILENO);
    if (kept >= 0) close(kept);
    if (nowhere >= 0) close(nowhere);
}

static pthread_once_t banner = PTHREAD_ONCE_INIT;

// ---- steps --------------------------------------------------------------------------------------

static int inside(cpBB inner, const double* box) {
    return box[0] <= inner.l && box[2] >= inner.r && box[1] <= inner.b && box[3] >= inner.t;
}

static void count_contacts(cpArbiter* arbiter, cpSpace* space, cpDataPointer data) {
    (void)space;
    pusht_world* w = data;
    const int count = cpArbiterGetCount(arbiter);
    w->contacts += count;
    for (int i = 0; i < count; i++) w->depth = fmax(w->depth, -cpArbiterGetDepth(arbiter, i));
}

// Chipmunk's tree keeps a wider box for every shape, made anew when the shape leaves it. Follows
// what it does with the agent's.
static void follow(pusht_world* w) {
    const cpBB now = w->shape[AGENT]->bb;
    const cpVect v = cpBodyGetVelocity(w->agent);
    const double x = AHEAD * (now.r - now.l), y = AHEAD * (now.t - now.b);
    if (inside(now, w->box)) return;
    w->box[0] = now.l + fmin(-x, AHEAD * v.x);
    w->box[1] = now.b + fmin(-y, AHEAD * v.y);
    w->box[2] = now.r + fmax(x, AHEAD * v.x);
    w->box[3] = now.t + fmax(y, AHEAD * v.y);
}

static void run_step(pusht_world* w) {
    const int before = w->contacts;
    cpSpaceStep(w->space, DT);
    follow(w);
    w->quiet = w->contacts == before ? w->quiet + 1 : 0;
}

// A step to `at` would find no contact, has none to forget, and leaves the tree as it is.
static int nothing_else(const pusht_world* w, cpVect at) {
    const cpBB next = cpBBNewForCircle(at, PUSHT_RADIUS);
    return w->quiet >= (int)w->space->collisionPersistence && !w->plain && inside(next, w->box) &&
           !cpBBIntersects(next, w->shape[BAR]->bb) && !cpBBIntersects(next, w->shape[STEM]->bb);
}

// ---- the world ----------------------------------------------------------------------------------

static void add_walls(pusht_world* w) {
    static const cpVect wall[WALLS][2] = {
        {{5, 506}, {5, 5}}, {{5, 5}, {506, 5}}, {{506, 5}, {506, 506}}, {{5, 506}, {506, 506}}};
    cpBody* still = cpSpaceGetStaticBody(w->space);
    for (int i = 0; i < WALLS; i++) {
        w->shape[i] = cpSegmentShapeNew(still, wall[i][0], wall[i][1], WALL_RADIUS);
        cpSpaceAddShape(w->space, w->shape[i]);
    }
}

static void add_bodies(pusht_world* w) {
    static const cpVect bar[4] = {{-60, 30}, {60, 30}, {60, 0}, {-60, 0}};
    static const cpVect stem[4] = {{-15, 30}, {-15, 120}, {15, 120}, {15, 30}};
    w->agent = cpBodyNewKinematic();
    cpBodySetPosition(w->agent, cpv(256, 400));
    w->shape[AGENT] = cpCircleShapeNew(w->agent, PUSHT_RADIUS, cpvzero);
    cpSpaceAddBody(w->space, w->agent);
    cpSpaceAddShape(w->space, w->shape[AGENT]);

    w->block = cpBodyNew(MASS, MOMENT);
    w->shape[BAR] = cpPolyShapeNew(w->block, 4, bar, cpTransformIdentity, 0.0);
    w->shape[STEM] = cpPolyShapeNew(w->block, 4, stem, cpTransformIdentity, 0.0);
    cpBodySetCenterOfGravity(w->block, cpv(0, PUSHT_COG));
    cpBodySetPosition(w->block, cpv(400, 100));
    cpSpaceAddBody(w->space, w->block);
    cpSpaceAddShape(w->space, w->shape[BAR]);
    cpSpaceAddShape(w->space, w->shape[STEM]);

    w->contacts = w->quiet = 0;
    w->depth = 0.0;
    memset(w->box, 0, sizeof w->box);
    follow(w);
}

static void remove_shapes(pusht_world* w, int from, int end) {
    for (int i = from; i < end; i++) {
        cpSpaceRemoveShape(w->space, w->shape[i]);
        cpShapeFree(w->shape[i]);
    }
}

static void remove_bodies(pusht_world* w) {
    remove_shapes(w, AGENT, SHAPES);
    cpSpaceRemoveBody(w->space, w->agent);
    cpSpaceRemoveBody(w->space, w->block);
    cpBodyFree(w->agent);
    cpBodyFree(w->block);
}

void pusht_world_open(pusht_world* w) {
    pthread_once(&banner, first_space);
    w->space = cpSpaceNew();
    cpSpaceSetDamping(w->space, 0.0);
    add_walls(w);
    add_bodies(w);
    cpCollisionHandler* handler = cpSpaceAddCollisionHandler(w->space, 0, 0);
    handler->postSolveFunc = count_contacts;
    handler->userData = w;
}

void pusht_world_close(pusht_world* w) {
    if (!w->space) return;
    remove_bodies(w);
    remove_shapes(w, 0, WALLS);
    cpSpaceFree(w->space);
    *w = (pusht_world){.plain = w->plain};
}

// As close() and open(), without giving the space's memory back: nothing of what was in it is left
// once its bodies are gone, but for the numbers that shapes are given.
static void renew(pusht_world* w) {
    if (!w->space || w->plain) {
        pusht_world_close(w);
        pusht_world_open(w);
        return;
    }
    remove_bodies(w);
    w->space->shapeIDCounter = WALLS;
    w->space->curr_dt = 0.0;
    add_bodies(w);
}

static int within(double value, double limit) {
    return value >= -limit && value <= limit;  // false for NaN
}

int pusht_state_fits(const double* s) {
    return within(s[PUSHT_AX], FAR) && within(s[PUSHT_AY], FAR) && within(s[PUSHT_BX], FAR) &&
           within(s[PUSHT_BY], FAR) && within(s[PUSHT_ANGLE], TURNS) && within(s[PUSHT_VX], FAST) &&
           within(s[PUSHT_VY], FAST);
}

int pusht_action_fits(double ax, double ay) {
    return within(ax, FAR / PUSHT_ACTION_SCALE) && within(ay, FAR / PUSHT_ACTION_SCALE);
}

// Poses and the agent's velocity, in the reference's order; the block comes to rest.
static void place(pusht_world* w, const double* s) {
    cpBodySetVelocity(w->agent, cpv(s[PUSHT_VX], s[PUSHT_VY]));
    cpBodySetPosition(w->agent, cpv(s[PUSHT_AX], s[PUSHT_AY]));
    cpBodySetAngle(w->block, s[PUSHT_ANGLE]);
    cpBodySetPosition(w->block, cpv(s[PUSHT_BX], s[PUSHT_BY]));
}

void pusht_world_set(pusht_world* w, const double* s) {
    renew(w);
    place(w, s);
    run_step(w);
}

void pusht_world_recall(pusht_world* w, const double* s) {
    // a step first moves the agent by its velocity, then finds contacts and solves for the block's
    // velocity: started one step back, all three come out as they were. Done again, the solver
    // starts from the impulses of the time before, as in a push that lasts.
    double back[PUSHT_STATE];
    for (int i = 0; i < PUSHT_STATE; i++) back[i] = s[i];
    back[PUSHT_AX] -= DT * s[PUSHT_VX];
    back[PUSHT_AY] -= DT * s[PUSHT_VY];
    renew(w);
    for (int i = 0; i < RECALLS; i++) {
        place(w, back);
        cpBodySetVelocity(w->block, cpvzero);
        cpBodySetAngularVelocity(w->block, 0.0);
        w->block->v_bias = cpvzero;
        w->block->w_bias = 0.0;
        run_step(w);
    }
    cpBodySetPosition(w->agent, cpv(s[PUSHT_AX], s[PUSHT_AY]));  // to the last bit
}

void pusht_world_step(pusht_world* w, double ax, double ay) {
    cpVect at = cpBodyGetPosition(w->agent), v = cpBodyGetVelocity(w->agent);
    const double tx = at.x + PUSHT_ACTION_SCALE * ax, ty = at.y + PUSHT_ACTION_SCALE * ay;
    int moved = 0;  // by us, unknown to Chipmunk
    w->contacts = 0;
    w->depth = 0.0;
    for (int i = 0; i < PUSHT_SUBSTEPS; i++) {
        double acc_x = GAIN * (tx - at.x) + BRAKE * (0.0 - v.x);
        double acc_y = GAIN * (ty - at.y) + BRAKE * (0.0 - v.y);
        v = cpv(v.x + acc_x * DT, v.y + acc_y * DT);
        const cpVect next = cpv(at.x + v.x * DT, at.y + v.y * DT);
        if (nothing_else(w, next)) {
            at = next;
            moved = 1;
            continue;
        }
        if (moved) cpBodySetPosition(w->agent, at);
        moved = 0;
        cpBodySetVelocity(w->agent, v);
        run_step(w);
        at = cpBodyGetPosition(w->agent);
    }
    if (!moved) return;
    cpBodySetVelocity(w->agent, v);
    cpBodySetPosition(w->agent, at);
    cpShapeCacheBB(w->shape[AGENT]);  // which is drawn
}

double pusht_world_angle(const pusht_world* w) {
    return cpBodyGetAngle(w->block);
}

void pusht_world_get(const pusht_world* w, double* s) {
    cpVect agent = cpBodyGetPosition(w->agent), v = cpBodyGetVelocity(w->agent);
    cpVect block = cpBodyGetPosition(w->block);
    double angle = fmod(pusht_world_angle(w), 2 * PUSHT_PI);
    if (angle < 0.0) angle += 2 * PUSHT_PI;
    s[PUSHT_AX] = agent.x;
    s[PUSHT_AY] = agent.y;
    s[PUSHT_BX] = block.x;
    s[PUSHT_BY] = block.y;
    s[PUSHT_ANGLE] = angle + 0.0;  // no negative zero
    s[PUSHT_VX] = v.x;
    s[PUSHT_VY] = v.y;
}

double pusht_wall_gap(const double* s) {
    static const double corner[6][2] = {{-60, 0},  {60, 0},   {60, 30},
                                        {-60, 30}, {15, 120}, {-15, 120}};
    const double c = cos(s[PUSHT_ANGLE]), n = sin(s[PUSHT_ANGLE]);
    double gap = PUSHT_CANVAS;
    for (int i = 0; i < 6; i++) {
        double x = s[PUSHT_BX] + c * corner[i][0] - n * corner[i][1];
        double y = s[PUSHT_BY] + n * corner[i][0] + c * corner[i][1];
        gap = fmin(gap, fmin(fmin(x, PUSHT_CANVAS - x), fmin(y, PUSHT_CANVAS - y)));
    }
    return gap;
}
#else
typedef int pusht_world_needs_chipmunk;
#endif
