// lewm_rows.cu - the kernels between LeWM's products. A warp takes a row, a lane the pairs of
// numbers 2 lane + 64 k of it; in the attention a lane has eight neighbouring numbers of a head.
// Residual stream, norms and softmax are float32; biases are added here, since the products leave
// them out.
#include "plan/cuda/fit.cuh"
#include "plan/cuda/lewm.cuh"
#include "plan/cuda/lewm_price.cuh"
#include "plan/cuda/lewm_rows.cuh"
#include "plan/cuda/noise.cuh"

static unsigned blocks_of(int rows) {
    return (unsigned)((rows + WARPS - 1) / WARPS);
}

static __device__ __forceinline__ float real(float x) {
    return x;
}
static __device__ __forceinline__ float real(__nv_bfloat16 x) {
    return __bfloat162float(x);
}

rows_args lewm_rows_args(const lewm_gpu* g, const lewm_job* j) {
    rows_args r = {g->size,
                   j->count * j->each,
                   j->each,
                   j->horizon,
                   g->searches,
                   g->u,
                   g->x,
                   g->y,
                   g->path,
                   g->value,
                   g->mod,
                   g->a,
                   g->qkv,
                   g->o,
                   g->embedding,
                   g->condition,
                   g->modulation.b,
                   g->positions};
    return r;
}

// ---- draw ---------------------------------------------------------------------------------------

__global__ void __launch_bounds__(256)
    lewm_draw_kernel(const __grid_constant__ rows_args r, int means) {
    const int n = r.horizon * r.s.action, quads = (n + 3) / 4,
              i = (int)(blockIdx.x * 256 + threadIdx.x), row = i / quads, quad = i % quads,
              candidate = row % r.each;
    if (row >= r.rows) return;
    lewm_search* q = lewm_search_at(r.searches, r.s, row / r.each);
    const float *mean = lewm_part(q, r.s.mean_at), *spread = lewm_part(q, r.s.spread_at);
    float noise[4] = {0, 0, 0, 0};
    const bool drawn = !means && candidate;
    if (drawn) normals(q->seed, q->solve, q->iteration, candidate, quad, noise);
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const int j = 4 * quad + k;
        if (j >= n) break;
        float v = mean[j];
        if (drawn) v = __fadd_rn(v, __fmul_rn(spread[j], noise[k]));
        r.u[(size_t)row * n + j] = v;
    }
}

firm_status lewm_draw(lewm_gpu* g, const lewm_job* j, lewm_drawn kind, firm_error* err) {
    const rows_args r = lewm_rows_args(g, j);
    const int quads = (j->horizon * g->size.action + 3) / 4;
    lewm_draw_kernel<<<(unsigned)((r.rows * quads + 255) / 256), 256, 0, g->stream>>>(
        r, kind == LEWM_MEANS);
    GPU(cudaGetLastError());
    return FIRM_OK;
}

// ---- actions ------------------------------------------------------------------------------------

typedef struct embed_args {
    const float *w1, *b1, *w2, *b2;  // (out, in) float32
} embed_args;

// One block per row and step: the affine map, then the hidden layer with SiLU.
template <typename T>
__global__ void __launch_bounds__(128)
    lewm_embed_kernel(const __grid_constant__ rows_args r, const embed_args e) {
    __shared__ float hidden[256];
    const int row = (int)blockIdx.x % r.rows, t = (int)blockIdx.x / r.rows, n1 = r.s.action_hidden;
    const float* u = r.u + ((size_t)row * r.horizon + t) * r.s.action;
    for (int i = (int)threadIdx.x; i < n1; i += 128) {
        float sum = e.b1[i];
        for (int k = 0; k < r.s.action; k++) sum += e.w1[i * r.s.action + k] * u[k];
        hidden[i] = sum;
    }
    __syncthreads();
    T* out = (T*)r.embedding + ((size_t)t * r.rows + row) * r.s.action_mlp;
    for (int i = (int)threadIdx.x; i < r.s.action_mlp; i += 128) {
        float sum = e.b2[i];
        for (int k = 0; k < n1; k++) sum += e.w2[i * n1 + k] * hidden[k];
        out[i] = operand<T>(sum / (1.0f + expf(-sum)));
    }
}

#define BY_PRECISION(g, kernel, grid, block, ...)                                    \
    do {                                                                             \
        if ((g)->setup.precision == PLAN_BF16)                                       \
            kernel<__nv_bfloat16><<<(grid), (block), 0, (g)->stream>>>(__VA_ARGS__); \
        else                                                                         \
            kernel<float><<<(grid), (block), 0, (g)->stream>>>(__VA_ARGS__);         \
        GPU(cudaGetLastError());                                                     \
    } while (0)

firm_status lewm_embed(lewm_gpu* g, const lewm_job* j, firm_error* err) {
    const rows_args r = lewm_rows_args(g, j);
    const embed_args e = {(const float*)g->patch.w, g->patch.b, (const float*)g->embed_up.w,
                          g->embed_up.b};
    BY_PRECISION(g, lewm_embed_kernel, (unsigned)(r.rows * j->horizon), 128, r, e);
    return FIRM_OK;
}

template <typename T>
__global__ void __launch_bounds__(256)
    lewm_silu_kernel(const __grid_constant__ rows_args r, const float* bias) {
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    if (i >= (size_t)r.rows * r.horizon * r.s.width) return;
    const float x = r.y[i] + bias[i % r.s.width];
    ((T*)r.condition)[i] = operand<T>(x / (1.0f + expf(-x)));
}

firm_status lewm_silu(lewm_gpu* g, const lewm_job* j, firm_error* err) {
    const rows_args r = lewm_rows_args(g, j);
    const size_t n = (size_t)r.rows * (size_t)(j->horizon * g->size.width);
    BY_PRECISION(g, lewm_silu_kernel, (unsigned)((n + 255) / 256), 256, r, g->embed_down.b);
    return FIRM_OK;
}

// ---- tokens -------------------------------------------------------------------------------------

// kernels for rows of up to 64, 192 and 512 numbers
#define BY_WIDTH(g, kernel, grid, ...)                                                             \
    do {                                                                                           \
        const bool half = (g)->setup.precision == PLAN_BF16;                                       \
        const int width = (g)->size.width;                                                         \
        const auto chosen = width <= 64    ? half ? kernel<__nv_bfloat16, 1> : kernel<float, 1>    \
                               : width <= 192 ? half ? kernel<__nv_bfloat16, 3> : kernel<float, 3> \
                               : half ? kernel<__nv_bfloat16, 8>                                   \
                                           : kernel<float, 8>;                                             \
        chosen<<<(grid), 32 * WARPS, 0, (g)->stream>>>(__VA_ARGS__);                               \
        GPU(cudaGetLastError());                                                                   \
    } while (0)

firm_status lewm_place(lewm_gpu* g, const lewm_job* j, int t, int first, int last,
                       firm_error* err) {
    const rows_args r = lewm_rows_args(g, j);
    BY_WIDTH(g, lewm_place_kernel, blocks_of((last - first + 1) * r.rows), r, t, first, last,
             g->head_down.b);
    return FIRM_OK;
}

firm_status lewm_gate(lewm_gpu* g, const lewm_job* j, int t, int block, int branch, int first,
                      int last, firm_error* err) {
    const rows_args r = lewm_rows_args(g, j);
    const gpu_block* w = &g->block[block];
    BY_WIDTH(g, lewm_gate_kernel, blocks_of((last - first + 1) * r.rows), r, t, block, branch,
             first, last, branch ? w->down.b : w->out.b);
    return FIRM_OK;
}

// ---- attention ----------------------------------------------------------------------------------

enum { ATTENTION_BLOCKS = 1056 };  // eight for each of 132 processors

firm_status lewm_attention(lewm_gpu* g, const lewm_job* j, int block, int window, int first,
                           int last, firm_error* err) {
    const rows_args r = lewm_rows_args(g, j);
    const size_t at = (size_t)(window * g->size.context) * (size_t)r.rows * 3 *
                      (size_t)g->size.inner * g->element;
    const int heads = 32 / lanes_of(g->size.head), groups = (g->size.heads + heads - 1) / heads;
    const unsigned wanted = blocks_of(r.rows * groups),
                   grid = wanted < ATTENTION_BLOCKS ? wanted : ATTENTION_BLOCKS;
    const float* bias = g->block[block].qkv.b;
    if (g->setup.precision == PLAN_BF16)
        lewm_attention_kernel<<<grid, 32 * WARPS, 0, g->stream>>>(
            r, (const __nv_bfloat16*)(g->qkv + at), first, last, bias);
    else
        lewm_attention_kernel<<<grid, 32 * WARPS, 0, g->stream>>>(r, (const float*)(g->qkv + at),
                                                                  first, last, bias);
    GPU(cudaGetLastError());
    return FIRM_OK;
}

// ---- pointwise ----------------------------------------------------------------------------------

template <typename T>
__global__ void __launch_bounds__(256)
    lewm_gelu_kernel(T* h, const float* bias, int width, size_t pairs) {
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    if (i >= pairs) return;
    const int f = (int)(2 * i % (size_t)width);
    float x[2] = {real(h[2 * i]) + bias[f], real(h[2 * i + 1]) + bias[f + 1]};
#pragma unroll
    for (int k = 0; k < 2; k++) {
        x[k] *= 0.5f * (1.0f + erff(x[k] * 0.70710678f));
        h[2 * i + k] = operand<T>(x[k]);
    }
}

firm_status lewm_gelu(lewm_gpu* g, int rows, const gpu_layer* l, void* h, firm_error* err) {
    const size_t pairs = (size_t)rows * (size_t)l->out / 2;
    const unsigned grid = (unsigned)((pairs + 255) / 256);
    if (g->setup.precision == PLAN_BF16)
        lewm_gelu_kernel<<<grid, 256, 0, g->stream>>>((__nv_bfloat16*)h, l->b, l->out, pairs);
    else
        lewm_gelu_kernel<<<grid, 256, 0, g->stream>>>((float*)h, l->b, l->out, pairs);
    GPU(cudaGetLastError());
    return FIRM_OK;
}

__global__ void __launch_bounds__(256)
    lewm_finish_kernel(const __grid_constant__ rows_args r, const float* bias) {
    const size_t i = (size_t)blockIdx.x * 256 + threadIdx.x;
    const int width = r.s.width;
    if (i >= (size_t)r.rows * width) return;
    const size_t row = i / width, f = i % width;
    r.path[(row * r.horizon + r.horizon - 1) * width + f] = r.y[i] + bias[f];
}

firm_status lewm_finish(lewm_gpu* g, const lewm_job* j, firm_error* err) {
    const rows_args r = lewm_rows_args(g, j);
    const size_t n = (size_t)r.rows * (size_t)g->size.width;
    lewm_finish_kernel<<<(unsigned)((n + 255) / 256), 256, 0, g->stream>>>(r, g->head_down.b);
    GPU(cudaGetLastError());
    return FIRM_OK;
}

// ---- fit ----------------------------------------------------------------------------------------

// One block per search.
__global__ void __launch_bounds__(512) lewm_fit_kernel(const __grid_constant__ rows_args r) {
    extern __shared__ uint32_t key[];  // (candidates), then their costs and the elites' numbers
    const int n = r.each, tid = (int)threadIdx.x;
    float* value = (float*)(key + n);
    int* elite = (int*)(value + n);
    lewm_search* q = lewm_search_at(r.searches, r.s, (int)blockIdx.x);
    const size_t first = (size_t)blockIdx.x * n;
    __shared__ int count;
    if (tid == 0) count = 0;
    for (int i = tid; i < n; i += (int)blockDim.x) {
        value[i] = r.value[first + i];
        key[i] = order_key(value[i]);
    }
    __syncthreads();
    const fit_ranked ranked = {n,
                               r.s.elites,
                               r.horizon * r.s.action,
                               key,
                               elite,
                               value,
                               r.u + first * r.horizon * r.s.action};
    fit_result result =
        fit_elites(ranked, lewm_part(q, r.s.mean_at), lewm_part(q, r.s.spread_at), &count);
    if (tid == 0) {
        q->elites = result.elites;
        q->elite_cost = result.cost;
        q->iteration++;
    }
}

static size_t fit_bytes(const lewm_gpu* g) {
    return (size_t)(2 * g->size.candidates + g->size.elites) * 4;
}

firm_status lewm_rows_prepare(lewm_gpu* g, firm_error* err) {
    GPU(cudaFuncSetAttribute(lewm_fit_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)fit_bytes(g)));
    return FIRM_OK;
}

firm_status lewm_fit(lewm_gpu* g, const lewm_job* j, firm_error* err) {
    const rows_args r = lewm_rows_args(g, j);
    lewm_price_kernel<<<blocks_of(r.rows), 32 * WARPS, 0, g->stream>>>(r);
    GPU(cudaGetLastError());
    lewm_fit_kernel<<<(unsigned)j->count, 512, fit_bytes(g), g->stream>>>(r);
    GPU(cudaGetLastError());
    return FIRM_OK;
}
