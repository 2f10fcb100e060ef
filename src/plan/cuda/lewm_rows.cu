// lewm_rows.cu - the kernels between LeWM's products. A warp takes a row, a lane the pairs of
// numbers 2 lane + 64 k of it; in the attention a lane has eight neighbouring numbers of a head.
// Residual stream, norms and softmax are float32; biases are added here, since the products leave
// them out.
#include "plan/cuda/fit.cuh"
#include "plan/cuda/lewm.cuh"
#include "plan/cuda/noise.cuh"

enum { WARPS = 8 };  // rows of a block

static unsigned blocks_of(int rows) {
    return (unsigned)((rows + WARPS - 1) / WARPS);
}

static __device__ __forceinline__ float real(float x) {
    return x;
}
static __device__ __forceinline__ float real(__nv_bfloat16 x) {
    return __bfloat162float(x);
}

static __device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int k = 16; k; k /= 2) x += __shfl_xor_sync(~0u, x, k);
    return x;
}

// ---- pairs and eights of numbers ----

static __device__ __forceinline__ float2 pair(const float* p) {
    return *(const float2*)p;
}
static __device__ __forceinline__ float2 pair(const __nv_bfloat16* p) {
    return __bfloat1622float2(*(const __nv_bfloat162*)p);
}
static __device__ __forceinline__ void put_pair(float* p, float2 v) {
    *(float2*)p = v;
}
static __device__ __forceinline__ void put_pair(__nv_bfloat16* p, float2 v) {
    *(__nv_bfloat162*)p = __floats2bfloat162_rn(v.x, v.y);
}

enum { EIGHT = 8 };

static __device__ __forceinline__ void eight(float (&x)[EIGHT], const float* p) {
    const float4 a = ((const float4*)p)[0], b = ((const float4*)p)[1];
    x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
    x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
}
static __device__ __forceinline__ void eight(float (&x)[EIGHT], const __nv_bfloat16* p) {
    const uint4 v = *(const uint4*)p;
    const uint32_t w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {  // the upper half of a float32
        x[2 * i] = __uint_as_float(w[i] << 16);
        x[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);
    }
}
static __device__ __forceinline__ void put_eight(float* p, const float (&x)[EIGHT]) {
    ((float4*)p)[0] = make_float4(x[0], x[1], x[2], x[3]);
    ((float4*)p)[1] = make_float4(x[4], x[5], x[6], x[7]);
}
static __device__ __forceinline__ void put_eight(__nv_bfloat16* p, const float (&x)[EIGHT]) {
#pragma unroll
    for (int i = 0; i < 4; i++) put_pair(p + 2 * i, make_float2(x[2 * i], x[2 * i + 1]));
}

// ---- a row of N pairs a lane ----

template <int N>
struct row_pairs {
    float2 v[N];
};

static __device__ __forceinline__ int column(int k) {
    return 2 * (int)(threadIdx.x % 32) + 64 * k;
}

// LN(x; eps); numbers past the width are 0 before and after
template <int N>
static __device__ __forceinline__ void standardise(row_pairs<N>& x, int width, float eps) {
    float sum = 0, square = 0;
#pragma unroll
    for (int k = 0; k < N; k++) sum += x.v[k].x + x.v[k].y;
    const float mean = warp_sum(sum) / (float)width;
#pragma unroll
    for (int k = 0; k < N; k++) {
        const bool in = column(k) < width;
        x.v[k].x = in ? x.v[k].x - mean : 0.0f;
        x.v[k].y = in ? x.v[k].y - mean : 0.0f;
        square += x.v[k].x * x.v[k].x + x.v[k].y * x.v[k].y;
    }
    const float scale = rsqrtf(warp_sum(square) / (float)width + eps);
#pragma unroll
    for (int k = 0; k < N; k++) x.v[k].x *= scale, x.v[k].y *= scale;
}

// What the kernels know of the job; passed by value.
typedef struct rows_args {
    lewm_sizes s;
    int rows, each, horizon;
    char* searches;
    float *u, *x, *y, *path, *value;
    void *mod, *a, *qkv, *o, *embedding, *condition;
    const float *mod_bias, *positions;
} rows_args;

static rows_args args_of(const lewm_gpu* g, const lewm_job* j) {
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

// chunk i of the modulation of a block by action t, of a row
template <typename T, int N>
static __device__ __forceinline__ row_pairs<N> chunk(const rows_args& r, int t, int row, int block,
                                                     int i) {
    const int at = (block * LEWM_CHUNKS + i) * r.s.width;
    const T* mod = (const T*)r.mod + ((size_t)t * r.rows + row) * r.s.modulation + at;
    row_pairs<N> c;
#pragma unroll
    for (int k = 0; k < N; k++) {
        const int f = column(k);
        c.v[k] = make_float2(0, 0);
        if (f >= r.s.width) continue;
        const float2 m = pair(mod + f), b = pair(r.mod_bias + at + f);
        c.v[k] = make_float2(m.x + b.x, m.y + b.y);
    }
    return c;
}

// What turns a row into the next product's operands: LN(LN(x) (1 + scale) + shift), by chunks
// `first` and `first` + 1 of a block's modulation; past the last block LN(x).
template <int N>
struct modulation {
    row_pairs<N> shift, scale;
};

template <typename T, int N>
static __device__ __forceinline__ modulation<N> modulation_of(const rows_args& r, int t, int row,
                                                              int block, int first) {
    modulation<N> m = {};
    if (block == r.s.depth) return m;
    m.shift = chunk<T, N>(r, t, row, block, first);
    m.scale = chunk<T, N>(r, t, row, block, first + 1);
    return m;
}

template <typename T, int N>
static __device__ __forceinline__ void modulate(const rows_args& r, row_pairs<N> x,
                                                const modulation<N>& m, int head, T* a) {
    if (!head) {
        standardise(x, r.s.width, 1e-6f);
#pragma unroll
        for (int k = 0; k < N; k++) {
            x.v[k].x = x.v[k].x * (1.0f + m.scale.v[k].x) + m.shift.v[k].x;
            x.v[k].y = x.v[k].y * (1.0f + m.scale.v[k].y) + m.shift.v[k].y;
        }
    }
    standardise(x, r.s.width, 1e-5f);
#pragma unroll
    for (int k = 0; k < N; k++)
        if (column(k) < r.s.width) put_pair(a + column(k), x.v[k]);
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
    const rows_args r = args_of(g, j);
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
    const rows_args r = args_of(g, j);
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
    const rows_args r = args_of(g, j);
    const size_t n = (size_t)r.rows * (size_t)(j->horizon * g->size.width);
    BY_PRECISION(g, lewm_silu_kernel, (unsigned)((n + 255) / 256), 256, r, g->embed_down.b);
    return FIRM_OK;
}

// ---- tokens -------------------------------------------------------------------------------------

// kernels for rows of up to 64, 192 and 512 numbers
#define BY_WIDTH(g, kernel, grid, ...)                                                          \
    do {                                                                                        \
        const bool half = (g)->setup.precision == PLAN_BF16;                                    \
        const int width = (g)->size.width;                                                      \
        const auto chosen = width <= 64    ? half ? kernel<__nv_bfloat16, 1> : kernel<float, 1> \
                            : width <= 192 ? half ? kernel<__nv_bfloat16, 3> : kernel<float, 3> \
                            : half         ? kernel<__nv_bfloat16, 8>                           \
                                           : kernel<float, 8>;                                  \
        chosen<<<(grid), 32 * WARPS, 0, (g)->stream>>>(__VA_ARGS__);                            \
        GPU(cudaGetLastError());                                                                \
    } while (0)

template <typename T, int N>
__global__ void __launch_bounds__(32 * WARPS)
    lewm_place_kernel(const __grid_constant__ rows_args r, int t, int first, int last,
                      const float* bias) {
    const int at = (int)(blockIdx.x * WARPS + threadIdx.x / 32), width = r.s.width;
    if (at >= (last - first + 1) * r.rows) return;
    const int token = first + at / r.rows, row = at % r.rows, from = t - last + token;
    const float* z0 = lewm_part(lewm_search_at(r.searches, r.s, row / r.each), r.s.z0_at);
    float* path = r.path + ((size_t)row * r.horizon + from - 1) * width;
    float* x = r.x + ((size_t)token * r.rows + row) * width;
    const modulation<N> m = modulation_of<T, N>(r, from, row, 0, 0);
    row_pairs<N> v;
#pragma unroll
    for (int k = 0; k < N; k++) {
        const int f = column(k);
        v.v[k] = make_float2(0, 0);
        if (f >= width) continue;
        float2 z, p = pair(r.positions + token * width + f);
        if (from == 0) {
            z = pair(z0 + f);
        } else if (token == last) {  // just predicted
            const float2 y = pair(r.y + (size_t)row * width + f), b = pair(bias + f);
            z = make_float2(y.x + b.x, y.y + b.y);
            put_pair(path + f, z);
        } else {
            z = pair(path + f);
        }
        v.v[k] = make_float2(z.x + p.x, z.y + p.y);
        put_pair(x + f, v.v[k]);
    }
    modulate<T, N>(r, v, m, 0, (T*)r.a + ((size_t)token * r.rows + row) * width);
}

firm_status lewm_place(lewm_gpu* g, const lewm_job* j, int t, int first, int last,
                       firm_error* err) {
    const rows_args r = args_of(g, j);
    BY_WIDTH(g, lewm_place_kernel, blocks_of((last - first + 1) * r.rows), r, t, first, last,
             g->head_down.b);
    return FIRM_OK;
}

template <typename T, int N>
__global__ void __launch_bounds__(32 * WARPS)
    lewm_gate_kernel(const __grid_constant__ rows_args r, int t, int block, int branch, int first,
                     int last, const float* bias) {
    const int at = (int)(blockIdx.x * WARPS + threadIdx.x / 32), width = r.s.width;
    if (at >= (last - first + 1) * r.rows) return;
    const int token = first + at / r.rows, row = at % r.rows, from = t - last + token,
              next = block + branch;  // the block whose norm comes next
    const float* y = r.y + (size_t)at * width;
    float* x = r.x + ((size_t)token * r.rows + row) * width;
    const row_pairs<N> gate = chunk<T, N>(r, from, row, block, branch ? 5 : 2);
    const modulation<N> m = modulation_of<T, N>(r, from, row, next, branch ? 0 : 3);
    row_pairs<N> v;
#pragma unroll
    for (int k = 0; k < N; k++) {
        const int f = column(k);
        v.v[k] = make_float2(0, 0);
        if (f >= width) continue;
        const float2 old = pair(x + f), made = pair(y + f), b = pair(bias + f), g = gate.v[k];
        v.v[k] = make_float2(old.x + g.x * (made.x + b.x), old.y + g.y * (made.y + b.y));
        put_pair(x + f, v.v[k]);
    }
    modulate<T, N>(r, v, m, next == r.s.depth,
                   (T*)r.a + ((size_t)token * r.rows + row) * width);
}

firm_status lewm_gate(lewm_gpu* g, const lewm_job* j, int t, int block, int branch, int first,
                      int last, firm_error* err) {
    const rows_args r = args_of(g, j);
    const gpu_block* w = &g->block[block];
    BY_WIDTH(g, lewm_gate_kernel, blocks_of((last - first + 1) * r.rows), r, t, block, branch,
             first, last, branch ? w->down.b : w->out.b);
    return FIRM_OK;
}

// ---- attention ----------------------------------------------------------------------------------

enum { ATTENTION_BLOCKS = 1056 };  // eight for each of 132 processors

// lanes of a head: a power of two, the last of them idle where a head has fewer eights
static __host__ __device__ __forceinline__ int lanes_of(int head) {
    int lanes = 1;
    while (lanes * EIGHT < head) lanes *= 2;
    return lanes;
}

// A warp has the same few heads of one row after another. A bias of the keys moves all scores of a
// query alike and changes nothing; the values' adds up to itself.
template <typename T>
__global__ void __launch_bounds__(32 * WARPS)
    lewm_attention_kernel(const __grid_constant__ rows_args r, const T* qkv, int first, int last,
                          const float* bias) {
    const int lane = (int)threadIdx.x % 32, inner = r.s.inner, lanes = lanes_of(r.s.head),
              heads = 32 / lanes, groups = (r.s.heads + heads - 1) / heads,
              warp = (int)(blockIdx.x * WARPS + threadIdx.x / 32),
              strides = (int)gridDim.x * WARPS / groups, head = warp % groups * heads + lane / lanes,
              number = lane % lanes * EIGHT;
    const bool there = head < r.s.heads && number < r.s.head;
    const int base = there ? head * r.s.head + number : 0;
    const size_t step = (size_t)r.rows * 3 * inner;  // from token to token
    const float scale = there ? rsqrtf((float)r.s.head) : 0.0f;
    float query_bias[EIGHT], value_bias[EIGHT];
    eight(query_bias, bias + base);
    eight(value_bias, bias + 2 * inner + base);
    if (warp / groups >= strides) return;
    for (int row = warp / groups; row < r.rows; row += strides) {
        const T* own = qkv + (size_t)row * 3 * inner + base;
        for (int token = first; token <= last; token++) {
            float q[EIGHT], out[EIGHT], top = -INFINITY, sum = 0;
            eight(q, own + token * step);
#pragma unroll
            for (int k = 0; k < EIGHT; k++) {
                q[k] = there ? (q[k] + query_bias[k]) * scale : 0.0f;
                out[k] = 0;
            }
            for (int j = 0; j <= token; j++) {
                float key[EIGHT], value[EIGHT], dot = 0;
                eight(key, own + j * step + inner);
                eight(value, own + j * step + 2 * inner);
#pragma unroll
                for (int k = 0; k < EIGHT; k++) dot += there ? q[k] * key[k] : 0.0f;
                for (int o = lanes / 2; o; o /= 2) dot += __shfl_xor_sync(~0u, dot, o);
                const float high = fmaxf(top, dot), shrink = expf(top - high);
                // what is not finite must stay so
                const float w = expf(dot - high) + 0.0f * dot;
                top = high;
                sum = sum * shrink + w;
#pragma unroll
                for (int k = 0; k < EIGHT; k++) out[k] = out[k] * shrink + w * value[k];
            }
#pragma unroll
            for (int k = 0; k < EIGHT; k++) out[k] = out[k] / sum + value_bias[k];
            if (there) put_eight((T*)r.o + ((size_t)token * r.rows + row) * inner + base, out);
        }
    }
}

firm_status lewm_attention(lewm_gpu* g, const lewm_job* j, int block, int window, int first,
                           int last, firm_error* err) {
    const rows_args r = args_of(g, j);
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
    const rows_args r = args_of(g, j);
    const size_t n = (size_t)r.rows * (size_t)g->size.width;
    lewm_finish_kernel<<<(unsigned)((n + 255) / 256), 256, 0, g->stream>>>(r, g->head_down.b);
    GPU(cudaGetLastError());
    return FIRM_OK;
}

// ---- fit ----------------------------------------------------------------------------------------

// One block per search; a warp prices a candidate.
__global__ void __launch_bounds__(512) lewm_fit_kernel(const __grid_constant__ rows_args r) {
    extern __shared__ uint32_t key[];  // (candidates), then the elites' numbers
    const int n = r.each, tid = (int)threadIdx.x, lane = tid % 32, width = r.s.width;
    int* elite = (int*)(key + n);
    lewm_search* q = lewm_search_at(r.searches, r.s, (int)blockIdx.x);
    const float* goal = lewm_part(q, r.s.goal_at);
    const size_t first = (size_t)blockIdx.x * n;
    __shared__ int count, nonfinite;
    if (tid == 0) count = nonfinite = 0;
    __syncthreads();
    for (int i = tid / 32; i < n; i += (int)blockDim.x / 32) {
        const float* path = r.path + (first + i) * r.horizon * width;
        int finite = 1;
        for (int k = lane; k < r.horizon * width; k += 32) finite &= isfinite(path[k]) != 0;
        finite = __all_sync(~0u, finite);
        const float* end = path + (size_t)(r.horizon - 1) * width;
        float sum = 0;
        for (int f = lane; f < width; f += 32) sum += (end[f] - goal[f]) * (end[f] - goal[f]);
        sum = warp_sum(sum);
        if (lane) continue;
        const float v = finite ? sum : __int_as_float(0x7f800000);
        if (!finite) atomicAdd(&nonfinite, 1);
        r.value[first + i] = v;
        key[i] = order_key(v);
    }
    __syncthreads();
    const fit_ranked ranked = {n,
                               r.s.elites,
                               r.horizon * r.s.action,
                               key,
                               elite,
                               r.value + first,
                               r.u + first * r.horizon * r.s.action};
    fit_result result =
        fit_elites(ranked, lewm_part(q, r.s.mean_at), lewm_part(q, r.s.spread_at), &count);
    if (tid == 0) {
        q->elites = result.elites;
        q->elite_cost = result.cost;
        q->nonfinite += nonfinite;
        q->iteration++;
    }
}

static size_t fit_bytes(const lewm_gpu* g) {
    return (size_t)(g->size.candidates + g->size.elites) * 4;
}

firm_status lewm_rows_prepare(lewm_gpu* g, firm_error* err) {
    GPU(cudaFuncSetAttribute(lewm_fit_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)fit_bytes(g)));
    return FIRM_OK;
}

firm_status lewm_fit(lewm_gpu* g, const lewm_job* j, firm_error* err) {
    const rows_args r = args_of(g, j);
    lewm_fit_kernel<<<(unsigned)j->count, 512, fit_bytes(g), g->stream>>>(r);
    GPU(cudaGetLastError());
    return FIRM_OK;
}
