// feed.c - fill callbacks on the pool's threads, pinned buffers, copies to the device.
#include "nn/cuda/feed.h"

#include <stdatomic.h>

#include "core/mem.h"

// ---- blocks -------------------------------------------------------------------------------------

firm_status nn_cuda_block_make(const nn_graph* g, const int* pieces, int64_t rows, nn_cuda_block* b,
                               firm_error* err) {
    size_t tensors = (size_t)g->tensors;
    *b = (nn_cuda_block){.g = g, .rows = rows};
    b->at = mem_calloc(tensors, sizeof *b->at);
    b->row_bytes = mem_calloc(tensors, sizeof *b->row_bytes);
    if (!b->at || !b->row_bytes) {
        nn_cuda_block_free(b);
        return FAIL(err, FIRM_E_MEMORY, "no memory to feed a graph");
    }
    for (int i = 0; i < g->tensors; i++) {
        const nn_tensor* t = &g->tensor[i];
        if (t->kind != NN_INPUT && t->kind != NN_BYTES) continue;
        b->row_bytes[i] = (size_t)t->size * (t->kind == NN_BYTES ? 1 : sizeof(float));
        if (pieces) b->row_bytes[i] /= (size_t)pieces[i];
        b->at[i] = b->bytes;
        b->bytes += ((size_t)rows * b->row_bytes[i] + 255) / 256 * 256;
    }
    return FIRM_OK;
}

void nn_cuda_block_free(nn_cuda_block* b) {
    mem_free(b->at);
    mem_free(b->row_bytes);
    *b = (nn_cuda_block){0};
}

// ---- host buffers -------------------------------------------------------------------------------

firm_status nn_cuda_feeder_open(nn_cuda_feeder* f, nn_cuda_queue* q, pool* p,
                                const nn_cuda_feeder_options* opt, firm_error* err) {
    *f = (nn_cuda_feeder){.q = q, .p = p};
    TRY(nn_cuda_block_make(opt->graph, opt->pieces, opt->rows, &f->block, err));
    f->slot = mem_calloc((size_t)pool_threads(p) * (size_t)opt->graph->tensors, sizeof *f->slot);
    if (!f->slot) return FAIL(err, FIRM_E_MEMORY, "no memory to feed a graph");
    for (; f->hosts < opt->hosts; f->hosts++) {
        // pinned, so that copies run beside the device's work; outside core/mem.h like all memory
        // of the device
        cudaError_t st = cudaMallocHost((void**)&f->host[f->hosts], f->block.bytes + 1);
        if (st == cudaErrorMemoryAllocation) {
            cudaGetLastError();
            return FAIL(err, FIRM_E_MEMORY,
                        "no pinned memory for %d samples (%.0f MB); use a smaller batch", opt->rows,
                        (double)f->block.bytes / 1e6);
        }
        TRY(nn_cuda_status(q, st, "pinned memory", err));
    }
    return FIRM_OK;
}

void nn_cuda_feeder_close(nn_cuda_feeder* f) {
    for (int i = 0; i < f->hosts; i++) cudaFreeHost(f->host[i]);
    mem_free(f->slot);
    nn_cuda_block_free(&f->block);
    *f = (nn_cuda_feeder){0};
}

typedef struct fill_job {
    nn_cuda_feeder* f;
    char* host;
    int first, count, piece;  // piece: samples of a pool item
    int64_t update;
    nn_fill_fn fill;
    void* ctx;
    atomic_int failure;
} fill_job;

static void fill_piece(void* arg, int item, int worker) {
    fill_job* j = arg;
    if (atomic_load(&j->failure) != FIRM_OK) return;
    const nn_graph* g = j->f->block.g;
    void** slot = j->f->slot + (size_t)worker * (size_t)g->tensors;
    int from = item * j->piece, n = j->count - from < j->piece ? j->count - from : j->piece;
    for (int i = 0; i < g->tensors; i++) {
        size_t row = j->f->block.row_bytes[i];
        slot[i] = row ? j->host + j->f->block.at[i] + (size_t)from * row : NULL;
    }
    nn_feed feed = {.first = j->first + from,
                    .count = n,
                    .worker = worker,
                    .update = j->update,
                    .slot = slot,
                    .graph = g};
    firm_status st = j->fill(j->ctx, &feed);
    int none = FIRM_OK;
    if (st != FIRM_OK) atomic_compare_exchange_strong(&j->failure, &none, (int)st);
}

firm_status nn_cuda_feeder_fill(nn_cuda_feeder* f, int host, int first, int count, int64_t update,
                                nn_fill_fn fill, void* ctx) {
    fill_job job = {.f = f,
                    .host = f->host[host],
                    .first = first,
                    .count = count,
                    .update = update,
                    .fill = fill,
                    .ctx = ctx};
    // several pieces per thread, so that none waits long for the last one
    job.piece = count / (8 * pool_threads(f->p));
    if (job.piece < 1) job.piece = 1;
    atomic_store(&job.failure, FIRM_OK);
    pool_for(f->p, (count + job.piece - 1) / job.piece, fill_piece, &job);
    return (firm_status)atomic_load(&job.failure);
}

cudaError_t nn_cuda_feeder_send(const nn_cuda_feeder* f, int host, int count,
                                const nn_cuda_block* to, char* device, int64_t row,
                                cudaStream_t stream) {
    for (int i = 0; i < f->block.g->tensors; i++) {
        size_t bytes = f->block.row_bytes[i];
        if (!bytes) continue;
        cudaError_t st = cudaMemcpyAsync(device + to->at[i] + (size_t)row * bytes,
                                         f->host[host] + f->block.at[i], (size_t)count * bytes,
                                         cudaMemcpyHostToDevice, stream);
        if (st != cudaSuccess) return st;
    }
    return cudaSuccess;
}
