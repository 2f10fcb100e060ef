// sample.c - a run's own sample of the histories of a source, so that the members of an ensemble do
// not all learn from the same ones.
#include <string.h>

#include "core/mem.h"
#include "train/internal.h"

// Records of a history follow each other.
static void count_records(const records* r, int* first) {
    for (int i = 0; i < r->count; i++) first[r->history[i] + 1]++;
    for (int h = 0; h < r->histories; h++) first[h + 1] += first[h];
}

static int draw(const records* r, uint64_t seed, int source, int i) {
    return (int)train_pick(seed, 0xC000 + source, 0, i, r->histories);
}

firm_status sample_histories(const records* r, uint64_t seed, int source, history_sample* out,
                             firm_error* err) {
    *out = (history_sample){0};
    int* first = mem_calloc((size_t)r->histories + 1, sizeof *first);
    if (first) count_records(r, first);
    for (int i = 0; i < r->histories && first; i++) {
        int h = draw(r, seed, source, i);
        out->count += first[h + 1] - first[h];
    }
    out->record = mem_calloc((size_t)out->count + 1, sizeof *out->record);
    out->rare = mem_calloc((size_t)out->count + 1, sizeof *out->rare);
    int ok = first && out->record && out->rare, n = 0;
    for (int i = 0; i < r->histories && ok; i++) {
        int h = draw(r, seed, source, i);
        for (int k = first[h]; k < first[h + 1]; k++, n++) {
            out->record[n] = k;
            out->rare[n] = r->rare ? r->rare[k] : 0;
        }
    }
    mem_free(first);
    if (ok) return FIRM_OK;
    sample_free(out);
    return FAIL(err, FIRM_E_MEMORY, "no memory to sample %d histories", r->histories);
}

void sample_take(history_sample* s, int** order, int rows) {
    if (!*order) {
        *order = s->record;
        s->record = NULL;
        return;
    }
    for (int i = 0; i < rows; i++) (*order)[i] = s->record[(*order)[i]];
}

void sample_free(history_sample* s) {
    mem_free(s->record);
    mem_free(s->rare);
    *s = (history_sample){0};
}
