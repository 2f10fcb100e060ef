// trials.c - draws the start and goal pairs of an evaluation. First step of eval: trials -> arms ->
// paired.
#include "eval/trials.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"

#define HASH_START 0xcbf29ce484222325ull  // FNV-1a

static uint64_t hash_bytes(uint64_t hash, const void* bytes, size_t n) {
    const unsigned char* b = bytes;
    for (size_t i = 0; i < n; i++) hash = (hash ^ b[i]) * 0x100000001b3ull;
    return hash;
}

static const double* state_at(const episodes* e, int64_t row) {
    return e->state + row * e->spec->state_dim;
}

static void fill(const episodes* e, int64_t row, int offset, eval_trial* t) {
    const double *start = state_at(e, row), *goal = state_at(e, row + offset);
    size_t bytes = sizeof(double) * (size_t)e->spec->state_dim;
    t->start = row;
    t->goal = row + offset;
    t->hash = hash_bytes(hash_bytes(HASH_START, start, bytes), goal, bytes);
    t->solved = e->spec->success(start, goal);
}

static int by_row(const void* a, const void* b) {
    const eval_trial *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

// Every row that may start a trial; the caller frees *rows.
static firm_status eligible_rows(const episodes* e, const trial_options* opt, int64_t** rows,
                                 int* count, firm_error* err) {
    int episodes_used = opt->split ? opt->split->valid_count : e->count;
    *count = 0;
    int64_t most = 0;
    for (int i = 0; i < episodes_used; i++) {
        int here = e->length[opt->split ? opt->split->valid[i] : i] - TRIAL_BEFORE - opt->offset;
        if (here > 0) most += here;
    }
    if (most > INT_MAX) most = INT_MAX;
    *rows = mem_alloc((size_t)(most ? most : 1) * sizeof **rows);
    if (!*rows)
        return FAIL(err, FIRM_E_MEMORY, "no memory to draw trials from %" PRId64 " rows", most);
    for (int i = 0; i < episodes_used; i++) {
        int episode = opt->split ? opt->split->valid[i] : i;
        for (int t = TRIAL_BEFORE; t + opt->offset < e->length[episode] && *count < most; t++) {
            int64_t row = e->offset[episode] + t;
            if (opt->unsolved && e->spec->success(state_at(e, row), state_at(e, row + opt->offset)))
                continue;
            (*rows)[(*count)++] = row;
        }
    }
    return FIRM_OK;
}

firm_status eval_trials_draw(const episodes* data, const trial_options* opt, eval_trials** out,
                             firm_error* err) {
    *out = NULL;
    if (opt->count < 1 || opt->offset < 1)
        return FAIL(err, FIRM_E_USAGE, "%d trials %d rows apart asked for; give positive numbers",
                    opt->count, opt->offset);
    int64_t* rows;
    int eligible;
    TRY(eligible_rows(data, opt, &rows, &eligible, err));
    if (eligible < opt->count) {
        mem_free(rows);
        return FAIL(
            err, FIRM_E_VALUE,
            "%d trials asked for, but the %s episodes hold only %d%s pairs %d rows apart; ask for "
            "fewer trials, a smaller --offset or collect more episodes",
            opt->count, opt->split ? "validation" : "collected", eligible,
            opt->unsolved ? " unsolved" : "", opt->offset);
    }
    eval_trials* t = mem_calloc(1, sizeof *t);
    if (t) t->trial = mem_calloc((size_t)opt->count, sizeof *t->trial);
    if (!t || !t->trial) {
        mem_free(rows);
        eval_trials_free(t);
        return FAIL(err, FIRM_E_MEMORY, "no memory for %d trials", opt->count);
    }
    t->data = data;
    t->count = opt->count;
    t->offset = opt->offset;
    // the first steps of a Fisher-Yates shuffle: distinct rows
    rng r = rng_start(opt->seed, RNG_STREAM(RNG_TRIAL, 0));
    for (int i = 0; i < opt->count; i++) {
        int j = i + (int)rng_below(&r, (uint32_t)(eligible - i));
        int64_t row = rows[j];
        rows[j] = rows[i];
        fill(data, row, opt->offset, &t->trial[i]);
    }
    qsort(t->trial, (size_t)t->count, sizeof *t->trial, by_row);
    mem_free(rows);
    *out = t;
    return FIRM_OK;
}

void eval_trials_free(eval_trials* t) {
    if (!t) return;
    mem_free(t->trial);
    mem_free(t);
}

uint64_t eval_trials_hash(const eval_trials* t) {
    uint64_t hash = HASH_START;
    for (int i = 0; i < t->count; i++)
        hash = hash_bytes(hash, &t->trial[i].hash, sizeof t->trial[i].hash);
    return hash;
}

// ---- where trials come from ---------------------------------------------------------------------

firm_status eval_fresh_episodes(const env_spec* spec, int trials, int count, uint64_t seed, pool* p,
                                episodes** out, firm_error* err) {
    int64_t wanted = count ? count : 2 * (int64_t)trials;
    if (!count && wanted < 200) wanted = 200;
    collect_options opt = {.episodes = wanted > 100000 ? 100000 : (int)wanted, .seed = seed};
    return episodes_collect(spec, &opt, p, out, err);
}

static int find_number(const char* text, const char* label, int base, uint64_t* value) {
    const char* at = text ? strstr(text, label) : NULL;
    if (!at) return 0;
    char* end;
    at += strlen(label);
    *value = strtoull(at, &end, base);
    return end != at;
}

firm_status eval_check_held_out(const char* provenance, const episodes* data, int fresh,
                                firm_error* err) {
    uint64_t seed, hash;
    if (!find_number(provenance, "data_seed=", 10, &seed) || seed == UINT64_MAX ||
        seed != data->seed)
        return FIRM_OK;
    if (fresh)
        return FAIL(err, FIRM_E_USAGE,
                    "the model was trained on episodes collected with seed %" PRIu64
                    "; give another --seed, or "
                    "the training file with --data, whose validation episodes were held out",
                    seed);
    if (find_number(provenance, "data_hash=", 16, &hash) && hash != data->hash)
        return FAIL(err, FIRM_E_USAGE,
                    "the data were collected with seed %" PRIu64
                    " like the model's training file but are not "
                    "that file, so trials may be training episodes; give the training file or data "
                    "of another "
                    "seed",
                    seed);
    return FIRM_OK;
}
