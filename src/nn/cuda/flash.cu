// flash.cu - attention over up to 257 tokens on tensor cores: a block per group and head, with all of
// its queries, keys and values in shared memory. Forward: a warp takes 16 queries and sees 32 keys
// at a time under a running softmax. Backward: a warp owns 16 keys and sees 16 queries at a time;
// the slopes of the scores go through shared memory for the gradients of the queries, 32 of which
// the warps then form together. Every sum has one owner and a fixed order.
#include "nn/cuda/device.cuh"
#include "nn/cuda/flash.h"
#include "nn/cuda/mma.cuh"

namespace {

enum {
    ROWS = 288,  // room for tokens: 18 tiles of 16
    DEPTH = NN_CUDA_FLASH_DEPTH,
    TILE_BYTES = ROWS * DEPTH * 2,
    FORWARD_WARPS = 9,   // two tiles of queries each
    BACKWARD_WARPS = 16,  // a tile of keys each
    OWNED = BACKWARD_WARPS * 16
};

#define LOG2E 1.4426950408889634f

struct flash {
    int tokens, heads;
    int64_t stride;  // of a token in qkv
    const bf16* qkv;
    bf16* y;
    float* lse;
    const bf16* dy;
    bf16* dqkv;
    float* sums;
    float scale;  // of scores, in units of log 2
};

// the rows of one matrix of a head into shared memory; 0 past the last token
__device__ __forceinline__ void bring(uint32_t to, const bf16* from, int64_t stride, int tokens) {
    for (int i = threadIdx.x; i < ROWS * 8; i += blockDim.x) {
        int row = i >> 3, piece = i & 7, there = row < tokens;
        copy16(to + piece_at(row, piece), from + (there ? row : 0) * stride + piece * 8,
               there ? 16 : 0);
    }
}

// ---- forward ------------------------------------------------------------------------------------

__global__ void __launch_bounds__(FORWARD_WARPS * 32, 2) forward_kernel(flash f) {
    extern __shared__ __align__(128) unsigned char room[];
    uint32_t q_at = shared_address(room), k_at = q_at + TILE_BYTES, v_at = k_at + TILE_BYTES;
    int group = blockIdx.x / f.heads, head = blockIdx.x % f.heads, width = f.heads * DEPTH;
    const bf16* from = f.qkv + (int64_t)group * f.tokens * f.stride + head * DEPTH;
    bring(q_at, from, f.stride, f.tokens);
    bring(k_at, from + width, f.stride, f.tokens);
    bring(v_at, from + 2 * width, f.stride, f.tokens);
    copies_done();
    __syncthreads();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int tile = warp; tile * 16 < f.tokens; tile += FORWARD_WARPS) {
        uint32_t q[4][4];
#pragma unroll
        for (int k = 0; k < 4; k++) ldsm4(q[k], a_at(q_at, tile * 16, k, lane));
        float y[8][4] = {}, most[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
        for (int first = 0; first < f.tokens; first += 32) {
            float s[4][4] = {};
#pragma unroll
            for (int k = 0; k < 4; k++)
#pragma unroll
                for (int n = 0; n < 2; n++) {
                    uint32_t b[4];
                    ldsm4(b, b_at(k_at, first + 16 * n, k, lane));
                    mma(s[2 * n], q[k], b[0], b[1]);
                    mma(s[2 * n + 1], q[k], b[2], b[3]);
                }
            float high[2] = {-INFINITY, -INFINITY};
#pragma unroll
            for (int n = 0; n < 4; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int key = first + 8 * n + 2 * (lane & 3) + (i & 1);
                    s[n][i] = key < f.tokens ? s[n][i] * f.scale : -INFINITY;
                    high[i >> 1] = fmaxf(high[i >> 1], s[n][i]);
                }
#pragma unroll
            for (int r = 0; r < 2; r++) {
                high[r] = fmaxf(high[r], __shfl_xor_sync(0xffffffffu, high[r], 1));
                high[r] = fmaxf(high[r], __shfl_xor_sync(0xffffffffu, high[r], 2));
                high[r] = fmaxf(high[r], most[r]);
                float shrink = exp2f(most[r] - high[r]);
                most[r] = high[r];
                total[r] *= shrink;
#pragma unroll
                for (int n = 0; n < 8; n++) {
                    y[n][2 * r] *= shrink;
                    y[n][2 * r + 1] *= shrink;
                }
            }
#pragma unroll
            for (int n = 0; n < 4; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    s[n][i] = exp2f(s[n][i] - most[i >> 1]);
                    total[i >> 1] += s[n][i];
                }
#pragma unroll
            for (int k = 0; k < 2; k++) {
                uint32_t p[4] = {pack2(s[2 * k][0], s[2 * k][1]), pack2(s[2 * k][2], s[2 * k][3]),
                                 pack2(s[2 * k + 1][0], s[2 * k + 1][1]),
                                 pack2(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
                for (int n = 0; n < 4; n++) {
                    uint32_t b[4];
                    ldsm4_turned(b, b_turned_at(v_at, first + 16 * k, n, lane));
                    mma(y[2 * n], p, b[0], b[1]);
                    mma(y[2 * n + 1], p, b[2], b[3]);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            total[r] += __shfl_xor_sync(0xffffffffu, total[r], 1);
            total[r] += __shfl_xor_sync(0xffffffffu, total[r], 2);
            int row = tile * 16 + (lane >> 2) + 8 * r;
            if (row >= f.tokens) continue;
            float by = 1.0f / total[r];
            bf16* to = f.y + ((int64_t)group * f.tokens + row) * width + head * DEPTH;
#pragma unroll
            for (int n = 0; n < 8; n++)
                *(uint32_t*)(to + 8 * n + 2 * (lane & 3)) =
                    pack2(y[n][2 * r] * by, y[n][2 * r + 1] * by);
            if ((lane & 3) == 0)
                f.lse[((int64_t)group * f.heads + head) * f.tokens + row] =
                    most[r] + log2f(total[r]);
        }
    }
}

// ---- backward -----------------------------------------------------------------------------------

enum {
    STEP = 32,           // queries whose slopes are in shared memory at a time
    SLOPE_ROWS = OWNED + 16,
    SLOPE_BYTES = SLOPE_ROWS * STEP * 2  // (keys, queries)
};
static_assert((int)NN_CUDA_FLASH_TOKENS == (int)OWNED + 1, "one key more than the warps own");

// byte offset of 16-byte piece `piece` (0 .. 3) of a key's slopes
__device__ __forceinline__ uint32_t slope_at(int key, int piece) {
    return (uint32_t)(key * (STEP * 2) + ((piece ^ (key >> 1 & 3)) << 4));
}

// dy into shared memory, and dy . y of every row; eight threads have a row
__device__ __forceinline__ void bring_slopes(uint32_t to, const flash& f, int group, int head,
                                             float* mean) {
    int width = f.heads * DEPTH;
    for (int i = threadIdx.x; i < ROWS * 8; i += blockDim.x) {
        int row = i >> 3, piece = i & 7;
        uint4 g = make_uint4(0, 0, 0, 0), v = g;
        if (row < f.tokens) {
            int64_t at = ((int64_t)group * f.tokens + row) * width + head * DEPTH + piece * 8;
            g = *(const uint4*)(f.dy + at);
            v = *(const uint4*)(f.y + at);
        }
        const uint32_t a[4] = {g.x, g.y, g.z, g.w}, b[4] = {v.x, v.y, v.z, v.w};
        float sum = 0;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            float2 s = unpack2(a[k]), t = unpack2(b[k]);
            sum += s.x * t.x + s.y * t.y;
        }
        for (int o = 4; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
        if (piece == 0) mean[row] = sum;
        asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to + piece_at(row, piece)),
                     "r"(g.x), "r"(g.y), "r"(g.z), "r"(g.w));
    }
}

// What a warp reads of its keys and of the queries that pass by. Bases are multiples of 128 bytes,
// so columns 16 k .. of a row lie at an address whose bits 5 and 6 are turned by k.
struct places {
    uint32_t keys;            // a_at of the warp's keys; values lie TILE_BYTES further
    uint32_t rows, columns;   // b_at and b_turned_at of query 0; slopes lie 3 TILE_BYTES further
    const float *lse, *mean;  // (ROWS)
    int key, tokens, lane;    // key: the warp's first
    float scale;
};

// Probabilities p and their slopes d of 16 keys and the 16 queries from `query` on, as operands.
__device__ __forceinline__ void weigh(const places& at, int query, uint32_t (&p)[4],
                                      uint32_t (&d)[4]) {
    float s[2][4] = {}, dp[2][4] = {};
    uint32_t rows = at.rows + (uint32_t)query * 128;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint32_t a[4], b[4];
        ldsm4(a, at.keys ^ (uint32_t)(k << 5));
        ldsm4(b, rows ^ (uint32_t)(k << 5));
        mma(s[0], a, b[0], b[1]);
        mma(s[1], a, b[2], b[3]);
        ldsm4(a, (at.keys ^ (uint32_t)(k << 5)) + TILE_BYTES);
        ldsm4(b, (rows ^ (uint32_t)(k << 5)) + 3 * TILE_BYTES);
        mma(dp[0], a, b[0], b[1]);
        mma(dp[1], a, b[2], b[3]);
    }
#pragma unroll
    for (int n = 0; n < 2; n++) {
        int column = query + 8 * n + 2 * (at.lane & 3);
        float2 l = *(const float2*)(at.lse + column), m = *(const float2*)(at.mean + column);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int row = at.key + (at.lane >> 2) + 8 * (i >> 1);
            float one = exp2f(s[n][i] * at.scale - (i & 1 ? l.y : l.x));
            s[n][i] = row < at.tokens ? one : 0.0f;
            dp[n][i] = s[n][i] * (dp[n][i] - (i & 1 ? m.y : m.x));
        }
    }
    p[0] = pack2(s[0][0], s[0][1]), p[1] = pack2(s[0][2], s[0][3]);
    p[2] = pack2(s[1][0], s[1][1]), p[3] = pack2(s[1][2], s[1][3]);
    d[0] = pack2(dp[0][0], dp[0][1]), d[1] = pack2(dp[0][2], dp[0][3]);
    d[2] = pack2(dp[1][0], dp[1][1]), d[3] = pack2(dp[1][2], dp[1][3]);
}

// dv += p dy and dk += d q over these queries
__device__ __forceinline__ void gather(const places& at, int query, const uint32_t (&p)[4],
                                       const uint32_t (&d)[4], float (&dk)[8][4],
                                       float (&dv)[8][4]) {
    uint32_t columns = at.columns + (uint32_t)query * 128;
#pragma unroll
    for (int n = 0; n < 4; n++) {
        uint32_t b[4];
        ldsm4_turned(b, (columns ^ (uint32_t)(n << 5)) + 3 * TILE_BYTES);
        mma(dv[2 * n], p, b[0], b[1]);
        mma(dv[2 * n + 1], p, b[2], b[3]);
        ldsm4_turned(b, columns ^ (uint32_t)(n << 5));
        mma(dk[2 * n], d, b[0], b[1]);
        mma(dk[2 * n + 1], d, b[2], b[3]);
    }
}

// the sum over the eight lanes that share columns
__device__ __forceinline__ float over_rows(float v) {
    for (int o = 4; o < 32; o *= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

// sums over rows of dk and dv into (128)
__device__ __forceinline__ void sum_columns(const float (&dk)[8][4], const float (&dv)[8][4],
                                            int lane, float* to) {
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float k = over_rows(dk[n][i] + dk[n][2 + i]), v = over_rows(dv[n][i] + dv[n][2 + i]);
            if (lane >= 4) continue;
            to[8 * n + 2 * lane + i] = k;
            to[64 + 8 * n + 2 * lane + i] = v;
        }
}

// Sixteen warps own 256 keys. A key more (the class token makes 257) is shared: each warp takes its
// part of the queries, before the others begin.
__global__ void __launch_bounds__(BACKWARD_WARPS * 32, 1) backward_kernel(flash f) {
    extern __shared__ __align__(128) unsigned char room[];
    uint32_t q_at = shared_address(room), k_at = q_at + TILE_BYTES, s_at = q_at + 4 * TILE_BYTES;
    float* mean = (float*)(room + 4 * TILE_BYTES + 2 * SLOPE_BYTES);
    float* lse = mean + ROWS;
    uint32_t* last = (uint32_t*)(lse + ROWS);        // slopes of the last key, in pairs of queries
    float(*sums)[128] = (float(*)[128])(last + ROWS / 2);  // (warps, 128)
    int group = blockIdx.x / f.heads, head = blockIdx.x % f.heads, width = f.heads * DEPTH;
    const bf16* from = f.qkv + (int64_t)group * f.tokens * f.stride + head * DEPTH;
    bf16* to = f.dqkv + (int64_t)group * f.tokens * f.stride + head * DEPTH;
    bring(q_at, from, f.stride, f.tokens);
    bring(k_at, from + width, f.stride, f.tokens);
    bring(k_at + TILE_BYTES, from + 2 * width, f.stride, f.tokens);
    bring_slopes(q_at + 3 * TILE_BYTES, f, group, head, mean);
    // queries that are not there have probability 0 everywhere
    for (int i = threadIdx.x; i < ROWS; i += blockDim.x)
        lse[i] = i < f.tokens ? f.lse[((int64_t)group * f.heads + head) * f.tokens + i] : INFINITY;
    for (int i = threadIdx.x; i < ROWS / 2; i += blockDim.x) last[i] = 0;
    // slopes of keys behind the owned ones
    for (int i = threadIdx.x; i < 2 * (SLOPE_ROWS - OWNED) * (STEP / 2); i += blockDim.x) {
        int row = OWNED + i / (STEP / 2) % (SLOPE_ROWS - OWNED);
        uint32_t buffer = i / (STEP / 2) / (SLOPE_ROWS - OWNED);
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(s_at + buffer * SLOPE_BYTES + row * STEP * 2 +
                                                     i % (STEP / 2) * 4),
                     "r"(0));
    }
    copies_done();
    __syncthreads();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    places at = {a_at(k_at, OWNED, 0, lane),
                 b_at(q_at, 0, 0, lane),
                 b_turned_at(q_at, 0, 0, lane),
                 lse,
                 mean,
                 OWNED,
                 f.tokens,
                 lane,
                 f.scale};
    float dk[8][4] = {}, dv[8][4] = {}, shared_key = 0;
    if (f.tokens > OWNED) {
        for (int query = warp * 16; query < f.tokens; query += BACKWARD_WARPS * 16) {
            uint32_t p[4], d[4];
            weigh(at, query, p, d);
            gather(at, query, p, d, dk, dv);
            if (lane < 4) last[query / 2 + lane] = d[0], last[query / 2 + 4 + lane] = d[2];
        }
        sum_columns(dk, dv, lane, sums[warp]);  // one row is there, the others are 0
        __syncthreads();
        if (threadIdx.x < 128) {
            for (int w = 0; w < BACKWARD_WARPS; w++) shared_key += sums[w][threadIdx.x];
            int part = 1 + (int)threadIdx.x / 64;
            if (part == 1) shared_key *= 0.125f;
            to[(int64_t)OWNED * f.stride + part * width + threadIdx.x % 64] =
                __float2bfloat16(shared_key);
        }
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) dk[n][i] = dv[n][i] = 0;
    }
    at.key = warp * 16;
    at.keys = a_at(k_at, at.key, 0, lane);
    int half = warp & 1, column = warp >> 1;  // dq: 16 of a step's queries, 8 of the head's numbers
    float dq_sum[2] = {0, 0};
    for (int step = 0; step * STEP < f.tokens; step++) {
        uint32_t slopes = s_at + (step & 1) * SLOPE_BYTES;
#pragma unroll
        for (int part = 0; part < 2; part++) {
            uint32_t p[4], d[4];
            int query = step * STEP + part * 16;
            weigh(at, query, p, d);
            gather(at, query, p, d, dk, dv);
            // slopes of this warp's keys: rows lane / 4 and 8 more, queries in pieces of 8
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int row = at.key + (lane >> 2) + 8 * (i & 1);
                asm volatile("st.shared.b32 [%0], %1;" ::"r"(
                                 slopes + slope_at(row, 2 * part + (i >> 1)) + 4 * (lane & 3)),
                             "r"(d[i]));
            }
        }
        if (f.tokens > OWNED && warp == 0 && lane < STEP / 2)
            asm volatile("st.shared.b32 [%0], %1;" ::"r"(slopes + slope_at(OWNED, lane >> 2) +
                                                         4 * (lane & 3)),
                         "r"(last[step * (STEP / 2) + lane]));
        __syncthreads();
        float dq[4] = {};
        for (int k = 0; k < f.tokens; k += 16) {
            uint32_t a[4], b[2];
            int row = k + ((lane >> 4) << 3) + (lane & 7);
            ldsm4_turned(a, slopes + slope_at(row, 2 * half + ((lane >> 3) & 1)));
            ldsm2_turned(b, k_at + piece_at(k + (lane & 15), column));
            mma(dq, a, b[0], b[1]);
        }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int row = step * STEP + half * 16 + (lane >> 2) + 8 * r;
            if (row >= f.tokens) continue;
            dq_sum[0] += dq[2 * r] * 0.125f;
            dq_sum[1] += dq[2 * r + 1] * 0.125f;
            *(uint32_t*)(to + row * f.stride + column * 8 + 2 * (lane & 3)) =
                pack2(dq[2 * r] * 0.125f, dq[2 * r + 1] * 0.125f);
        }
    }
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) dk[n][i] *= 0.125f;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int row = at.key + (lane >> 2) + 8 * r;
        if (row >= f.tokens) continue;
        bf16* line = to + row * f.stride + 2 * (lane & 3);
#pragma unroll
        for (int n = 0; n < 8; n++) {
            *(uint32_t*)(line + width + 8 * n) = pack2(dk[n][2 * r], dk[n][2 * r + 1]);
            *(uint32_t*)(line + 2 * width + 8 * n) = pack2(dv[n][2 * r], dv[n][2 * r + 1]);
        }
    }
    // sums over the tokens, for the gradient of the bias before
    __syncthreads();  // the shared key's sums have been read
    sum_columns(dk, dv, lane, sums[warp]);
    __syncthreads();
    float* part = f.sums + (int64_t)group * f.stride + head * DEPTH;
    if (threadIdx.x < 128) {
        for (int w = 0; w < BACKWARD_WARPS; w++) shared_key += sums[w][threadIdx.x];
        part[(1 + threadIdx.x / 64) * width + threadIdx.x % 64] = shared_key;
    }
    __syncthreads();
    float a = over_rows(dq_sum[0]), b = over_rows(dq_sum[1]);
    if (lane < 4) sums[half][column * 8 + 2 * lane] = a, sums[half][column * 8 + 2 * lane + 1] = b;
    __syncthreads();
    if (threadIdx.x < 64) part[threadIdx.x] = sums[0][threadIdx.x] + sums[1][threadIdx.x];
}

static_assert(DEPTH == 64, "1 / sqrt(64) is written as 0.125");

static flash flash_of(const nn_cuda_flash* f) {
    return flash{f->tokens,
                 f->heads,
                 (int64_t)3 * f->heads * DEPTH,
                 (const bf16*)f->qkv,
                 (bf16*)f->y,
                 f->lse,
                 (const bf16*)f->dy,
                 (bf16*)f->dqkv,
                 f->sums,
                 0.125f * LOG2E};
}

static void run(nn_cuda_queue* q, const nn_cuda_flash* f, void (*kernel)(flash), int warps,
                int bytes) {
    cudaError_t st = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (st != cudaSuccess) nn_cuda_note(q, "attention: %s", cudaGetErrorString(st));
    kernel<<<f->groups * f->heads, warps * 32, bytes, (cudaStream_t)nn_cuda_stream(q)>>>(
        flash_of(f));
    nn_cuda_check(q, "attention");
}

}  // namespace

void nn_cuda_flash_forward(nn_cuda_queue* q, const nn_cuda_flash* f) {
    run(q, f, forward_kernel, FORWARD_WARPS, 3 * TILE_BYTES);
}

void nn_cuda_flash_backward(nn_cuda_queue* q, const nn_cuda_flash* f) {
    run(q, f, backward_kernel, BACKWARD_WARPS,
        4 * TILE_BYTES + 2 * SLOPE_BYTES +
            (2 * ROWS + ROWS / 2 + BACKWARD_WARPS * 128) * (int)sizeof(float));
}
