// meet_test.c - threads that run at the same time and wait for each other: every thread once, no
// one ahead by a round, also with more threads than cores. Run it in the thread-sanitizer build as
// well.
#include "core/meet.h"

#include "check.h"
#include "core/mem.h"
#include "core/pool.h"

enum { MOST = 16, ROUNDS = 300 };

typedef struct rounds {
    meet at;
    int members;
    int done[MOST];  // plain memory: what a member wrote before a meeting is read after it
    int behind[MOST];
} rounds;

static void take_part(void* arg, int item, int worker) {
    rounds* r = arg;
    if (item != worker) r->behind[worker]++;
    for (int i = 1; i <= ROUNDS; i++) {
        r->done[worker] = i;
        meet_wait(&r->at);
        for (int k = 0; k < r->members; k++) r->behind[worker] += r->done[k] != i;
        meet_wait(&r->at);
    }
}

TEST(core, meet_nobody_is_ahead) {
    static const int sizes[] = {1, 2, 3, 8, MOST};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        rounds r = {.members = sizes[s]};
        pool* p;
        firm_error err;
        REQUIRE_OK(pool_create(sizes[s], &p, &err), err);
        meet_init(&r.at);
        int64_t before = mem_count();
        for (int again = 0; again < 2; again++) {
            meet_expect(&r.at, sizes[s]);
            pool_each(p, take_part, &r);
        }
        EXPECT_INT(mem_count() - before, 0);
        for (int k = 0; k < sizes[s]; k++) {
            EXPECT_INT(r.done[k], ROUNDS);
            EXPECT_INT(r.behind[k], 0);
        }
        pool_free(p);
    }
}

static void count_thread(void* arg, int item, int worker) {
    int* seen = arg;
    seen[item] += 1 + worker;
}

TEST(core, pool_each_runs_once_on_every_thread) {
    for (int threads = 1; threads <= 5; threads++) {
        pool* p;
        firm_error err;
        int seen[5] = {0};
        REQUIRE_OK(pool_create(threads, &p, &err), err);
        pool_each(p, count_thread, seen);
        for (int i = 0; i < 5; i++) EXPECT_INT(seen[i], i < threads ? 1 + i : 0);
        pool_free(p);
    }
    int alone[1] = {0};
    pool_each(NULL, count_thread, alone);
    EXPECT_INT(alone[0], 1);
}
