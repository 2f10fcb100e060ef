// flash_forward.cuh - attention forward: a block per group and head with keys and values in shared
// memory. A warpgroup takes 64 queries and sees 64 keys at a time under a running softmax: while it
// weighs them, the products of the weights before go on. A warp takes 16 queries, 32 keys at a time.
#ifndef NN_CUDA_FLASH_FORWARD_CUH
#define NN_CUDA_FLASH_FORWARD_CUH

#include "nn/cuda/flash_rows.cuh"

namespace {

// What a warp knows of its 16 queries: a lane has parts of rows lane / 4 and 8 more. Weights are
// relative to 2^most, which may lag behind the highest score by LAG: no weight gets too large.
struct softmax {
    float y[8][4], most[2], total[2];
};

#define LAG 8.0f

// Scores of 8 W keys become weights. LAST: `left` of the keys are there. Returns whether `most` has
// changed: then y must shrink, which adjust() does.
template <int W, bool LAST>
__device__ __forceinline__ bool weigh(softmax& t, float (&s)[W][4], float (&shrink)[2], int left,
                                      float scale) {
    float high[2] = {-INFINITY, -INFINITY};
#pragma unroll
    for (int n = 0; n < W; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int key = 8 * n + 2 * (threadIdx.x & 3) + (i & 1);
            if (LAST && key >= left) s[n][i] = -INFINITY;
            high[i >> 1] = fmaxf(high[i >> 1], s[n][i]);
        }
    bool moved = __any_sync(0xffffffffu, high[0] * scale > t.most[0] + LAG ||
                                             high[1] * scale > t.most[1] + LAG);
    if (moved) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            high[r] = fmaxf(high[r], __shfl_xor_sync(0xffffffffu, high[r], 1));
            high[r] = fmaxf(high[r], __shfl_xor_sync(0xffffffffu, high[r], 2)) * scale;
            high[r] = fmaxf(high[r], t.most[r]);
            shrink[r] = power2(t.most[r] - high[r]);
            t.most[r] = high[r];
            t.total[r] *= shrink[r];
        }
    }
#pragma unroll
    for (int n = 0; n < W; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[n][i] = power2(s[n][i] * scale - t.most[i >> 1]);
            t.total[i >> 1] += s[n][i];
        }
    return moved;
}

__device__ __forceinline__ void adjust(softmax& t, const float (&shrink)[2]) {
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) t.y[n][i] *= shrink[i >> 1];
}

// Writes what 16 queries from `row` on have seen.
__device__ __forceinline__ void finish_queries(const flash& f, const head& h, const softmax& t,
                                               int row) {
    float by[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float total = t.total[r];
        total += __shfl_xor_sync(0xffffffffu, total, 1);
        total += __shfl_xor_sync(0xffffffffu, total, 2);
        by[r] = 1.0f / total;
        int at = row + (h.lane >> 2) + 8 * r;
        if (at < f.queries && (h.lane & 3) == 0) f.lse[h.rows + at] = t.most[r] + log2f(total);
    }
    store_tile(f.y + h.y, h.width, t.y, by, row, f.queries, h.lane);
}

// ---- a warp: 16 queries -------------------------------------------------------------------------

// Sees 16 G keys.
template <int G, bool LAST>
__device__ __forceinline__ void attend(softmax& t, const uint32_t (&q)[4][4], uint32_t keys,
                                       uint32_t values, int left, float scale) {
    float s[2 * G][4] = {}, shrink[2];
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
        for (int n = 0; n < G; n++) {
            uint32_t b[4];
            ldsm4(b, (keys ^ (k << 5)) + n * TILE);
            mma(s[2 * n], q[k], b[0], b[1]);
            mma(s[2 * n + 1], q[k], b[2], b[3]);
        }
    if (weigh<2 * G, LAST>(t, s, shrink, left, scale)) adjust(t, shrink);
#pragma unroll
    for (int k = 0; k < G; k++) {
        uint32_t p[4];
        operand_of(p, s[2 * k], s[2 * k + 1]);
#pragma unroll
        for (int n = 0; n < 4; n++) {
            uint32_t b[4];
            ldsm4_turned(b, (values ^ (n << 5)) + k * TILE);
            mma(t.y[2 * n], p, b[0], b[1]);
            mma(t.y[2 * n + 1], p, b[2], b[3]);
        }
    }
}

__device__ __forceinline__ void forward_narrow(const flash& f, const head& h, uint32_t k_at,
                                               int row) {
    uint32_t q[4][4], keys = k_at + operand_b(h.lane), values = k_at + TILE_BYTES +
                                                                operand_a(h.lane);
    rows_of(q, f.qkv + h.qkv, f.stride, row, f.queries, h.lane);
    softmax t = {{}, {-INFINITY, -INFINITY}, {0, 0}};
    int left = f.tokens;
    for (; left >= 32; left -= 32, keys += 2 * TILE, values += 2 * TILE)
        attend<2, false>(t, q, keys, values, 32, f.scale);
    if (left > 16)
        attend<2, true>(t, q, keys, values, left, f.scale);
    else if (left > 0)
        attend<1, true>(t, q, keys, values, left, f.scale);
    finish_queries(f, h, t, row);
}

// ---- a warpgroup: 64 queries --------------------------------------------------------------------

// Sees 64 keys. p: the weights of the 64 before, whose values are still to be added (MORE), and then
// those of these.
template <bool MORE>
__device__ __forceinline__ void group_attend(softmax& t, uint32_t (&p)[4][4],
                                             const uint32_t (&q)[4][4], uint64_t keys,
                                             uint64_t values, float scale) {
    float s[8][4], shrink[2];
    group_begin();
    group_scores(s, q, keys);
    group_commit();
    if (MORE) group_mix(t.y, p, values - 64 * (ROW >> 4));
    group_commit();
    group_wait<1>();
    group_own(s);
    bool moved = weigh<8, false>(t, s, shrink, 64, scale);
    group_wait<0>();
    group_own(t.y);
    group_keep(p);
    if (moved) adjust(t, shrink);
#pragma unroll
    for (int k = 0; k < 4; k++) operand_of(p[k], s[2 * k], s[2 * k + 1]);
}

// Sees up to 16 keys, the last ones.
__device__ __forceinline__ void group_attend_last(softmax& t, const uint32_t (&q)[4][4],
                                                  uint64_t keys, uint64_t values, int left,
                                                  float scale) {
    float s[2][4], shrink[2];
    uint32_t p[1][4];
    group_begin();
    group_scores(s, q, keys);
    group_commit();
    group_wait<0>();
    group_own(s);
    group_own(t.y);
    if (weigh<2, true>(t, s, shrink, left, scale)) adjust(t, shrink);
    operand_of(p[0], s[0], s[1]);
    group_begin();
    group_mix(t.y, p, values);
    group_commit();
    group_wait<0>();
    group_own(t.y);
    group_keep(p);
}

__device__ __forceinline__ void forward_wide(const flash& f, const head& h, uint32_t k_at,
                                             int row) {
    uint32_t q[4][4], p[4][4];
    rows_of(q, f.qkv + h.qkv, f.stride, row, f.queries, h.lane);
    softmax t = {{}, {-INFINITY, -INFINITY}, {0, 0}};
    uint64_t keys = group_operand(k_at), values = group_operand(k_at + TILE_BYTES);
    const int step = 64 * (ROW >> 4);
    int left = f.tokens;
    if (left >= 64) {
        group_attend<false>(t, p, q, keys, values, f.scale);
#pragma unroll 1
        for (left -= 64, keys += step, values += step; left >= 64;
             left -= 64, keys += step, values += step)
            group_attend<true>(t, p, q, keys, values, f.scale);
        group_begin();
        group_mix(t.y, p, values - step);
        group_commit();
        group_wait<0>();
        group_own(t.y);
        group_keep(p);
    }
#pragma unroll 1
    for (; left > 0; left -= 16, keys += TILE >> 4, values += TILE >> 4)
        group_attend_last(t, q, keys, values, left, f.scale);
    finish_queries(f, h, t, row);
}

// ---- a block ------------------------------------------------------------------------------------

enum { FORWARD_ROOM = 2 * TILE_BYTES };

template <bool GROUPS>
__device__ __forceinline__ void forward(const flash& f) {
    LAUNCHED_ROOM(room);
    uint32_t k_at = shared_address(room);
    head h(f);
    bring(k_at, f.qkv + h.qkv + h.width, f.stride, f.tokens);
    bring(k_at + TILE_BYTES, f.qkv + h.qkv + 2 * h.width, f.stride, f.tokens);
    brought<GROUPS>();
    for_tiles<GROUPS>(
        h, f.queries, [&](int row) { forward_wide(f, h, k_at, row); },
        [&](int row) { forward_narrow(f, h, k_at, row); });
}

}  // namespace

#endif
