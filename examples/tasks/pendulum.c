// pendulum.c - a pendulum on a motor as a task of one's own; docs/your-task.md builds it step by
// step. It needs nothing but firm_task.h:
//
//     cc -shared -fPIC pendulum.c -o pendulum.so $(pkg-config --cflags firm) -lm
//     firm check ./pendulum.so
//
// The motor is strong enough to hold the pendulum anywhere. A goal image shows an angle; the
// controller turns the pendulum there.
#include <math.h>
#include <stddef.h>

#include "firm_task.h"

enum { IMAGE = 96, STEPS = 5 };  // pixels a side; steps of the simulation in a control
#define STEP 0.01                // s
#define GRAVITY 4.0              // rad/s^2 when it is level
#define MOTOR 10.0               // rad/s^2 at full torque
#define FRICTION 2.0             // 1/s
#define PI 3.14159265358979323846

// What the numbers mean. One angle, which becomes the coordinates rod_sin and rod_cos.
static const char typed[] =
    "[task]\n"
    "name = pendulum\n"
    "image = 96\n"
    "period_ms = 50\n"
    "controls = 5\n"
    "cost = sum\n"
    "chi = 2\n"
    "[action]\n"
    "count = 1\n"
    "low = -1\n"
    "high = 1\n"
    "clamped = yes\n"
    "[config]\n"
    "rod = angle\n"
    "[distance]\n"
    "angle = angle rod, rad, 0.15\n"
    "[point]\n"
    "bob = plain, 34 0 48, 0 34 48, 0 0 1\n";

// ---- dynamics ----

typedef struct pendulum {
    double angle, speed;  // rad from hanging down, counter-clockwise; rad/s
} pendulum;

static void reset(void* sim, firm_random* random) {
    pendulum* p = sim;
    p->angle = firm_random_between(random, -PI, PI);
    p->speed = firm_random_between(random, -1, 1);
}

static void step(void* sim, const float* action) {
    pendulum* p = sim;
    for (int i = 0; i < STEPS; i++) {
        double torque = MOTOR * action[0] - GRAVITY * sin(p->angle) - FRICTION * p->speed;
        p->speed += STEP * torque;
        p->angle += STEP * p->speed;
    }
    p->angle = remainder(p->angle, 2 * PI);
}

static void state_get(const void* sim, double* state) {
    const pendulum* p = sim;
    state[0] = p->angle;
    state[1] = p->speed;
}

static void state_set(void* sim, const double* state) {
    pendulum* p = sim;
    p->angle = state[0];
    p->speed = state[1];
}

// ---- what the typed coordinates are ----

static void config(const double* state, float* c) {
    c[0] = (float)sin(state[0]);
    c[1] = (float)cos(state[0]);
}

// the picture does not show the speed; the model learns to tell it
static void chi(const double* state, const double* before, const double* macro_before, float* out) {
    (void)macro_before;
    out[0] = (float)(state[1] / 5);
    out[1] = (float)remainder(state[0] - before[0], 2 * PI);
}

// ---- the picture: a rod with a bob at its end ----

// How far (x, y) is from the line that joins the middle and (tx, ty), px.
static double from_rod(double x, double y, double tx, double ty) {
    double along = (x * tx + y * ty) / (tx * tx + ty * ty);
    along = along < 0 ? 0 : along > 1 ? 1 : along;
    return hypot(x - along * tx, y - along * ty);
}

// 1 inside, 0 outside, a pixel's width between
static double cover(double distance, double radius) {
    double c = radius - distance + 0.5;
    return c < 0 ? 0 : c > 1 ? 1 : c;
}

static void render(const void* sim, uint8_t* rgb) {
    const pendulum* p = sim;
    const double middle = IMAGE / 2.0, length = 34, bob = 8;
    const double tx = length * sin(p->angle), ty = length * cos(p->angle);
    for (int row = 0; row < IMAGE; row++)
        for (int column = 0; column < IMAGE; column++, rgb += 3) {
            double x = column - middle, y = row - middle;
            double rod = cover(from_rod(x, y, tx, ty), bob / 3),
                   end = cover(hypot(x - tx, y - ty), bob);
            rgb[0] = (uint8_t)(255 - 215 * (rod > end ? rod : 0) - 40 * end + 0.5);
            rgb[1] = (uint8_t)(255 - 215 * (rod > end ? rod : end) + 0.5);
            rgb[2] = (uint8_t)(255 - 195 * (rod > end ? rod : end) + 0.5);
        }
}

static const firm_simulator simulator = {.size = sizeof(firm_simulator),
                                         .bytes = sizeof(pendulum),
                                         .reset = reset,
                                         .step = step,
                                         .state_get = state_get,
                                         .state_set = state_set,
                                         .render = render,
                                         .config = config,
                                         .chi = chi};

static const firm_task task = {.size = sizeof(firm_task),
                               .typed = typed,
                               .title = "turn a pendulum to where the goal image shows it",
                               .version = "pendulum 1",
                               .state_dim = 2,
                               .simulator = &simulator};

FIRM_TASK_EXPORT const firm_task* firm_task_entry(int abi) {
    return abi == FIRM_TASK_ABI ? &task : NULL;
}
