// gate.h - threads wait here until another one opens the gate: first awake, for a moment, then
// asleep. Opening it costs no system call while nobody sleeps.
#ifndef CORE_GATE_H
#define CORE_GATE_H

#include <pthread.h>
#include <stdatomic.h>

typedef struct gate {
    _Alignas(64) atomic_uint round;  // times it was opened; waiting threads look at nothing else
    _Alignas(64) atomic_int asleep;  // threads on the condition
    pthread_mutex_t lock;
    pthread_cond_t wake;
} gate;

void gate_init(gate* g);
unsigned gate_round(gate* g);
// Returns once the gate has been opened after round `seen`, and sees what the opener wrote before.
// spins: looks before it sleeps. No allocation.
void gate_wait(gate* g, unsigned seen, int spins);
void gate_open(gate* g);
void gate_destroy(gate* g);

// Looks of `threads` threads that wait for each other: about 50 to 100 microseconds, more than one
// is behind unless it lost its core. Threads that share cores sleep at once.
int gate_spins(int threads, int cores);

#endif
