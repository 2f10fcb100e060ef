// gate.h - threads wait here until another one opens the gate: awake for a moment, then giving way
// to others that want the core, then asleep. Opening it costs no system call while nobody sleeps.
#ifndef CORE_GATE_H
#define CORE_GATE_H

#include <stdatomic.h>

typedef struct gate {
    _Alignas(64) atomic_uint round;  // times it was opened; waiting threads look at nothing else
    _Alignas(64) atomic_int asleep;  // threads that sleep, or are about to
} gate;

// How long a thread waits awake.
typedef enum gate_patience {
    GATE_SLEEP,  // not at all: more threads than cores
    GATE_SPIN    // one or two milliseconds: more than threads of a fork are apart
} gate_patience;

void gate_init(gate* g);
unsigned gate_round(gate* g);
// Returns once the gate has been opened after round `seen`, and sees what the opener wrote before.
// No allocation.
void gate_wait(gate* g, unsigned seen, gate_patience patience);
void gate_open(gate* g);
// for threads that wait for each other
gate_patience gate_patience_of(int threads, int cores);

#endif
