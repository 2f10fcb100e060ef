// anchors.c - draws the recorded moments that are restored: any of them, or as many of each class.
// Every anchor comes from an episode of its own, so that no episode weighs more than another.
#include "data/anchors.h"

#include "core/log.h"
#include "core/mem.h"

enum { MOST_TRIES = 64 };

typedef struct draw {
    const episodes* e;
    uint64_t seed;
    int* episode;  // training episodes with an eligible moment, shuffled
    int count;
    int wanted;
    int64_t* row;  // (wanted) what was drawn
    int* kind;     // (wanted) its class; NULL: not asked for
    int drawn;
} draw;

// Rows of an episode that can have an anchor.
static int needed(const draw* d) {
    return ANCHOR_BEFORE + task_span(&d->e->spec->task) + 1;
}

static int64_t first_row(const draw* d, int i) {
    return d->e->offset[d->episode[i]] + ANCHOR_BEFORE;
}

// Moments of the i-th episode that may be anchors.
static int moments(const draw* d, int i) {
    return d->e->length[d->episode[i]] - needed(d) + 1;
}

static void close_draw(draw* d) {
    mem_free(d->episode);
    mem_free(d->row);
    mem_free(d->kind);
}

static firm_status open_draw(draw* d, const data_split* split, int count, int usual, int kinds,
                             firm_error* err) {
    d->episode = mem_calloc((size_t)split->train_count, sizeof *d->episode);
    if (!d->episode) return FAIL(err, FIRM_E_MEMORY, "no memory to draw anchors");
    for (int i = 0; i < split->train_count; i++)
        if (d->e->length[split->train[i]] >= needed(d)) d->episode[d->count++] = split->train[i];
    d->wanted = count ? count : usual;
    if (d->wanted < 0)
        return FAIL(err, FIRM_E_USAGE, "%d anchors asked for; give a positive count", d->wanted);
    if (d->count == 0 || (count && d->wanted > d->count))
        return FAIL(
            err, FIRM_E_VALUE,
            "%d anchors asked for, but only %d training episodes have %d rows or more; collect "
            "more episodes or ask for fewer anchors",
            d->wanted, d->count, needed(d));
    if (d->wanted > d->count) {
        log_warn("only %d of %d anchors: the data set has no more training episodes of %d rows",
                 d->count, d->wanted, needed(d));
        d->wanted = d->count;
    }
    d->row = mem_calloc((size_t)d->wanted, sizeof *d->row);
    d->kind = kinds ? mem_calloc((size_t)d->wanted, sizeof *d->kind) : NULL;
    if (!d->row || (kinds && !d->kind))
        return FAIL(err, FIRM_E_MEMORY, "no memory for %d anchors", d->wanted);
    rng r = rng_start(d->seed, RNG_STREAM(RNG_ANCHOR, 0));
    rng_shuffle(&r, d->episode, d->count);
    return FIRM_OK;
}

// May the row be an anchor? Not where its recorded continuation could never be replayed.
static int replayable(const draw* d, int64_t row) {
    const env_spec* spec = d->e->spec;
    for (int t = 0; t <= task_span(&spec->task); t++)
        if (env_erratic(spec, d->e->state + (row + t) * spec->state->dim)) return 0;
    return 1;
}

// What an episode list that ran out means: fewer anchors, or an error if more were insisted on.
static firm_status settle(const draw* d, int count, const char* what, firm_error* err) {
    if (d->drawn == d->wanted) return FIRM_OK;
    if (count || d->drawn == 0)
        return FAIL(err, FIRM_E_VALUE,
                    "%d %s asked for, but %d training episodes yield only %d; collect more "
                    "episodes or ask for fewer anchors",
                    d->wanted, what, d->count, d->drawn);
    log_warn("only %d of %d %s: the other training episodes have no fitting moment", d->drawn,
             d->wanted, what);
    return FIRM_OK;
}

// ---- any moment ---------------------------------------------------------------------------------

// A moment of the i-th episode; a few draws suffice unless hardly any is replayable.
static void take_any(draw* d, int i) {
    rng r = rng_start(d->seed, RNG_STREAM(RNG_ANCHOR, i + 1));
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        int64_t row = first_row(d, i) + rng_below(&r, (uint32_t)moments(d, i));
        if (!replayable(d, row)) continue;
        d->row[d->drawn++] = row;
        return;
    }
}

firm_status anchors_draw(const episodes* e, const data_split* split, uint64_t seed, int* count,
                         int64_t** rows, firm_error* err) {
    draw d = {.e = e, .seed = seed};
    *rows = NULL;
    firm_status status =
        open_draw(&d, split, *count, e->spec->collection->interventions.anchors, 0, err);
    for (int i = 0; status == FIRM_OK && i < d.count && d.drawn < d.wanted; i++) take_any(&d, i);
    if (status == FIRM_OK) status = settle(&d, *count, "anchors", err);
    if (status == FIRM_OK) {
        *rows = d.row;
        *count = d.drawn;
        d.row = NULL;
    }
    close_draw(&d);
    return status;
}

// ---- as many of each class ----------------------------------------------------------------------

// -1: not to be used
static int class_of(const draw* d, int64_t row) {
    const env_spec* spec = d->e->spec;
    if (!replayable(d, row)) return -1;
    // a moment and the controls of the macro action after it
    return spec->collection->structured->classify(d->e->state + row * spec->state->dim,
                                                  spec->task.controls + 1);
}

// Takes a moment of the class that lacks most, of those the i-th episode has; it may have none.
static void take_one(draw* d, int i, int lacking[ENV_MAX_CLASS]) {
    const int classes = d->e->spec->collection->structured->classes;
    int have[ENV_MAX_CLASS] = {0}, best = -1;
    for (int t = 0; t < moments(d, i); t++) {
        int kind = class_of(d, first_row(d, i) + t);
        if (kind >= 0) have[kind]++;
    }
    for (int c = 0; c < classes; c++)
        if (have[c] && lacking[c] > 0 && (best < 0 || lacking[c] > lacking[best])) best = c;
    if (best < 0) return;
    rng r = rng_start(d->seed, RNG_STREAM(RNG_ANCHOR, i + 1));
    int skip = (int)rng_below(&r, (uint32_t)have[best]);
    int64_t row = first_row(d, i);
    while (class_of(d, row) != best || skip-- > 0) row++;
    d->row[d->drawn] = row;
    d->kind[d->drawn++] = best;
    lacking[best]--;
}

firm_status anchors_draw_balanced(const episodes* e, const data_split* split, uint64_t seed,
                                  int* count, int64_t** rows, int** classes, firm_error* err) {
    const env_structured* set = e->spec->collection->structured;
    draw d = {.e = e, .seed = seed};
    *rows = NULL;
    *classes = NULL;
    firm_status status = open_draw(&d, split, *count, set->anchors, 1, err);
    int lacking[ENV_MAX_CLASS] = {0};
    for (int c = 0; c < set->classes; c++)
        lacking[c] = d.wanted / set->classes + (c < d.wanted % set->classes);
    for (int i = 0; status == FIRM_OK && i < d.count && d.drawn < d.wanted; i++)
        take_one(&d, i, lacking);
    if (status == FIRM_OK) status = settle(&d, *count, "balanced anchors", err);
    if (status == FIRM_OK) {
        *rows = d.row;
        *classes = d.kind;
        *count = d.drawn;
        d.row = NULL;
        d.kind = NULL;
    }
    close_draw(&d);
    return status;
}
