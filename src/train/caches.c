// caches.c - frozen modules evaluated once: tokens for the history stage and as anchors, beliefs
// and grounded configurations for the recurrent stages.
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "train/internal.h"

enum { CHUNK = 128, SHARD = 4, FRAMES = HIST + 1 };

typedef struct encode_graph {
    nn_graph* g;
    int frames;
    nn_id image[FRAMES], action[HIST - 1];
    nn_id tokens[FRAMES], config[HIST], belief;
} encode_graph;

// the tokens of a history: the first frame has no predecessor, the others show their change
static firm_status encode_build(const firm_model* m, int frames, int belief, encode_graph* e,
                                firm_error* err) {
    memset(e, 0, sizeof *e);
    TRY(nn_graph_create(m->store, &e->g, err));
    e->frames = frames;
    for (int f = 0; f < frames; f++) {
        e->image[f] = nn_image(e->g, "frame", m->task.image);
        e->tokens[f] = model_tokens(e->g, m, e->image[f], f ? e->image[f - 1] : NN_NONE);
    }
    if (!belief) {
        for (int f = 0; f < frames; f++) nn_output(e->g, e->tokens[f]);
        return FIRM_OK;
    }
    for (int f = 0; f < HIST; f++) {
        nn_id plain = f ? model_tokens(e->g, m, e->image[f], NN_NONE) : e->tokens[0];
        e->config[f] = model_ground(e->g, m, plain);
        nn_output(e->g, e->config[f]);
    }
    for (int f = 0; f + 1 < HIST; f++) e->action[f] = nn_input1(e->g, "action", m->task.action_dim);
    e->belief = model_belief(e->g, m, e->tokens, e->action);
    nn_output(e->g, e->belief);
    return FIRM_OK;
}

// What is encoded: histories (rows of `records`), records with the frame after them, or pairs.
typedef enum encode_what { HISTORIES, RECORDS, PAIRS } encode_what;

typedef struct encode_batch {
    const train_set* set;
    const firm_model* model;
    const encode_graph* graph;
    encode_what what;
    const records* records;
    const pairs* pairs;
    int belief;
} encode_batch;

static int64_t scene_of(const encode_batch* b, int at, int frame) {
    if (b->what == PAIRS) return b->pairs->scene[2 * at];
    if (frame == HIST) return b->records->after[at];
    int history = b->what == RECORDS ? b->records->history[at] : at;
    return b->records->seen[history * HIST + frame];
}

static firm_status encode_fill(void* ctx, const nn_feed* feed) {
    const encode_batch* b = ctx;
    int dim = b->model->task.action_dim;
    size_t bytes = task_frame_bytes(&b->model->task);
    for (int i = 0; i < feed->count; i++) {
        int at = feed->first + i;
        for (int f = 0; f < b->graph->frames; f++)
            TRY(train_frame(b->set, feed->worker, scene_of(b, at, f),
                            nn_feed_bytes(feed, b->graph->image[f]) + (size_t)i * bytes));
        for (int f = 0; f + 1 < HIST && b->belief; f++)
            model_standardise(b->model, b->records->past + (at * (HIST - 1) + f) * dim, 1,
                              nn_feed_real(feed, b->graph->action[f]) + i * dim);
    }
    return FIRM_OK;
}

// where the outputs of a batch go
typedef struct encode_sink {
    const encode_graph* graph;
    progress bar;
    history_cache* histories;
    token_cache* tokens;
    int belief, config;  // numbers of each, per frame
} encode_sink;

// runs the graph over `count` samples; `take` copies the outputs of each batch
static firm_status encode_all(const encode_batch* b, int count, pool* p, const char* label,
                              nn_take_fn take, encode_sink* to, firm_error* err) {
    nn_exec* e;
    const nn_device* device = &b->set->device;
    nn_exec_options opt = {.batch = CHUNK, .shard = SHARD, .lanes = 1, .queue = device->queue};
    TRY(nn_exec_create(b->graph->g, device->backend, &opt, p, &e, err));
    to->graph = b->graph;
    progress_begin(&to->bar, label, count);
    firm_status st = nn_exec_stream(e, count, encode_fill, (void*)b, take, to);
    progress_end(&to->bar);
    if (st != FIRM_OK) st = train_failed(e, st, "training", err);
    nn_exec_free(e);
    return st;
}

// ---- beliefs and configurations -----------------------------------------------------------------

static void take_history(void* sink, const nn_exec* e, int first, int n) {
    encode_sink* to = sink;
    size_t belief = (size_t)to->belief, config = (size_t)to->config;
    memcpy(to->histories->belief + (size_t)first * belief, nn_exec_output(e, to->graph->belief),
           (size_t)n * belief * sizeof(float));
    for (int i = 0; i < n; i++)
        for (int f = 0; f < HIST; f++)
            memcpy(to->histories->config + ((size_t)(first + i) * HIST + (size_t)f) * config,
                   nn_exec_output(e, to->graph->config[f]) + (size_t)i * config,
                   config * sizeof(float));
    progress_step(&to->bar, first + n, "");
}

firm_status cache_histories(const train_set* s, const firm_model* m, const records* of, pool* p,
                            const char* label, history_cache* out, firm_error* err) {
    encode_sink to = {
        .histories = out, .belief = m->shape.belief, .config = s->env->task.config_dim};
    out->count = of->histories;
    out->belief = mem_alloc((size_t)of->histories * (size_t)to.belief * sizeof(float));
    out->config = mem_alloc((size_t)of->histories * HIST * (size_t)to.config * sizeof(float));
    if (!out->belief || !out->config)
        return FAIL(err, FIRM_E_MEMORY, "no memory for the belief cache");
    encode_graph g;
    firm_status st = encode_build(m, HIST, 1, &g, err);
    encode_batch b = {
        .set = s, .model = m, .graph = &g, .what = HISTORIES, .records = of, .belief = 1};
    if (st == FIRM_OK) st = encode_all(&b, of->histories, p, label, take_history, &to, err);
    nn_graph_free(g.g);
    return st;
}

void cache_free(history_cache* c) {
    mem_free(c->belief);
    mem_free(c->config);
    *c = (history_cache){0};
}

// ---- tokens -------------------------------------------------------------------------------------

static void take_tokens(void* sink, const nn_exec* e, int first, int n) {
    encode_sink* to = sink;
    token_cache* c = to->tokens;
    size_t size = (size_t)c->size, frames = (size_t)c->frames;
    for (int i = 0; i < n; i++)
        for (size_t f = 0; f < frames; f++)
            memcpy(c->tokens + ((size_t)(first + i) * frames + f) * size,
                   nn_exec_output(e, to->graph->tokens[f]) + (size_t)i * size,
                   size * sizeof(float));
    progress_step(&to->bar, first + n, "");
}

static firm_status cache_tokens(encode_batch* b, int count, int frames, pool* p, const char* label,
                                token_cache* out, firm_error* err) {
    *out = (token_cache){count, frames, model_token_count(b->model) * model_token_width(b->model),
                         NULL};
    out->tokens =
        mem_alloc((size_t)count * (size_t)frames * (size_t)out->size * sizeof *out->tokens);
    if (!out->tokens)
        return FAIL(err, FIRM_E_MEMORY,
                    "no memory for the tokens of %d x %d frames; lower train.segments or "
                    "train.frame_pool",
                    count, frames);
    encode_graph g;
    firm_status st = encode_build(b->model, frames, 0, &g, err);
    b->graph = &g;
    encode_sink to = {.tokens = out};
    if (st == FIRM_OK) st = encode_all(b, count, p, label, take_tokens, &to, err);
    nn_graph_free(g.g);
    return st;
}

firm_status cache_record_tokens(const train_set* s, const firm_model* m, const records* of, pool* p,
                                const char* label, token_cache* out, firm_error* err) {
    encode_batch b = {.set = s, .model = m, .what = RECORDS, .records = of};
    return cache_tokens(&b, of->count, HIST + 1, p, label, out, err);
}

firm_status cache_history_tokens(const train_set* s, const firm_model* m, const records* of,
                                 pool* p, const char* label, token_cache* out, firm_error* err) {
    encode_batch b = {.set = s, .model = m, .what = HISTORIES, .records = of};
    return cache_tokens(&b, of->histories, HIST, p, label, out, err);
}

firm_status cache_pair_tokens(const train_set* s, const firm_model* m, const pairs* of, pool* p,
                              const char* label, token_cache* out, firm_error* err) {
    encode_batch b = {.set = s, .model = m, .what = PAIRS, .pairs = of};
    return cache_tokens(&b, of->count, 1, p, label, out, err);
}

void token_cache_free(token_cache* c) {
    mem_free(c->tokens);
    *c = (token_cache){0};
}
