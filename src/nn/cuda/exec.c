// exec.c - graphs run for their outputs on the device, behind nn/exec.h: gates, caches of frozen
// modules, and gradients for tests. Two host buffers take turns: one is filled on the pool's
// threads while the device works on the other.
#include <string.h>

#include "core/mem.h"
#include "nn/cuda/feed.h"
#include "nn/exec_kind.h"

enum { TURNS = 2 };

typedef struct remote {
    const nn_graph* g;
    nn_cuda_queue* q;
    cudaStream_t stream;
    nn_cuda_pass pass;
    nn_cuda_feeder feed;
    float* params;  // device (store)
    float* grad;    // device (grad_count)
    float* host_grad;
    int64_t* clock;    // device
    size_t* out_at;    // per tensor: offset in a host buffer of outputs; SIZE_MAX: no output
    size_t out_bytes;  // of one buffer: outputs, then the values of the terms
    char* out[TURNS];  // pinned
    cudaEvent_t done[TURNS];
    int shown;  // the buffer that outputs and losses are read from
    firm_error fault;
    int faulty;
} remote;

static const char* remote_fault(const void* r) {
    const remote* x = r;
    return x->faulty ? x->fault.message : NULL;
}

// notes a failed call; FIRM_OK otherwise
static firm_status noted(remote* r, firm_status st) {
    if (st != FIRM_OK) r->faulty = 1;
    return st;
}

static firm_status called(remote* r, cudaError_t st, const char* what) {
    return noted(r, nn_cuda_status(r->q, st, what, &r->fault));
}

// ---- life ---------------------------------------------------------------------------------------

static void remote_free(void* opaque) {
    remote* r = opaque;
    if (!r) return;
    if (r->stream) cudaStreamSynchronize(r->stream);
    for (int i = 0; i < TURNS; i++) {
        if (r->out[i]) cudaFreeHost(r->out[i]);
        if (r->done[i]) cudaEventDestroy(r->done[i]);
    }
    nn_cuda_feeder_close(&r->feed);
    nn_cuda_pass_close(&r->pass);
    nn_cuda_release(r->params);
    nn_cuda_release(r->grad);
    nn_cuda_release(r->clock);
    mem_free(r->host_grad);
    mem_free(r->out_at);
    mem_free(r);
}

static firm_status plan_outputs(remote* r, int batch, firm_error* err) {
    const nn_graph* g = r->g;
    r->out_at = mem_alloc((size_t)g->tensors * sizeof *r->out_at);
    if (!r->out_at) return FAIL(err, FIRM_E_MEMORY, "no memory to run a graph");
    for (int i = 0; i < g->tensors; i++) r->out_at[i] = SIZE_MAX;
    for (int i = 0; i < g->outputs; i++) {
        nn_id id = g->output[i];
        if (r->out_at[id] != SIZE_MAX) continue;
        r->out_at[id] = r->out_bytes;
        r->out_bytes += ((size_t)batch * (size_t)g->tensor[id].size * sizeof(float) + 63) / 64 * 64;
    }
    for (int i = 0; i < TURNS; i++) {
        TRY(nn_cuda_status(r->q,
                           cudaMallocHost((void**)&r->out[i],
                                          r->out_bytes + (size_t)(g->terms + 1) * sizeof(double)),
                           "pinned memory", err));
        memset(r->out[i], 0, r->out_bytes + (size_t)(g->terms + 1) * sizeof(double));
        TRY(nn_cuda_status(r->q, cudaEventCreateWithFlags(&r->done[i], cudaEventDisableTiming),
                           "an event", err));
    }
    return FIRM_OK;
}

static firm_status open_remote(remote* r, const nn_exec_options* opt, pool* p, firm_error* err) {
    size_t params = r->g->store->count * sizeof(float);
    TRY(nn_cuda_pass_open(&r->pass, r->g, r->q, opt->batch, opt->train, 1, err));
    nn_cuda_feeder_options feed = {.graph = r->g, .rows = opt->batch, .hosts = TURNS};
    TRY(nn_cuda_feeder_open(&r->feed, r->q, p, &feed, err));
    TRY(nn_cuda_alloc(r->q, params, (void**)&r->params, err));
    TRY(nn_cuda_upload(r->q, r->params, r->g->store->value, params, err));
    r->pass.params = r->params;
    TRY(nn_cuda_alloc(r->q, sizeof *r->clock, (void**)&r->clock, err));
    r->pass.clock = r->clock;
    size_t count = r->pass.at.grad_count;
    if (count) {
        TRY(nn_cuda_alloc(r->q, count * sizeof(float), (void**)&r->grad, err));
        r->host_grad = mem_calloc(count, sizeof(float));
        if (!r->host_grad) return FAIL(err, FIRM_E_MEMORY, "no memory for a gradient");
        r->pass.grad = r->grad;
    }
    return plan_outputs(r, opt->batch, err);
}

static firm_status remote_create(const nn_graph* g, const nn_exec_options* opt, pool* p, void** out,
                                 firm_error* err) {
    *out = NULL;
    remote* r = mem_calloc(1, sizeof *r);
    if (!r) return FAIL(err, FIRM_E_MEMORY, "no memory to run a graph");
    r->g = g;
    r->q = opt->queue;
    r->stream = nn_cuda_stream(r->q);
    firm_status st = open_remote(r, opt, p, err);
    if (st != FIRM_OK) {
        remote_free(r);
        return st;
    }
    *out = r;
    return FIRM_OK;
}

// ---- runs ---------------------------------------------------------------------------------------

// copies a filled host buffer into the inputs of the graph
static cudaError_t send_inputs(remote* r, int turn, int count) {
    const nn_cuda_block* b = &r->feed.block;
    for (int i = 0; i < r->g->tensors; i++) {
        if (!b->row_bytes[i]) continue;
        cudaError_t st =
            cudaMemcpyAsync(nn_cuda_pass_value(&r->pass, i), r->feed.host[turn] + b->at[i],
                            (size_t)count * b->row_bytes[i], cudaMemcpyHostToDevice, r->stream);
        if (st != cudaSuccess) return st;
    }
    return cudaSuccess;
}

// Outputs are read before the backward pass: it reuses their memory.
static cudaError_t fetch_outputs(remote* r, int turn, int count) {
    const nn_graph* g = r->g;
    for (int i = 0; i < g->tensors; i++) {
        if (r->out_at[i] == SIZE_MAX) continue;
        cudaError_t st =
            cudaMemcpyAsync(r->out[turn] + r->out_at[i], nn_cuda_pass_value(&r->pass, i),
                            (size_t)count * (size_t)g->tensor[i].size * sizeof(float),
                            cudaMemcpyDeviceToHost, r->stream);
        if (st != cudaSuccess) return st;
    }
    return g->terms ? cudaMemcpyAsync(r->out[turn] + r->out_bytes, r->pass.value,
                                      (size_t)g->terms * sizeof(double), cudaMemcpyDeviceToHost,
                                      r->stream)
                    : cudaSuccess;
}

// the number of the update, part of the keys of what is drawn at random
static firm_status set_clock(remote* r, int64_t update) {
    return noted(r, nn_cuda_upload(r->q, r->clock, &update, sizeof update, &r->fault));
}

static firm_status enqueue(remote* r, int turn, int count, int backward) {
    TRY(called(r, send_inputs(r, turn, count), "copying inputs"));
    size_t grad = backward ? r->pass.at.grad_count * sizeof(float) : 0;
    if (grad) TRY(called(r, cudaMemsetAsync(r->grad, 0, grad, r->stream), "clearing gradients"));
    nn_cuda_pass_forward(&r->pass, count);
    TRY(called(r, fetch_outputs(r, turn, count), "copying outputs"));
    if (backward) nn_cuda_pass_backward(&r->pass, count);
    if (grad)
        TRY(called(r,
                   cudaMemcpyAsync(r->host_grad, r->grad, grad, cudaMemcpyDeviceToHost, r->stream),
                   "copying gradients"));
    return called(r, cudaEventRecord(r->done[turn], r->stream), "an event");
}

static firm_status run_once(remote* r, int first, int count, int64_t update, nn_fill_fn fill,
                            void* ctx, int backward) {
    TRY(nn_cuda_feeder_fill(&r->feed, 0, first, count, update, fill, ctx));
    TRY(set_clock(r, update));
    TRY(enqueue(r, 0, count, backward));
    r->shown = 0;
    return noted(r, nn_cuda_wait(r->q, &r->fault));
}

static firm_status remote_forward(void* r, int first, int count, int64_t update, nn_fill_fn fill,
                                  void* ctx) {
    return run_once(r, first, count, update, fill, ctx, 0);
}

static firm_status remote_gradient(void* opaque, int64_t update, nn_fill_fn fill, void* ctx) {
    remote* r = opaque;
    return run_once(r, 0, r->pass.batch, update, fill, ctx, 1);
}

static firm_status remote_stream(void* opaque, nn_exec* e, int count, int64_t update,
                                 nn_fill_fn fill, void* ctx, nn_take_fn take, void* to) {
    remote* r = opaque;
    int batch = r->pass.batch, batches = (count + batch - 1) / batch;
    // batch k is filled and enqueued, then batch k - 1 is taken while the device works on k
    firm_status st = set_clock(r, update);
    for (int k = 0; k <= batches && st == FIRM_OK; k++) {
        int n = count - k * batch < batch ? count - k * batch : batch;
        if (k < batches) {
            st = nn_cuda_feeder_fill(&r->feed, k % TURNS, k * batch, n, update, fill, ctx);
            if (st == FIRM_OK) st = enqueue(r, k % TURNS, n, 0);
        }
        if (k == 0 || st != FIRM_OK) continue;
        r->shown = (k - 1) % TURNS;
        st = called(r, cudaEventSynchronize(r->done[r->shown]), "work on the GPU");
        if (st == FIRM_OK)
            take(to, e, (k - 1) * batch, k == batches ? count - (k - 1) * batch : batch);
    }
    firm_error ignored;
    firm_status end = nn_cuda_wait(r->q, st == FIRM_OK ? &r->fault : &ignored);
    return st == FIRM_OK ? noted(r, end) : st;
}

// ---- results ------------------------------------------------------------------------------------

static size_t remote_bytes(const void* opaque) {
    const remote* r = opaque;
    return r->pass.bytes + (r->g->store->count + r->pass.at.grad_count) * sizeof(float);
}

static const float* remote_output(const void* opaque, nn_id x) {
    const remote* r = opaque;
    return r->out_at[x] == SIZE_MAX ? NULL : (const float*)(r->out[r->shown] + r->out_at[x]);
}

static double remote_term(const void* opaque, int term) {
    const remote* r = opaque;
    return ((const double*)(r->out[r->shown] + r->out_bytes))[term];
}

static double remote_loss(const void* opaque) {
    const remote* r = opaque;
    double loss = 0;
    for (int i = 0; i < r->g->terms; i++) loss += (double)r->g->term[i].weight * remote_term(r, i);
    return loss;
}

static const nn_layout* remote_layout(const void* opaque) {
    return &((const remote*)opaque)->pass.at;
}

static float* remote_grad(void* opaque) {
    return ((remote*)opaque)->host_grad;
}

static void remote_pull_params(void* opaque) {
    remote* r = opaque;
    noted(r, nn_cuda_upload(r->q, r->params, r->g->store->value, r->g->store->count * sizeof(float),
                            &r->fault));
}

const nn_exec_kind nn_exec_cuda = {.create = remote_create,
                                   .free = remote_free,
                                   .bytes = remote_bytes,
                                   .forward = remote_forward,
                                   .gradient = remote_gradient,
                                   .stream = remote_stream,
                                   .output = remote_output,
                                   .loss = remote_loss,
                                   .term = remote_term,
                                   .layout = remote_layout,
                                   .grad = remote_grad,
                                   .pull_params = remote_pull_params,
                                   .fault = remote_fault};
