// batch.c - see batch.h.
#include "batch.h"

#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "core/status.h"
#include "model/model.h"

struct batch {
    firm_model_info info;
    int macros;
    pool* threads;
    firm_controllers* ctls;  // one per thread
    // of the call in progress
    const batch_question* q;
    float *config, *path, *distance;
    firm_status* bad;  // (workers) the first failure that a worker met
    int* where;        // (workers) its item
};

int model_typed(const firm_model* model, char* out, size_t room) {
    return task_write(&model->task, out, room);
}

static firm_status build(batch* b, const firm_model* model, int macros, int threads,
                         firm_error* err) {
    TRY(firm_model_info_get(model, &b->info));
    TRY(pool_create(threads, &b->threads, err));
    const int workers = pool_threads(b->threads);
    b->bad = mem_calloc((size_t)workers, sizeof *b->bad);
    b->where = mem_calloc((size_t)workers, sizeof *b->where);
    if (!b->bad || !b->where) return FAIL(err, FIRM_E_MEMORY, "no memory for a batch");
    // Nothing is searched here, so the search's memory is kept small.
    firm_controller_params p = firm_controller_params_default();
    p.mode = FIRM_MODE_CONTRACT;
    p.threads = 1;
    p.candidates = 16;
    p.elites = 2;
    p.iterations = 1;
    p.horizon = macros;
    b->macros = macros;
    return firm_controllers_create(model, &p, workers, &b->ctls, err);
}

firm_status batch_create(const firm_model* model, int macros, int threads, batch** out,
                         firm_error* err) {
    *out = NULL;
    batch* b = mem_calloc(1, sizeof *b);
    if (!b) return FAIL(err, FIRM_E_MEMORY, "no memory for a batch");
    firm_status st = build(b, model, macros, threads, err);
    if (st != FIRM_OK) {
        batch_free(b);
        return st;
    }
    *out = b;
    return FIRM_OK;
}

void batch_free(batch* b) {
    if (!b) return;
    firm_controllers_free(b->ctls);
    pool_free(b->threads);
    mem_free(b->bad);
    mem_free(b->where);
    mem_free(b);
}

int batch_macros(const batch* b) {
    return b->macros;
}

static size_t frame_bytes(const batch* b) {
    return (size_t)b->info.image_size * (size_t)b->info.image_size * 3;
}

// Runs a piece for every item. Of several failures the one of the lowest item is reported, so that
// the sentence does not depend on the threads.
static firm_status all(batch* b, int items, pool_fn piece, firm_error* err) {
    const int workers = pool_threads(b->threads);
    memset(b->bad, 0, (size_t)workers * sizeof *b->bad);
    pool_for(b->threads, items, piece, b);
    int first = -1;
    for (int w = 0; w < workers; w++)
        if (b->bad[w] != FIRM_OK && (first < 0 || b->where[w] < b->where[first])) first = w;
    if (first < 0) return FIRM_OK;
    const char* why = firm_controller_error(firm_controllers_at(b->ctls, first));
    return FAIL(err, b->bad[first], "item %d of the batch: %s", b->where[first], why);
}

// A worker stops at its first failure, so its controller keeps the sentence.
static void note(batch* b, int item, int worker, firm_status st) {
    if (st == FIRM_OK) return;
    b->bad[worker] = st;
    b->where[worker] = item;
}

// ---- ground -------------------------------------------------------------------------------------

static firm_status ground(batch* b, firm_controller* c, int item) {
    TRY(firm_controller_reset(c, 0));
    TRY(firm_controller_push(c, b->q->frames + (size_t)item * frame_bytes(b), NULL));
    TRY(firm_controller_config(c, b->config + (size_t)item * (size_t)b->info.config_dim));
    return FIRM_OK;
}

static void ground_piece(void* arg, int item, int worker) {
    batch* b = arg;
    if (b->bad[worker] != FIRM_OK) return;
    note(b, item, worker, ground(b, firm_controllers_at(b->ctls, worker), item));
}

firm_status batch_ground(batch* b, const uint8_t* frames, int count, float* config,
                         firm_error* err) {
    batch_question q = {.count = count, .frames = frames};
    b->q = &q;
    b->config = config;
    return all(b, count, ground_piece, err);
}

// ---- predict ------------------------------------------------------------------------------------

static firm_status predict(batch* b, firm_controller* c, int item) {
    const batch_question* q = b->q;
    const firm_model_info* info = &b->info;
    const size_t i = (size_t)item, wide = (size_t)info->action_dim, rows = (size_t)q->macros + 1;
    const uint8_t* frame = q->frames + i * (size_t)q->seen * frame_bytes(b);
    TRY(firm_controller_reset(c, 0));
    for (int t = 0; t < q->seen; t++) {
        const float* before =
            t ? q->history + (i * (size_t)(q->seen - 1) + (size_t)t - 1) * wide : NULL;
        TRY(firm_controller_push(c, frame + (size_t)t * frame_bytes(b), before));
    }
    if (b->distance && q->goal)
        TRY(firm_controller_goal(c, q->goal + (q->one_goal ? 0 : i) * frame_bytes(b)));
    else if (b->distance)
        TRY(firm_controller_goal_config(c, q->goal_values, q->goal_given));
    const size_t controls = (size_t)(q->macros * info->controls_per_macro);
    return firm_controller_predict(
        c, q->plan + i * controls * wide, q->macros, b->path + i * rows * (size_t)info->config_dim,
        b->distance ? b->distance + i * rows * (size_t)info->distance_dim : NULL);
}

static void predict_piece(void* arg, int item, int worker) {
    batch* b = arg;
    if (b->bad[worker] != FIRM_OK) return;
    note(b, item, worker, predict(b, firm_controllers_at(b->ctls, worker), item));
}

firm_status batch_predict(batch* b, const batch_question* q, float* path, float* distance,
                          firm_error* err) {
    b->q = q;
    b->path = path;
    b->distance = distance;
    return all(b, q->count, predict_piece, err);
}
