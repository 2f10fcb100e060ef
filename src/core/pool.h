// pool.h - one thread pool. Work is cut into pieces whose number does not depend on the thread
// count; each piece writes its own output, so results are the same bits for any number of threads.
#ifndef CORE_POOL_H
#define CORE_POOL_H

#include "core/status.h"

typedef struct pool pool;

// item: 0 .. items-1; worker: 0 .. threads-1, for per-thread scratch memory
typedef void (*pool_fn)(void* arg, int item, int worker);

int pool_cores(void);                                               // cores this process may use
firm_status pool_create(int threads, pool** out, firm_error* err);  // 0: all cores
int pool_threads(const pool* p);                                    // NULL counts as one thread
// Binds worker i to core[i]; core (threads). The caller of pool_for, worker 0, is left alone.
firm_status pool_bind(pool* p, const int* core, firm_error* err);
// Runs fn for every item and returns when all are done; the caller works too. Items are claimed in
// order. Not re-entrant. A NULL pool runs everything in the caller. No allocation.
void pool_for(pool* p, int items, pool_fn fn, void* arg);
// Runs fn once on every thread at the same time, item and worker both the thread's number, so that
// the calls may wait for each other (meet.h). Returns when all are done.
void pool_each(pool* p, pool_fn fn, void* arg);
void pool_free(pool* p);

#endif
