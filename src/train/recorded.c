// recorded.c - action sequences of training segments that travel with the model. A search that has
// to grasp before anything moves finds nothing by noise: all its candidates cost the same. What
// somebody did in a similar situation is a better first guess.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "train/internal.h"

static void copy(const records* r, int which, int dim, float* to) {
    memcpy(to, r->action + (size_t)which * (size_t)(RECORD_CONTROLS * dim),
           (size_t)(RECORD_CONTROLS * dim) * sizeof *to);
}

firm_status recorded_fill(const records* r, firm_model* m, int count, firm_error* err) {
    _Static_assert((int)RECORD_CONTROLS == (int)MODEL_RECORDED, "a record is a recorded sequence");
    const int dim = m->env->action_dim;
    int *order, rows;
    mem_free(m->recorded);
    m->recorded = NULL;
    m->recorded_count = 0;
    if (count == 0) return FIRM_OK;
    TRY(balanced_order(r->rare, r->count, &order, &rows, err));
    m->recorded = mem_calloc((size_t)count, sizeof *m->recorded * (size_t)(RECORD_CONTROLS * dim));
    if (!m->recorded) {
        mem_free(order);
        return FAIL(err, FIRM_E_MEMORY, "no memory for %d recorded sequences", count);
    }
    for (int i = 0; i < count; i++) {
        int row = (int)train_pick(0, 0xFFFD, 0, i, rows);
        copy(r, order ? order[row] : row, dim, m->recorded + (size_t)(i * RECORD_CONTROLS * dim));
    }
    m->recorded_count = count;
    mem_free(order);
    return FIRM_OK;
}

firm_status train_add_recorded(firm_model* m, const char* path, int count, firm_error* err) {
    pack p = {0};
    char hash[48];
    firm_status st = pack_read(path, m->env, &p, err);
    snprintf(hash, sizeof hash, "data_hash=%016" PRIx64, p.data_hash);
    if (st == FIRM_OK && !strstr(m->provenance, hash))
        st = FAIL(err, FIRM_E_VALUE,
                  "%s is of other data than the model was trained on; give its own pack", path);
    if (st == FIRM_OK && p.set[PACK_F].count == 0)
        st = FAIL(err, FIRM_E_VALUE, "%s has no recorded segments; make it without --sources I",
                  path);
    if (st == FIRM_OK) st = recorded_fill(&p.set[PACK_F], m, count, err);
    pack_free(&p);
    return st;
}
