// pace.c - windows of recent times, one per class (bin) of widths.
#include "plan/pace.h"

#include <math.h>

// Widths 1 to 4 have a bin of their own; from there on each bin spans a factor of two.
static int bin_of(int units) {
    int bin = units < 4 ? units - 1 : 3;
    for (; units >= 8 && bin < PACE_WIDTHS - 1; units /= 2) bin++;
    return bin < 0 ? 0 : bin;
}

static int entries(const plan_pace* p, int bin) {
    int64_t n = p->width[bin].count;
    return n < PACE_WINDOW ? (int)n : PACE_WINDOW;
}

// The bin itself, or the nearest one that has been measured so often; -1: none.
static int measured(const plan_pace* p, int bin, int often) {
    for (int away = 0; away < PACE_WIDTHS; away++) {
        // a narrower one first: it promises too long a time rather than too short a one
        if (bin - away >= 0 && entries(p, bin - away) >= often) return bin - away;
        if (bin + away < PACE_WIDTHS && entries(p, bin + away) >= often) return bin + away;
    }
    return -1;
}

void plan_pace_add(plan_pace* p, int units, int steps, int64_t ns) {
    int bin = bin_of(units);
    p->width[bin].ns[p->width[bin].count++ % PACE_WINDOW] = (double)ns / ((double)units * steps);
}

double plan_pace_expect(const plan_pace* p, int units, int steps) {
    int wanted = bin_of(units), bin = measured(p, wanted, 1);
    if (bin < 0) return 0;
    double first = 0, second = 0;
    for (int i = 0; i < entries(p, bin); i++) {
        double ns = p->width[bin].ns[i];
        if (ns > first) {
            second = first;
            first = ns;
        } else if (ns > second) {
            second = ns;
        }
    }
    double each = entries(p, bin) > 1 ? second : first;
    // a wide batch says little about a narrow one, which may take twice as long per unit
    return (bin > wanted ? 2 : 1) * each * units * steps;
}

double plan_pace_least(const plan_pace* p, int units, int steps) {
    int bin = measured(p, bin_of(units), 3);
    if (bin < 0) return 0;
    double least = INFINITY;
    for (int i = 0; i < entries(p, bin); i++) least = fmin(least, p->width[bin].ns[i]);
    return least * units * steps;
}
