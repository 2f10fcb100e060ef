// pool.c - fork-join over a shared counter: workers wait at a gate between calls, awake for a
// moment and then asleep, so that the planner's many small forks stay cheap and an idle pool costs
// nothing.
#define _GNU_SOURCE
#include "core/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "core/gate.h"
#include "core/mem.h"

enum { MAX_THREADS = 256 };

struct pool {
    gate begin;   // opened once per call of pool_for; workers wait there in between
    gate done;    // opened by the last worker of a call
    int threads;  // workers plus the caller
    gate_patience patience;
    pthread_t* worker;  // (threads - 1)
    // of the call at work; written before `begin` is opened
    int items, stop;
    int each;  // every thread runs the item of its own number; nothing is claimed
    pool_fn fn;
    void* arg;
    _Alignas(64) atomic_int next;  // next unclaimed item
    _Alignas(64) atomic_int busy;  // workers that have not finished
};

typedef struct worker_start {
    pool* p;
    int index;
} worker_start;

int pool_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : n;
}

int pool_threads(const pool* p) {
    return p ? p->threads : 1;
}

static void work(pool* p, int index) {
    if (p->each) {
        p->fn(p->arg, index, index);
        return;
    }
    for (;;) {
        int item = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
        if (item >= p->items) return;
        p->fn(p->arg, item, index);
    }
}

static void* worker_main(void* arg) {
    worker_start start = *(worker_start*)arg;
    mem_free(arg);
    pool* p = start.p;
    for (unsigned seen = 0;; seen++) {
        gate_wait(&p->begin, seen, p->patience);
        if (p->stop) return NULL;
        work(p, start.index);
        if (atomic_fetch_sub_explicit(&p->busy, 1, memory_order_acq_rel) == 1) gate_open(&p->done);
    }
}

static void begin(void* arg, int item, int worker) {
    (void)arg, (void)item, (void)worker;
}

firm_status pool_create(int threads, pool** out, firm_error* err) {
    *out = NULL;
    if (threads < 0 || threads > MAX_THREADS)
        return FAIL(err, FIRM_E_USAGE, "%d threads asked for; give 1 to %d, or 0 for all cores",
                    threads, MAX_THREADS);
    pool* p = mem_calloc(1, sizeof *p);
    if (!p) return FAIL(err, FIRM_E_MEMORY, "no memory for a thread pool");
    int wanted = threads ? threads : pool_cores();
    p->threads = 1;
    p->patience = gate_patience_of(wanted, pool_cores());
    gate_init(&p->begin);
    gate_init(&p->done);
    p->worker = mem_calloc((size_t)wanted, sizeof *p->worker);
    if (!p->worker) {
        pool_free(p);
        return FAIL(err, FIRM_E_MEMORY, "no memory for a thread pool");
    }
    for (int i = 1; i < wanted; i++) {
        worker_start* start = mem_alloc(sizeof *start);
        if (start) *start = (worker_start){p, i};
        if (!start || pthread_create(&p->worker[i - 1], NULL, worker_main, start) != 0) {
            mem_free(start);
            pool_free(p);
            return FAIL(err, FIRM_E_MEMORY, "cannot start thread %d of %d; try a smaller --threads",
                        i, wanted);
        }
        p->threads++;
    }
    // A thread that begins allocates and frees. A process forked meanwhile would inherit locks that
    // nobody opens (the allocator of the address sanitizer has such), so all have begun by now.
    pool_each(p, begin, NULL);
    *out = p;
    return FIRM_OK;
}

firm_status pool_bind(pool* p, const int* core, firm_error* err) {
    for (int i = 1; i < p->threads; i++) {
        cpu_set_t set;
        CPU_ZERO(&set);
        if (core[i] >= 0 && core[i] < CPU_SETSIZE) CPU_SET(core[i], &set);
        if (pthread_setaffinity_np(p->worker[i - 1], sizeof set, &set) != 0)
            return FAIL(err, FIRM_E_VALUE,
                        "thread %d cannot be bound to core %d; name a core that this process may "
                        "use",
                        i, core[i]);
    }
    return FIRM_OK;
}

static void run(pool* p, int items, int each, pool_fn fn, void* arg) {
    unsigned seen = gate_round(&p->done);
    p->fn = fn;
    p->arg = arg;
    p->items = items;
    p->each = each;
    atomic_store(&p->next, 0);
    atomic_store(&p->busy, p->threads - 1);
    gate_open(&p->begin);
    work(p, 0);
    gate_wait(&p->done, seen, p->patience);
}

void pool_for(pool* p, int items, pool_fn fn, void* arg) {
    if (p && p->threads > 1 && items > 1) {
        run(p, items, 0, fn, arg);
        return;
    }
    for (int i = 0; i < items; i++) fn(arg, i, 0);
}

void pool_each(pool* p, pool_fn fn, void* arg) {
    if (p && p->threads > 1)
        run(p, p->threads, 1, fn, arg);
    else
        fn(arg, 0, 0);
}

void pool_free(pool* p) {
    if (!p) return;
    p->stop = 1;
    gate_open(&p->begin);
    for (int i = 0; i < p->threads - 1; i++) pthread_join(p->worker[i], NULL);
    mem_free(p->worker);
    mem_free(p);
}
