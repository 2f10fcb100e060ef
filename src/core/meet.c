// meet.c - a barrier that spins for a moment and then sleeps.
#include "core/meet.h"

#include "core/pool.h"
#include "core/relax.h"

// About 50 microseconds, more than a member is behind unless it lost its core.
enum { SPINS = 2000 };

void meet_init(meet* m) {
    *m = (meet){.members = 1, .cores = pool_cores()};
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->wake, NULL);
}

void meet_expect(meet* m, int members) {
    m->members = members;
    m->spins = members <= m->cores ? SPINS : 0;
    atomic_store(&m->missing, members);
}

// The last one lets the others go. Sequentially consistent: either it sees a sleeper, or the
// sleeper sees the new round before it sleeps.
static void open_gate(meet* m) {
    atomic_store_explicit(&m->missing, m->members, memory_order_relaxed);
    atomic_fetch_add(&m->round, 1);
    if (atomic_load(&m->asleep) == 0) return;
    pthread_mutex_lock(&m->lock);
    pthread_cond_broadcast(&m->wake);
    pthread_mutex_unlock(&m->lock);
}

void meet_wait(meet* m) {
    if (m->members == 1) return;
    unsigned seen = atomic_load_explicit(&m->round, memory_order_relaxed);
    if (atomic_fetch_sub_explicit(&m->missing, 1, memory_order_acq_rel) == 1) {
        open_gate(m);
        return;
    }
    for (int i = 0; i < m->spins; i++) {
        if (atomic_load_explicit(&m->round, memory_order_acquire) != seen) return;
        relax();
    }
    pthread_mutex_lock(&m->lock);
    atomic_fetch_add(&m->asleep, 1);
    while (atomic_load(&m->round) == seen) pthread_cond_wait(&m->wake, &m->lock);
    atomic_fetch_sub(&m->asleep, 1);
    pthread_mutex_unlock(&m->lock);
}

void meet_destroy(meet* m) {
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->wake);
}
