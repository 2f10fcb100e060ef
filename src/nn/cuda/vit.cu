// vit.cu - a block of a vision transformer: products by cuBLASLt on bfloat16, attention by
// flash.cu, norms, GELU and sums over rows by the kernels here.
#include "nn/cuda/flash.h"
#include "nn/cuda/mma.cuh"
#include "nn/cuda/queue.cuh"
#include "nn/cuda/vit.h"

namespace {

enum {
    WARPS = 8,
    THREADS = WARPS * 32,
    MOST_BLOCKS = 792
};  // six blocks for each of 132 processors

// ---- memory -------------------------------------------------------------------------------------

// After the attention a block goes on with `read` rows: all, or one in every `step`.
struct shape {
    int64_t rows, read;
    int step, groups, width, mlp, heads;
};

static shape shape_of(const nn_cuda_vit* v) {
    int64_t rows = (int64_t)v->groups * v->tokens;
    return shape{
        rows,    v->first ? v->groups : rows, v->first ? v->tokens : 1, v->groups, v->width, v->mlp,
        v->heads};
}

struct cutter {
    char* at;
    template <class T>
    T* take(size_t count) {
        T* p = (T*)at;
        at += (count * sizeof(T) + 255) / 256 * 256;
        return p;
    }
};

// what the backward pass needs of the forward pass
struct kept {
    bf16 *qkv_w, *qkv_b, *out_w, *up_w, *up_b, *down_w;  // the parameters in bfloat16
    bf16 *u1, *qkv, *mixed, *u2, *pre, *hidden;  // the last three: (read, ..), others (rows, ..)
    float *x2, *lse;
    float2 *stat1, *stat2;
    char* end;
};

static kept kept_of(const shape& s, void* save) {
    cutter c = {(char*)save};
    size_t n = (size_t)s.rows, read = (size_t)s.read, w = (size_t)s.width, m = (size_t)s.mlp;
    kept k;
    k.qkv_w = c.take<bf16>(3 * w * w);
    k.qkv_b = c.take<bf16>(3 * w);
    k.out_w = c.take<bf16>(w * w);
    k.up_w = c.take<bf16>(w * m);
    k.up_b = c.take<bf16>(m);
    k.down_w = c.take<bf16>(w * m);
    k.u1 = c.take<bf16>(n * w);
    k.qkv = c.take<bf16>(3 * n * w);
    k.mixed = c.take<bf16>(n * w);
    k.u2 = c.take<bf16>(read * w);
    k.pre = c.take<bf16>(read * m);
    k.hidden = c.take<bf16>(read * m);
    k.x2 = c.take<float>(n * w);
    k.lse = c.take<float>(n * (size_t)s.heads);
    k.stat1 = c.take<float2>(n);
    k.stat2 = c.take<float2>(n);
    k.end = c.at;
    return k;
}

// What a kernel adds up over the rows of every one of its blocks, or of every group; a second
// kernel adds that up while others run.
enum { PART_NORM1, PART_NORM2, PART_QKV, PART_UP, PART_DOWN, PARTS };

struct rooms {
    bf16 *dy, *dhidden, *du, *dqkv;
    float *dx2, *mean, *part[PARTS];
    char* end;
};

static rooms rooms_of(const shape& s, void* scratch) {
    cutter c = {(char*)scratch};
    size_t n = (size_t)s.rows, w = (size_t)s.width, m = (size_t)s.mlp, blocks = MOST_BLOCKS;
    rooms r;
    // where the block before has them, too
    r.part[PART_NORM1] = c.take<float>(blocks * 3 * w);
    r.dy = c.take<bf16>(n * w);
    r.part[PART_NORM2] = c.take<float>(blocks * 3 * w);
    r.part[PART_QKV] = c.take<float>((size_t)s.groups * 3 * w);
    r.part[PART_UP] = c.take<float>(blocks * m);
    r.part[PART_DOWN] = c.take<float>(blocks * w);
    r.dhidden = c.take<bf16>((size_t)s.read * m);
    r.du = c.take<bf16>(n * w);
    r.dqkv = c.take<bf16>(3 * n * w);
    r.dx2 = c.take<float>(n * w);
    r.mean = c.take<float>(n * (size_t)s.heads);
    r.end = c.at;
    return r;
}

// ---- parameters in bfloat16 ---------------------------------------------------------------------

enum { CASTS = 6 };

struct casts {
    const float* from[CASTS];
    bf16* to[CASTS];
    int count[CASTS];
};

__global__ void __launch_bounds__(THREADS) cast_params(casts c) {
    const float* from = c.from[blockIdx.y];
    bf16* to = c.to[blockIdx.y];
    for (int i = (int)(blockIdx.x * THREADS + threadIdx.x) * 4; i < c.count[blockIdx.y];
         i += (int)gridDim.x * THREADS * 4) {
        float4 v = *(const float4*)(from + i);
        *(uint2*)(to + i) = make_uint2(pack2(v.x, v.y), pack2(v.z, v.w));
    }
}

static void cast_all(nn_cuda_queue* q, const nn_cuda_vit* v, const kept& k) {
    int w = v->width, m = v->mlp;
    casts c = {{v->param[VIT_QKV], v->param[VIT_QKV_BIAS], v->param[VIT_OUT], v->param[VIT_UP],
                v->param[VIT_UP_BIAS], v->param[VIT_DOWN]},
               {k.qkv_w, k.qkv_b, k.out_w, k.up_w, k.up_b, k.down_w},
               {3 * w * w, 3 * w, w * w, w * m, m, w * m}};
    cast_params<<<dim3(32, CASTS), THREADS, 0, q->stream>>>(c);
    nn_cuda_check(q, "parameters in bfloat16");
}

// ---- norms: a warp has a row, a lane the pairs of columns 2 lane + 64 j ----

template <int NV>
__global__ void __launch_bounds__(THREADS)
    norm_forward(int64_t rows, int64_t step, const float* x, const float* gamma, const float* beta,
                 float eps, bf16* y, float2* stat) {
    const int width = NV * 64, lane = threadIdx.x % 32;
    int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= rows) return;
    float2 v[NV];
    float sum = 0, square = 0;
#pragma unroll
    for (int j = 0; j < NV; j++) {
        v[j] = *(const float2*)(x + row * step * width + 2 * lane + 64 * j);
        sum += v[j].x + v[j].y;
    }
    float mean = warp_sum(sum) / width;
#pragma unroll
    for (int j = 0; j < NV; j++) {
        v[j].x -= mean;
        v[j].y -= mean;
        square += v[j].x * v[j].x + v[j].y * v[j].y;
    }
    float by = rsqrtf(warp_sum(square) / width + eps);
#pragma unroll
    for (int j = 0; j < NV; j++) {
        int c = 2 * lane + 64 * j;
        float2 g = *(const float2*)(gamma + c), b = *(const float2*)(beta + c);
        *(uint32_t*)(y + row * width + c) = pack2(v[j].x * by * g.x + b.x, v[j].y * by * g.y + b.y);
    }
    if (lane == 0) stat[row] = make_float2(mean, by);
}

struct norm_back {
    int64_t rows, step;             // x, base and dx have one row in every `step`
    const float *x, *gamma, *base;  // base: the gradient that goes past the norm
    const float2* stat;
    const bf16* du;
    float* dx;
    bf16* copy;  // dx again, or NULL
    int add;
    float* part;  // (3, blocks, width): sums over rows of du h, du, dx
};

template <int NV>
__global__ void __launch_bounds__(THREADS) norm_backward(norm_back a) {
    const int width = NV * 64, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    __shared__ float shared[WARPS][width];
    float2 gamma[NV], sums[3][NV] = {};
#pragma unroll
    for (int j = 0; j < NV; j++) gamma[j] = *(const float2*)(a.gamma + 2 * lane + 64 * j);
    for (int64_t row = (int64_t)blockIdx.x * WARPS + warp; row < a.rows;
         row += (int64_t)gridDim.x * WARPS) {
        float2 stat = a.stat[row], h[NV], du[NV], base[NV];
        float one = 0, two = 0;
#pragma unroll
        for (int j = 0; j < NV; j++) {
            int64_t column = 2 * lane + 64 * j, at = row * a.step * width + column;
            float2 x = *(const float2*)(a.x + at);
            base[j] = *(const float2*)(a.base + at);
            du[j] = unpack2(*(const uint32_t*)(a.du + row * width + column));
            h[j] = make_float2((x.x - stat.x) * stat.y, (x.y - stat.x) * stat.y);
            float gx = du[j].x * gamma[j].x, gy = du[j].y * gamma[j].y;
            one += gx + gy;
            two += gx * h[j].x + gy * h[j].y;
        }
        one = warp_sum(one) / width;
        two = warp_sum(two) / width;
#pragma unroll
        for (int j = 0; j < NV; j++) {
            int64_t column = 2 * lane + 64 * j, at = row * a.step * width + column;
            float2 d =
                make_float2(base[j].x + stat.y * (du[j].x * gamma[j].x - one - h[j].x * two),
                            base[j].y + stat.y * (du[j].y * gamma[j].y - one - h[j].y * two));
            sums[0][j].x += du[j].x * h[j].x, sums[0][j].y += du[j].y * h[j].y;
            sums[1][j].x += du[j].x, sums[1][j].y += du[j].y;
            sums[2][j].x += d.x, sums[2][j].y += d.y;
            if (a.copy) *(uint32_t*)(a.copy + row * width + column) = pack2(d.x, d.y);
            float2* to = (float2*)(a.dx + at);
            if (a.add) d.x += to->x, d.y += to->y;
            *to = d;
        }
    }
#pragma unroll
    for (int k = 0; k < 3; k++) {
        __syncthreads();
#pragma unroll
        for (int j = 0; j < NV; j++) *(float2*)(&shared[warp][2 * lane + 64 * j]) = sums[k][j];
        __syncthreads();
        for (int c = threadIdx.x; c < width; c += THREADS) {
            float sum = 0;
            for (int i = 0; i < WARPS; i++) sum += shared[i][c];
            a.part[((size_t)k * gridDim.x + blockIdx.x) * width + c] = sum;
        }
    }
}

// ---- element by element, with sums over rows: a thread has eight columns ----

enum { VEC = 8 };

__device__ __forceinline__ void load8(float (&x)[VEC], const bf16* p) {
    uint4 v = *(const uint4*)p;
    const uint32_t w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 f = unpack2(w[i]);
        x[2 * i] = f.x, x[2 * i + 1] = f.y;
    }
}

__device__ __forceinline__ void store8(bf16* p, const float (&x)[VEC]) {
    *(uint4*)p =
        make_uint4(pack2(x[0], x[1]), pack2(x[2], x[3]), pack2(x[4], x[5]), pack2(x[6], x[7]));
}

// Phi(x) by Abramowitz and Stegun 7.1.26 (off by at most 1e-7), and the density at x
__device__ __forceinline__ float normal_below(float x, float* density) {
    float z = fabsf(x) * 0.70710678f, t = __fdividef(1.0f, 1.0f + 0.3275911f * z);
    float e = exp2f(-0.72134752f * x * x);
    float p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    float tail = 0.5f * p * t * e;
    *density = 0.39894228f * e;
    return x < 0 ? tail : 1.0f - tail;
}

__global__ void __launch_bounds__(THREADS) gelu_forward(int64_t pieces, const bf16* x, bf16* y) {
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= pieces) return;
    float v[VEC], density;
    load8(v, x + i * VEC);
#pragma unroll
    for (int j = 0; j < VEC; j++) v[j] *= normal_below(v[j], &density);
    store8(y + i * VEC, v);
}

// f(row, col, v) gives the eight numbers of a thread's columns, whose sums go to part (blocks,
// cols)
template <class F>
__global__ void __launch_bounds__(THREADS) row_sums(int64_t rows, int cols, float* part, F f) {
    extern __shared__ float shared[];  // (blockDim.y, cols)
    int col = (int)threadIdx.x * VEC;
    float sum[VEC] = {};
    for (int64_t r = (int64_t)blockIdx.x * blockDim.y + threadIdx.y; r < rows;
         r += (int64_t)gridDim.x * blockDim.y) {
        float v[VEC];
        f(r, col, v);
#pragma unroll
        for (int j = 0; j < VEC; j++) sum[j] += v[j];
    }
#pragma unroll
    for (int j = 0; j < VEC; j++) shared[threadIdx.y * cols + col + j] = sum[j];
    __syncthreads();
    if (threadIdx.y != 0) return;
#pragma unroll
    for (int j = 0; j < VEC; j++) {
        float total = 0;
        for (int y = 0; y < (int)blockDim.y; y++) total += shared[y * cols + col + j];
        part[(size_t)blockIdx.x * cols + col + j] = total;
    }
}

struct to_half {
    const float* from;  // one row in every `step`
    bf16* to;
    int cols, step;
    __device__ void operator()(int64_t row, int col, float (&v)[VEC]) const {
        int64_t at = row * step * cols + col;
        float4 a = *(const float4*)(from + at), b = *(const float4*)(from + at + 4);
        v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
        v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
        store8(to + row * cols + col, v);
    }
};

struct as_they_are {
    const bf16* x;
    int cols;
    __device__ void operator()(int64_t row, int col, float (&v)[VEC]) const {
        load8(v, x + row * cols + col);
    }
};

struct gelu_slopes {
    const bf16* x;
    bf16* d;
    int cols;
    __device__ void operator()(int64_t row, int col, float (&v)[VEC]) const {
        int64_t at = row * cols + col;
        float in[VEC];
        load8(in, x + at);
        load8(v, d + at);
#pragma unroll
        for (int j = 0; j < VEC; j++) {
            float density, below = normal_below(in[j], &density);
            v[j] *= below + in[j] * density;
        }
        store8(d + at, v);
    }
};

template <int K>
static void finish(nn_cuda_queue* q, int cols, int blocks, float* part, float* const (&dst)[K]) {
    column_sink<K> sink;
    for (int k = 0; k < K; k++) sink.dst[k] = dst[k];
    sink.part = part;
    launch(q, "sums over rows", column_finish<K>, blocks_for(cols, COLUMN_TILE),
           dim3(COLUMN_TILE, COLUMN_LANES), cols, blocks, sink);
}

// returns how many parts there are to finish
template <class F>
static int sum_rows(nn_cuda_queue* q, int64_t rows, int cols, float* part, F f) {
    int wide = cols / VEC, high = THREADS / wide > 0 ? THREADS / wide : 1;
    int64_t most = (rows + high - 1) / high;
    int blocks = (int)(most < MOST_BLOCKS ? most : MOST_BLOCKS);
    row_sums<<<blocks, dim3(wide, high), (size_t)high * cols * sizeof(float), q->stream>>>(
        rows, cols, part, f);
    nn_cuda_check(q, "sums over rows");
    return blocks;
}

// ---- steps --------------------------------------------------------------------------------------

struct some_rows {
    int64_t rows, step;
    const float* x;
};

static void norm(nn_cuda_queue* q, const nn_cuda_vit* v, const some_rows& r, int gamma, bf16* y,
                 float2* stat) {
    auto kernel = v->width == 64    ? norm_forward<1>
                  : v->width == 128 ? norm_forward<2>
                                    : norm_forward<3>;
    launch(q, "norm", kernel, blocks_for(r.rows, WARPS), THREADS, r.rows, r.step, r.x,
           v->param[gamma], v->param[gamma + 1], v->eps, y, stat);
}

// the gradient through a norm; returns how many parts there are to finish
static int norm_slopes(nn_cuda_queue* q, const nn_cuda_vit* v, const norm_back& a) {
    int64_t most = (a.rows + WARPS - 1) / WARPS;
    int blocks = (int)(most < MOST_BLOCKS ? most : MOST_BLOCKS);
    auto kernel = v->width == 64    ? norm_backward<1>
                  : v->width == 128 ? norm_backward<2>
                                    : norm_backward<3>;
    launch(q, "norm", kernel, (uint32_t)blocks, THREADS, a);
    return blocks;
}

// a product of rows that lie x_step and y_step rows apart
static nn_cuda_product size_of(int64_t m, int64_t k, int64_t n, int x_step = 1, int y_step = 1) {
    nn_cuda_product p = {};
    p.m = m, p.n = n, p.k = k, p.lda = k * x_step, p.ldc = n * y_step;
    return p;
}

// y (rows, n) = x (rows, k) w (k, n) + bias, in bfloat16
static void multiply(nn_cuda_queue* q, const nn_cuda_product& size, const bf16* x, const bf16* w,
                     const bf16* bias, bf16* y) {
    nn_cuda_product p = size;
    p.half = p.half_out = 1;
    p.a = x, p.b = w, p.ldb = p.n, p.bias = bias, p.d = y;
    nn_cuda_multiply(q, &p);
}

// y = base + x w + bias in float32
static void multiply_onto(nn_cuda_queue* q, const nn_cuda_product& size, const bf16* x,
                          const bf16* w, const float* bias, const float* base, float* y) {
    nn_cuda_product p = size;
    p.half = 1, p.beta = 1;
    p.a = x, p.b = w, p.ldb = p.n, p.bias = bias, p.c = base, p.d = y;
    nn_cuda_multiply(q, &p);
}

// dw (k, n) += x' dy
static void multiply_weight(nn_cuda_queue* q, const nn_cuda_product& size, const bf16* x,
                            const bf16* dy, float* dw) {
    nn_cuda_product p = {};
    p.half = 1, p.ta = 1, p.m = size.k, p.n = size.n, p.k = size.m;
    p.a = x, p.lda = size.lda, p.b = dy, p.ldb = size.n;
    p.beta = 1, p.c = p.d = dw, p.ldc = size.n;
    if (dw) nn_cuda_multiply(q, &p);
}

// dx (rows, k, as x) = dy w'
static nn_cuda_product back(const nn_cuda_product& size, const bf16* w, const bf16* dy, bf16* dx) {
    nn_cuda_product b = {};
    b.half = b.half_out = 1, b.tb = 1, b.m = size.m, b.n = size.k, b.k = size.n;
    b.a = dy, b.lda = size.n, b.b = w, b.ldb = size.n, b.d = dx, b.ldc = size.lda;
    return b;
}

static void multiply_back(nn_cuda_queue* q, const nn_cuda_product& size, const bf16* w,
                          const bf16* dy, bf16* dx) {
    nn_cuda_product b = back(size, w, dy, dx);
    nn_cuda_multiply(q, &b);
}

// GELU as part of the product before it, and its slope as part of that before it on the way back,
// in the tanh form (cuda.h); 0: no algorithm does so.
static int up_with_gelu(nn_cuda_queue* q, const nn_cuda_product& size, const kept& k) {
    nn_cuda_product p = size;
    p.half = p.half_out = 1;
    p.a = k.u2, p.b = k.up_w, p.ldb = p.n, p.bias = k.up_b, p.d = k.hidden;
    p.gelu = NN_CUDA_GELU, p.pre = k.pre;
    if (nn_cuda_ways(q) & NN_CUDA_WAY_GELU_APART || !nn_cuda_multiplies(q, &p)) return 0;
    nn_cuda_multiply(q, &p);
    return 1;
}

static int down_with_slopes(nn_cuda_queue* q, const nn_cuda_product& size, const kept& k,
                            const rooms& r) {
    nn_cuda_product p = back(size, k.down_w, r.dy, r.dhidden);
    p.gelu = NN_CUDA_GELU_SLOPE, p.pre = k.pre;
    if (nn_cuda_ways(q) & NN_CUDA_WAY_GELU_APART || !nn_cuda_multiplies(q, &p)) return 0;
    nn_cuda_multiply(q, &p);
    return 1;
}

static nn_cuda_flash flash_of(const nn_cuda_vit* v, const kept& k) {
    nn_cuda_flash f = {};
    f.groups = v->groups, f.tokens = v->tokens, f.heads = v->heads;
    f.queries = v->first ? 1 : v->tokens;
    f.qkv = k.qkv, f.y = k.mixed, f.lse = k.lse;
    return f;
}

}  // namespace

int nn_cuda_vit_fits(int tokens, int heads, int width, int mlp) {
    return tokens <= NN_CUDA_FLASH_TOKENS && width == heads * NN_CUDA_FLASH_DEPTH && heads <= 3 &&
           mlp % 64 == 0 && mlp <= 1024;
}

size_t nn_cuda_vit_save(const nn_cuda_vit* v) {
    return (size_t)(kept_of(shape_of(v), NULL).end - (char*)NULL);
}

size_t nn_cuda_vit_scratch(const nn_cuda_vit* v) {
    return (size_t)(rooms_of(shape_of(v), NULL).end - (char*)NULL);
}

void nn_cuda_vit_forward(nn_cuda_queue* q, const nn_cuda_vit* v) {
    shape s = shape_of(v);
    kept k = kept_of(s, v->save);
    cast_all(q, v, k);
    norm(q, v, {s.rows, 1, v->x}, VIT_GAMMA1, k.u1, k.stat1);
    multiply(q, size_of(s.rows, s.width, 3 * s.width), k.u1, k.qkv_w, k.qkv_b, k.qkv);
    nn_cuda_flash f = flash_of(v, k);
    nn_cuda_flash_forward(q, &f);
    multiply_onto(q, size_of(s.read, s.width, s.width, s.step, s.step), k.mixed, k.out_w,
                  v->param[VIT_OUT_BIAS], v->x, k.x2);
    norm(q, v, {s.read, s.step, k.x2}, VIT_GAMMA2, k.u2, k.stat2);
    if (!up_with_gelu(q, size_of(s.read, s.width, s.mlp), k)) {
        multiply(q, size_of(s.read, s.width, s.mlp), k.u2, k.up_w, k.up_b, k.pre);
        int64_t pieces = s.read * s.mlp / VEC;
        launch(q, "gelu", gelu_forward, blocks_for(pieces, THREADS), THREADS, pieces, k.pre,
               k.hidden);
    }
    multiply_onto(q, size_of(s.read, s.mlp, s.width, 1, s.step), k.hidden, k.down_w,
                  v->param[VIT_DOWN_BIAS], k.x2, v->y);
}

// What has been read aside, so that it may be overwritten: dy in bfloat16, the copy of dx2 in its
// place, all operands.
enum { DY_READ, COPY_READ, ALL_READ };
static_assert((int)ALL_READ < (int)NN_CUDA_MARKS, "marks");

// Rows that no gradient reaches hold 0.
static void clear(nn_cuda_queue* q, void* p, size_t bytes) {
    cudaError_t st = cudaMemsetAsync(p, 0, bytes, q->stream);
    if (st != cudaSuccess) nn_cuda_note(q, "clearing a gradient: %s", cudaGetErrorString(st));
}

// The MLP's gradients; leaves that of its input in du.
static void mlp_backward(nn_cuda_queue* q, const nn_cuda_vit* v, const shape& s, const kept& k,
                         const rooms& r) {
    nn_cuda_product up = size_of(s.read, s.width, s.mlp), down = size_of(s.read, s.mlp, s.width);
    int parts = 0;
    if (!v->dy_there)
        parts =
            sum_rows(q, s.read, s.width, r.part[PART_DOWN], to_half{v->dy, r.dy, s.width, s.step});
    nn_cuda_queue* aside = nn_cuda_aside(q);
    if (parts) finish<1>(aside, s.width, parts, r.part[PART_DOWN], {v->grad[VIT_DOWN_BIAS]});
    multiply_weight(aside, down, k.hidden, r.dy, v->grad[VIT_DOWN]);
    nn_cuda_mark(q, DY_READ);
    if (down_with_slopes(q, down, k, r)) {
        aside = nn_cuda_aside(q);
        parts = sum_rows(aside, s.read, s.mlp, r.part[PART_UP], as_they_are{r.dhidden, s.mlp});
    } else {
        multiply_back(q, down, k.down_w, r.dy, r.dhidden);
        parts = sum_rows(q, s.read, s.mlp, r.part[PART_UP], gelu_slopes{k.pre, r.dhidden, s.mlp});
        aside = nn_cuda_aside(q);
    }
    finish<1>(aside, s.mlp, parts, r.part[PART_UP], {v->grad[VIT_UP_BIAS]});
    multiply_weight(aside, up, k.u2, r.dhidden, v->grad[VIT_UP]);
    multiply_back(q, up, k.up_w, r.dhidden, r.du);
}

// Attention's gradients, from dy: x2's in bfloat16; leaves that of its input in du.
static void attention_backward(nn_cuda_queue* q, const nn_cuda_vit* v, const shape& s,
                               const kept& k, const rooms& r) {
    nn_cuda_product out = size_of(s.read, s.width, s.width, s.step),
                    in = size_of(s.rows, s.width, 3 * s.width);
    nn_cuda_queue* aside = nn_cuda_aside(q);
    multiply_weight(aside, out, k.mixed, r.dy, v->grad[VIT_OUT]);
    nn_cuda_mark(q, COPY_READ);
    multiply_back(q, out, k.out_w, r.dy, r.du);
    nn_cuda_flash f = flash_of(v, k);
    f.dy = r.du, f.dqkv = r.dqkv, f.mean = r.mean, f.sums = r.part[PART_QKV];
    nn_cuda_flash_backward(q, &f);
    aside = nn_cuda_aside(q);
    finish<1>(aside, 3 * s.width, v->groups, r.part[PART_QKV], {v->grad[VIT_QKV_BIAS]});
    multiply_weight(aside, in, k.u1, r.dqkv, v->grad[VIT_QKV]);
    nn_cuda_mark(q, ALL_READ);
    multiply_back(q, in, k.qkv_w, r.dqkv, r.du);
}

void nn_cuda_vit_backward(nn_cuda_queue* q, const nn_cuda_vit* v) {
    shape s = shape_of(v);
    kept k = kept_of(s, v->save);
    rooms r = rooms_of(s, v->scratch);
    if (v->first) {
        clear(q, r.dx2, (size_t)s.rows * s.width * sizeof *r.dx2);
        clear(q, r.dqkv, (size_t)s.rows * 3 * s.width * sizeof *r.dqkv);
    }
    mlp_backward(q, v, s, k, r);
    nn_cuda_await(q, DY_READ);
    norm_back second = {s.read, s.step, k.x2, v->param[VIT_GAMMA2], v->dy, k.stat2, r.du,
                        r.dx2,  r.dy,   0,    r.part[PART_NORM2]};
    int parts = norm_slopes(q, v, second);
    finish<3>(nn_cuda_aside(q), s.width, parts, second.part,
              {v->grad[VIT_GAMMA2], v->grad[VIT_BETA2], v->grad[VIT_OUT_BIAS]});
    attention_backward(q, v, s, k, r);
    nn_cuda_await(q, COPY_READ);
    norm_back first = {s.rows,
                       1,
                       v->x,
                       v->param[VIT_GAMMA1],
                       r.dx2,
                       k.stat1,
                       r.du,
                       v->dx,
                       v->copies ? r.dy : (bf16*)0,
                       v->add,
                       r.part[PART_NORM1]};
    parts = norm_slopes(q, v, first);
    // what comes next may be put where this block's operands were
    nn_cuda_await(q, ALL_READ);
    finish<3>(nn_cuda_aside(q), s.width, parts, first.part,
              {v->grad[VIT_GAMMA1], v->grad[VIT_BETA1], v->copies ? v->dx_sum : (float*)0});
}
