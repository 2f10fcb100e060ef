// meet.c - the last member to come opens a gate for the others.
#include "core/meet.h"

#include "core/pool.h"

void meet_init(meet* m) {
    gate_init(&m->all_here);
    m->cores = pool_cores();
    meet_expect(m, 1);
}

void meet_expect(meet* m, int members) {
    m->members = members;
    m->patience = gate_patience_of(members, m->cores);
    atomic_store(&m->missing, members);
}

void meet_wait(meet* m) {
    if (m->members == 1) return;
    unsigned seen = gate_round(&m->all_here);
    if (atomic_fetch_sub_explicit(&m->missing, 1, memory_order_acq_rel) > 1) {
        gate_wait(&m->all_here, seen, m->patience);
        return;
    }
    atomic_store_explicit(&m->missing, m->members, memory_order_relaxed);
    gate_open(&m->all_here);
}
