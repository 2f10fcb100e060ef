// split.c - who trains and who judges: the split by episodes, and what is drawn from each side.
#include "data/split.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "core/mem.h"

static int ascending(const void* a, const void* b) {
    return *(const int*)a - *(const int*)b;
}

firm_status data_split_make(const episodes* e, uint64_t seed, data_split* out, firm_error* err) {
    *out = (data_split){0};
    if (e->count < 2)
        return FAIL(err, FIRM_E_VALUE,
                    "a data set of %d episode cannot be split into training and "
                    "validation; collect at least 2",
                    e->count);
    const env_spec* spec = e->spec;
    int valid =
        (int)lround((double)e->count * spec->collection->validation / spec->collection->episodes);
    valid = valid < 1 ? 1 : valid > e->count - 1 ? e->count - 1 : valid;

    out->valid = mem_calloc((size_t)valid, sizeof *out->valid);
    out->train = mem_calloc((size_t)(e->count - valid), sizeof *out->train);
    out->is_valid = mem_calloc((size_t)e->count, 1);
    int* order = mem_calloc((size_t)e->count, sizeof *order);
    if (!out->valid || !out->train || !out->is_valid || !order) {
        mem_free(order);
        data_split_free(out);
        return FAIL(err, FIRM_E_MEMORY, "no memory to split %d episodes", e->count);
    }
    for (int i = 0; i < e->count; i++) order[i] = i;
    rng r = rng_start(seed, RNG_STREAM(RNG_SPLIT, 0));
    rng_shuffle(&r, order, e->count);
    for (int i = 0; i < valid; i++) {
        out->valid[out->valid_count++] = order[i];
        out->is_valid[order[i]] = 1;
    }
    for (int i = 0; i < e->count; i++)
        if (!out->is_valid[i]) out->train[out->train_count++] = i;
    qsort(out->valid, (size_t)valid, sizeof *out->valid, ascending);
    mem_free(order);
    return FIRM_OK;
}

void data_split_free(data_split* s) {
    mem_free(s->train);
    mem_free(s->valid);
    mem_free(s->is_valid);
    *s = (data_split){0};
}

// ---- segments -----------------------------------------------------------------------------------

typedef struct eligible {
    const episodes* e;
    const int* episode;
    int count, before;
    int* start;  // (count + 1) eligible rows of the episodes before this one
} eligible;

static int64_t row_of(const eligible* l, int index) {
    int low = 0, high = l->count - 1;
    while (low < high) {  // the last episode whose rows start at or before `index`
        int middle = low + (high - low + 1) / 2;
        if (l->start[middle] <= index)
            low = middle;
        else
            high = middle - 1;
    }
    return l->e->offset[l->episode[low]] + l->before + (index - l->start[low]);
}

firm_status data_segments(const episodes* e, const int* episode, int episode_count, int before,
                          int after, int count, uint64_t seed, uint64_t stream, int64_t** rows,
                          firm_error* err) {
    *rows = NULL;
    if (count < 1 || before < 0 || after < 0)
        return FAIL(err, FIRM_E_USAGE,
                    "%d segments of %d + %d rows asked for; give positive counts", count, before,
                    after);
    eligible l = {e, episode, episode_count, before, NULL};
    l.start = mem_calloc((size_t)episode_count + 1, sizeof *l.start);
    int64_t* drawn = mem_calloc((size_t)count, sizeof *drawn);
    int* deck = NULL;
    firm_status status = FIRM_OK;
    if (!l.start || !drawn) status = FAIL(err, FIRM_E_MEMORY, "no memory for %d segments", count);

    int total = 0;  // a file has at most INT_MAX rows
    for (int i = 0; i < episode_count && status == FIRM_OK; i++) {
        int here = e->length[episode[i]] - before - after;
        l.start[i] = total;
        total += here > 0 ? here : 0;
        l.start[i + 1] = total;
    }
    if (status == FIRM_OK && total == 0)
        status =
            FAIL(err, FIRM_E_VALUE,
                 "none of %d episodes has the %d rows a segment needs; collect more or longer ones",
                 episode_count, before + after + 1);

    rng r = rng_start(seed, RNG_STREAM(RNG_SEGMENT, stream));
    if (status == FIRM_OK && count <= total) {
        // the first `count` steps of a Fisher-Yates shuffle: distinct rows in the order drawn
        deck = mem_alloc((size_t)total * sizeof *deck);
        if (!deck) status = FAIL(err, FIRM_E_MEMORY, "no memory to draw from %d rows", total);
        for (int i = 0; i < total && deck; i++) deck[i] = i;
        for (int i = 0; i < count && deck; i++) {
            int j = i + (int)rng_below(&r, (uint32_t)(total - i));
            int keep = deck[j];
            deck[j] = deck[i];
            deck[i] = keep;
            drawn[i] = row_of(&l, keep);
        }
    } else if (status == FIRM_OK) {
        for (int i = 0; i < count; i++) drawn[i] = row_of(&l, (int)rng_below(&r, (uint32_t)total));
    }
    mem_free(deck);
    mem_free(l.start);
    if (status != FIRM_OK) {
        mem_free(drawn);
        return status;
    }
    *rows = drawn;
    return FIRM_OK;
}

// ---- action statistics --------------------------------------------------------------------------

void data_action_stats(const episodes* e, const data_split* s, float* mean, float* std) {
    const int dim = e->spec->task.action_dim, episodes_used = s ? s->train_count : e->count;
    for (int k = 0; k < dim; k++) {
        double sum = 0.0, squares = 0.0;
        int64_t n = 0;
        // two passes: the deviation from the mean itself, not a difference of large numbers
        for (int pass = 0; pass < 2; pass++)
            for (int i = 0; i < episodes_used; i++) {
                const int episode = s ? s->train[i] : i;
                const float* a = e->action + e->offset[episode] * dim + k;
                for (int t = 0; t < e->length[episode] - 1; t++) {
                    if (pass == 0) {
                        sum += a[(int64_t)t * dim];
                        n++;
                    } else {
                        double d = a[(int64_t)t * dim] - sum / (double)n;
                        squares += d * d;
                    }
                }
            }
        double deviation = n ? sqrt(squares / (double)n) : 0.0;
        mean[k] = n ? (float)(sum / (double)n) : 0.0f;
        std[k] = deviation > 0.0 ? (float)deviation : 1.0f;
    }
}
