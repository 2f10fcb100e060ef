// meet.h - a meeting point for a few threads that work through the same steps: nobody goes on
// before all have come. Every member must be a running thread of its own, as in pool_each(); a
// member that is late only makes the others wait, first awake and then asleep.
#ifndef CORE_MEET_H
#define CORE_MEET_H

#include "core/gate.h"

typedef struct meet {
    gate all_here;
    int members, cores;
    gate_patience patience;
    _Alignas(64) atomic_int missing;  // members that have not come yet
} meet;

void meet_init(meet* m);
// How many will come; only while nobody is at it. More members than cores wait asleep at once.
void meet_expect(meet* m, int members);
// Returns when all members have called it. What they wrote before is visible to all. No allocation.
void meet_wait(meet* m);

#endif
