// lanes.c - see lanes.h.
#include "nn/lanes.h"

#include <sched.h>

#include "core/mem.h"
#include "core/relax.h"

enum { LOOKS = 50 };  // before a waiting thread gives way

firm_status nn_lanes_make(int lanes, int shards, nn_lanes* out, firm_error* err) {
    *out = (nn_lanes){.lanes = lanes, .shards = shards};
    out->state = mem_calloc((size_t)lanes, sizeof *out->state);
    return out->state ? FIRM_OK : FAIL(err, FIRM_E_MEMORY, "no memory for %d lanes", lanes);
}

void nn_lanes_free(nn_lanes* l) {
    mem_free(l->state);
    *l = (nn_lanes){0};
}

void nn_lanes_begin(nn_lanes* l) {
    atomic_store(&l->stop, 0);
    for (int i = 0; i < l->lanes; i++) atomic_store(&l->state[i], 0);
}

// 1: claimed; 0: the lane has nothing left; -1: it is at work and has something left
static int try_lane(nn_lanes* l, int lane, nn_lane_shard* out) {
    int state = atomic_load_explicit(&l->state[lane], memory_order_acquire);
    int at_work = state & 1, shard = lane + (state / 2 + at_work) * l->lanes;
    if (shard >= l->shards) return 0;
    if (at_work || !atomic_compare_exchange_strong(&l->state[lane], &state, state + 1)) return -1;
    *out = (nn_lane_shard){lane, shard};
    return 1;
}

int nn_lanes_claim(nn_lanes* l, int prefer, nn_lane_shard* out) {
    for (int looks = 1; !atomic_load(&l->stop); looks++) {
        int left = 0;
        for (int i = 0; i < l->lanes; i++) {
            int found = try_lane(l, (prefer + i) % l->lanes, out);
            if (found > 0) return 1;
            left |= found;
        }
        if (!left) return 0;
        relax();
        if (looks % LOOKS == 0) sched_yield();
    }
    return 0;
}

void nn_lanes_done(nn_lanes* l, const nn_lane_shard* s) {
    atomic_fetch_add_explicit(&l->state[s->lane], 1, memory_order_release);
}

void nn_lanes_stop(nn_lanes* l) {
    atomic_store(&l->stop, 1);
}
