// flash_backward.cuh - attention backward: one kernel for the gradients of the queries, with keys
// and values in shared memory, and one for those of keys and values, with queries and dy there.
// Both form the probabilities again; no warp waits for another's. Every sum has one owner and a
// fixed order. As in flash_forward.cuh a warpgroup takes 64 rows, a warp 16.
#ifndef NN_CUDA_FLASH_BACKWARD_CUH
#define NN_CUDA_FLASH_BACKWARD_CUH

#include "nn/cuda/flash_rows.cuh"

namespace {

// ---- queries ------------------------------------------------------------------------------------

// What a warp knows of its 16 queries: q and dy as operands, and of rows lane / 4 and 8 more the
// softmax's sum and dy . y.
struct asked {
    uint32_t q[4][4], g[4][4];
    float mean[2], lse[2];
};

__device__ __forceinline__ void ask(asked& a, const flash& f, const head& h, int row) {
    rows_of(a.g, f.dy + h.y, h.width, row, f.queries, h.lane);
    rows_of(a.q, f.y + h.y, h.width, row, f.queries, h.lane);
    a.mean[0] = a.mean[1] = 0;
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float2 x = unpack2(a.g[k][i]), y = unpack2(a.q[k][i]);
            a.mean[i & 1] += x.x * y.x + x.y * y.y;
        }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        a.mean[r] += __shfl_xor_sync(0xffffffffu, a.mean[r], 1);
        a.mean[r] += __shfl_xor_sync(0xffffffffu, a.mean[r], 2);
        int at = row + (h.lane >> 2) + 8 * r;
        a.lse[r] = at < f.queries ? f.lse[h.rows + at] : INFINITY;
        if (at < f.queries && (h.lane & 3) == 0) f.mean[h.rows + at] = a.mean[r];
    }
    rows_of(a.q, f.qkv + h.qkv, f.stride, row, f.queries, h.lane);
}

// Scores of 8 W keys become their gradients. LAST: `left` of the keys are there.
template <int W, bool LAST>
__device__ __forceinline__ void score_slopes(float (&s)[W][4], const float (&dp)[W][4],
                                             const asked& a, int left, float scale) {
#pragma unroll
    for (int n = 0; n < W; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int key = 8 * n + 2 * (threadIdx.x & 3) + (i & 1);
            s[n][i] = power2(s[n][i] * scale - a.lse[i >> 1]) * (dp[n][i] - a.mean[i >> 1]);
            if (LAST && key >= left) s[n][i] = 0;
        }
}

__device__ __forceinline__ void finish_asked(const flash& f, const head& h, float* sums,
                                             const float (&dq)[8][4], int row) {
    add_rows(sums + h.warp * DEPTH, dq, row, f.queries, h.lane);
    store_tile(f.dqkv + h.qkv, f.stride, dq, {0.125f, 0.125f}, row, f.queries, h.lane);
}

template <bool LAST>
__device__ __forceinline__ void ask_16_keys(float (&dq)[8][4], const asked& a, uint32_t keys,
                                            uint32_t turned, int left, float scale) {
    float s[2][4] = {}, dp[2][4] = {};
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint32_t b[4];
        ldsm4(b, keys ^ (k << 5));
        mma(s[0], a.q[k], b[0], b[1]);
        mma(s[1], a.q[k], b[2], b[3]);
        ldsm4(b, (keys ^ (k << 5)) + TILE_BYTES);
        mma(dp[0], a.g[k], b[0], b[1]);
        mma(dp[1], a.g[k], b[2], b[3]);
    }
    score_slopes<2, LAST>(s, dp, a, left, scale);
    uint32_t d[4];
    operand_of(d, s[0], s[1]);
#pragma unroll
    for (int n = 0; n < 4; n++) {
        uint32_t b[4];
        ldsm4_turned(b, turned ^ (n << 5));
        mma(dq[2 * n], d, b[0], b[1]);
        mma(dq[2 * n + 1], d, b[2], b[3]);
    }
}

// 16 queries see 16 keys in every turn.
__device__ __forceinline__ void queries_narrow(float (&dq)[8][4], const flash& f, const head& h,
                                               uint32_t k_at, int row, turns turn) {
    asked a;
    ask(a, f, h, row);
#pragma unroll 1
    for (int i = turn.first; i * 16 < f.tokens; i += turn.step) {
        uint32_t keys = k_at + i * TILE + operand_b(h.lane);
        uint32_t turned = k_at + i * TILE + operand_a(h.lane);
        int left = f.tokens - i * 16;
        if (left >= 16)
            ask_16_keys<false>(dq, a, keys, turned, 16, f.scale);
        else
            ask_16_keys<true>(dq, a, keys, turned, left, f.scale);
    }
}

// Gradients of the scores of 8 W keys, from products that begin here. MORE: those of the keys
// before (d) go into dq meanwhile.
enum { ASKED = 4, ASKED_KEYS = 8 * ASKED };  // 32 keys at a time

template <bool MORE>
__device__ __forceinline__ void group_ask(float (&dq)[8][4], uint32_t (&d)[ASKED / 2][4],
                                          const asked& a, uint64_t keys, float scale) {
    float s[ASKED][4], dp[ASKED][4];
    group_begin();
    group_scores(s, a.q, keys);
    group_scores(dp, a.g, keys + (TILE_BYTES >> 4));
    group_commit();
    if (MORE) group_mix(dq, d, keys - ASKED_KEYS * (ROW >> 4));
    group_commit();
    group_wait<1>();
    group_own(s);
    group_own(dp);
    score_slopes<ASKED, false>(s, dp, a, ASKED_KEYS, scale);
    group_wait<0>();
    group_own(dq);
    group_keep(d);
#pragma unroll
    for (int k = 0; k < ASKED / 2; k++) operand_of(d[k], s[2 * k], s[2 * k + 1]);
}

__device__ __forceinline__ void group_ask_last(float (&dq)[8][4], const asked& a, uint64_t keys,
                                               int left, float scale) {
    float s[2][4], dp[2][4];
    uint32_t d[1][4];
    group_begin();
    group_scores(s, a.q, keys);
    group_scores(dp, a.g, keys + (TILE_BYTES >> 4));
    group_commit();
    group_wait<0>();
    group_own(s);
    group_own(dp);
    score_slopes<2, true>(s, dp, a, left, scale);
    operand_of(d[0], s[0], s[1]);
    group_begin();
    group_mix(dq, d, keys);
    group_commit();
    group_wait<0>();
    group_own(dq);
    group_keep(d);
}

__device__ __forceinline__ void queries_wide(const flash& f, const head& h, uint32_t k_at,
                                             float* sums, int row) {
    asked a;
    ask(a, f, h, row);
    float dq[8][4] = {};
    uint32_t d[ASKED / 2][4];
    uint64_t keys = group_operand(k_at);
    const int step = ASKED_KEYS * (ROW >> 4);
    int left = f.tokens;
    if (left >= ASKED_KEYS) {
        group_ask<false>(dq, d, a, keys, f.scale);
#pragma unroll 1
        for (left -= ASKED_KEYS, keys += step; left >= ASKED_KEYS; left -= ASKED_KEYS, keys += step)
            group_ask<true>(dq, d, a, keys, f.scale);
        group_begin();
        group_mix(dq, d, keys - step);
        group_commit();
        group_wait<0>();
        group_own(dq);
        group_keep(d);
    }
#pragma unroll 1
    for (; left > 0; left -= 16, keys += TILE >> 4) group_ask_last(dq, a, keys, left, f.scale);
    finish_asked(f, h, sums, dq, row);
}

enum { QUERIES_ROOM = 2 * TILE_BYTES + FLASH_WARPS * DEPTH * 4 };

// dq, and dy . y of every query. Keys and values are in shared memory.
template <bool GROUPS>
__device__ __forceinline__ void queries(const flash& f) {
    LAUNCHED_ROOM(room);
    uint32_t k_at = shared_address(room);
    float* sums = (float*)(room + 2 * TILE_BYTES);  // a line a warp
    head h(f);
    bring(k_at, f.qkv + h.qkv + h.width, f.stride, f.tokens);
    bring(k_at + TILE_BYTES, f.qkv + h.qkv + 2 * h.width, f.stride, f.tokens);
    clear_sums(sums, FLASH_WARPS);
    brought<GROUPS>();
    for_tiles<GROUPS>(
        h, f.queries, [&](int row) { queries_wide(f, h, k_at, sums, row); },
        [&](int row, turns turn) {
            float dq[8][4] = {};
            queries_narrow(dq, f, h, k_at, row, turn);
            if (!GROUPS) {
                finish_asked(f, h, sums, dq, row);
            } else {
                add_rows(sums + h.warp * DEPTH, dq, row, f.queries, h.lane);
                __syncthreads();
                store_part((float*)room, dq, h);
            }
        },
        [&](int row) {
            join_parts(f.dqkv + h.qkv, f.stride, (const float*)room, 0.125f, row, f.queries);
        });
    store_sums(sums, 0.125f, f.sums + h.sums);
}

// ---- keys and values ----------------------------------------------------------------------------

// What the keys' gradients need of the queries, in shared memory: q, dy behind it, and of every
// query the softmax's sum and dy . y.
struct queried {
    uint32_t q_at;
    const float *mean, *lse;
    float* sums;  // lines of dk, then of dv
};

// Scores of 8 W queries become the weights p, and with dp the scores' gradients d, as operands.
template <int W>
__device__ __forceinline__ void weights(uint32_t (&p)[W / 2][4], float (&s)[W][4], const queried& x,
                                        int query, float scale) {
#pragma unroll
    for (int n = 0; n < W; n++) {
        float2 l = *(const float2*)(x.lse + query + 8 * n + 2 * (threadIdx.x & 3));
#pragma unroll
        for (int i = 0; i < 4; i++) s[n][i] = power2(s[n][i] * scale - (i & 1 ? l.y : l.x));
    }
#pragma unroll
    for (int k = 0; k < W / 2; k++) operand_of(p[k], s[2 * k], s[2 * k + 1]);
}

template <int W>
__device__ __forceinline__ void slopes(uint32_t (&d)[W / 2][4], float (&s)[W][4],
                                       const float (&dp)[W][4], const queried& x, int query) {
#pragma unroll
    for (int n = 0; n < W; n++) {
        float2 c = *(const float2*)(x.mean + query + 8 * n + 2 * (threadIdx.x & 3));
#pragma unroll
        for (int i = 0; i < 4; i++) s[n][i] *= dp[n][i] - (i & 1 ? c.y : c.x);
    }
#pragma unroll
    for (int k = 0; k < W / 2; k++) operand_of(d[k], s[2 * k], s[2 * k + 1]);
}

// 16 keys: k and v as operands, and their gradients.
struct keys_rows {
    uint32_t k[4][4], v[4][4];
    float dk[8][4], dv[8][4];
};

__device__ __forceinline__ void begin_keys(keys_rows& r, const flash& f, const head& h, int row) {
    rows_of(r.k, f.qkv + h.qkv + h.width, f.stride, row, f.tokens, h.lane);
    rows_of(r.v, f.qkv + h.qkv + 2 * h.width, f.stride, row, f.tokens, h.lane);
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) r.dk[n][i] = r.dv[n][i] = 0;
}

__device__ __forceinline__ void add_keys(const keys_rows& r, const flash& f, const head& h,
                                         const queried& x, int row) {
    float* line = x.sums + h.warp * DEPTH;
    add_rows(line, r.dk, row, f.tokens, h.lane);
    add_rows(line + FLASH_WARPS * DEPTH, r.dv, row, f.tokens, h.lane);
}

__device__ __forceinline__ void finish_keys(const keys_rows& r, const flash& f, const head& h,
                                            const queried& x, int row) {
    bf16* to = f.dqkv + h.qkv + h.width;
    add_keys(r, f, h, x, row);
    store_tile(to, f.stride, r.dk, {0.125f, 0.125f}, row, f.tokens, h.lane);
    store_tile(to + h.width, f.stride, r.dv, {1.0f, 1.0f}, row, f.tokens, h.lane);
}

// 16 keys see 16 queries in every turn.
__device__ __forceinline__ void keys_narrow(keys_rows& r, const flash& f, const head& h,
                                            const queried& x, int row, turns turn) {
    begin_keys(r, f, h, row);
#pragma unroll 1
    for (int t = turn.first; t * 16 < f.queries; t += turn.step) {
        uint32_t at = x.q_at + t * TILE + operand_b(h.lane);
        uint32_t turned = x.q_at + t * TILE + operand_a(h.lane);
        float s[2][4] = {}, dp[2][4] = {};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t b[4];
            ldsm4(b, at ^ (i << 5));
            mma(s[0], r.k[i], b[0], b[1]);
            mma(s[1], r.k[i], b[2], b[3]);
            ldsm4(b, (at ^ (i << 5)) + TILE_BYTES);
            mma(dp[0], r.v[i], b[0], b[1]);
            mma(dp[1], r.v[i], b[2], b[3]);
        }
        uint32_t p[1][4], d[1][4];
        weights<2>(p, s, x, t * 16, f.scale);
        slopes<2>(d, s, dp, x, t * 16);
#pragma unroll
        for (int n = 0; n < 4; n++) {
            uint32_t b[4];
            ldsm4_turned(b, (turned ^ (n << 5)) + TILE_BYTES);
            mma(r.dv[2 * n], p[0], b[0], b[1]);
            mma(r.dv[2 * n + 1], p[0], b[2], b[3]);
            ldsm4_turned(b, turned ^ (n << 5));
            mma(r.dk[2 * n], d[0], b[0], b[1]);
            mma(r.dk[2 * n + 1], d[0], b[2], b[3]);
        }
    }
}

// Sees 8 W queries: weights while the products with v go on.
template <int W>
__device__ __forceinline__ void group_keys(keys_rows& r, const queried& x, int query, float scale) {
    uint64_t at = group_operand(x.q_at + query * ROW);
    float s[W][4], dp[W][4];
    uint32_t p[W / 2][4], d[W / 2][4];
    group_begin();
    group_scores(s, r.k, at);
    group_commit();
    group_scores(dp, r.v, at + (TILE_BYTES >> 4));
    group_commit();
    group_wait<1>();
    group_own(s);
    weights<W>(p, s, x, query, scale);
    group_begin();
    group_mix(r.dv, p, at + (TILE_BYTES >> 4));
    group_commit();
    group_wait<1>();
    group_own(dp);
    slopes<W>(d, s, dp, x, query);
    group_begin();
    group_mix(r.dk, d, at);
    group_commit();
    group_wait<0>();
    group_own(r.dv);
    group_own(r.dk);
    group_keep(p);
    group_keep(d);
}

enum { SEEN = 4 };  // 32 queries at a time

__device__ __forceinline__ void keys_wide(const flash& f, const head& h, const queried& x,
                                          int row) {
    keys_rows r;
    begin_keys(r, f, h, row);
    int query = 0;
#pragma unroll 1
    for (; query + 8 * SEEN <= f.queries; query += 8 * SEEN) group_keys<SEEN>(r, x, query, f.scale);
#pragma unroll 1
    for (; query < f.queries; query += 16) group_keys<2>(r, x, query, f.scale);
    finish_keys(r, f, h, x, row);
}

enum { KEYS_ROOM = 2 * TILE_BYTES + (2 * ROWS + 2 * FLASH_WARPS * DEPTH) * 4 };

// dk and dv, after queries(). Queries and dy are in shared memory.
template <bool GROUPS>
__device__ __forceinline__ void keys(const flash& f) {
    LAUNCHED_ROOM(room);
    float *mean = (float*)(room + 2 * TILE_BYTES), *lse = mean + ROWS, *sums = lse + ROWS;
    queried x = {shared_address(room), mean, lse, sums};
    head h(f);
    bring(x.q_at, f.qkv + h.qkv, f.stride, f.queries);
    bring(x.q_at + TILE_BYTES, f.dy + h.y, h.width, f.queries);
    clear_sums(sums, 2 * FLASH_WARPS);
    // queries that are not there have probability 0 everywhere
    for (int i = threadIdx.x; i < ROWS; i += blockDim.x) {
        lse[i] = i < f.queries ? f.lse[h.rows + i] : INFINITY;
        mean[i] = i < f.queries ? f.mean[h.rows + i] : 0;
    }
    brought<GROUPS>();
    float* parts[2] = {(float*)room, (float*)room + FLASH_WARPS * PART};
    for_tiles<GROUPS>(
        h, f.tokens, [&](int row) { keys_wide(f, h, x, row); },
        [&](int row, turns turn) {
            keys_rows r;
            keys_narrow(r, f, h, x, row, turn);
            if (!GROUPS) {
                finish_keys(r, f, h, x, row);
            } else {
                add_keys(r, f, h, x, row);
                __syncthreads();
                store_part(parts[0], r.dk, h);
                store_part(parts[1], r.dv, h);
            }
        },
        [&](int row) {
            bf16* to = f.dqkv + h.qkv + h.width;
            join_parts(to, f.stride, parts[0], 0.125f, row, f.tokens);
            join_parts(to + h.width, f.stride, parts[1], 1, row, f.tokens);
        });
    store_sums(sums, 0.125f, f.sums + h.sums + h.width);
    store_sums(sums + FLASH_WARPS * DEPTH, 1.0f, f.sums + h.sums + 2 * h.width);
}

}  // namespace

#endif
