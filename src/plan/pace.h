// pace.h - how long a batch of predictions takes, learnt from the last ones, for deadlines.
//
// Batches are told apart by their width (candidates per thread, in units of the model's lanes),
// since narrow ones use the processor less well. Each width keeps its last times per unit and
// macro step. One stall is one entry: the expected time is the second longest, so a stall changes
// nothing, and it leaves the window with time.
#ifndef PLAN_PACE_H
#define PLAN_PACE_H

#include <stdint.h>

enum { PACE_WINDOW = 16, PACE_WIDTHS = 8 };

typedef struct plan_pace {
    struct {
        double ns[PACE_WINDOW];  // per unit and macro step, a ring
        int64_t count;           // entries ever made
    } width[PACE_WIDTHS];
} plan_pace;

// A batch `units` wide and `steps` long took ns.
void plan_pace_add(plan_pace* p, int units, int steps, int64_t ns);
// Nanoseconds that such a batch takes but for rare exceptions; 0: nothing is known yet.
double plan_pace_expect(const plan_pace* p, int units, int steps);
// Nanoseconds of the quickest of the recent ones, of the nearest width of which at least three are
// known, so that a stall or two cannot make it look slow; 0: of no width are.
double plan_pace_least(const plan_pace* p, int units, int steps);

#endif
