// samples.h - the smallest good data sets of every kind, for tests and fuzz targets that then harm
// them. TwoRoom throughout. NULL or 0 when memory runs out.
#ifndef TESTS_DATA_SAMPLES_H
#define TESTS_DATA_SAMPLES_H

#include <string.h>

#include "core/mem.h"
#include "data/pack.h"
#include "data/trial_set.h"
#include "env/env.h"

static inline const env_spec* sample_task(void) {
    return env_find("tworoom");
}

static inline episodes* sample_episodes(int count) {
    episodes* e = NULL;
    collect_options opt = {.episodes = count, .seed = 5};
    return episodes_collect(sample_task(), &opt, NULL, &e, NULL) == FIRM_OK ? e : NULL;
}

// Two anchors with two branches each, which repeat what was recorded.
static inline branches* sample_branches(const episodes* e) {
    enum { ANCHORS = 2, EACH = 2, ROWS = ENV_SPAN + 1 };
    const size_t state = (size_t)e->spec->state->dim, action = (size_t)e->spec->task.action_dim;
    branches* b = mem_calloc(1, sizeof *b);
    if (!b) return NULL;
    *b = (branches){.spec = e->spec,
                    .anchors = ANCHORS,
                    .per_anchor = EACH,
                    .row = mem_calloc(ANCHORS, sizeof *b->row),
                    .state = mem_calloc(ANCHORS * EACH * ROWS * state, sizeof *b->state),
                    .action = mem_calloc(ANCHORS * EACH * ROWS * action, sizeof *b->action),
                    .data_hash = e->hash,
                    .seed = 3};
    for (int i = 0; b->row && b->state && b->action && i < ANCHORS * EACH; i++) {
        const int64_t row = b->row[i / EACH] = e->offset[i / EACH] + 4;
        memcpy(b->state + (size_t)i * ROWS * state, e->state + (size_t)row * state,
               ROWS * state * sizeof *b->state);
        memcpy(b->action + (size_t)i * ENV_SPAN * action, e->action + (size_t)row * action,
               ENV_SPAN * action * sizeof *b->action);
    }
    return b;
}

// Three imagined records of the recorded ones' two histories.
static inline int sample_imagined(const records* f, records* d) {
    const size_t action = ENV_SPAN * 2, path = ENV_POINTS * 2;
    if (records_alloc(sample_task(), 3, 2, 1, d, NULL) != FIRM_OK) return 0;
    memcpy(d->seen, f->seen, 2 * RECORD_FRAMES * sizeof *d->seen);
    memcpy(d->past, f->past, 2 * (RECORD_FRAMES - 1) * 2 * sizeof *d->past);
    for (int i = 0; i < 3; i++) {
        const size_t from = d->history[i] = i / 2;
        memcpy(d->action + (size_t)i * action, f->action + from * action,
               action * sizeof *d->action);
        memcpy(d->config + (size_t)i * path, f->config + from * path, path * sizeof *d->config);
        for (int k = 0; k < ENV_HORIZON; k++)
            d->spread[i * ENV_HORIZON + k] = 0.125f * (float)(i + k);
    }
    return 1;
}

// Two recorded records and the branches' four, with the pairs of the recorded ones, and imagined
// ones. It points into the episodes and branches.
static inline int sample_pack(const episodes* e, const branches* b, pack* p) {
    const int64_t rows[2] = {e->offset[0] + 5, e->offset[1] + 7};
    *p = (pack){.spec = e->spec,
                .data_hash = e->hash,
                .data_seed = e->seed,
                .selection = "a sample",
                .from = {e, {b, NULL}}};
    p->scenes = scenes_count(&p->from);
    p->list[0] = (pack_list){.source = PACK_HELD, .lag = 1};
    for (int k = 0; k < e->spec->task.action_dim; k++) p->action_std[k] = 0.5f;
    p->lists = 1;
    return records_of_rows(&p->from, rows, 2, &p->set[PACK_F], NULL) == FIRM_OK &&
           records_of_rows(&p->from, rows, 1, &p->set[PACK_HELD], NULL) == FIRM_OK &&
           records_of_branches(&p->from, 0, &p->set[PACK_I], NULL) == FIRM_OK &&
           sample_imagined(&p->set[PACK_F], &p->set[PACK_D]) &&
           pairs_of_records(&p->from, &p->set[PACK_HELD], &p->list[0].p, NULL) == FIRM_OK;
}

// Three trials, a pixel apart.
static inline trial_set* sample_trials(void) {
    enum { TRIALS = 3 };
    trial_set* s;
    if (trial_set_create(sample_task(), TRIALS, &s, NULL) != FIRM_OK) return NULL;
    s->offset = 25;
    s->seed = 42;
    for (int i = 0; i < TRIALS; i++) {
        s->row[i] = 10 + 200 * i;
        s->episode[i] = 2 * i;
        s->draw[i] = (i + 1) % TRIALS;
        for (int k = 0; k < TRIAL_ROWS * 2; k++) s->rows->state[i * TRIAL_ROWS * 2 + k] = 40 + k;
        for (int k = 0; k < TRIAL_ACTIONS * 2; k++) s->rows->action[i * TRIAL_ROWS * 2 + k] = 0.5f;
    }
    for (int k = 0; k < 2; k++) s->action_std[k] = 1.0f;
    return s;
}

#endif
