// flash_kernels.cuh - attention over a few hundred tokens on tensor cores: a block per group and head, a warp
// per 16 tokens. Forward: keys and values in shared memory, a warp sees 32 keys at a time under a
// running softmax. Backward: one kernel for the gradients of the queries, with keys and values in
// shared memory, and one for those of keys and values, with queries and dy there. Both form the
// probabilities again; no warp waits for another's. Every sum has one owner and a fixed order.
#ifndef NN_CUDA_FLASH_KERNELS_CUH
#define NN_CUDA_FLASH_KERNELS_CUH

#include "nn/cuda/flash.h"
#include "nn/cuda/mma.cuh"

namespace {

enum {
    ROWS = NN_CUDA_FLASH_TOKENS,  // room for tokens: 18 tiles of 16
    DEPTH = NN_CUDA_FLASH_DEPTH,
    TILE_BYTES = ROWS * DEPTH * 2,
    FORWARD_WARPS = 9,  // two tiles of queries each
    // the gradients' hold more in registers: 12 warps a processor, three tiles each
    QUERY_WARPS = 6,
    KEY_WARPS = 6
};

#define LOG2E 1.4426950408889634f

struct flash {
    int tokens, queries, heads;
    int64_t stride;  // of a token in qkv
    const bf16* qkv;
    bf16* y;
    float* lse;
    const bf16* dy;
    bf16* dqkv;
    float *mean, *sums;
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

// ---- rows of a head -----------------------------------------------------------------------------

enum { ROW = DEPTH * 2, TILE = 16 * ROW };  // bytes

// The operand a (16 x 16 numbers, four of them along a row of 64) of rows `row` .. of a matrix in
// the device's memory; 0 past the last token.
__device__ __forceinline__ void rows_of(uint32_t (&a)[4][4], const bf16* from, int64_t stride,
                                        int row, int tokens, int lane) {
    int low = row + (lane >> 2), high = low + 8, column = 2 * (lane & 3);
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int r = i & 1 ? high : low;
            a[k][i] = r < tokens ? *(const uint32_t*)(from + r * stride + 16 * k + 8 * (i >> 1) +
                                                      column)
                                 : 0;
        }
}

// a tile of 16 rows times by[0] (rows 0 .. 7) and by[1] into bfloat16
__device__ __forceinline__ void store_tile(bf16* to, int64_t stride, const float (&x)[8][4],
                                           const float (&by)[2], int row, int tokens, int lane) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int at = row + (lane >> 2) + 8 * r;
        if (at >= tokens) continue;
        bf16* line = to + at * stride + 2 * (lane & 3);
#pragma unroll
        for (int n = 0; n < 8; n++)
            *(uint32_t*)(line + 8 * n) = pack2(x[n][2 * r] * by[r], x[n][2 * r + 1] * by[r]);
    }
}

// ---- forward ------------------------------------------------------------------------------------

// What a warp knows of its 16 queries: a lane has parts of rows lane / 4 and 8 more. Weights are
// relative to 2^most, which may lag behind the highest score by LAG: no weight gets too large.
struct softmax {
    float y[8][4], most[2], total[2];
};

#define LAG 8.0f

// Sees 16 G keys; LAST: `left` of them are there.
template <int G, bool LAST>
__device__ __forceinline__ void attend(softmax& t, const uint32_t (&q)[4][4], uint32_t keys,
                                       uint32_t values, int left, float scale) {
    float s[2 * G][4] = {}, high[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
        for (int n = 0; n < G; n++) {
            uint32_t b[4];
            ldsm4(b, (keys ^ (k << 5)) + n * TILE);
            mma(s[2 * n], q[k], b[0], b[1]);
            mma(s[2 * n + 1], q[k], b[2], b[3]);
        }
#pragma unroll
    for (int n = 0; n < 2 * G; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int key = 8 * n + 2 * (threadIdx.x & 3) + (i & 1);
            if (LAST && key >= left) s[n][i] = -INFINITY;
            high[i >> 1] = fmaxf(high[i >> 1], s[n][i]);
        }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        high[r] = fmaxf(high[r], __shfl_xor_sync(0xffffffffu, high[r], 1));
        high[r] = fmaxf(high[r], __shfl_xor_sync(0xffffffffu, high[r], 2)) * scale;
    }
    if (__any_sync(0xffffffffu, high[0] > t.most[0] + LAG || high[1] > t.most[1] + LAG)) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            high[r] = fmaxf(high[r], t.most[r]);
            float shrink = power2(t.most[r] - high[r]);
            t.most[r] = high[r];
            t.total[r] *= shrink;
#pragma unroll
            for (int n = 0; n < 8; n++) t.y[n][2 * r] *= shrink, t.y[n][2 * r + 1] *= shrink;
        }
    }
#pragma unroll
    for (int n = 0; n < 2 * G; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[n][i] = power2(s[n][i] * scale - t.most[i >> 1]);
            t.total[i >> 1] += s[n][i];
        }
#pragma unroll
    for (int k = 0; k < G; k++) {
        uint32_t p[4] = {pack2(s[2 * k][0], s[2 * k][1]), pack2(s[2 * k][2], s[2 * k][3]),
                         pack2(s[2 * k + 1][0], s[2 * k + 1][1]),
                         pack2(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
        for (int n = 0; n < 4; n++) {
            uint32_t b[4];
            ldsm4_turned(b, (values ^ (n << 5)) + k * TILE);
            mma(t.y[2 * n], p, b[0], b[1]);
            mma(t.y[2 * n + 1], p, b[2], b[3]);
        }
    }
}

__global__ void __launch_bounds__(FORWARD_WARPS * 32, 2) forward_kernel(flash f) {
    LAUNCHED_ROOM(room);
    uint32_t k_at = shared_address(room), v_at = k_at + TILE_BYTES;
    int group = blockIdx.x / f.heads, head = blockIdx.x % f.heads, width = f.heads * DEPTH;
    const bf16* from = f.qkv + (int64_t)group * f.tokens * f.stride + head * DEPTH;
    bf16* to = f.y + (int64_t)group * f.tokens * width + head * DEPTH;
    bring(k_at, from + width, f.stride, f.tokens);
    bring(v_at, from + 2 * width, f.stride, f.tokens);
    copies_done();
    __syncthreads();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int tile = warp; tile * 16 < f.queries; tile += FORWARD_WARPS) {
        uint32_t q[4][4], keys = k_at + operand_b(lane), values = v_at + operand_a(lane);
        rows_of(q, from, f.stride, tile * 16, f.queries, lane);
        softmax t = {{}, {-INFINITY, -INFINITY}, {0, 0}};
        int left = f.tokens;
        for (; left >= 32; left -= 32, keys += 2 * TILE, values += 2 * TILE)
            attend<2, false>(t, q, keys, values, 32, f.scale);
        if (left > 16)
            attend<2, true>(t, q, keys, values, left, f.scale);
        else if (left > 0)
            attend<1, true>(t, q, keys, values, left, f.scale);
        float by[2];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float total = t.total[r];
            total += __shfl_xor_sync(0xffffffffu, total, 1);
            total += __shfl_xor_sync(0xffffffffu, total, 2);
            by[r] = 1.0f / total;
            int row = tile * 16 + (lane >> 2) + 8 * r;
            if (row < f.queries && (lane & 3) == 0)
                f.lse[((int64_t)group * f.heads + head) * f.tokens + row] =
                    t.most[r] + log2f(total);
        }
        store_tile(to, width, t.y, by, tile * 16, f.queries, lane);
    }
}

// ---- backward -----------------------------------------------------------------------------------

// Adds a tile's results (16 x 64) up over its rows, onto a warp's line of sums.
__device__ __forceinline__ void add_rows(float* line, const float (&x)[8][4], int row, int tokens,
                                         int lane) {
    int low = row + (lane >> 2);
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float sum = (low < tokens ? x[n][i] : 0) + (low + 8 < tokens ? x[n][i + 2] : 0);
            for (int o = 4; o < 32; o *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
            if (lane < 4) line[8 * n + 2 * lane + i] += sum;
        }
}

// The warps' lines added up, times `by`.
__device__ __forceinline__ void store_sums(const float (*line)[DEPTH], int lines, float by,
                                           float* to) {
    __syncthreads();
    if (threadIdx.x >= DEPTH) return;
    float total = 0;
    for (int w = 0; w < lines; w++) total += line[w][threadIdx.x];
    to[threadIdx.x] = total * by;
}

// dq, and dy . y of every query. Keys and values are in shared memory; a warp takes 16 queries.
__global__ void __launch_bounds__(QUERY_WARPS * 32, 2) queries_kernel(flash f) {
    LAUNCHED_ROOM(room);
    __shared__ float sums[QUERY_WARPS][DEPTH];
    uint32_t k_at = shared_address(room), v_at = k_at + TILE_BYTES;
    int group = blockIdx.x / f.heads, head = blockIdx.x % f.heads, width = f.heads * DEPTH;
    const bf16* from = f.qkv + (int64_t)group * f.tokens * f.stride + head * DEPTH;
    bf16* to = f.dqkv + (int64_t)group * f.tokens * f.stride + head * DEPTH;
    int64_t out = (int64_t)group * f.tokens * width + head * DEPTH;
    int64_t first_row = ((int64_t)group * f.heads + head) * f.tokens;
    bring(k_at, from + width, f.stride, f.tokens);
    bring(v_at, from + 2 * width, f.stride, f.tokens);
    for (int i = threadIdx.x; i < QUERY_WARPS * DEPTH; i += blockDim.x) sums[0][i] = 0;
    copies_done();
    __syncthreads();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int tile = warp; tile * 16 < f.queries; tile += QUERY_WARPS) {
        int low = tile * 16 + (lane >> 2);
        uint32_t q[4][4], g[4][4];
        float mean[2] = {0, 0}, lse[2];
        rows_of(g, f.dy + out, width, tile * 16, f.queries, lane);
        rows_of(q, f.y + out, width, tile * 16, f.queries, lane);
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float2 a = unpack2(g[k][i]), b = unpack2(q[k][i]);
                mean[i & 1] += a.x * b.x + a.y * b.y;
            }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            mean[r] += __shfl_xor_sync(0xffffffffu, mean[r], 1);
            mean[r] += __shfl_xor_sync(0xffffffffu, mean[r], 2);
            int row = low + 8 * r;
            lse[r] = row < f.queries ? f.lse[first_row + row] : INFINITY;
            if (row < f.queries && (lane & 3) == 0) f.mean[first_row + row] = mean[r];
        }
        rows_of(q, from, f.stride, tile * 16, f.queries, lane);
        float dq[8][4] = {};
        uint32_t keys = k_at + operand_b(lane), values = v_at + operand_b(lane);
        uint32_t turned = k_at + operand_a(lane);
#pragma unroll 1
        for (int key = 0; key < f.tokens; key += 16) {
            float s[2][4] = {}, dp[2][4] = {};
#pragma unroll
            for (int k = 0; k < 4; k++) {
                uint32_t b[4];
                ldsm4(b, keys ^ (k << 5));
                mma(s[0], q[k], b[0], b[1]);
                mma(s[1], q[k], b[2], b[3]);
                ldsm4(b, values ^ (k << 5));
                mma(dp[0], g[k], b[0], b[1]);
                mma(dp[1], g[k], b[2], b[3]);
            }
            // keys past the last token are rows of zeros, which add nothing to dq
#pragma unroll
            for (int n = 0; n < 2; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    s[n][i] =
                        power2(s[n][i] * f.scale - lse[i >> 1]) * (dp[n][i] - mean[i >> 1]);
            uint32_t d[4] = {pack2(s[0][0], s[0][1]), pack2(s[0][2], s[0][3]),
                             pack2(s[1][0], s[1][1]), pack2(s[1][2], s[1][3])};
#pragma unroll
            for (int n = 0; n < 4; n++) {
                uint32_t b[4];
                ldsm4_turned(b, turned ^ (n << 5));
                mma(dq[2 * n], d, b[0], b[1]);
                mma(dq[2 * n + 1], d, b[2], b[3]);
            }
            keys += TILE, values += TILE, turned += TILE;
        }
        add_rows(sums[warp], dq, tile * 16, f.queries, lane);
        store_tile(to, f.stride, dq, {0.125f, 0.125f}, tile * 16, f.queries, lane);
    }
    store_sums(sums, QUERY_WARPS, 0.125f, f.sums + (int64_t)group * 3 * width + head * DEPTH);
}

// dk and dv, after queries_kernel. Queries and dy are in shared memory; a warp takes 16 keys.
__global__ void __launch_bounds__(KEY_WARPS * 32, 2) keys_kernel(flash f) {
    LAUNCHED_ROOM(room);
    __shared__ float sums[2][KEY_WARPS][DEPTH];  // of dk, dv
    uint32_t q_at = shared_address(room), g_at = q_at + TILE_BYTES;
    float* mean = (float*)(room + 2 * TILE_BYTES);
    float* lse = mean + ROWS;
    int group = blockIdx.x / f.heads, head = blockIdx.x % f.heads, width = f.heads * DEPTH;
    const bf16* from = f.qkv + (int64_t)group * f.tokens * f.stride + head * DEPTH;
    const bf16* slopes = f.dy + (int64_t)group * f.tokens * width + head * DEPTH;
    bf16* to = f.dqkv + (int64_t)group * f.tokens * f.stride + head * DEPTH;
    int64_t first_row = ((int64_t)group * f.heads + head) * f.tokens;
    bring(q_at, from, f.stride, f.queries);
    bring(g_at, slopes, width, f.queries);
    for (int i = threadIdx.x; i < 2 * KEY_WARPS * DEPTH; i += blockDim.x) sums[0][0][i] = 0;
    // queries that are not there have probability 0 everywhere
    for (int i = threadIdx.x; i < ROWS; i += blockDim.x) {
        lse[i] = i < f.queries ? f.lse[first_row + i] : INFINITY;
        mean[i] = i < f.queries ? f.mean[first_row + i] : 0;
    }
    copies_done();
    __syncthreads();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int tile = warp; tile * 16 < f.tokens; tile += KEY_WARPS) {
        uint32_t k[4][4], v[4][4];
        rows_of(k, from + width, f.stride, tile * 16, f.tokens, lane);
        rows_of(v, from + 2 * width, f.stride, tile * 16, f.tokens, lane);
        float dk[8][4] = {}, dv[8][4] = {};
        uint32_t queries = q_at + operand_b(lane), turned = q_at + operand_a(lane);
#pragma unroll 1
        for (int query = 0; query < f.queries; query += 16) {
            float s[2][4] = {}, dp[2][4] = {};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                uint32_t b[4];
                ldsm4(b, queries ^ (i << 5));
                mma(s[0], k[i], b[0], b[1]);
                mma(s[1], k[i], b[2], b[3]);
                ldsm4(b, (queries ^ (i << 5)) + TILE_BYTES);
                mma(dp[0], v[i], b[0], b[1]);
                mma(dp[1], v[i], b[2], b[3]);
            }
            uint32_t p[4], d[4];
#pragma unroll
            for (int n = 0; n < 2; n++) {
                int column = query + 8 * n + 2 * (lane & 3);
                float2 l = *(const float2*)(lse + column), c = *(const float2*)(mean + column);
                float x[4], y[4];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    x[i] = power2(s[n][i] * f.scale - (i & 1 ? l.y : l.x));
                    y[i] = x[i] * (dp[n][i] - (i & 1 ? c.y : c.x));
                }
                p[2 * n] = pack2(x[0], x[1]), p[2 * n + 1] = pack2(x[2], x[3]);
                d[2 * n] = pack2(y[0], y[1]), d[2 * n + 1] = pack2(y[2], y[3]);
            }
#pragma unroll
            for (int n = 0; n < 4; n++) {
                uint32_t b[4];
                ldsm4_turned(b, (turned ^ (n << 5)) + TILE_BYTES);
                mma(dv[2 * n], p, b[0], b[1]);
                mma(dv[2 * n + 1], p, b[2], b[3]);
                ldsm4_turned(b, turned ^ (n << 5));
                mma(dk[2 * n], d, b[0], b[1]);
                mma(dk[2 * n + 1], d, b[2], b[3]);
            }
            queries += TILE, turned += TILE;
        }
        add_rows(sums[0][warp], dk, tile * 16, f.tokens, lane);
        add_rows(sums[1][warp], dv, tile * 16, f.tokens, lane);
        store_tile(to + width, f.stride, dk, {0.125f, 0.125f}, tile * 16, f.tokens, lane);
        store_tile(to + 2 * width, f.stride, dv, {1.0f, 1.0f}, tile * 16, f.tokens, lane);
    }
    float* total = f.sums + (int64_t)group * 3 * width + head * DEPTH;
    store_sums(sums[0], KEY_WARPS, 0.125f, total + width);
    store_sums(sums[1], KEY_WARPS, 1.0f, total + 2 * width);
}

static_assert(DEPTH == 64, "1 / sqrt(64) is written as 0.125");

}  // namespace

#endif
