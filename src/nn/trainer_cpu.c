// trainer_cpu.c - updates on the host: an exec per part, one gradient after the other, AdamW.
#include "core/mem.h"
#include "nn/trainer_kind.h"

typedef struct host_part {
    nn_trainer* trainer;
    const nn_part* part;
    nn_exec* exec;
    int64_t* row;  // (threads, shard) rows picked for the shard being filled; tables only
    void** slot;   // (threads, tensors) where a piece goes; windows only
    int shard;
} host_part;

typedef struct host {
    host_part part[NN_MAX_PARTS];
    nn_adamw* adamw;
    float* grad;  // (grad_count) sum of all parts: the first part's own block, where it has all
    int own_grad;
} host;

static firm_status open_part(nn_trainer* t, int i, firm_error* err) {
    host* h = t->state;
    host_part* hp = &h->part[i];
    const nn_part* p = &t->part[i];
    nn_exec_options opt = {.batch = p->batch, .shard = p->shard, .lanes = t->opt.lanes, .train = 1};
    *hp = (host_part){.trainer = t, .part = p, .shard = p->shard};
    TRY(nn_exec_create(p->graph, t->opt.device->backend, &opt, t->opt.p, &hp->exec, err));
    if (!p->rows) return FIRM_OK;
    hp->row = mem_calloc((size_t)pool_threads(t->opt.p) * (size_t)p->shard, sizeof *hp->row);
    size_t slots = (size_t)pool_threads(t->opt.p) * (size_t)p->graph->tensors;
    if (p->windows) hp->slot = mem_calloc(slots, sizeof *hp->slot);
    return hp->row && (hp->slot || !p->windows)
               ? FIRM_OK
               : FAIL(err, FIRM_E_MEMORY, "no memory for training");
}

static firm_status host_open(nn_trainer* t, firm_error* err) {
    host* h = t->state = mem_calloc(1, sizeof *h);
    if (!h) return FAIL(err, FIRM_E_MEMORY, "no memory for training");
    for (int i = 0; i < t->parts; i++) TRY(open_part(t, i, err));
    h->own_grad = nn_exec_grad_count(h->part[0].exec) != t->grad_count;
    h->grad =
        h->own_grad ? mem_calloc(t->grad_count, sizeof *h->grad) : nn_exec_grad(h->part[0].exec);
    if (h->own_grad && !h->grad) return FAIL(err, FIRM_E_MEMORY, "no memory for training");
    nn_gradient sum = {t->trained, t->trained_count, t->grad_count, h->grad};
    TRY(nn_adamw_create(&sum, &t->opt.adamw, t->scale, &h->adamw, err));
    size_t count;
    t->moments = nn_adamw_moments(h->adamw, &count);
    return FIRM_OK;
}

static void host_close(nn_trainer* t) {
    host* h = t->state;
    if (!h) return;
    if (h->own_grad) mem_free(h->grad);
    nn_adamw_free(h->adamw);
    for (int i = 0; i < t->parts; i++) {
        nn_exec_free(h->part[i].exec);
        mem_free(h->part[i].row);
        mem_free(h->part[i].slot);
    }
    mem_free(h);
}

// one piece after the other, each into its place in the samples
static firm_status fill_windows(const host_part* hp, const nn_feed* feed) {
    const nn_windows* w = hp->part->windows;
    size_t tensors = (size_t)feed->graph->tensors;
    void** slot = hp->slot + (size_t)feed->worker * tensors;
    for (int i = 0; i < feed->count; i++)
        for (int k = 0; k < w->count; k++) {
            const nn_window* one = &w->window[k];
            const nn_tensor* t = &feed->graph->tensor[one->input];
            size_t bytes = (size_t)t->size * (t->kind == NN_BYTES ? 1 : sizeof(float));
            for (int j = 0; j < one->pieces; j++) {
                int64_t row = w->start[feed->row[i]] + (int64_t)j * one->stride;
                nn_feed piece = *feed;
                for (size_t s = 0; s < tensors; s++) slot[s] = NULL;
                slot[one->input] = (char*)feed->slot[one->input] + (size_t)i * bytes +
                                   (size_t)j * (bytes / (size_t)one->pieces);
                piece.slot = slot;
                piece.row = &row;
                piece.count = 1;
                TRY(hp->part->fill(hp->part->ctx, &piece));
            }
        }
    return FIRM_OK;
}

// tells the part's own callback which rows of its table to write
static firm_status fill_rows(void* ctx, const nn_feed* feed) {
    host_part* hp = ctx;
    int64_t* row = hp->row + (size_t)feed->worker * (size_t)hp->shard;
    for (int i = 0; i < feed->count; i++)
        row[i] = nn_pick_row(&hp->part->pick, feed->update, feed->first + i, hp->part->rows);
    nn_feed picked = *feed;
    picked.row = row;
    picked.update = 0;
    return hp->slot ? fill_windows(hp, &picked) : hp->part->fill(hp->part->ctx, &picked);
}

// ---- the sum of gradients -----------------------------------------------------------------------

typedef struct add_job {
    const nn_trainer* t;
    float* to;
    const float* from;
    const nn_trained* list;  // (listed) of `from`
    int listed;
    float weight;
    int set;  // overwrite instead of adding
} add_job;

static void add_part(const add_job* j, const nn_trained* e, size_t first, size_t count) {
    float* to = j->to + j->t->trained[nn_trainer_find(j->t, e->entry)].offset + first;
    const float* from = j->from + e->offset + first;
    if (j->set)
        for (size_t i = 0; i < count; i++) to[i] = j->weight * from[i];
    else if (j->weight == 1.0f)
        for (size_t i = 0; i < count; i++) to[i] += from[i];
    else
        for (size_t i = 0; i < count; i++) to[i] += j->weight * from[i];
}

static void add_chunk(void* arg, int chunk, int worker) {
    (void)worker;
    const add_job* j = arg;
    size_t from, count;
    for (int i = 0; i < j->listed; i++)
        if (nn_part_in_chunk(&j->list[i], chunk, &from, &count))
            add_part(j, &j->list[i], from, count);
}

static void sum_gradients(nn_trainer* t) {
    host* h = t->state;
    // parameters that the first part does not train start at zero
    for (size_t i = 0; i < t->grad_count && h->own_grad; i++) h->grad[i] = 0;
    for (int p = 0; p < t->parts; p++) {
        nn_exec* e = h->part[p].exec;
        add_job job = {.t = t,
                       .to = h->grad,
                       .from = nn_exec_grad(e),
                       .weight = t->part[p].weight,
                       .set = p == 0};
        if (job.to == job.from && job.weight == 1.0f) continue;  // already there
        job.listed = nn_exec_trained(e, &job.list);
        pool_for(t->opt.p, nn_chunks(nn_exec_grad_count(e)), add_chunk, &job);
    }
}

static firm_status host_step(nn_trainer* t, int64_t update, firm_error* err) {
    host* h = t->state;
    for (int i = 0; i < t->parts; i++) {
        host_part* hp = &h->part[i];
        nn_exec_set_update(hp->exec, update);
        firm_status st = hp->row ? nn_exec_gradient(hp->exec, fill_rows, hp)
                                 : nn_exec_gradient(hp->exec, hp->part->fill, hp->part->ctx);
        if (st != FIRM_OK) return FAIL(err, st, "a training sample cannot be read");
    }
    sum_gradients(t);
    t->norm = nn_adamw_step(h->adamw, t->opt.store, t->opt.p);
    return FIRM_OK;
}

static firm_status host_read(nn_trainer* t, firm_error* err) {
    (void)err;
    const host* h = t->state;
    t->loss = 0;
    for (int p = 0; p < t->parts; p++) {
        t->loss += (double)t->part[p].weight * nn_exec_loss(h->part[p].exec);
        for (int i = 0; i < t->part[p].graph->terms; i++)
            t->term[p][i] = nn_exec_term(h->part[p].exec, i);
    }
    return FIRM_OK;
}

// the store and the moments are the ones in use
static firm_status host_pull(nn_trainer* t, firm_error* err) {
    (void)t;
    (void)err;
    return FIRM_OK;
}

static firm_status host_resume(nn_trainer* t, int64_t update, firm_error* err) {
    (void)err;
    host* h = t->state;
    *nn_adamw_steps(h->adamw) = update;
    return FIRM_OK;
}

const nn_trainer_kind nn_trainer_cpu = {.prompt = 1,
                                        .open = host_open,
                                        .close = host_close,
                                        .step = host_step,
                                        .read = host_read,
                                        .pull = host_pull,
                                        .resume = host_resume};
