// pace.c - windows of recent times, one per class of width.
#include "plan/pace.h"

#include <math.h>

// Widths 1 to 4 have a class of their own; from there on each class spans a factor of two.
static int class_of(int units) {
    int class = units < 4 ? units - 1 : 3;
    for (; units >= 8 && class < PACE_WIDTHS - 1; units /= 2) class ++;
    return class < 0 ? 0 : class;
}

static int entries(const plan_pace* p, int class) {
    int64_t n = p->width[class].count;
    return n < PACE_WINDOW ? (int)n : PACE_WINDOW;
}

// The class itself, or the nearest one that has been measured; -1: none.
static int measured(const plan_pace* p, int class) {
    for (int away = 0; away < PACE_WIDTHS; away++) {
        // a narrower one first: it promises too long a time rather than too short a one
        if (class - away >= 0 && entries(p, class - away)) return class - away;
        if (class + away < PACE_WIDTHS && entries(p, class + away)) return class + away;
    }
    return -1;
}

void plan_pace_add(plan_pace* p, int units, int steps, int64_t ns) {
    int class = class_of(units);
    p->width[class].ns[p->width[class].count++ % PACE_WINDOW] =
        (double)ns / ((double)units * steps);
}

double plan_pace_expect(const plan_pace* p, int units, int steps) {
    int wanted = class_of(units), class = measured(p, wanted);
    if (class < 0) return 0;
    double first = 0, second = 0;
    for (int i = 0; i < entries(p, class); i++) {
        double ns = p->width[class].ns[i];
        if (ns > first) {
            second = first;
            first = ns;
        } else if (ns > second) {
            second = ns;
        }
    }
    double each = entries(p, class) > 1 ? second : first;
    // a wide batch says little about a narrow one, which may take twice as long per unit
    return (class > wanted ? 2 : 1) * each * units * steps;
}

double plan_pace_least(const plan_pace* p, int units, int steps) {
    int class = measured(p, class_of(units));
    if (class < 0 || entries(p, class) < 3) return 0;
    double least = INFINITY;
    for (int i = 0; i < entries(p, class); i++) least = fmin(least, p->width[class].ns[i]);
    return least * units * steps;
}
