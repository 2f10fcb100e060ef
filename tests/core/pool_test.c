// pool_test.c - fork and join: each item exactly once, results visible afterwards, no races.
// Run it in the thread-sanitizer build as well.
#define _GNU_SOURCE
#include "core/pool.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "check.h"
#include "core/mem.h"

enum { ITEMS = 10000 };

typedef struct job {
    int threads;
    int count[ITEMS];  // plain memory: an item run twice at once is a race
    atomic_int bad_worker;
    atomic_int
        in_worker[8];  // two items at once under one worker number would share scratch memory
} job;

static void count_item(void* arg, int item, int worker) {
    job* j = arg;
    if (worker < 0 || worker >= j->threads || atomic_fetch_add(&j->in_worker[worker], 1) != 0)
        atomic_fetch_add(&j->bad_worker, 1);
    j->count[item]++;
    if (worker >= 0 && worker < 8) atomic_fetch_sub(&j->in_worker[worker], 1);
}

TEST(core, pool_every_item_once) {
    static const int sizes[] = {0, 1, 2, 3, 7, 64, 1001, ITEMS};
    for (int threads = 1; threads <= 4; threads++) {
        pool* p;
        firm_error err;
        REQUIRE_OK(pool_create(threads, &p, &err), err);
        EXPECT_INT(pool_threads(p), threads);
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            static job j;
            memset(&j, 0, sizeof j);
            j.threads = threads;
            int64_t before = mem_count();
            pool_for(p, sizes[s], count_item, &j);
            EXPECT_INT(mem_count() - before, 0);
            for (int i = 0; i < ITEMS; i++) EXPECT_INT(j.count[i], i < sizes[s]);
            EXPECT_INT(atomic_load(&j.bad_worker), 0);
        }
        pool_free(p);
    }
}

static void add_one(void* arg, int item, int worker) {
    (void)worker;
    ((int*)arg)[item]++;
}

// As the planner uses it: thousands of forks of a few items, more threads than cores.
TEST(core, pool_many_short_forks) {
    for (int threads = 2; threads <= 4; threads++) {
        pool* p;
        firm_error err;
        REQUIRE_OK(pool_create(threads, &p, &err), err);
        int count[5] = {0};
        enum { FORKS = 5000 };
        for (int i = 0; i < FORKS; i++) pool_for(p, 1 + i % 5, add_one, count);
        for (int i = 0; i < 5; i++) EXPECT_INT(count[i], FORKS - FORKS / 5 * i);
        pool_free(p);
    }
}

// Each fork reads what the one before it wrote, also by other threads.
typedef struct chain {
    double from[256], to[256];
} chain;

static void smooth(void* arg, int item, int worker) {
    (void)worker;
    chain* c = arg;
    c->to[item] =
        0.5 * c->from[item] + 0.3 * c->from[(item + 1) % 256] + 0.2 * c->from[(item + 77) % 256];
}

static void run_chain(pool* p, double out[256]) {
    static chain c;
    for (int i = 0; i < 256; i++) c.from[i] = sin(i * 1.7);
    for (int k = 0; k < 300; k++) {
        pool_for(p, 256, smooth, &c);
        memcpy(c.from, c.to, sizeof c.from);
    }
    memcpy(out, c.from, sizeof c.from);
}

TEST(core, pool_results_feed_the_next_fork) {
    double want[256], got[256];
    run_chain(NULL, want);
    for (int threads = 1; threads <= 4; threads++) {
        pool* p;
        firm_error err;
        REQUIRE_OK(pool_create(threads, &p, &err), err);
        run_chain(p, got);
        EXPECT(memcmp(want, got, sizeof want) == 0);
        pool_free(p);
    }
}

// A pool used inside an item of another one: separate pools are independent.
typedef struct nest {
    pool* inner[8];
    int count[4][64];
} nest;

static void outer_item(void* arg, int item, int worker) {
    nest* n = arg;
    pool_for(n->inner[worker], 64, add_one, n->count[item]);
}

TEST(core, pool_inside_pool) {
    pool* outer;
    firm_error err;
    static nest n;
    REQUIRE_OK(pool_create(2, &outer, &err), err);
    for (int i = 0; i < 2; i++) REQUIRE_OK(pool_create(2, &n.inner[i], &err), err);
    for (int k = 0; k < 50; k++) pool_for(outer, 4, outer_item, &n);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 64; j++) EXPECT_INT(n.count[i][j], 50);
    pool_free(outer);
    for (int i = 0; i < 2; i++) pool_free(n.inner[i]);
}

TEST(core, pool_limits) {
    pool* p;
    firm_error err = {0};
    EXPECT_INT(pool_create(-1, &p, &err), FIRM_E_USAGE);
    EXPECT(p == NULL && strstr(err.message, "-1 threads"));
    EXPECT_INT(pool_create(100000, &p, &err), FIRM_E_USAGE);
    REQUIRE_OK(pool_create(0, &p, &err), err);
    EXPECT_INT(pool_threads(p), pool_cores());
    pool_free(p);
    pool_free(NULL);
    EXPECT_INT(pool_threads(NULL), 1);
    // made and dropped without work, many times: no thread is lost or left waiting
    for (int i = 0; i < 200; i++) {
        REQUIRE_OK(pool_create(3, &p, &err), err);
        pool_free(p);
    }
}

static void note_core(void* arg, int item, int worker) {
    (void)item;
    int* core = arg;
    if (worker > 0) core[worker] = sched_getcpu();
}

TEST(core, pool_binds_its_workers) {
    cpu_set_t set;
    int last = 0, core[3] = {0}, found[3] = {-1, -1, -1};
    pool* p;
    firm_error err = {0};
    sched_getaffinity(0, sizeof set, &set);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set)) last = i;
    core[0] = -7;  // the caller's: nobody looks
    core[1] = core[2] = last;
    REQUIRE_OK(pool_create(3, &p, &err), err);
    REQUIRE_OK(pool_bind(p, core, &err), err);
    pool_each(p, note_core, found);  // on every worker, also of a busy machine
    EXPECT_INT(found[1], last);
    EXPECT_INT(found[2], last);
    core[2] = -1;
    EXPECT_INT(pool_bind(p, core, &err), FIRM_E_VALUE);
    EXPECT(strstr(err.message, "thread 2 cannot be bound to core -1"));
    pool_free(p);
}
