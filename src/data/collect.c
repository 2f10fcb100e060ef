// collect.c - runs a task's data-collection policy over threads and keeps states and actions.
// Episode i draws all its randomness from (seed, i), so the result does not depend on the thread
// count.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "data/episodes_internal.h"

enum { EPISODES_PER_ROUND = 256, MAX_EPISODES = 10000000 };  // a round: between two progress steps

typedef struct collection {
    episodes* e;
    uint64_t seed;
    env_policy policy;
    env** worker_env;  // (threads)
    int room;          // rows reserved per episode
    int first;         // episode of the round's item 0
    uint8_t* fault;    // (count) the environment broke down
} collection;

static void note_row(collection* c, const env* world, int64_t row) {
    const env_spec* spec = c->e->spec;
    spec->sim->state_get(world, c->e->state + row * spec->state->dim);
    if (spec->layout->extra_dim)
        spec->layout->extra_get(world, c->e->extra + row * spec->layout->extra_dim);
}

// One episode into its own slot of `room` rows; compacted later.
static void run_episode(void* arg, int item, int worker) {
    collection* c = arg;
    const env_spec* spec = c->e->spec;
    env* world = c->worker_env[worker];
    const int index = c->first + item;
    const int64_t base = (int64_t)index * c->room;
    rng r = rng_start(c->seed, RNG_STREAM(RNG_COLLECT, index));

    c->policy.reset(world, &r);
    note_row(c, world, base);
    int t = 0, ended = 0;
    while (t < c->policy.episode_cap && !ended) {
        float* action = c->e->action + (base + t) * spec->task.action_dim;
        c->policy.act(world, &r, action);
        spec->sim->step(world, action);
        note_row(c, world, base + ++t);
        ended = c->policy.terminated && c->policy.terminated(world);
    }
    // row t holds the action taken at t; none is taken at the last
    for (int i = 0; i < spec->task.action_dim; i++)
        c->e->action[(base + t) * spec->task.action_dim + i] = NAN;
    c->e->length[index] = t + 1;
    c->e->ended[index] = ended != 0;
    c->fault[index] = world->fault != FIRM_OK;
}

// Moves the episodes together, in place.
static void compact(episodes* e, int room) {
    const size_t state = sizeof *e->state * (size_t)e->spec->state->dim;
    const size_t action = sizeof *e->action * (size_t)e->spec->task.action_dim;
    const size_t extra = sizeof *e->extra * (size_t)e->spec->layout->extra_dim;
    int64_t row = 0;
    for (int i = 0; i < e->count; i++) {
        size_t from = (size_t)i * (size_t)room, to = (size_t)row, n = (size_t)e->length[i];
        memmove((char*)e->state + to * state, (char*)e->state + from * state, n * state);
        memmove((char*)e->action + to * action, (char*)e->action + from * action, n * action);
        if (extra) memmove((char*)e->extra + to * extra, (char*)e->extra + from * extra, n * extra);
        e->offset[i] = row;
        row += e->length[i];
    }
    e->rows = row;
}

static firm_status run_all(collection* c, pool* p, firm_error* err) {
    episodes* e = c->e;
    const int threads = pool_threads(p);
    firm_status status = env_create_many(e->spec, threads, &c->worker_env, err);
    c->fault = mem_calloc((size_t)e->count, 1);
    if (status == FIRM_OK && !c->fault)
        status = FAIL(err, FIRM_E_MEMORY, "no memory to collect episodes");

    if (status == FIRM_OK) {
        progress bar;
        char label[48];
        snprintf(label, sizeof label, "collect %.32s", e->spec->task.name);
        progress_begin(&bar, label, e->count);
        for (c->first = 0; c->first < e->count; c->first += EPISODES_PER_ROUND) {
            int left = e->count - c->first;
            pool_for(p, left < EPISODES_PER_ROUND ? left : EPISODES_PER_ROUND, run_episode, c);
            progress_step(&bar,
                          left < EPISODES_PER_ROUND ? e->count : c->first + EPISODES_PER_ROUND, "");
        }
        progress_end(&bar);
    }
    for (int i = 0; i < e->count && status == FIRM_OK; i++)
        if (c->fault[i])
            status =
                FAIL(err, FIRM_E_VALUE,
                     "the %s simulation broke down in episode %d of seed %llu; try another seed",
                     e->spec->task.name, i, (unsigned long long)c->seed);
    env_free_many(c->worker_env, threads);
    mem_free(c->fault);
    return status;
}

firm_status episodes_collect(const env_spec* spec, const collect_options* opt, pool* p,
                             episodes** out, firm_error* err) {
    *out = NULL;
    int count = opt->episodes ? opt->episodes : spec->collection->episodes;
    if (count < 1 || count > MAX_EPISODES)
        return FAIL(err, FIRM_E_USAGE, "%d episodes asked for; give 1 to %d", count, MAX_EPISODES);
    env_policy policy;
    TRY(env_policy_find(spec, opt->policy, &policy, err));
    const int room = policy.episode_cap + 1;
    const int64_t rows = (int64_t)count * room;

    episodes* e;
    TRY(episodes_alloc(spec, count, rows, &e, err));
    e->seed = opt->seed;
    e->policy = policy.name;
    e->cap = policy.episode_cap;
    e->ended = mem_calloc((size_t)count, 1);
    if (spec->layout->extra_dim)
        e->extra = mem_calloc((size_t)rows, sizeof *e->extra * (size_t)spec->layout->extra_dim);
    if (!e->ended || (spec->layout->extra_dim && !e->extra)) {
        episodes_free(e);
        return FAIL(err, FIRM_E_MEMORY, "no memory for %d episodes of %s; ask for fewer", count,
                    spec->task.name);
    }
    collection c = {.e = e, .seed = opt->seed, .policy = policy, .room = room};
    firm_status status = run_all(&c, p, err);
    if (status != FIRM_OK) {
        episodes_free(e);
        return status;
    }
    compact(e, room);
    e->hash = episodes_hash(e);
    *out = e;
    return FIRM_OK;
}
