// recorded.c - training segments or whole episodes that travel with the model: what was done, in
// which moment, and what came of it, for reach mode to look up (plan/recall.h).
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/text.h"
#include "data/split.h"
#include "train/internal.h"

#define EPISODES_NOTE " episodes_seed="

static float* copy(const float* from, size_t count) {
    float* to = mem_alloc(count * sizeof *to);
    if (to) memcpy(to, from, count * sizeof *to);
    return to;
}

// The model can look recordings up.
static firm_status check_lookup(const firm_model* m, firm_error* err) {
    const task_typed* task = &m->task;
    if (task->situation_dim == 0)
        return FAIL(
            err, FIRM_E_VALUE,
            "%s does not say which moments are alike, so its models carry no recordings; set "
            "train.recorded=0, and leave --recorded and --episodes out",
            task->name);
    if (task_situation_reads_chi(task) && (!m->shape.reading || m->shape.no_fiber))
        return FAIL(err, FIRM_E_VALUE,
                    "recorded segments of %s are looked up by what is read from the fiber; set "
                    "model.reading and add a stage with the objective read",
                    task->name);
    return FIRM_OK;
}

firm_status recorded_fill(const records* r, firm_model* m, int count, firm_error* err) {
    const task_typed* task = &m->task;
    model_drop_recorded(m);
    if (count == 0) return FIRM_OK;
    TRY(check_lookup(m, err));
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
    firm_status st = pack_read(path, env, &p, err);
    if (st == FIRM_OK && !model_learned_from(m, p.data_hash))
        st = FAIL(err, FIRM_E_VALUE,
                  "%s is of other data than the model was trained on; give its own pack", path);
    if (st == FIRM_OK && p.set[PACK_F].count == 0)
        st = FAIL(err, FIRM_E_VALUE, "%s has no recorded segments; make it without --sources I",
                  path);
    if (st == FIRM_OK) st = recorded_fill(&p.set[PACK_F], m, count, err);
    pack_free(&p);
    return st;
}

// ---- whole episodes -----------------------------------------------------------------------------

enum { EPISODE_MOST = 2048 };  // macro actions of one: half precision counts no further

// Macro actions of an episode that are recorded whole.
static int macros_of(const episodes* e, int episode) {
    int n = (e->length[episode] - 1) / e->spec->task.controls;
    return n < EPISODE_MOST ? n : EPISODE_MOST;
}

static firm_status take_episodes(const episodes* e, const data_split* split, firm_model* m,
                                 int count, firm_error* err) {
    const env_spec* spec = e->spec;
    const int S = spec->task.controls, dim = spec->state->dim;
    const size_t action = (size_t)(S * spec->task.action_dim), n = (size_t)count;
    m->recorded = mem_calloc(n * action, sizeof *m->recorded);
    m->recorded_path = mem_calloc(n * (size_t)spec->task.config_dim, sizeof *m->recorded_path);
    m->recorded_chi = mem_calloc(n * (size_t)spec->task.chi_dim, sizeof *m->recorded_chi);
    m->recorded_left = mem_calloc(n, sizeof *m->recorded_left);
    if (!m->recorded || !m->recorded_path || !m->recorded_chi || !m->recorded_left) {
        model_drop_recorded(m);
        return FAIL(err, FIRM_E_MEMORY, "no memory for %d recorded moments", count);
    }
    int at = 0;
    for (int i = 0; i < split->train_count; i++) {
        int macros = macros_of(e, split->train[i]);
        if (at + macros + 1 > count) break;
        const int64_t start = e->offset[split->train[i]];
        for (int k = 0; k <= macros; k++, at++) {
            const int64_t row = start + k * S, before = row > start ? row - 1 : start,
                          macro = row - S > start ? row - S : start;
            const double* state = e->state + row * dim;
            env_config(spec, state, m->recorded_path + (size_t)at * (size_t)spec->task.config_dim);
            env_chi(spec, state, e->state + before * dim, e->state + macro * dim,
                    m->recorded_chi + (size_t)at * (size_t)spec->task.chi_dim);
            m->recorded_left[at] = (float)(macros - k);
            if (k < macros)
                memcpy(m->recorded + (size_t)at * action, e->action + row * spec->task.action_dim,
                       action * sizeof *m->recorded);
        }
    }
    m->recorded_count = at;
    if (at > 0) return FIRM_OK;
    model_drop_recorded(m);
    return FAIL(err, FIRM_E_VALUE,
                "%d moments hold no whole episode of the data; ask for more with --count", count);
}

// The data, for evaluations: their trials must not be among these episodes.
static firm_status note_episodes(const episodes* e, firm_model* m, firm_error* err) {
    char* old = strstr(m->provenance, EPISODES_NOTE);
    if (old) *old = 0;
    if (text_add(m->provenance, sizeof m->provenance,
                 EPISODES_NOTE "%" PRIu64 " episodes_hash=%016" PRIx64, e->seed, e->hash))
        return FIRM_OK;
    return FAIL(err, FIRM_E_VALUE, "the model's provenance is too long to name the episodes");
}

firm_status train_add_episodes(firm_model* m, const env_spec* env, const char* path,
                               uint64_t split_seed, int count, firm_error* err) {
    episodes* e;
    data_split split;
    TRY(check_lookup(m, err));
    TRY(episodes_read(path, env, &e, err));
    firm_status st = data_split_make(e, split_seed, &split, err);
    if (st == FIRM_OK) {
        int all = 0;
        for (int i = 0; i < split.train_count && all < count; i++)
            all += macros_of(e, split.train[i]) + 1;
        model_drop_recorded(m);
        st = take_episodes(e, &split, m, all < count ? all : count, err);
        data_split_free(&split);
    }
    if (st == FIRM_OK) st = note_episodes(e, m, err);
    episodes_free(e);
    return st;
}
