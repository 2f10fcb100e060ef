// exec.c - runs graphs on the host: memory planned once (layout.h), shards over lanes, reverse mode
// derived from the node list.
#include "nn/exec.h"

#include <stdatomic.h>
#include <string.h>

#include "core/mem.h"
#include "nn/gpu.h"
#include "nn/lanes.h"
#include "nn/packs.h"
#include "nn/stops.h"
#include "nn/terms.h"
#include "nn/whole.h"

struct nn_exec {
    const nn_exec_kind* kind;  // of a device; NULL: the host, and all that follows `remote`
    void* remote;

    const nn_graph* g;
    const nn_backend* b;
    nn_exec_options opt;
    pool* p;
    int shards, slots, keep_all;

    char* arena;  // (slots, slot_bytes)
    nn_layout at;
    nn_whole whole;
    char* aside;  // (batch, aside_bytes) operands of gradients over the whole batch; NULL: none
    nn_stops stops;
    nn_packs packs;
    nn_lanes lanes;
    int packed;  // the packed weights are those of the run in progress
    size_t total_bytes;
    char* scratch;  // (workers, scratch_bytes)
    void** feed;    // (workers, tensors) input pointers of the shard being filled

    void* params;      // reals; the store's own block for float backends
    void* lane_grad;   // (lanes, grad_count) reals
    float* grad;       // (grad_count) host floats
    double* ref_grad;  // (grad_count), ref only

    float** output;  // per tensor: (batch, size) host floats, or NULL
    nn_terms terms;

    // the run in progress
    nn_fill_fn fill;
    void* fill_ctx;
    int64_t update;
    int base, count;  // number of the first sample, samples
    struct {
        int from, to;
    } ahead,
        back;  // pieces of the passes between two stops: nodes from .. to - 1, back from - 1 .. to
    atomic_int failure;
};

float* nn_feed_real(const nn_feed* f, nn_id input) {
    CHECK(f->graph->tensor[input].kind == NN_INPUT, "tensor %d is not a real input", input);
    return f->slot[input];
}

uint8_t* nn_feed_bytes(const nn_feed* f, nn_id input) {
    CHECK(f->graph->tensor[input].kind == NN_BYTES, "tensor %d is not a byte input", input);
    return f->slot[input];
}

int nn_feed_wants(const nn_feed* f, nn_id input) {
    return f->slot[input] != NULL;
}

int64_t nn_feed_row(const nn_feed* f, int i) {
    return f->row ? f->row[i] : f->first + i;
}

// ---- memory -------------------------------------------------------------------------------------

static int alloc_blocks(nn_exec* e) {
    const nn_graph* g = e->g;
    size_t workers = (size_t)pool_threads(e->p), real = e->b->real;
    e->output = mem_calloc((size_t)g->tensors, sizeof *e->output);
    if (!e->output) return 0;
    for (int i = 0; i < g->outputs; i++) {
        size_t n = (size_t)e->opt.batch * (size_t)g->tensor[g->output[i]].size;
        if (!e->output[g->output[i]] && !(e->output[g->output[i]] = mem_calloc(n, sizeof(float))))
            return 0;
        e->total_bytes += n * sizeof(float);
    }
    e->arena = e->b->alloc((size_t)e->slots * e->at.slot_bytes);
    e->scratch = e->b->alloc(workers * e->at.scratch_bytes);
    e->feed = mem_calloc(workers * (size_t)g->tensors, sizeof *e->feed);
    if (!e->arena || !e->scratch || !e->feed) return 0;
    e->total_bytes += (size_t)e->slots * e->at.slot_bytes + workers * e->at.scratch_bytes;
    if (e->at.aside_bytes) {
        e->aside = e->b->alloc((size_t)e->opt.batch * e->at.aside_bytes);
        if (!e->aside) return 0;
        e->total_bytes += (size_t)e->opt.batch * e->at.aside_bytes;
    }
    if (real == sizeof(float)) {
        e->params = g->store->value;
    } else {
        e->params = e->b->alloc(g->store->count * real);
        if (!e->params) return 0;
        e->b->upload(e->params, g->store->value, g->store->count);
    }
    if (e->at.grad_count) {
        e->lane_grad = e->b->alloc((size_t)e->opt.lanes * e->at.grad_count * real);
        e->grad = mem_calloc(e->at.grad_count, sizeof *e->grad);
        if (!e->lane_grad || !e->grad) return 0;
        if (real == sizeof(double)) {
            e->ref_grad = mem_calloc(e->at.grad_count, sizeof *e->ref_grad);
            if (!e->ref_grad) return 0;
        }
        e->total_bytes += (size_t)(e->opt.lanes + 1) * e->at.grad_count * real;
    }
    e->total_bytes += e->packs.count * sizeof(float) + nn_stops_bytes(&e->stops, e->shards);
    return 1;
}

static const nn_exec_kind* kind_of(const nn_exec_options* opt) {
    if (!opt->queue) return NULL;
    CHECK(nn_gpu_linked(), "a queue without a device behind it");
    return nn_gpu_linked()->exec;
}

firm_status nn_exec_create(const nn_graph* g, const nn_backend* b, const nn_exec_options* opt,
                           pool* p, nn_exec** out, firm_error* err) {
    *out = NULL;
    if (g->broken || g->store->broken)
        return FAIL(err, FIRM_E_MEMORY, "no memory to build a graph");
    CHECK(g->store->value, "the store must be sealed before a graph runs");
    CHECK(opt->batch > 0 && opt->shard > 0 && opt->lanes > 0, "batch %d, shard %d, lanes %d",
          opt->batch, opt->shard, opt->lanes);
    nn_exec* e = mem_calloc(1, sizeof *e);
    if (!e) return FAIL(err, FIRM_E_MEMORY, "no memory to run a graph");
    e->g = g;
    e->b = b;
    e->opt = *opt;
    e->p = p;
    e->kind = kind_of(opt);
    if (e->kind) {
        firm_status made = e->kind->create(g, opt, p, &e->remote, err);
        if (made == FIRM_OK)
            *out = e;
        else
            mem_free(e);
        return made;
    }
    if (e->opt.shard > e->opt.batch) e->opt.shard = e->opt.batch;
    e->shards = (opt->batch + e->opt.shard - 1) / e->opt.shard;
    if (e->opt.lanes > e->shards) e->opt.lanes = e->shards;
    for (int i = 0; i < g->terms; i++)
        if (g->term[i].reduce == NN_REDUCE_TOPMEAN) e->keep_all = opt->train;
    if (nn_stops_wait(g, b, opt->train)) e->keep_all = 1;
    // a shard being run needs a slot: its own if all are kept, else its thread's
    e->slots = e->keep_all ? e->shards : pool_threads(p);

    nn_layout_kind layout = !opt->train       ? NN_LAYOUT_FORWARD
                            : !b->weight_tile ? NN_LAYOUT_TRAIN
                            : e->keep_all     ? NN_LAYOUT_WHOLE
                                              : NN_LAYOUT_ASIDE;
    firm_status st = nn_layout_make(g, b, e->opt.shard, layout, NULL, &e->at, err);
    if (st == FIRM_OK) st = nn_whole_make(g, &e->at, &e->whole, err);
    if (st == FIRM_OK) st = nn_stops_make(g, b, &e->at, opt->train, e->shards, &e->stops, err);
    if (st == FIRM_OK) st = nn_lanes_make(e->opt.lanes, e->shards, &e->lanes, err);
    if (st == FIRM_OK && opt->train) st = nn_packs_make(g, b, &e->at, &e->packs, err);
    if (st == FIRM_OK) st = nn_terms_make(g, opt->batch, e->shards, &e->terms, err);
    if (st == FIRM_OK && !alloc_blocks(e)) st = FIRM_E_MEMORY;
    if (st != FIRM_OK) {
        nn_exec_free(e);
        return FAIL(err, FIRM_E_MEMORY, "no memory to run a graph at batch %d; try a smaller batch",
                    opt->batch);
    }
    *out = e;
    return FIRM_OK;
}

void nn_exec_free(nn_exec* e) {
    if (!e) return;
    if (e->kind) {
        e->kind->free(e->remote);
        mem_free(e);
        return;
    }
    if (e->output)
        for (int i = 0; i < e->g->tensors; i++) mem_free(e->output[i]);
    nn_terms_free(&e->terms);
    if (e->params != e->g->store->value) e->b->release(e->params);
    e->b->release(e->arena);
    e->b->release(e->scratch);
    e->b->release(e->aside);
    e->b->release(e->lane_grad);
    mem_free(e->output);
    mem_free(e->feed);
    mem_free(e->grad);
    mem_free(e->ref_grad);
    nn_whole_free(&e->whole);
    nn_stops_free(&e->stops);
    nn_packs_free(&e->packs);
    nn_lanes_free(&e->lanes);
    nn_layout_free(&e->at);
    mem_free(e);
}

// ---- one shard ----------------------------------------------------------------------------------

static void* value_of(const nn_exec* e, char* slot, nn_id id) {
    return nn_layout_value(&e->at, e->g, e->b->real, slot, e->params, id);
}

// A shard at work: its rows, its slot, and who works on it.
typedef struct shard_at {
    int shard, first, rows, worker;
    char* slot;
} shard_at;

static shard_at shard_of(const nn_exec* e, int shard, int slot_index, int worker) {
    int first = shard * e->opt.shard, left = e->count - first;
    return (shard_at){.shard = shard,
                      .first = first,
                      .rows = left < e->opt.shard ? left : e->opt.shard,
                      .worker = worker,
                      .slot = e->arena + (size_t)slot_index * e->at.slot_bytes};
}

static nn_call prepare(const nn_exec* e, int node, const shard_at* at) {
    const nn_node* n = &e->g->node[node];
    nn_call c = {.graph = e->g,
                 .node = n,
                 .rows = at->rows,
                 .train = e->opt.train,
                 .batch = e->count,
                 .first = at->first,
                 .update = e->update};
    for (int j = 0; j < n->in_count; j++)
        if (n->in[j] != NN_NONE) c.in[j] = value_of(e, at->slot, n->in[j]);
    c.out = value_of(e, at->slot, n->out);
    c.save = at->slot + e->at.save_at[node];
    c.scratch = e->scratch + (size_t)at->worker * e->at.scratch_bytes;
    const nn_stop* stop = nn_stops_find(&e->stops, node);
    if (stop) c.sum = stop->sum[0], c.sum_back = stop->sum[1];
    return c;
}

static const void* packed_weights(const nn_exec* e, const nn_node* n, int back) {
    if (!e->packed || n->op != NN_LINEAR) return NULL;
    return nn_packs_find(&e->packs, e->g->tensor[n->in[1]].root, back);
}

static firm_status shard_fill(nn_exec* e, const shard_at* at) {
    const nn_graph* g = e->g;
    void** feed = e->feed + (size_t)at->worker * (size_t)g->tensors;
    int staged = e->b->real != sizeof(float);
    for (int i = 0; i < g->tensors; i++) {
        nn_kind kind = g->tensor[i].kind;
        feed[i] = kind == NN_BYTES   ? at->slot + e->at.value_at[i]
                  : kind == NN_INPUT ? at->slot + (staged ? e->at.stage_at[i] : e->at.value_at[i])
                                     : NULL;
    }
    nn_feed f = {.first = e->base + at->first,
                 .count = at->rows,
                 .worker = at->worker,
                 .update = e->update,
                 .slot = feed,
                 .graph = g};
    TRY(e->fill(e->fill_ctx, &f));
    for (int i = 0; i < g->tensors && staged; i++)
        if (g->tensor[i].kind == NN_INPUT)
            e->b->upload(at->slot + e->at.value_at[i], feed[i],
                         (size_t)at->rows * (size_t)g->tensor[i].size);
    return FIRM_OK;
}

static nn_term_rows term_rows(const nn_exec* e, const shard_at* at) {
    return (nn_term_rows){at->shard, at->first, at->rows, e->count, e->b->real};
}

// outputs and loss terms of a shard that has run forward
static void shard_results(nn_exec* e, const shard_at* at) {
    const nn_graph* g = e->g;
    for (int i = 0; i < g->outputs; i++) {
        size_t size = (size_t)g->tensor[g->output[i]].size;
        e->b->download(e->output[g->output[i]] + (size_t)at->first * size,
                       value_of(e, at->slot, g->output[i]), (size_t)at->rows * size);
    }
    const nn_term_rows rows = term_rows(e, at);
    for (int i = 0; i < g->terms; i++)
        nn_terms_note(&e->terms, i, &rows, value_of(e, at->slot, g->term[i].tensor));
}

// The nodes from .. to - 1. Inputs are filled before the first node and results read after the
// last; before a stop the shard's part of its sums is written.
static firm_status shard_forward(nn_exec* e, int shard, int slot_index, int worker) {
    const nn_graph* g = e->g;
    shard_at at = shard_of(e, shard, slot_index, worker);
    if (e->ahead.from == 0) TRY(shard_fill(e, &at));
    for (int i = e->ahead.from; i < e->ahead.to; i++) {
        nn_call c = prepare(e, i, &at);
        c.packed = packed_weights(e, c.node, 0);
        e->b->kernel[c.node->op].forward(&c);
    }
    if (e->ahead.to == g->nodes) {
        shard_results(e, &at);
    } else {
        const nn_stop* stop = nn_stops_find(&e->stops, e->ahead.to);
        nn_call c = prepare(e, e->ahead.to, &at);
        stop->gather->shard(&c, 0, stop->part[0] + (size_t)shard * stop->count[0]);
    }
    return FIRM_OK;
}

// seeds: d loss / d error of every sample
static void shard_seeds(nn_exec* e, const shard_at* at) {
    const nn_graph* g = e->g;
    const nn_term_rows rows = term_rows(e, at);
    for (int i = 0; i < g->terms; i++) {
        int root = g->tensor[g->term[i].tensor].root;
        if (g->tensor[root].wants_grad)
            nn_terms_seed(&e->terms, i, &rows, at->slot + e->at.grad_at[root]);
    }
}

static nn_whole_batch whole_batch(const nn_exec* e) {
    return (nn_whole_batch){.g = e->g,
                            .b = e->b,
                            .at = &e->at,
                            .arena = e->arena,
                            .aside = e->aside,
                            .shard = e->opt.shard,
                            .count = e->count,
                            .grad = e->grad};
}

// A node's call of the backward pass, without where its gradients go.
static nn_call prepare_back(const nn_exec* e, int node, const shard_at* at) {
    nn_call c = prepare(e, node, at);
    c.packed = packed_weights(e, c.node, 1);
    c.dout = at->slot + e->at.grad_at[e->g->tensor[c.node->out].root];
    return c;
}

// The nodes from - 1 down to `to`; before a stop its part of the sums is written.
static void shard_backward(nn_exec* e, int shard, int slot_index, int lane, int worker) {
    const nn_graph* g = e->g;
    shard_at at = shard_of(e, shard, slot_index, worker);
    char* lane_grad = (char*)e->lane_grad + (size_t)lane * e->at.grad_count * e->b->real;
    if (e->back.from == g->nodes) shard_seeds(e, &at);
    for (int i = e->back.from - 1; i >= e->back.to; i--) {
        if (!e->at.runs_back[i]) continue;
        nn_call c = prepare_back(e, i, &at);
        for (int j = 0; j < c.node->in_count; j++) {
            nn_id id = c.node->in[j];
            if (id == NN_NONE || !g->tensor[id].wants_grad) continue;
            if (j == 1 && e->at.whole[i]) continue;
            int root = g->tensor[id].root;
            c.accumulate[j] = e->at.adds[i][j];
            c.din[j] = g->tensor[root].kind == NN_PARAM
                           ? lane_grad + e->at.param_grad_at[root] * e->b->real
                           : at.slot + e->at.grad_at[root];
        }
        e->b->kernel[c.node->op].backward(&c);
        if (e->at.whole[i] && e->aside) {
            nn_whole_batch batch = whole_batch(e);
            nn_whole_keep(&batch, i, at.first, at.rows, c.in[0], c.dout);
        }
    }
    if (e->back.to > 0) {
        const nn_stop* stop = nn_stops_find(&e->stops, e->back.to - 1);
        nn_call c = prepare_back(e, e->back.to - 1, &at);
        stop->gather->shard(&c, 1, stop->part[1] + (size_t)shard * stop->count[1]);
    }
}

// ---- batches ------------------------------------------------------------------------------------

static void note_failure(nn_exec* e, firm_status st) {
    int none = FIRM_OK;
    if (st != FIRM_OK) atomic_compare_exchange_strong(&e->failure, &none, (int)st);
}

static void forward_item(void* arg, int shard, int worker) {
    nn_exec* e = arg;
    note_failure(e, shard_forward(e, shard, e->keep_all ? shard : worker, worker));
}

// gradients that this lane sums start at zero
static void clear_lane(nn_exec* e, int lane) {
    char* grad = (char*)e->lane_grad + (size_t)lane * e->at.grad_count * e->b->real;
    for (int i = 0; i < e->at.trained_count; i++) {
        const nn_trained* t = &e->at.trained[i];
        if (!t->whole) memset(grad + t->offset * e->b->real, 0, t->count * e->b->real);
    }
}

// A shard runs forward and backward while it is warm, in its thread's slot.
static void train_lanes(void* arg, int item, int worker) {
    (void)item;
    nn_exec* e = arg;
    nn_lane_shard s = {.lane = worker % e->opt.lanes};
    while (nn_lanes_claim(&e->lanes, s.lane, &s)) {
        if (s.shard == s.lane) clear_lane(e, s.lane);
        firm_status st = shard_forward(e, s.shard, worker, worker);
        note_failure(e, st);
        if (st != FIRM_OK) nn_lanes_stop(&e->lanes);
        if (st == FIRM_OK) shard_backward(e, s.shard, worker, s.lane, worker);
        nn_lanes_done(&e->lanes, &s);
    }
}

// all shards are kept: a lane takes its own, one after the other, through a piece of the pass
static void back_lane(void* arg, int lane, int worker) {
    nn_exec* e = arg;
    if (e->back.from == e->g->nodes) clear_lane(e, lane);
    for (int s = lane; s < e->shards; s += e->opt.lanes) shard_backward(e, s, s, lane, worker);
}

static void reduce_terms(nn_exec* e) {
    nn_terms_reduce(&e->terms, e->count, (e->count + e->opt.shard - 1) / e->opt.shard);
}

// ---- gradients ----------------------------------------------------------------------------------

static void reduce_part(nn_exec* e, size_t from, size_t to) {
    if (e->ref_grad) {
        for (size_t i = from; i < to; i++) {
            double sum = 0;
            for (int l = 0; l < e->opt.lanes; l++)
                sum += ((const double*)e->lane_grad)[(size_t)l * e->at.grad_count + i];
            e->ref_grad[i] = sum;
            e->grad[i] = (float)sum;
        }
        return;
    }
    memcpy(e->grad + from, (const float*)e->lane_grad + from, (to - from) * sizeof(float));
    for (int l = 1; l < e->opt.lanes; l++) {
        const float* lane = (const float*)e->lane_grad + (size_t)l * e->at.grad_count;
        for (size_t i = from; i < to; i++) e->grad[i] += lane[i];
    }
}

static void reduce_grad(void* arg, int chunk, int worker) {
    (void)worker;
    nn_exec* e = arg;
    for (int i = 0; i < e->at.trained_count; i++) {
        const nn_trained* t = &e->at.trained[i];
        size_t from, count;
        if (!t->whole && nn_part_in_chunk(t, chunk, &from, &count))
            reduce_part(e, t->offset + from, t->offset + from + count);
    }
}

static void pack_item(void* arg, int item, int worker) {
    (void)worker;
    nn_exec* e = arg;
    nn_packs_fill(&e->packs, e->g, e->b, item);
}

static void whole_item(void* arg, int item, int worker) {
    (void)worker;
    nn_exec* e = arg;
    nn_whole_batch batch = whole_batch(e);
    nn_whole_tile_run(&batch, &e->whole.tile[item]);
}

void nn_exec_set_update(nn_exec* e, int64_t update) {
    e->update = update;
}

// all shards forward, from one stop to the next
static firm_status forward_pieces(nn_exec* e) {
    int shards = (e->count + e->opt.shard - 1) / e->opt.shard;
    for (int k = 0; k <= e->stops.stops; k++) {
        e->ahead.from = k ? e->stops.stop[k - 1].node : 0;
        e->ahead.to = k < e->stops.stops ? e->stops.stop[k].node : e->g->nodes;
        pool_for(e->p, shards, forward_item, e);
        if (atomic_load(&e->failure) != FIRM_OK) break;
        if (k < e->stops.stops) nn_stop_add(&e->stops.stop[k], 0, shards);
    }
    return (firm_status)atomic_load(&e->failure);
}

static void backward_pieces(nn_exec* e) {
    e->back.from = e->g->nodes;
    for (int k = e->stops.stops - 1; k >= -1; k--) {
        const nn_stop* stop = k >= 0 ? &e->stops.stop[k] : NULL;
        if (stop && !stop->sum[1]) continue;  // no gradient gets there
        e->back.to = stop ? stop->node + 1 : 0;
        pool_for(e->p, e->opt.lanes, back_lane, e);
        if (stop) nn_stop_add(stop, 1, e->shards);
        e->back.from = e->back.to;
    }
}

// running statistics follow the batch
static void settle(nn_exec* e) {
    shard_at any = shard_of(e, 0, 0, 0);
    for (int k = 0; k < e->stops.stops; k++) {
        const nn_stop* stop = &e->stops.stop[k];
        nn_call c = prepare(e, stop->node, &any);
        if (stop->gather->settle) stop->gather->settle(&c);
    }
}

firm_status nn_exec_forward(nn_exec* e, int count, nn_fill_fn fill, void* ctx) {
    CHECK(count > 0 && count <= e->opt.batch, "%d samples in a batch of %d", count, e->opt.batch);
    if (e->kind) return e->kind->forward(e->remote, e->base, count, e->update, fill, ctx);
    e->fill = fill;
    e->fill_ctx = ctx;
    e->count = count;
    atomic_store(&e->failure, FIRM_OK);
    firm_status st = forward_pieces(e);
    if (st == FIRM_OK) reduce_terms(e);
    return st;
}

firm_status nn_exec_stream(nn_exec* e, int count, nn_fill_fn fill, void* ctx, nn_take_fn take,
                           void* to) {
    if (e->kind) return e->kind->stream(e->remote, e, count, e->update, fill, ctx, take, to);
    firm_status st = FIRM_OK;
    for (; e->base < count && st == FIRM_OK; e->base += e->opt.batch) {
        int n = count - e->base < e->opt.batch ? count - e->base : e->opt.batch;
        st = nn_exec_forward(e, n, fill, ctx);
        if (st == FIRM_OK) take(to, e, e->base, n);
    }
    e->base = 0;
    return st;
}

static firm_status run_passes(nn_exec* e) {
    if (e->keep_all) {
        TRY(forward_pieces(e));
        reduce_terms(e);
        backward_pieces(e);
        settle(e);
    } else {
        e->ahead.from = e->back.to = 0;
        e->ahead.to = e->back.from = e->g->nodes;
        nn_lanes_begin(&e->lanes);
        pool_each(e->p, train_lanes, e);
        if (atomic_load(&e->failure) != FIRM_OK) return (firm_status)atomic_load(&e->failure);
        reduce_terms(e);
    }
    pool_for(e->p, e->whole.tiles, whole_item, e);
    pool_for(e->p, nn_chunks(e->at.grad_count), reduce_grad, e);
    return FIRM_OK;
}

firm_status nn_exec_gradient(nn_exec* e, nn_fill_fn fill, void* ctx) {
    CHECK(e->opt.train, "gradient of an exec made without train");
    if (e->kind) return e->kind->gradient(e->remote, e->update, fill, ctx);
    e->fill = fill;
    e->fill_ctx = ctx;
    e->count = e->opt.batch;
    atomic_store(&e->failure, FIRM_OK);
    pool_for(e->p, e->packs.jobs, pack_item, e);
    e->packed = 1;
    firm_status st = run_passes(e);
    e->packed = 0;
    return st;
}

// ---- results ------------------------------------------------------------------------------------

static const nn_layout* layout_of(const nn_exec* e) {
    return e->kind ? e->kind->layout(e->remote) : &e->at;
}

size_t nn_exec_bytes(const nn_exec* e) {
    return e->kind ? e->kind->bytes(e->remote) : e->total_bytes;
}

const float* nn_exec_output(const nn_exec* e, nn_id x) {
    const float* out = e->kind ? e->kind->output(e->remote, x) : e->output[x];
    CHECK(out, "tensor %d is not an output", x);
    return out;
}

double nn_exec_loss(const nn_exec* e) {
    return e->kind ? e->kind->loss(e->remote) : e->terms.loss;
}
double nn_exec_term(const nn_exec* e, int term) {
    return e->kind ? e->kind->term(e->remote, term) : e->terms.term[term].value;
}

int nn_exec_trained(const nn_exec* e, const nn_trained** list) {
    if (list) *list = layout_of(e)->trained;
    return layout_of(e)->trained_count;
}

size_t nn_exec_grad_count(const nn_exec* e) {
    return layout_of(e)->grad_count;
}
float* nn_exec_grad(nn_exec* e) {
    return e->kind ? e->kind->grad(e->remote) : e->grad;
}

const char* nn_exec_fault(const nn_exec* e) {
    return e->kind ? e->kind->fault(e->remote) : NULL;
}

double* nn_exec_ref_params(nn_exec* e) {
    CHECK(e->b->real == sizeof(double), "only ref keeps parameters in double");
    return e->params;
}

double* nn_exec_ref_grad(nn_exec* e) {
    return e->ref_grad;
}

void nn_exec_pull_params(nn_exec* e) {
    if (e->kind)
        e->kind->pull_params(e->remote);
    else if (e->params != e->g->store->value)
        e->b->upload(e->params, e->g->store->value, e->g->store->count);
}
