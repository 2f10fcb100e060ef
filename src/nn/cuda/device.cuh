// device.cuh - what the kernels of this folder share: launching, sums over warps and blocks, fast
// division, element-wise maps and sums over columns. Include it first: it brings our C headers in
// as C.
//
// Indices of elements are 32 bits (every tensor of a call has fewer than 2^31 numbers; larger ones
// are refused with an error on the queue), addresses 64 bits.
#ifndef NN_CUDA_DEVICE_CUH
#define NN_CUDA_DEVICE_CUH

#include <cuda_runtime.h>

#include "nn/cuda/cuda.h"

static inline nn_cuda_queue* queue_of(const nn_call* c) {
    return (nn_cuda_queue*)c->queue;
}

static inline const float* input(const nn_call* c, int i) {
    return (const float*)c->in[i];
}

static inline float* gradient(const nn_call* c, int i) {
    return (float*)c->din[i];
}

static inline const nn_tensor* tensor_of(const nn_graph* g, int id) {
    return &g->tensor[id];
}

static inline int last_of(const nn_tensor* t) {
    return t->dim[t->rank - 1];
}

// gradients of parameters are always added to, those of values where the call says so
static inline int adds(const nn_call* c, int i) {
    return c->accumulate[i] || c->graph->tensor[nn_in(c, i)->root].kind == NN_PARAM;
}

// number of elements for a 32-bit index; 0 (nothing is launched) with an error when there are more
static inline uint32_t elements(nn_cuda_queue* q, int64_t count) {
    if (count < ((int64_t)1 << 31)) return (uint32_t)count;
    nn_cuda_note(q, "a tensor of %lld numbers is too large for one call; use a smaller batch",
                 (long long)count);
    return 0;
}

static inline uint32_t blocks_for(int64_t count, int per_block) {
    return (uint32_t)((count + per_block - 1) / per_block);
}

template <class... P, class... A>
static void launch(nn_cuda_queue* q, const char* what, void (*kernel)(P...), uint32_t blocks,
                   dim3 threads, A... args) {
    if (blocks == 0) return;
    kernel<<<blocks, threads, 0, (cudaStream_t)nn_cuda_stream(q)>>>(P(args)...);
    nn_cuda_check(q, what);
}

// cuts a block of scratch into aligned pieces
struct pieces {
    char* at;
    float* take(size_t floats) {
        float* p = (float*)at;
        at += bytes(floats);
        return p;
    }
    static size_t bytes(size_t floats) { return (floats * sizeof(float) + 255) / 256 * 256; }
};

// ---- division by a number that is fixed for a launch: n / d = (high(n * mul) + n) >> shift, n <
// 2^31

struct divider {
    uint32_t d, mul, shift;
};

static inline divider divide_by(uint32_t d) {
    uint32_t shift = 0;
    while (shift < 32 && ((uint64_t)1 << shift) < d) shift++;
    uint64_t mul = (((uint64_t)1 << 32) * (((uint64_t)1 << shift) - d)) / d + 1;
    return divider{d, (uint32_t)mul, shift};
}

__device__ __forceinline__ uint32_t quotient(uint32_t n, divider v) {
    return (__umulhi(n, v.mul) + n) >> v.shift;
}

// n / d, and the rest in *rest
__device__ __forceinline__ uint32_t split(uint32_t n, divider v, uint32_t* rest) {
    uint32_t whole = quotient(n, v);
    *rest = n - whole * v.d;
    return whole;
}

// ---- sums over a team: a warp, or all threads of a block of whole warps; every member gets them
// ----

__device__ __forceinline__ float warp_sum(float v) {
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

__device__ __forceinline__ double warp_sum(double v) {
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

// TEAM 32: a warp, any number of them in a block; otherwise the block is the team
template <int TEAM>
__device__ __forceinline__ float team_sum(float v) {
    v = warp_sum(v);
    if (TEAM == 32) return v;
    __shared__ float part[32];
    __syncthreads();  // the last sum may still be read
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < TEAM / 32; i++) sum += part[i];
    return sum;
}

// ---- four neighbours at once where addresses allow it ----

static inline int aligned16(const void* p) {
    return ((uintptr_t)p & 15) == 0;
}

template <int V>
__device__ __forceinline__ void load(float (&x)[V], const float* p) {
    if constexpr (V == 4) {
        float4 v = *(const float4*)p;
        x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
    } else {
        for (int i = 0; i < V; i++) x[i] = p[i];
    }
}

template <int V>
__device__ __forceinline__ void store(float* p, const float (&x)[V]) {
    if constexpr (V == 4) {
        *(float4*)p = make_float4(x[0], x[1], x[2], x[3]);
    } else {
        for (int i = 0; i < V; i++) p[i] = x[i];
    }
}

// p = x, or p += x
template <int V>
__device__ __forceinline__ void put(float* p, const float (&x)[V], int add) {
    if (!add) {
        store<V>(p, x);
        return;
    }
    float sum[V];
    load<V>(sum, p);
    for (int i = 0; i < V; i++) sum[i] += x[i];
    store<V>(p, sum);
}

// ---- maps: M results from N inputs, element by element
// -------------------------------------------- f(x, y, i): x[N] in, y[M] out, i the element.
// Results go to out[m] in this order by one thread, so two of them may be the same array, the later
// one adding. NULL results are dropped.

template <int N, int M>
struct map_arrays {
    const float* in[N];
    float* out[M];
    int add[M];
};

enum { MAP_THREADS = 256 };

template <int V, int N, int M, class F>
__device__ __forceinline__ void map_some(const map_arrays<N, M>& a, const F& f, uint32_t i) {
    float x[N][V], y[M][V];
#pragma unroll
    for (int n = 0; n < N; n++) load<V>(x[n], a.in[n] + i);
#pragma unroll
    for (int v = 0; v < V; v++) {
        float one[N], result[M];
#pragma unroll
        for (int n = 0; n < N; n++) one[n] = x[n][v];
        f(one, result, i + v);
#pragma unroll
        for (int m = 0; m < M; m++) y[m][v] = result[m];
    }
#pragma unroll
    for (int m = 0; m < M; m++)
        if (a.out[m]) put<V>(a.out[m] + i, y[m], a.add[m]);
}

template <int V, int N, int M, class F>
__global__ void __launch_bounds__(MAP_THREADS) map_kernel(uint32_t count, map_arrays<N, M> a, F f) {
    uint32_t i = (blockIdx.x * MAP_THREADS + threadIdx.x) * V;
    if (i + V <= count) {
        map_some<V>(a, f, i);
    } else {
        for (; i < count; i++) map_some<1>(a, f, i);  // the last few of a count not divisible by V
    }
}

template <int N, int M, class F>
static void map(nn_cuda_queue* q, const char* what, int64_t count, map_arrays<N, M> a, F f) {
    uint32_t n = elements(q, count);
    int quads = 1;
    for (int i = 0; i < N; i++) quads &= aligned16(a.in[i]);
    for (int i = 0; i < M; i++) quads &= aligned16(a.out[i]);
    if (quads)
        launch(q, what, map_kernel<4, N, M, F>, blocks_for(n, 4 * MAP_THREADS), MAP_THREADS, n, a,
               f);
    else
        launch(q, what, map_kernel<1, N, M, F>, blocks_for(n, MAP_THREADS), MAP_THREADS, n, a, f);
}

// ---- sums over columns: dst[k][col] += sum over rows of v[k] given by f(row, col, v)
// -------------- Rows are cut into chunks; a chunk's sums go to scratch and a second kernel adds
// them up, both in a fixed order. One chunk: a single kernel.

enum { COLUMN_TILE = 32, COLUMN_LANES = 32 };

static inline int64_t column_chunks(int64_t rows, int64_t cols) {
    int64_t tiles = (cols + COLUMN_TILE - 1) / COLUMN_TILE;
    if (rows <= 1024) return 1;                  // no second kernel
    int64_t most = (rows + 255) / 256;           // at least 256 rows (8 a lane) are worth a block
    int64_t enough = (528 + tiles - 1) / tiles;  // four blocks for each of 132 processors
    return most < enough ? most : enough;
}

template <int K>
static size_t column_scratch(int64_t rows, int64_t cols) {
    int64_t chunks = column_chunks(rows, cols);
    return chunks > 1 ? pieces::bytes((size_t)(K * chunks * cols)) : 0;
}

template <int K>
struct column_sink {
    float* dst[K];  // NULL: not wanted
    float* part;    // (K, chunks, cols)
};

// adds up v over the lanes of a column, lane 0 first; valid in lane 0
template <class T>
__device__ __forceinline__ T lanes_sum(T (*shared)[COLUMN_TILE + 1], T v) {
    __syncthreads();  // shared may still be read from the last sum
    shared[threadIdx.y][threadIdx.x] = v;
    for (int half = COLUMN_LANES / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.y < half)
            shared[threadIdx.y][threadIdx.x] += shared[threadIdx.y + half][threadIdx.x];
    }
    return shared[threadIdx.y][threadIdx.x];
}

template <int K, class F>
__global__ void __launch_bounds__(COLUMN_TILE* COLUMN_LANES)
    column_kernel(int64_t rows, int cols, int chunks, int tiles, column_sink<K> s, F f) {
    __shared__ float shared[COLUMN_LANES][COLUMN_TILE + 1];
    int chunk = blockIdx.x / tiles, col = blockIdx.x % tiles * COLUMN_TILE + threadIdx.x;
    int64_t first = rows * chunk / chunks, last = rows * (chunk + 1) / chunks;
    float sum[K] = {};
    if (col < cols) {
#pragma unroll 4
        for (int64_t r = first + threadIdx.y; r < last; r += COLUMN_LANES) {
            float v[K];
            f(r, col, v);
#pragma unroll
            for (int k = 0; k < K; k++) sum[k] += v[k];
        }
    }
#pragma unroll
    for (int k = 0; k < K; k++) {
        float total = lanes_sum(shared, sum[k]);
        if (threadIdx.y != 0 || col >= cols || !s.dst[k]) continue;
        if (chunks == 1)
            s.dst[k][col] += total;
        else
            s.part[((int64_t)k * chunks + chunk) * cols + col] = total;
    }
}

template <int K>
__global__ void __launch_bounds__(COLUMN_TILE* COLUMN_LANES)
    column_finish(int cols, int chunks, column_sink<K> s) {
    __shared__ float shared[COLUMN_LANES][COLUMN_TILE + 1];
    int col = blockIdx.x * COLUMN_TILE + threadIdx.x;
#pragma unroll
    for (int k = 0; k < K; k++) {
        if (!s.dst[k]) continue;
        float sum = 0;
        if (col < cols) {
            for (int i = threadIdx.y; i < chunks; i += COLUMN_LANES)
                sum += s.part[((int64_t)k * chunks + i) * cols + col];
        }
        float total = lanes_sum(shared, sum);
        if (threadIdx.y == 0 && col < cols) s.dst[k][col] += total;
    }
}

template <int K, class F>
static void column_sums(nn_cuda_queue* q, const char* what, int64_t rows, int64_t cols,
                        column_sink<K> s, F f) {
    dim3 threads(COLUMN_TILE, COLUMN_LANES);
    int chunks = (int)column_chunks(rows, cols), tiles = (int)blocks_for(cols, COLUMN_TILE);
    launch(q, what, column_kernel<K, F>, (uint32_t)(chunks * tiles), threads, rows, (int)cols,
           chunks, tiles, s, f);
    if (chunks > 1)
        launch(q, what, column_finish<K>, (uint32_t)tiles, threads, (int)cols, chunks, s);
}

#endif
