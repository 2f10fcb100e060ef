// episodes.c - what can be asked of recorded trajectories once they are in memory.
// Filled by collect.c or episodes_read.c, written by episodes_write.c.
#include "data/episodes.h"

#include "core/mem.h"
#include "data/episodes_internal.h"
#include "data/hdf5.h"

firm_status episodes_alloc(const env_spec* spec, int count, int64_t rows, episodes** out,
                           firm_error* err) {
    episodes* e = mem_calloc(1, sizeof *e);
    *out = e;
    if (e) {
        *e = (episodes){.spec = spec, .count = count, .rows = rows, .seed = UINT64_MAX};
        e->offset = mem_calloc((size_t)count, sizeof *e->offset);
        e->length = mem_calloc((size_t)count, sizeof *e->length);
        e->state = mem_calloc((size_t)rows, sizeof *e->state * (size_t)spec->state->dim);
        e->action = mem_calloc((size_t)rows, sizeof *e->action * (size_t)spec->task.action_dim);
    }
    if (!e || !e->offset || !e->length || !e->state || !e->action) {
        episodes_free(e);
        *out = NULL;
        return FAIL(err, FIRM_E_MEMORY,
                    "no memory for %d episodes of %s (%lld rows); ask for fewer", count,
                    spec->task.name, (long long)rows);
    }
    return FIRM_OK;
}

void episodes_free(episodes* e) {
    if (!e) return;
    hdf5_close(e->pixels);
    mem_free(e->offset);
    mem_free(e->length);
    mem_free(e->state);
    mem_free(e->action);
    mem_free(e->extra);
    mem_free(e->ended);
    mem_free(e);
}

int episodes_of_row(const episodes* e, int64_t row) {
    int low = 0, high = e->count - 1;
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (e->offset[middle] <= row)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

double episodes_solved_at(const episodes* e, int offset) {
    const int dim = e->spec->state->dim;
    int64_t pairs = 0, solved = 0;
    for (int i = 0; i < e->count; i++)
        for (int t = 0; t + offset < e->length[i]; t++) {
            const double* from = e->state + (e->offset[i] + t) * dim;
            solved += env_success(e->spec, from, from + (int64_t)offset * dim) != 0;
            pairs++;
        }
    return pairs ? 100.0 * (double)solved / (double)pairs : 0.0;
}

int episodes_state_fields(const env_spec* spec, state_field out[STATE_FIELDS]) {
    int n = 1, rest = 0;
    for (; n < STATE_FIELDS && spec->layout->state_more[n - 1].name; n++)
        rest += spec->layout->state_more[n - 1].width;
    out[0] = (state_field){spec->layout->state_column, 0, spec->state->dim - rest};
    for (int i = 1; i < n; i++)
        out[i] =
            (state_field){spec->layout->state_more[i - 1].name, out[i - 1].at + out[i - 1].width,
                          spec->layout->state_more[i - 1].width};
    return n;
}

const char* episodes_pixels(const env_spec* spec) {
    return spec->layout->recording ? spec->layout->recording->image : "pixels";
}

uint64_t episodes_hash(const episodes* e) {
    const size_t state = sizeof *e->state * (size_t)e->spec->state->dim;
    const size_t action = sizeof *e->action * (size_t)e->spec->task.action_dim;
    uint64_t hash = hdf5_hash(HDF5_HASH_START, e->length, sizeof *e->length * (size_t)e->count);
    hash = hdf5_hash(hash, e->state, state * (size_t)e->rows);
    // an episode's last action is NaN, of which there are many kinds: it says nothing
    for (int i = 0; i < e->count; i++)
        hash = hdf5_hash(hash, e->action + e->offset[i] * e->spec->task.action_dim,
                         action * (size_t)(e->length[i] - 1));
    return hash;
}
