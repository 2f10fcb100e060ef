// caches.c - frozen modules evaluated once: tokens for the history stage, beliefs and grounded
// configurations for the recurrent stages.
#include <string.h>

#include "core/log.h"
#include "core/mem.h"
#include "train/internal.h"

enum { CHUNK = 128, SHARD = 4, FRAMES = HIST + 1 };

typedef struct encode_graph {
    nn_graph* g;
    nn_id image[FRAMES], action[HIST - 1];
    nn_id tokens[FRAMES], config[HIST], belief;
} encode_graph;

// the tokens of a history: the first frame has no predecessor, the others show their change
static firm_status encode_build(const firm_model* m, int frames, int belief, encode_graph* e,
                                firm_error* err) {
    memset(e, 0, sizeof *e);
    TRY(nn_graph_create(m->store, &e->g, err));
    for (int f = 0; f < frames; f++) {
        e->image[f] = nn_image(e->g, "frame", ENV_IMAGE);
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
    for (int f = 0; f + 1 < HIST; f++) e->action[f] = nn_input1(e->g, "action", m->env->action_dim);
    e->belief = model_belief(e->g, m, e->tokens, e->action);
    nn_output(e->g, e->belief);
    return FIRM_OK;
}

typedef struct encode_batch {
    const train_set* set;
    const firm_model* model;
    const encode_graph* graph;
    const moment* item;  // the moment of each sample
    int frames, belief;
    const int64_t* rows;  // histories: rows instead of moments
} encode_batch;

static firm_status encode_fill(void* ctx, const nn_feed* feed) {
    const encode_batch* b = ctx;
    int dim = b->model->env->action_dim;
    size_t bytes = ENV_IMAGE * ENV_IMAGE * 3;
    for (int i = 0; i < feed->count; i++) {
        int at = feed->first + i;
        moment plain = {.row = b->rows ? b->rows[at] : 0, .branch = -1, .outcome = -1};
        const moment* m = b->rows ? &plain : &b->item[at];
        for (int f = 0; f < b->frames; f++)
            TRY(moment_frame(b->set, m, f - (HIST - 1), feed->worker,
                             nn_feed_bytes(feed, b->graph->image[f]) + (size_t)i * bytes));
        for (int f = 0; f + 1 < HIST && b->belief; f++) {
            float raw[FIRM_MAX_ACTION];
            moment_actions(b->set, m, f - (HIST - 1), 1, raw);
            model_standardise(b->model, raw, 1, nn_feed_real(feed, b->graph->action[f]) + i * dim);
        }
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
    if (st != FIRM_OK)
        st = FAIL(err, st, "%s",
                  nn_exec_fault(e) ? nn_exec_fault(e) : "a training frame cannot be read");
    nn_exec_free(e);
    return st;
}

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

firm_status cache_histories(const train_set* s, const firm_model* m, const moments* of, pool* p,
                            const char* label, history_cache* out, firm_error* err) {
    encode_sink to = {.histories = out, .belief = m->shape.belief, .config = s->env->config_dim};
    out->count = of->histories;
    out->belief = mem_alloc((size_t)of->histories * (size_t)to.belief * sizeof(float));
    out->config = mem_alloc((size_t)of->histories * HIST * (size_t)to.config * sizeof(float));
    if (!out->belief || !out->config)
        return FAIL(err, FIRM_E_MEMORY, "no memory for the belief cache");
    encode_graph g;
    firm_status st = encode_build(m, HIST, 1, &g, err);
    encode_batch b = {
        .set = s, .model = m, .graph = &g, .rows = of->row, .frames = HIST, .belief = 1};
    if (st == FIRM_OK) st = encode_all(&b, of->histories, p, label, take_history, &to, err);
    nn_graph_free(g.g);
    return st;
}

void cache_free(history_cache* c) {
    mem_free(c->belief);
    mem_free(c->config);
    *c = (history_cache){0};
}

static void take_tokens(void* sink, const nn_exec* e, int first, int n) {
    encode_sink* to = sink;
    token_cache* c = to->tokens;
    size_t size = (size_t)c->size;
    for (int i = 0; i < n; i++)
        for (int f = 0; f < FRAMES; f++)
            memcpy(c->tokens + ((size_t)(first + i) * FRAMES + (size_t)f) * size,
                   nn_exec_output(e, to->graph->tokens[f]) + (size_t)i * size,
                   size * sizeof(float));
    progress_step(&to->bar, first + n, "");
}

firm_status cache_tokens(const train_set* s, const firm_model* m, const moments* of, pool* p,
                         const char* label, token_cache* out, firm_error* err) {
    out->count = of->count;
    out->size = model_token_count(m) * model_token_width(m);
    out->tokens = mem_alloc((size_t)of->count * FRAMES * (size_t)out->size * sizeof(float));
    if (!out->tokens)
        return FAIL(err, FIRM_E_MEMORY,
                    "no memory for the tokens of %d moments; lower train.segments", of->count);
    encode_graph g;
    firm_status st = encode_build(m, FRAMES, 0, &g, err);
    encode_batch b = {.set = s, .model = m, .graph = &g, .item = of->item, .frames = FRAMES};
    encode_sink to = {.tokens = out};
    if (st == FIRM_OK) st = encode_all(&b, of->count, p, label, take_tokens, &to, err);
    nn_graph_free(g.g);
    return st;
}
