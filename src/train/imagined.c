// imagined.c - which imagined records are learned from, and how closely a model follows its teacher
// on the others.
#include <string.h>

#include "core/mem.h"
#include "train/internal.h"

enum { HELD_SHARE = 16 };  // one history of so many is held out

// Records of the first histories; the records of a history follow each other.
static int records_before(const records* all, int histories) {
    int n = all->count;
    while (n > 0 && all->history[n - 1] >= histories) n--;
    return n;
}

records imagined_shown(const records* all) {
    records shown = *all;
    shown.histories -= all->histories / HELD_SHARE;
    shown.count = records_before(all, shown.histories);
    return shown;
}

// Those after the ones shown. *history is theirs, to be freed.
static firm_status held_out(const train_set* s, records* held, int** history, firm_error* err) {
    const task_typed* task = &s->env->task;
    const records *all = &s->data.set[PACK_D], shown = imagined_shown(all);
    const size_t past = (size_t)((RECORD_FRAMES - 1) * task->action_dim),
                 action = (size_t)(task_span(task) * task->action_dim),
                 path = (size_t)(task_points(task) * task->config_dim), n = (size_t)shown.count;
    *held = *all;
    held->histories = all->histories - shown.histories;
    held->count = all->count - shown.count;
    *history = mem_alloc((size_t)(held->count + 1) * sizeof **history);
    if (!*history) return FAIL(err, FIRM_E_MEMORY, "no memory for %d records", held->count);
    for (int i = 0; i < held->count; i++)
        (*history)[i] = all->history[shown.count + i] - shown.histories;
    held->history = *history;
    held->seen += shown.histories * RECORD_FRAMES;
    held->past += (size_t)shown.histories * past;
    held->action += n * action;
    held->config += n * path;
    held->spread += n * (size_t)task->horizon;
    return FIRM_OK;
}

firm_status imagined_follow(const train_set* s, const firm_model* m, pool* p, int* count,
                            rollout_error* out, firm_error* err) {
    records held;
    int* history;
    history_cache cache = {0};
    *count = 0;
    if (s->data.set[PACK_D].histories < HELD_SHARE) return FIRM_OK;
    TRY(held_out(s, &held, &history, err));
    firm_status st = cache_histories(s, m, &held, p, "encode imagined", &cache, err);
    if (st == FIRM_OK) st = gate_rollout(s, m, &held, &cache, p, out, err);
    cache_free(&cache);
    mem_free(history);
    if (st == FIRM_OK) *count = held.count;
    return st;
}
