// cuda.cu - the queue (stream, products, memory, first error) and the table of the CUDA backend.
#include <cublasLt.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "nn/cuda/device.cuh"
#include "nn/cuda/few.cuh"
#include "nn/cuda/queue.cuh"

extern "C" {
#include "core/mem.h"
}

// ---- errors -------------------------------------------------------------------------------------

void nn_cuda_note(nn_cuda_queue* q, const char* fmt, ...) {
    if (q->error[0]) return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(q->error, sizeof q->error, fmt, args);
    va_end(args);
}

void nn_cuda_check(nn_cuda_queue* q, const char* what) {
    cudaError_t st = cudaGetLastError();
    if (st != cudaSuccess) nn_cuda_note(q, "%s: %s", what, cudaGetErrorString(st));
}

const char* nn_cuda_error(nn_cuda_queue* q) {
    nn_cuda_check(q, "earlier work");
    if (q->aside && q->aside->error[0]) nn_cuda_note(q, "%s", q->aside->error);
    return q->error[0] ? q->error : NULL;
}

firm_status nn_cuda_wait(nn_cuda_queue* q, firm_error* err) {
    cudaError_t st = cudaStreamSynchronize(q->stream);
    if (st != cudaSuccess) nn_cuda_note(q, "work on the GPU failed: %s", cudaGetErrorString(st));
    const char* text = nn_cuda_error(q);
    return text ? FAIL(err, FIRM_E_UNAVAILABLE, "%s: %s", q->name, text) : FIRM_OK;
}

// ---- making a queue -----------------------------------------------------------------------------

enum { OLDEST_MAJOR = 8, WORKSPACE = 32 << 20 };

// what a failed first call to the driver means to a user
static firm_status no_device(cudaError_t st, firm_error* err) {
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    cudaGetLastError();
    if (st == cudaErrorInsufficientDriver && driver > 0)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "the NVIDIA driver supports CUDA %d.%d, this program needs %d.%d; update the "
                    "driver, or use --device cpu",
                    driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    if (st == cudaErrorNoDevice || st == cudaErrorInsufficientDriver)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "no NVIDIA GPU was found (is the driver installed, does CUDA_VISIBLE_DEVICES "
                    "name one?); use --device cpu");
    return FAIL(err, FIRM_E_UNAVAILABLE, "the GPU cannot be used: %s; use --device cpu",
                cudaGetErrorString(st));
}

static firm_status find_device(nn_cuda_queue* q, firm_error* err) {
    int count = 0;
    cudaError_t st = cudaGetDeviceCount(&count);
    if (st == cudaSuccess && count == 0) st = cudaErrorNoDevice;
    cudaDeviceProp prop;
    if (st == cudaSuccess) st = cudaSetDevice(0);
    if (st == cudaSuccess) st = cudaGetDeviceProperties(&prop, 0);
    if (st != cudaSuccess) return no_device(st, err);
    if (prop.major < OLDEST_MAJOR)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "needs a GPU of compute capability 8.0 or newer; this one (%s) is %d.%d; use "
                    "--device cpu",
                    prop.name, prop.major, prop.minor);
    snprintf(q->name, sizeof q->name, "%s", prop.name);
    q->processors = prop.multiProcessorCount;
    return FIRM_OK;
}

static firm_status open_queue(nn_cuda_queue* q, firm_error* err) {
    TRY(find_device(q, err));
    cudaError_t st = cudaStreamCreateWithFlags(&q->stream, cudaStreamNonBlocking);
    if (st != cudaSuccess) return no_device(st, err);
    cublasStatus_t made = cublasLtCreate(&q->blas);
    if (made != CUBLAS_STATUS_SUCCESS)
        return FAIL(err, FIRM_E_UNAVAILABLE, "cuBLASLt cannot be used on %s: %s; use --device cpu",
                    q->name, cublasLtGetStatusString(made));
    return nn_cuda_alloc(q, WORKSPACE, &q->workspace, err);
}

firm_status nn_cuda_queue_create(nn_cuda_precision p, nn_cuda_queue** out, firm_error* err) {
    *out = NULL;
    nn_cuda_queue* q = (nn_cuda_queue*)mem_calloc(1, sizeof *q);
    if (!q) return FAIL(err, FIRM_E_MEMORY, "no memory for a GPU queue");
    q->precision = p;
    q->workspace_bytes = WORKSPACE;
    firm_status st = open_queue(q, err);
    if (st != FIRM_OK) {
        nn_cuda_queue_free(q);
        return st;
    }
    *out = q;
    return FIRM_OK;
}

void nn_cuda_queue_free(nn_cuda_queue* q) {
    if (!q) return;
    if (q->stream) cudaStreamSynchronize(q->stream);
    nn_cuda_queue_free(q->aside);
    cudaEvent_t event[] = {q->fork, q->join, q->mark[0], q->mark[1], q->mark[2]};
    static_assert(sizeof event / sizeof *event == NN_CUDA_MARKS + 2, "all events");
    for (size_t i = 0; i < sizeof event / sizeof *event; i++)
        if (event[i]) cudaEventDestroy(event[i]);
    while (q->masks) {
        nn_cuda_mask* m = q->masks;
        q->masks = m->next;
        nn_cuda_release(m->by_row);
        mem_free(m);
    }
    nn_cuda_plans_free(q);
    nn_cuda_release(q->workspace);
    if (q->blas) cublasLtDestroy(q->blas);
    if (q->stream) cudaStreamDestroy(q->stream);
    cudaGetLastError();  // whatever failed above concerns nobody any more
    mem_free(q);
}

void* nn_cuda_stream(nn_cuda_queue* q) {
    return q->stream;
}
const char* nn_cuda_device(const nn_cuda_queue* q) {
    return q->name;
}
nn_cuda_precision nn_cuda_precision_of(const nn_cuda_queue* q) {
    return q->precision;
}
int nn_cuda_processors(const nn_cuda_queue* q) {
    return q->processors;
}

// ---- work aside ---------------------------------------------------------------------------------

static firm_status new_event(nn_cuda_queue* q, cudaEvent_t* event, firm_error* err) {
    cudaError_t st = cudaEventCreateWithFlags(event, cudaEventDisableTiming);
    if (st == cudaSuccess) return FIRM_OK;
    return FAIL(err, FIRM_E_UNAVAILABLE, "%s: an event: %s", q->name, cudaGetErrorString(st));
}

firm_status nn_cuda_open_aside(nn_cuda_queue* q, firm_error* err) {
    if (q->aside) return FIRM_OK;
    if (!q->fork) TRY(new_event(q, &q->fork, err));
    if (!q->join) TRY(new_event(q, &q->join, err));
    for (int i = 0; i < NN_CUDA_MARKS; i++)
        if (!q->mark[i]) TRY(new_event(q, &q->mark[i], err));
    return nn_cuda_queue_create(q->precision, &q->aside, err);
}

static void follow(nn_cuda_queue* q, cudaStream_t from, cudaEvent_t event, cudaStream_t to) {
    cudaError_t st = from ? cudaEventRecord(event, from) : cudaSuccess;
    if (st == cudaSuccess && to) st = cudaStreamWaitEvent(to, event, 0);
    if (st != cudaSuccess) nn_cuda_note(q, "work aside: %s", cudaGetErrorString(st));
}

nn_cuda_queue* nn_cuda_aside(nn_cuda_queue* q) {
    if (!q->aside || q->ways & NN_CUDA_WAY_IN_TURN) return q;
    follow(q, q->stream, q->fork, q->aside->stream);
    q->pending = 1;
    return q->aside;
}

void nn_cuda_mark(nn_cuda_queue* q, int mark) {
    if (q->pending) follow(q, q->aside->stream, q->mark[mark], NULL);
}

void nn_cuda_await(nn_cuda_queue* q, int mark) {
    if (q->pending) follow(q, NULL, q->mark[mark], q->stream);
}

void nn_cuda_rejoin(nn_cuda_queue* q) {
    if (q->pending) follow(q, q->aside->stream, q->join, q->stream);
    q->pending = 0;
}

void nn_cuda_set_ways(nn_cuda_queue* q, unsigned ways) {
    q->ways = ways;
}
unsigned nn_cuda_ways(const nn_cuda_queue* q) {
    return q->ways;
}

// ---- memory -------------------------------------------------------------------------------------

firm_status nn_cuda_alloc(nn_cuda_queue* q, size_t bytes, void** out, firm_error* err) {
    *out = NULL;
    cudaError_t st = cudaMalloc(out, bytes ? bytes : 1);
    if (st == cudaSuccess) return FIRM_OK;
    size_t left = 0, total = 0;
    cudaGetLastError();
    *out = NULL;
    if (st != cudaErrorMemoryAllocation)
        return FAIL(err, FIRM_E_UNAVAILABLE, "%s: %s", q->name, cudaGetErrorString(st));
    if (cudaMemGetInfo(&left, &total) != cudaSuccess) cudaGetLastError();
    return FAIL(err, FIRM_E_MEMORY,
                "out of GPU memory: %.0f MB asked for, %.0f of %.0f MB free on %s; use a smaller "
                "batch, or a GPU nobody else uses",
                (double)bytes / 1e6, (double)left / 1e6, (double)total / 1e6, q->name);
}

void nn_cuda_release(void* p) {
    if (p) cudaFree(p);
}

static firm_status copy(nn_cuda_queue* q, void* to, const void* from, size_t bytes,
                        cudaMemcpyKind kind, firm_error* err) {
    cudaError_t st = bytes ? cudaMemcpyAsync(to, from, bytes, kind, q->stream) : cudaSuccess;
    if (st != cudaSuccess) nn_cuda_note(q, "copying %zu bytes: %s", bytes, cudaGetErrorString(st));
    return nn_cuda_wait(q, err);
}

firm_status nn_cuda_upload(nn_cuda_queue* q, void* device, const void* host, size_t bytes,
                           firm_error* err) {
    return copy(q, device, host, bytes, cudaMemcpyHostToDevice, err);
}

firm_status nn_cuda_download(nn_cuda_queue* q, void* host, const void* device, size_t bytes,
                             firm_error* err) {
    return copy(q, host, device, bytes, cudaMemcpyDeviceToHost, err);
}

// ---- masks: one bit per pair, by row and by column
// ------------------------------------------------

nn_cuda_mask* nn_cuda_mask_find(nn_cuda_queue* q, const uint8_t* host, int tokens) {
    for (nn_cuda_mask* m = q->masks; m; m = m->next)
        if (m->host == host && m->tokens == tokens) return m;
    return NULL;
}

static firm_status mask_add(nn_cuda_queue* q, const uint8_t* host, int tokens, nn_cuda_mask** out,
                            firm_error* err) {
    int words = (tokens + 31) / 32;
    size_t half = (size_t)tokens * words;
    nn_cuda_mask* m = (nn_cuda_mask*)mem_calloc(1, sizeof *m);
    if (!m) return FAIL(err, FIRM_E_MEMORY, "no memory for an attention mask");
    firm_status st = nn_cuda_alloc(q, 2 * half * sizeof(uint32_t), (void**)&m->by_row, err);
    if (st != FIRM_OK) {
        mem_free(m);
        return st;
    }
    m->host = host;
    m->tokens = tokens;
    m->words = words;
    m->by_column = m->by_row + half;
    m->next = q->masks;
    q->masks = *out = m;
    return FIRM_OK;
}

static firm_status prepare_mask(nn_cuda_queue* q, const uint8_t* mask, int tokens,
                                firm_error* err) {
    nn_cuda_mask* m = nn_cuda_mask_find(q, mask, tokens);
    if (!m) TRY(mask_add(q, mask, tokens, &m, err));
    size_t words = (size_t)m->words, half = (size_t)tokens * words;
    uint32_t* bits = (uint32_t*)mem_calloc(2 * half, sizeof *bits);
    if (!bits) return FAIL(err, FIRM_E_MEMORY, "no memory for an attention mask");
    for (int t = 0; t < tokens; t++) {
        for (int s = 0; s < tokens; s++) {
            if (mask && !mask[(size_t)t * tokens + s]) continue;
            bits[(size_t)t * words + s / 32] |= 1u << s % 32;
            bits[half + (size_t)s * words + t / 32] |= 1u << t % 32;
        }
    }
    firm_status st = nn_cuda_upload(q, m->by_row, bits, 2 * half * sizeof *bits, err);
    mem_free(bits);
    return st;
}

firm_status nn_cuda_prepare_node(nn_cuda_queue* q, const nn_graph* g, const nn_node* n,
                                 firm_error* err) {
    if (n->op != NN_ATTENTION) return FIRM_OK;
    const nn_tensor* y = &g->tensor[n->out];
    int tokens = y->dim[y->rank - 2], depth = last_of(y) / n->heads;
    if (n->alpha > 0 && tokens > NN_CUDA_FEW)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "attention with dropout over %d tokens; on the GPU at most %d, use --device "
                    "cpu",
                    tokens, NN_CUDA_FEW);
    if (depth > NN_CUDA_HEAD_MAX)
        return FAIL(err, FIRM_E_UNAVAILABLE,
                    "attention heads are %d wide; on the GPU at most %d, use --device cpu", depth,
                    NN_CUDA_HEAD_MAX);
    return prepare_mask(q, n->mask, tokens, err);
}

firm_status nn_cuda_prepare(nn_cuda_queue* q, const nn_graph* g, firm_error* err) {
    for (int i = 0; i < g->nodes; i++) TRY(nn_cuda_prepare_node(q, g, &g->node[i], err));
    return FIRM_OK;
}

// ---- the table ----------------------------------------------------------------------------------

static void* table_alloc(size_t bytes) {
    void* p = NULL;
    if (cudaMalloc(&p, bytes ? bytes : 1) == cudaSuccess) return p;
    cudaGetLastError();
    return NULL;
}

// a queue's stream does not wait for the default stream these copies use, nor the other way round
static void table_upload(void* device, const float* host, size_t count) {
    cudaMemcpy(device, host, count * sizeof *host, cudaMemcpyHostToDevice);
    cudaDeviceSynchronize();
}

static void table_download(float* host, const void* device, size_t count) {
    cudaDeviceSynchronize();
    cudaMemcpy(host, device, count * sizeof *host, cudaMemcpyDeviceToHost);
}

static nn_backend table;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_table(void) {
    nn_kernel* k = table.kernel;
    k[NN_LINEAR] = nn_cuda_linear;
    k[NN_CONV2D] = nn_cuda_conv2d;
    k[NN_CONVT2D] = nn_cuda_convt2d;
    k[NN_LAYERNORM] = nn_cuda_layernorm;
    k[NN_GROUPNORM] = nn_cuda_groupnorm;
    k[NN_ADANORM] = nn_cuda_adanorm;
    k[NN_BATCHNORM] = nn_cuda_batchnorm;
    k[NN_GELU] = nn_cuda_gelu;
    k[NN_ERFGELU] = nn_cuda_erfgelu;
    k[NN_SILU] = nn_cuda_silu;
    k[NN_ADD] = nn_cuda_add;
    k[NN_ADDP] = nn_cuda_addp;
    k[NN_MUL] = nn_cuda_mul;
    k[NN_PAIRNORM] = nn_cuda_pairnorm;
    k[NN_CLAMP] = nn_cuda_clamp;
    k[NN_RELATIVE] = nn_cuda_relative;
    k[NN_DROPOUT] = nn_cuda_dropout;
    k[NN_CONCAT] = nn_cuda_concat;
    k[NN_SLICE] = nn_cuda_slice;
    k[NN_MEAN] = nn_cuda_mean;
    k[NN_PREPEND] = nn_cuda_prepend;
    k[NN_ATTENTION] = nn_cuda_attention;
    k[NN_COORDS] = nn_cuda_coords;
    k[NN_SOFTPOOL] = nn_cuda_softpool;
    k[NN_SPATIAL] = nn_cuda_spatial;
    k[NN_PATCHES] = nn_cuda_patches;
    k[NN_PATCHDIFF] = nn_cuda_patchdiff;
    k[NN_PATCHMASK] = nn_cuda_patchmask;
    k[NN_MSE] = nn_cuda_mse;
    k[NN_BCE] = nn_cuda_bce;
    k[NN_NLL] = nn_cuda_nll;
    k[NN_CHORD] = nn_cuda_chord;
    k[NN_SIGREG] = nn_cuda_sigreg;
    table.name = "cuda";
    table.real = sizeof(float);
    table.alloc = table_alloc;
    table.release = nn_cuda_release;
    table.upload = table_upload;
    table.download = table_download;
}

const nn_backend* nn_backend_cuda(void) {
    pthread_once(&once, fill_table);
    return &table;
}
