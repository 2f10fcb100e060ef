// lanes_test.c - lanes shared by threads: every shard once, a lane's shards in order and one at a
// time, with fewer and with more threads than lanes; a pass that is stopped ends.
#include "nn/lanes.h"

#include <sched.h>
#include <string.h>

#include "check.h"
#include "core/pool.h"

enum { LANES = 5, SHARDS = 23 };

typedef struct run {
    nn_lanes lanes;
    atomic_int last[LANES];  // shard that was done last; below 0: none
    atomic_int at_work[LANES], taken[SHARDS], wrong;
    atomic_int all, held;  // shards taken; 1: the slow thread has its first one
    int threads;
    int stop_at;  // shard that fails; below 0: none
} run;

// Thread 1 keeps its first shard until all of the other lanes are taken, and then for a while.
static void be_slow(run* r) {
    int rest = (SHARDS - 2) / LANES;  // of lane 1, after the first
    atomic_store(&r->held, 1);
    while (atomic_load(&r->all) < SHARDS - rest) sched_yield();
    for (int i = 0; i < 200; i++) sched_yield();
}

static void take(void* arg, int item, int worker) {
    (void)item;
    run* r = arg;
    nn_lane_shard s = {.lane = worker % LANES};
    int slow = worker == 1 && r->stop_at < 0;
    while (r->threads > 1 && r->stop_at < 0 && !slow && !atomic_load(&r->held)) sched_yield();
    while (nn_lanes_claim(&r->lanes, s.lane, &s)) {
        atomic_fetch_add(&r->taken[s.shard], 1);
        atomic_fetch_add(&r->all, 1);
        if (atomic_fetch_add(&r->at_work[s.lane], 1) != 0) atomic_fetch_add(&r->wrong, 1);
        if (s.shard % LANES != s.lane || atomic_load(&r->last[s.lane]) != s.shard - LANES)
            atomic_fetch_add(&r->wrong, 1);
        if (slow && s.shard == 1) be_slow(r);
        if (s.shard == r->stop_at) nn_lanes_stop(&r->lanes);
        atomic_store(&r->last[s.lane], s.shard);
        atomic_fetch_sub(&r->at_work[s.lane], 1);
        nn_lanes_done(&r->lanes, &s);
    }
}

// Returns shards that were taken.
static int pass(run* r, int threads) {
    int sum = 0;
    pool* p;
    firm_error err;
    if (pool_create(threads, &p, &err) != FIRM_OK) return -1;
    nn_lanes_begin(&r->lanes);
    for (int i = 0; i < LANES; i++) atomic_store(&r->last[i], i - LANES);
    memset(r->taken, 0, sizeof r->taken);
    atomic_store(&r->all, 0);
    atomic_store(&r->held, 0);
    r->threads = threads;
    pool_each(p, take, r);
    for (int i = 0; i < SHARDS; i++) {
        int times = atomic_load(&r->taken[i]);
        EXPECT(times <= 1);
        sum += times;
    }
    pool_free(p);
    return sum;
}

TEST(nn, lanes_take_every_shard_once_and_in_order) {
    run r = {.stop_at = -1};
    firm_error err;
    REQUIRE_OK(nn_lanes_make(LANES, SHARDS, &r.lanes, &err), err);
    for (int threads = 1; threads <= 9; threads += 2) EXPECT_INT(pass(&r, threads), SHARDS);
    EXPECT_INT(atomic_load(&r.wrong), 0);
    nn_lanes_free(&r.lanes);
}

TEST(nn, lanes_stop_when_a_shard_fails) {
    run r = {.stop_at = 0};
    firm_error err;
    REQUIRE_OK(nn_lanes_make(LANES, SHARDS, &r.lanes, &err), err);
    EXPECT_INT(pass(&r, 1), 1);
    EXPECT(pass(&r, 4) < SHARDS);
    nn_lanes_free(&r.lanes);
}
