// gate.c - see gate.h. Sleepers wait on the counter itself (futex): all wake at once, and none has
// to take a lock first. With a mutex and a condition sixteen threads wake one after the other, and
// the first are asleep again before the last has come.
#define _GNU_SOURCE
#include "core/gate.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/relax.h"

// Looks before a waiting thread begins to give way (about 25 microseconds), looks between two
// such offers, and offers before it sleeps.
enum { SPINS = 500, LOOKS = 50, YIELDS = 500 };

_Static_assert(sizeof(atomic_uint) == sizeof(unsigned), "a futex is an int");

static void futex(gate* g, int operation, unsigned value) {
    syscall(SYS_futex, &g->round, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

void gate_init(gate* g) {
    atomic_init(&g->round, 0);
    atomic_init(&g->asleep, 0);
}

unsigned gate_round(gate* g) {
    return atomic_load_explicit(&g->round, memory_order_acquire);
}

// 1: the gate was opened
static int look(gate* g, unsigned seen, int times) {
    for (int i = 0; i < times; i++) {
        if (gate_round(g) != seen) return 1;
        relax();
    }
    return 0;
}

void gate_wait(gate* g, unsigned seen, gate_patience patience) {
    if (patience == GATE_SPIN) {
        if (look(g, seen, SPINS)) return;
        for (int i = 0; i < YIELDS; i++) {
            if (look(g, seen, LOOKS)) return;
            sched_yield();
        }
    }
    atomic_fetch_add(&g->asleep, 1);
    while (atomic_load(&g->round) == seen) futex(g, FUTEX_WAIT, seen);
    atomic_fetch_sub(&g->asleep, 1);
}

// Sequentially consistent: either it sees a sleeper, or the sleeper sees the new round before it
// sleeps; the kernel looks at the round once more.
void gate_open(gate* g) {
    atomic_fetch_add(&g->round, 1);
    if (atomic_load(&g->asleep) > 0) futex(g, FUTEX_WAKE, INT_MAX);
}

gate_patience gate_patience_of(int threads, int cores) {
    return threads <= cores ? GATE_SPIN : GATE_SLEEP;
}
