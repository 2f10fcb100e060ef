// gate.c - see gate.h.
#include "core/gate.h"

#include "core/relax.h"

enum { SPINS = 2000 };

void gate_init(gate* g) {
    atomic_init(&g->round, 0);
    atomic_init(&g->asleep, 0);
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->wake, NULL);
}

unsigned gate_round(gate* g) {
    return atomic_load_explicit(&g->round, memory_order_acquire);
}

void gate_wait(gate* g, unsigned seen, int spins) {
    for (int i = 0; i < spins; i++) {
        if (gate_round(g) != seen) return;
        relax();
    }
    pthread_mutex_lock(&g->lock);
    atomic_fetch_add(&g->asleep, 1);
    while (atomic_load(&g->round) == seen) pthread_cond_wait(&g->wake, &g->lock);
    atomic_fetch_sub(&g->asleep, 1);
    pthread_mutex_unlock(&g->lock);
}

// Sequentially consistent: either it sees a sleeper, or the sleeper sees the new round before it
// sleeps.
void gate_open(gate* g) {
    atomic_fetch_add(&g->round, 1);
    if (atomic_load(&g->asleep) == 0) return;
    pthread_mutex_lock(&g->lock);
    pthread_cond_broadcast(&g->wake);
    pthread_mutex_unlock(&g->lock);
}

void gate_destroy(gate* g) {
    pthread_mutex_destroy(&g->lock);
    pthread_cond_destroy(&g->wake);
}

int gate_spins(int threads, int cores) {
    return threads <= cores ? SPINS : 0;
}
