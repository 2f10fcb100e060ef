// recorded.c - training segments that travel with the model: what was done, in which moment, and
// what came of it, for reach mode to look up (plan/recall.h).
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "train/internal.h"

static float* copy(const float* from, size_t count) {
    float* to = mem_alloc(count * sizeof *to);
    if (to) memcpy(to, from, count * sizeof *to);
    return to;
}

firm_status recorded_fill(const records* r, firm_model* m, int count, firm_error* err) {
    const task_typed* task = &m->task;
    model_drop_recorded(m);
    if (count == 0) return FIRM_OK;
    if (task->situation_dim == 0)
        return FAIL(err, FIRM_E_VALUE,
                    "train.recorded: %s does not say which moments are alike; set it to 0",
                    task->name);
    if (task_situation_reads_chi(task) && (!m->shape.reading || m->shape.no_fiber))
        return FAIL(err, FIRM_E_VALUE,
                    "recorded segments of %s are looked up by what is read from the fiber; set "
                    "model.reading and add a stage with the objective read",
                    task->name);
    if (count > r->count) count = r->count;
    size_t n = (size_t)count, config = (size_t)task->config_dim, chi = (size_t)task->chi_dim;
    size_t points = (size_t)task_points(task);
    float* first = mem_alloc(n * chi * sizeof *first);  // chi when the sequence began
    for (size_t i = 0; first && i < n; i++)
        memcpy(first + i * chi, r->chi + i * points * chi, chi * sizeof *first);
    m->recorded = copy(r->action, n * (size_t)(task_span(task) * task->action_dim));
    m->recorded_path = copy(r->config, n * points * config);
    m->recorded_chi = first;
    m->recorded_count = count;
    if (m->recorded && m->recorded_path && first) return FIRM_OK;
    model_drop_recorded(m);
    return FAIL(err, FIRM_E_MEMORY, "no memory for %d recorded sequences", count);
}

firm_status train_add_recorded(firm_model* m, const env_spec* env, const char* path, int count,
                               firm_error* err) {
    pack p = {0};
    char hash[48];
    firm_status st = pack_read(path, env, &p, err);
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
