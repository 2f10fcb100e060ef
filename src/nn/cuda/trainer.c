// trainer.c - updates on the device, behind nn/trainer.h. An update is one captured CUDA graph: the
// rows of all parts are picked and fetched, the parts run forward and backward side by side, each
// on a queue of its own, and the optimiser adds up their gradients. Nothing in it depends on the
// host, so it is captured once and launched for every update; the host waits only when it is asked
// for a loss or for the weights.
//
// Samples lie on the device before their update starts. A table is filled at creation. Any other
// part has a ring of a few batches: the host fills pinned memory AHEAD updates in advance and
// copies it on a stream of its own, and an update waits for its own batch alone.
#include <string.h>

#include "core/mem.h"
#include "nn/cuda/feed.h"
#include "nn/trainer_kind.h"

enum {
    RING = 4,   // batches of a part on the device
    AHEAD = 2,  // filled before they are needed; the rest of the ring is in use
    TABLE_CHUNK_BYTES = 64 << 20
};
_Static_assert((int)NN_MAX_PARTS == (int)NN_CUDA_MAX_PARTS, "as many parts here as there");

typedef struct device_part {
    const nn_part* part;
    nn_cuda_queue* q;  // the device's own for the first part
    nn_cuda_pass pass;
    nn_cuda_block block;  // of the samples on the device: the whole table, or RING batches
    char* samples;
    int* pieces;     // per tensor, windows only
    int64_t* start;  // device (rows), windows only
    int64_t* row;    // device (batch): rows of the update in progress
    // rings only
    nn_cuda_feeder feed;
    int64_t held[RING];  // update whose batch a slot holds, or -1
    cudaEvent_t copied[RING];
} device_part;

typedef struct device {
    nn_cuda_queue* q;
    cudaStream_t stream, copies;
    device_part part[NN_MAX_PARTS];
    float *params, *moments, *grad;  // (store), (2, grad_count), (parts, grad_count)
    nn_cuda_clock* clock;
    nn_cuda_chunk* chunk;
    double *partial, *norm;
    nn_cuda_copy* copy;  // (inputs of all parts)
    int inputs;
    size_t most_bytes;
    nn_cuda_adamw adamw;
    cudaEvent_t fork, join[NN_MAX_PARTS], used[RING];
    cudaEvent_t done;        // of the updates so far
    cudaGraphExec_t update;  // NULL until captured
    int warm;                // one plain update has run
    double* report;          // pinned: terms of all parts, norm
} device;

// For what the host waits for: it sleeps until then instead of asking again and again, which would
// keep a core busy that other trainings, or a simulator beside them, could use.
enum { WAITED_FOR = cudaEventDisableTiming | cudaEventBlockingSync };

static firm_status called(device* d, cudaError_t st, const char* what, firm_error* err) {
    return nn_cuda_status(d->q, st, what, err);
}

// ---- samples ------------------------------------------------------------------------------------

// rows of a part's table that are kept
static int64_t stored_rows(const nn_part* part) {
    return part->windows ? part->windows->stored : part->rows;
}

// writes a whole table, in chunks: the device takes one while the next is filled
static firm_status fill_table(device* d, device_part* dp, pool* p, firm_error* err) {
    const nn_part* part = dp->part;
    int64_t rows = stored_rows(part);
    size_t row = dp->block.bytes / (size_t)rows + 1;
    int64_t chunk = TABLE_CHUNK_BYTES / (int64_t)row;
    if (chunk < 1) chunk = 1;
    if (chunk > rows) chunk = rows;
    nn_cuda_feeder f;
    nn_cuda_feeder_options opt = {part->graph, dp->pieces, (int)chunk, 2};
    firm_status st = nn_cuda_feeder_open(&f, d->q, p, &opt, err);
    cudaEvent_t sent[2] = {NULL, NULL};
    for (int i = 0; i < 2 && st == FIRM_OK; i++)
        st = called(d, cudaEventCreateWithFlags(&sent[i], WAITED_FOR), "an event", err);
    int turn = 0;
    for (int64_t at = 0; at < rows && st == FIRM_OK; at += chunk, turn ^= 1) {
        int n = (int)(rows - at < chunk ? rows - at : chunk);
        // an event that was never recorded counts as done
        st = called(d, cudaEventSynchronize(sent[turn]), "copying samples", err);
        if (st != FIRM_OK) break;
        st = nn_cuda_feeder_fill(&f, turn, (int)at, n, 0, part->fill, part->ctx);
        if (st != FIRM_OK) {
            FAIL(err, st, "a training sample cannot be read");
            break;
        }
        st = called(d, nn_cuda_feeder_send(&f, turn, n, &dp->block, dp->samples, at, d->copies),
                    "copying samples", err);
        if (st == FIRM_OK) st = called(d, cudaEventRecord(sent[turn], d->copies), "an event", err);
    }
    cudaError_t end = cudaStreamSynchronize(d->copies);
    if (st == FIRM_OK) st = called(d, end, "copying samples", err);
    for (int i = 0; i < 2; i++)
        if (sent[i]) cudaEventDestroy(sent[i]);
    nn_cuda_feeder_close(&f);
    return st;
}

// the batch of an update into its slot, unless it is there
static firm_status bring(device* d, device_part* dp, int64_t update, firm_error* err) {
    int slot = (int)(update % RING);
    if (dp->held[slot] == update) return FIRM_OK;
    const nn_part* part = dp->part;
    // the pinned buffer is free once its last batch has been copied, the slot on the device once
    // the update that read it is done; neither waits while the host is less than a ring ahead
    TRY(called(d, cudaEventSynchronize(dp->copied[slot]), "copying samples", err));
    dp->held[slot] = -1;
    firm_status st =
        nn_cuda_feeder_fill(&dp->feed, slot, 0, part->batch, update, part->fill, part->ctx);
    if (st != FIRM_OK) return FAIL(err, st, "a training sample cannot be read");
    TRY(called(d, cudaStreamWaitEvent(d->copies, d->used[slot], 0), "an event", err));
    TRY(called(d,
               nn_cuda_feeder_send(&dp->feed, slot, part->batch, &dp->block, dp->samples,
                                   (int64_t)slot * part->batch, d->copies),
               "copying samples", err));
    TRY(called(d, cudaEventRecord(dp->copied[slot], d->copies), "an event", err));
    dp->held[slot] = update;
    return FIRM_OK;
}

static firm_status open_windows(device* d, device_part* dp, firm_error* err) {
    const nn_windows* w = dp->part->windows;
    int tensors = dp->part->graph->tensors;
    dp->pieces = mem_calloc((size_t)tensors, sizeof *dp->pieces);
    if (!dp->pieces) return FAIL(err, FIRM_E_MEMORY, "no memory for training");
    for (int i = 0; i < tensors; i++) dp->pieces[i] = 1;
    for (int i = 0; i < w->count; i++) dp->pieces[w->window[i].input] = w->window[i].pieces;
    size_t bytes = (size_t)dp->part->rows * sizeof *dp->start;
    TRY(nn_cuda_alloc(d->q, bytes, (void**)&dp->start, err));
    return nn_cuda_upload(d->q, dp->start, w->start, bytes, err);
}

static int stride_of(const nn_part* part, nn_id input) {
    const nn_windows* w = part->windows;
    for (int i = 0; w && i < w->count; i++)
        if (w->window[i].input == input) return w->window[i].stride;
    return 0;
}

static firm_status open_samples(nn_trainer* t, device* d, device_part* dp, firm_error* err) {
    const nn_part* part = dp->part;
    int64_t rows = part->rows ? stored_rows(part) : (int64_t)RING * part->batch;
    if (part->windows) TRY(open_windows(d, dp, err));
    TRY(nn_cuda_block_make(part->graph, dp->pieces, rows, &dp->block, err));
    TRY(nn_cuda_alloc(d->q, dp->block.bytes, (void**)&dp->samples, err));
    TRY(nn_cuda_alloc(d->q, (size_t)part->batch * sizeof *dp->row, (void**)&dp->row, err));
    if (part->rows) return fill_table(d, dp, t->opt.p, err);
    for (int i = 0; i < RING; i++) {
        dp->held[i] = -1;
        TRY(called(d, cudaEventCreateWithFlags(&dp->copied[i], WAITED_FOR), "an event", err));
    }
    nn_cuda_feeder_options opt = {part->graph, NULL, part->batch, RING};
    return nn_cuda_feeder_open(&dp->feed, d->q, t->opt.p, &opt, err);
}

// ---- opening ------------------------------------------------------------------------------------

static firm_status open_part(nn_trainer* t, int i, firm_error* err) {
    device* d = t->state;
    device_part* dp = &d->part[i];
    dp->part = &t->part[i];
    dp->q = d->q;
    if (i > 0) TRY(nn_cuda_queue_create(nn_cuda_precision_of(d->q), &dp->q, err));
    TRY(nn_cuda_pass_open(&dp->pass, dp->part->graph, dp->q, dp->part->batch, 1, dp->part->weight,
                          err));
    dp->pass.params = d->params;
    dp->pass.clock = &d->clock->update;
    dp->pass.grad = d->grad + (size_t)i * t->grad_count;
    // all parts' gradients have the trainer's layout, so that they can be added up
    for (int k = 0; k < dp->part->graph->tensors; k++) {
        const nn_tensor* x = &dp->part->graph->tensor[k];
        if (x->kind == NN_PARAM && x->wants_grad)
            dp->pass.at.param_grad_at[k] = t->trained[nn_trainer_find(t, x->entry)].offset;
    }
    TRY(called(d, cudaEventCreateWithFlags(&d->join[i], cudaEventDisableTiming), "an event", err));
    return open_samples(t, d, dp, err);
}

// cuts the trained parameters into chunks for the optimiser
static firm_status upload_chunks(nn_trainer* t, device* d, firm_error* err) {
    int chunks = 0;
    for (int i = 0; i < t->trained_count; i++)
        chunks += (int)((t->trained[i].count + NN_CUDA_CHUNK - 1) / NN_CUDA_CHUNK);
    nn_cuda_chunk* list = mem_calloc((size_t)chunks + 1, sizeof *list);
    if (!list) return FAIL(err, FIRM_E_MEMORY, "no memory for the optimiser");
    int n = 0;
    for (int i = 0; i < t->trained_count; i++) {
        const nn_trained* x = &t->trained[i];
        const nn_entry* entry = &t->opt.store->entry[x->entry];
        for (size_t at = 0; at < x->count; at += NN_CUDA_CHUNK) {
            size_t count = x->count - at < NN_CUDA_CHUNK ? x->count - at : NN_CUDA_CHUNK;
            // entries are padded to 16 numbers in both blocks, zeros that stay zeros
            list[n++] = (nn_cuda_chunk){.grad_at = (uint32_t)(x->offset + at),
                                        .value_at = (uint32_t)(entry->offset + at),
                                        .count = (uint32_t)((count + 3) / 4 * 4),
                                        .scale = t->scale[i],
                                        .decays = entry->rank >= 2 || t->opt.adamw.decay_all};
        }
    }
    firm_status st =
        nn_cuda_alloc(d->q, (size_t)(chunks + 1) * sizeof *list, (void**)&d->chunk, err);
    if (st == FIRM_OK)
        st = nn_cuda_upload(d->q, d->chunk, list, (size_t)chunks * sizeof *list, err);
    mem_free(list);
    d->adamw = (nn_cuda_adamw){.chunk = d->chunk,
                               .chunks = chunks,
                               .grad = d->grad,
                               .parts = t->parts,
                               .grad_count = t->grad_count,
                               .value = d->params,
                               .moment1 = d->moments,
                               .moment2 = d->moments + t->grad_count,
                               .partial = d->partial,
                               .norm = d->norm,
                               .clock = d->clock,
                               .opt = t->opt.adamw};
    return st;
}

// where every input of every part is fetched from
static firm_status upload_copies(nn_trainer* t, device* d, firm_error* err) {
    int room = 0, n = 0;
    for (int i = 0; i < t->parts; i++) room += t->part[i].graph->tensors;
    nn_cuda_copy* list = mem_calloc((size_t)room + 1, sizeof *list);
    if (!list) return FAIL(err, FIRM_E_MEMORY, "no memory for training");
    for (int i = 0; i < t->parts; i++) {
        const device_part* dp = &d->part[i];
        for (int k = 0; k < dp->part->graph->tensors; k++) {
            size_t bytes = dp->block.row_bytes[k];
            if (!bytes) continue;
            list[n++] = (nn_cuda_copy){.from = dp->samples + dp->block.at[k],
                                       .to = nn_cuda_pass_value(&dp->pass, k),
                                       .row = dp->row,
                                       .row_bytes = (uint32_t)bytes,
                                       .batch = dp->part->batch,
                                       .start = dp->start,
                                       .pieces = dp->pieces ? dp->pieces[k] : 1,
                                       .stride = stride_of(dp->part, k)};
            size_t all = bytes * (size_t)dp->part->batch * (size_t)list[n - 1].pieces;
            if (all > d->most_bytes) d->most_bytes = all;
        }
    }
    d->inputs = n;
    firm_status st = nn_cuda_alloc(d->q, (size_t)(n + 1) * sizeof *list, (void**)&d->copy, err);
    if (st == FIRM_OK) st = nn_cuda_upload(d->q, d->copy, list, (size_t)n * sizeof *list, err);
    mem_free(list);
    return st;
}

static firm_status device_resume(nn_trainer* t, int64_t update, firm_error* err) {
    device* d = t->state;
    nn_cuda_clock clock = {.update = update};
    TRY(nn_cuda_upload(d->q, d->params, t->opt.store->value, t->opt.store->count * sizeof(float),
                       err));
    TRY(nn_cuda_upload(d->q, d->moments, t->moments, 2 * t->grad_count * sizeof(float), err));
    return nn_cuda_upload(d->q, d->clock, &clock, sizeof clock, err);
}

static firm_status open_blocks(nn_trainer* t, device* d, firm_error* err) {
    size_t grads = t->grad_count * sizeof(float), terms = 0;
    for (int i = 0; i < t->parts; i++) terms += (size_t)t->part[i].graph->terms;
    t->moments = mem_calloc(2 * t->grad_count + 1, sizeof *t->moments);
    if (!t->moments) return FAIL(err, FIRM_E_MEMORY, "no memory for the optimiser");
    TRY(called(d, cudaStreamCreateWithFlags(&d->copies, cudaStreamNonBlocking), "a stream", err));
    TRY(called(d, cudaEventCreateWithFlags(&d->fork, cudaEventDisableTiming), "an event", err));
    TRY(called(d, cudaEventCreateWithFlags(&d->done, WAITED_FOR), "an event", err));
    for (int i = 0; i < RING; i++)
        TRY(called(d, cudaEventCreateWithFlags(&d->used[i], cudaEventDisableTiming), "an event",
                   err));
    TRY(called(d, cudaMallocHost((void**)&d->report, (terms + 1) * sizeof *d->report),
               "pinned memory", err));
    memset(d->report, 0, (terms + 1) * sizeof *d->report);
    TRY(nn_cuda_alloc(d->q, t->opt.store->count * sizeof(float), (void**)&d->params, err));
    TRY(nn_cuda_alloc(d->q, 2 * grads, (void**)&d->moments, err));
    TRY(nn_cuda_alloc(d->q, (size_t)t->parts * grads, (void**)&d->grad, err));
    TRY(nn_cuda_alloc(d->q, sizeof *d->clock, (void**)&d->clock, err));
    TRY(nn_cuda_alloc(d->q, NN_CUDA_NORM_BLOCKS * sizeof *d->partial, (void**)&d->partial, err));
    TRY(nn_cuda_alloc(d->q, sizeof *d->norm, (void**)&d->norm, err));
    TRY(nn_cuda_upload(d->q, d->norm, d->report, sizeof *d->norm, err));
    return device_resume(t, 0, err);
}

static firm_status device_open(nn_trainer* t, firm_error* err) {
    device* d = t->state = mem_calloc(1, sizeof *d);
    if (!d) return FAIL(err, FIRM_E_MEMORY, "no memory for training");
    d->q = t->opt.device->queue;
    d->stream = nn_cuda_stream(d->q);
    TRY(open_blocks(t, d, err));
    for (int i = 0; i < t->parts; i++) TRY(open_part(t, i, err));
    TRY(upload_chunks(t, d, err));
    return upload_copies(t, d, err);
}

static void close_part(device_part* dp, nn_cuda_queue* main) {
    nn_cuda_feeder_close(&dp->feed);
    for (int i = 0; i < RING; i++)
        if (dp->copied[i]) cudaEventDestroy(dp->copied[i]);
    nn_cuda_pass_close(&dp->pass);
    nn_cuda_block_free(&dp->block);
    mem_free(dp->pieces);
    nn_cuda_release(dp->start);
    nn_cuda_release(dp->samples);
    nn_cuda_release(dp->row);
    if (dp->q != main) nn_cuda_queue_free(dp->q);
}

static void device_close(nn_trainer* t) {
    device* d = t->state;
    if (!d) return;
    cudaStreamSynchronize(d->stream);
    if (d->copies) cudaStreamSynchronize(d->copies);
    if (d->update) cudaGraphExecDestroy(d->update);
    for (int i = 0; i < t->parts; i++) close_part(&d->part[i], d->q);
    for (int i = 0; i < NN_MAX_PARTS; i++)
        if (d->join[i]) cudaEventDestroy(d->join[i]);
    for (int i = 0; i < RING; i++)
        if (d->used[i]) cudaEventDestroy(d->used[i]);
    if (d->fork) cudaEventDestroy(d->fork);
    if (d->done) cudaEventDestroy(d->done);
    if (d->copies) cudaStreamDestroy(d->copies);
    if (d->report) cudaFreeHost(d->report);
    void* block[] = {d->params, d->moments, d->grad, d->clock,
                     d->chunk,  d->partial, d->norm, d->copy};
    for (size_t i = 0; i < sizeof block / sizeof *block; i++) nn_cuda_release(block[i]);
    mem_free(t->moments);
    mem_free(d);
}

// ---- one update ---------------------------------------------------------------------------------

// puts a whole update on the streams, plainly or while they are captured
static firm_status enqueue_update(nn_trainer* t, device* d, firm_error* err) {
    nn_cuda_draw draw[NN_MAX_PARTS];
    for (int i = 0; i < t->parts; i++)
        draw[i] = (nn_cuda_draw){.rows = t->part[i].rows,
                                 .seed = t->part[i].pick.seed,
                                 .stream = t->part[i].pick.stream,
                                 .batch = t->part[i].batch,
                                 .slots = RING,
                                 .row = d->part[i].row};
    nn_cuda_begin(d->q, draw, t->parts, &t->opt.adamw, d->clock);
    nn_cuda_gather(d->q, d->copy, d->inputs, d->most_bytes);
    size_t grads = (size_t)t->parts * t->grad_count * sizeof(float);
    TRY(called(d, cudaMemsetAsync(d->grad, 0, grads, d->stream), "clearing gradients", err));
    TRY(called(d, cudaEventRecord(d->fork, d->stream), "an event", err));
    for (int i = t->parts - 1; i >= 0; i--) {
        device_part* dp = &d->part[i];
        cudaStream_t own = nn_cuda_stream(dp->q);
        if (i > 0) TRY(called(d, cudaStreamWaitEvent(own, d->fork, 0), "an event", err));
        nn_cuda_pass_forward(&dp->pass, dp->part->batch);
        nn_cuda_pass_backward(&dp->pass, dp->part->batch);
        if (i > 0) TRY(called(d, cudaEventRecord(d->join[i], own), "an event", err));
    }
    for (int i = 1; i < t->parts; i++)
        TRY(called(d, cudaStreamWaitEvent(d->stream, d->join[i], 0), "an event", err));
    nn_cuda_adamw_step(d->q, &d->adamw);
    for (int i = 0; i < t->parts; i++) {
        const char* why = nn_cuda_error(d->part[i].q);
        if (why) return FAIL(err, FIRM_E_UNAVAILABLE, "%s: %s", nn_cuda_device(d->q), why);
    }
    return FIRM_OK;
}

static firm_status capture(nn_trainer* t, device* d, firm_error* err) {
    TRY(called(d, cudaStreamBeginCapture(d->stream, cudaStreamCaptureModeThreadLocal),
               "capturing an update", err));
    firm_status st = enqueue_update(t, d, err);
    cudaGraph_t graph = NULL;
    cudaError_t end = cudaStreamEndCapture(d->stream, &graph);
    if (st == FIRM_OK) st = called(d, end, "capturing an update", err);
    if (st == FIRM_OK)
        st = called(d, cudaGraphInstantiate(&d->update, graph, 0), "making a graph", err);
    if (graph) cudaGraphDestroy(graph);
    return st;
}

// The first update runs plainly: products choose their algorithms and the driver loads the kernels.
// Later ones are launched as a graph of the same calls, so both give the same bits.
static firm_status launch(nn_trainer* t, device* d, firm_error* err) {
    if (!d->warm) {
        d->warm = 1;
        return enqueue_update(t, d, err);
    }
    if (!d->update) TRY(capture(t, d, err));
    return called(d, cudaGraphLaunch(d->update, d->stream), "an update", err);
}

static firm_status device_step(nn_trainer* t, int64_t update, firm_error* err) {
    device* d = t->state;
    int slot = (int)(update % RING), rings = 0;
    for (int i = 0; i < t->parts; i++) {
        if (t->part[i].rows) continue;
        rings = 1;
        TRY(bring(d, &d->part[i], update, err));
        TRY(called(d, cudaStreamWaitEvent(d->stream, d->part[i].copied[slot], 0), "an event", err));
    }
    TRY(launch(t, d, err));
    if (!rings) return FIRM_OK;
    TRY(called(d, cudaEventRecord(d->used[slot], d->stream), "an event", err));
    // the device has work now: the next batches are filled meanwhile
    for (int64_t next = update + 1; next <= update + AHEAD && next < t->opt.adamw.updates; next++)
        for (int i = 0; i < t->parts; i++)
            if (!t->part[i].rows) TRY(bring(d, &d->part[i], next, err));
    return FIRM_OK;
}

// ---- results ------------------------------------------------------------------------------------

static firm_status device_read(nn_trainer* t, firm_error* err) {
    device* d = t->state;
    double* at = d->report;
    for (int i = 0; i < t->parts; i++) {
        size_t terms = (size_t)t->part[i].graph->terms;
        if (terms)
            TRY(called(d,
                       cudaMemcpyAsync(at, d->part[i].pass.value, terms * sizeof *at,
                                       cudaMemcpyDeviceToHost, d->stream),
                       "copying losses", err));
        at += terms;
    }
    TRY(called(d, cudaMemcpyAsync(at, d->norm, sizeof *at, cudaMemcpyDeviceToHost, d->stream),
               "copying losses", err));
    TRY(called(d, cudaEventRecord(d->done, d->stream), "an event", err));
    TRY(called(d, cudaEventSynchronize(d->done), "work on the GPU", err));
    TRY(nn_cuda_wait(d->q, err));  // for what went wrong on the way
    t->norm = *at;
    t->loss = 0;
    at = d->report;
    for (int i = 0; i < t->parts; i++) {
        const nn_graph* g = t->part[i].graph;
        double loss = 0;
        for (int k = 0; k < g->terms; k++) {
            t->term[i][k] = *at++;
            loss += (double)g->term[k].weight * t->term[i][k];
        }
        t->loss += (double)t->part[i].weight * loss;
    }
    return FIRM_OK;
}

static firm_status device_pull(nn_trainer* t, firm_error* err) {
    device* d = t->state;
    TRY(nn_cuda_download(d->q, t->opt.store->value, d->params, t->opt.store->count * sizeof(float),
                         err));
    return nn_cuda_download(d->q, t->moments, d->moments, 2 * t->grad_count * sizeof(float), err);
}

const nn_trainer_kind nn_trainer_cuda = {.prompt = 0,
                                         .open = device_open,
                                         .close = device_close,
                                         .step = device_step,
                                         .read = device_read,
                                         .pull = device_pull,
                                         .resume = device_resume};
