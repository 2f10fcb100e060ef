// fused.cu - host side of the fused way: packs the weights into the stream that blocks read,
// launches, and says what went wrong. The kernel is in fused_kernel.cu.
#include <math.h>
#include <string.h>

#include "plan/cuda/fused.cuh"

using namespace fused;

struct fused_way {
    fused_args args;
    char* memory;
    uint32_t* stuck;  // host memory that the kernel writes
};

enum { CLOCK_BYTES = 2 * 16 * 8 };

static const char* const part_names[PARTS] = {
    "waiting for weights", "first product",        "LayerNorm",       "products up", "GELU",
    "products down",       "product of the heads", "state and inputs"};

static kernel_fn own_kernel(const plan_gpu* g) {
    return kernel_of(g->setup.precision, g->setup.variant);
}

// h adds up products of several layers, so these share one scale, 1: their weights must be float16
// numbers as they are.
static int fits_unscaled(const plan_gpu* g, const host_layer* l) {
    float most = 0.0f;
    for (size_t i = 0; i < (size_t)l->in * (size_t)l->out; i++) most = fmaxf(most, fabsf(l->w[i]));
    return g->setup.precision != PLAN_TF32 || most == 0.0f ||
           (most < 32768.0f && most > 1.0f / 256);
}

// Weights (inputs k0 .. k0 + width - 1, outputs n0 .. n0 + rows - 1) as the tensor cores read them;
// width 64 or 32.
static void pack_tile(const plan_gpu* g, const host_layer* l, float scale, int k0, int n0, int rows,
                      int width, char* to) {
    for (int r = 0; r < rows; r++)
        for (int k = 0; k < width; k++) {
            float v = k0 + k < l->in && n0 + r < l->out
                          ? l->w[(size_t)(k0 + k) * (size_t)l->out + (size_t)(n0 + r)]
                          : 0.0f;
            uint16_t bits = gpu_operand(v / scale, g->setup.precision);
            int piece = width == 64 ? (k / 8) ^ (r & 7) : (k / 8) ^ (r >> 1 & 3);
            memcpy(to + r * width * 2 + piece * 16 + k % 8 * 2, &bits, 2);
        }
}

static void pack_chunks(plan_gpu* g, char* to) {
    fused_args* a = &g->fused->args;
    plan_precision how = g->setup.precision;
    for (int k = 0; k < MAX_X / 64; k++)
        for (int half = 0; half < 2; half++, to += CHUNK)
            pack_tile(g, &g->host[LAYER_IN], 1.0f, k * 64, half * 192, 192, 64, to);
    for (int b = 0; b < g->size.blocks; b++) {
        const host_layer *up = &g->host[LAYER_UP + b], *down = &g->host[LAYER_DOWN + b];
        a->scale_up[b] = gpu_weight_scale(up, how);
        for (int inner = 0; inner < g->size.inner; inner += 64, to += 4 * CHUNK) {
            for (int k = 0; k < HIDDEN / 64; k++)
                pack_tile(g, up, a->scale_up[b], k * 64, inner, 64, 64, to + k * TILE);
            for (int half = 0; half < 2; half++)
                pack_tile(g, down, 1.0f, inner + half * 32, 0, HIDDEN, 32, to + (2 + half) * CHUNK);
        }
    }
    const host_layer* heads = &g->host[LAYER_HEADS];
    a->scale_heads = gpu_weight_scale(heads, how);
    for (int k = 0; k < HIDDEN / 64; k++, to += CHUNK)
        pack_tile(g, heads, a->scale_heads, k * 64, 0, MAX_STATE, 64, to);
}

static int takes(const plan_gpu* g) {
    const sizes* s = &g->size;
    if (g->major != 9 || g->setup.precision == PLAN_FP32 || s->spatial || s->hidden != HIDDEN ||
        s->config > 8 ||  // one tile holds all pairs
        s->inner % 64 || s->blocks < 1 || s->state > MAX_STATE || s->state + s->action > MAX_X ||
        !fits_unscaled(g, &g->host[LAYER_IN]))
        return 0;
    for (int b = 0; b < s->blocks; b++)
        if (!fits_unscaled(g, &g->host[LAYER_DOWN + b])) return 0;
    if (!own_kernel(g)) return 0;
    cudaFuncAttributes attributes;
    // without code for 9.0a in this build the kernel is empty
    if (cudaFuncGetAttributes(&attributes, own_kernel(g)) != cudaSuccess ||
        attributes.numRegs < 100) {
        cudaGetLastError();
        return 0;
    }
    return 1;
}

firm_status fused_create(plan_gpu* g, firm_error* err) {
    if (!takes(g)) return FIRM_OK;
    g->fused = (fused_way*)mem_calloc(1, sizeof *g->fused);
    if (!g->fused) return FAIL(err, FIRM_E_MEMORY, "no memory for the GPU planner");
    const sizes* s = &g->size;
    fused_args* a = &g->fused->args;
    a->count = 2 * (MAX_X / 64) + s->blocks * (s->inner / 64) * 4 + HIDDEN / 64;
    size_t chunks = (size_t)a->count * CHUNK;
    // a warpgroup without rows of its own has a tile nevertheless
    size_t tiles = (size_t)(round_up(g->rows, ROWS) / 64 + g->processors * (ROWS / 64));
    size_t state = tiles * 64 * MAX_STATE * 4, handed = tiles * 4;
    GPU(cudaMalloc((void**)&g->fused->memory, chunks + state + CLOCK_BYTES + handed));
    g->bytes += chunks + state + CLOCK_BYTES + handed;
    GPU(cudaMemset(g->fused->memory + chunks + state, 0, CLOCK_BYTES + handed));
    char* image = (char*)mem_calloc(1, chunks);
    if (!image) return FAIL(err, FIRM_E_MEMORY, "no memory for the GPU planner");
    pack_chunks(g, image);
    cudaError_t code = cudaMemcpy(g->fused->memory, image, chunks, cudaMemcpyHostToDevice);
    mem_free(image);
    GPU(code);
    GPU(cudaHostAlloc((void**)&g->fused->stuck, 64, cudaHostAllocMapped));
    memset(g->fused->stuck, 0, 64);
    GPU(cudaHostGetDevicePointer((void**)&a->stuck, g->fused->stuck, 0));
    a->s = *s;
    a->chunks = g->fused->memory;
    a->state = (float*)(g->fused->memory + chunks);
    a->clocks = (unsigned long long*)(g->fused->memory + chunks + state);
    a->handed = (uint32_t*)(g->fused->memory + chunks + state + CLOCK_BYTES);
    a->searches = g->searches;
    a->u = g->u;
    a->u_low = g->u_low;
    a->u_high = g->u_high;
    a->bias_in = g->layers[LAYER_IN].bias;
    a->bias_heads = g->layers[LAYER_HEADS].bias;
    for (int b = 0; b < s->blocks; b++) {
        a->bias_up[b] = g->layers[LAYER_UP + b].bias;
        a->bias_down[b] = g->layers[LAYER_DOWN + b].bias;
    }
    GPU(cudaFuncSetAttribute(own_kernel(g), cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED));
    return FIRM_OK;
}

void fused_free(plan_gpu* g) {
    if (!g->fused) return;
    if (g->fused->memory) cudaFree(g->fused->memory);
    if (g->fused->stuck) cudaFreeHost(g->fused->stuck);
    mem_free(g->fused);
    g->fused = NULL;
}

firm_status fused_failed(const plan_gpu* g, cudaError_t code, firm_error* err) {
    const volatile uint32_t* s = g->fused->stuck;
    if (!s[0] && code == cudaSuccess) return FIRM_OK;
    if (!s[0]) return gpu_failed(code, "predicting in one kernel", err);
    cudaGetLastError();
    return FAIL(
        err, FIRM_E_UNAVAILABLE,
        "the planner's fused kernel waited in vain for %s %u (block %u, thread %u); this is "
        "a fault of the kernel, plan with the layered way",
        s[1] == STUCK_PLACE ? "weights in place" : "another block to bring tile", s[2], s[3], s[4]);
}

firm_status fused_predict(plan_gpu* g, int rows, int per_search, int horizon, float* c_out,
                          firm_error* err) {
    fused_args a = g->fused->args;
    a.rows = rows;
    a.per_search = per_search;
    a.horizon = horizon;
    a.c = c_out;
    const int tiles = (rows + 63) / 64, in_block = ROWS / 64;
    int blocks = (tiles + in_block - 1) / in_block;
    a.slots = horizon;
    if (blocks > g->processors) {
        blocks = g->processors;
        a.slots = (tiles * horizon + blocks * in_block - 1) / (blocks * in_block);
    }
    a.lanes = blocks * in_block;
    own_kernel(g)<<<blocks, THREADS, SHARED, g->stream>>>(a);
    GPU(cudaGetLastError());
    return FIRM_OK;
}

firm_status fused_clocks(plan_gpu* g, int room, const char** name, double* cycles, int* count,
                         firm_error* err) {
    unsigned long long value[2][16];
    GPU(cudaMemcpy(value, g->fused->args.clocks, sizeof value, cudaMemcpyDeviceToHost));
    *count = 0;
    for (int i = 0; i < 2 * PARTS && i < room; i++, ++*count) {
        name[i] = part_names[i % PARTS];
        cycles[i] = (double)value[i / PARTS][i % PARTS];
    }
    return FIRM_OK;
}
