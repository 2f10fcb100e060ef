// lewm_rows.cuh - rows between LeWM's products: tokens placed, gated and normed, and attention. A
// warp takes a row, a lane the pairs of numbers 2 lane + 64 k of it; in the attention a lane has
// eight neighbouring numbers of a head. Residual stream, norms and softmax are float32; biases are
// added here, since the products leave them out.
#ifndef PLAN_CUDA_LEWM_ROWS_CUH
#define PLAN_CUDA_LEWM_ROWS_CUH

#include <cuda_bf16.h>

#include "plan/cuda/lewm_sizes.cuh"

extern "C" {
#include "plan/lewm_weights.h"
}

enum { WARPS = 8 };  // rows of a block

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

// ---- tokens -------------------------------------------------------------------------------------

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
    modulate<T, N>(r, v, m, next == r.s.depth, (T*)r.a + ((size_t)token * r.rows + row) * width);
}

// ---- attention ----------------------------------------------------------------------------------

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
              strides = (int)gridDim.x * WARPS / groups,
              head = warp % groups * heads + lane / lanes, number = lane % lanes * EIGHT;
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

#endif
