// flash_forward.cuh - attention forward: a block per group and head with keys and values in shared
// memory. A warpgroup takes 64 queries and sees 64 keys at a time under a running softmax: while it
// weighs them, the products of the weights before go on. The 257th query's keys are shared among
// the warps. Without warpgroups a warp takes 16 queries, 32 keys at a time.
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
    bool moved = __any_sync(0xffffffffu,
                            high[0] * scale > t.most[0] + LAG || high[1] * scale > t.most[1] + LAG);
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

__device__ __forceinline__ void add_lanes(float (&total)[2]) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        total[r] += __shfl_xor_sync(0xffffffffu, total[r], 1);
        total[r] += __shfl_xor_sync(0xffffffffu, total[r], 2);
    }
}

// Writes what 16 queries from `row` on have seen.
__device__ __forceinline__ void finish_queries(const flash& f, const head& h, softmax& t, int row) {
    add_lanes(t.total);
    float by[2] = {1.0f / t.total[0], 1.0f / t.total[1]};
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int at = row + (h.lane >> 2) + 8 * r;
        if (at < f.queries && (h.lane & 3) == 0) f.lse[h.rows + at] = t.most[r] + log2f(t.total[r]);
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

// 16 queries see 32 keys in every turn.
__device__ __forceinline__ void forward_narrow(softmax& t, const flash& f, const head& h,
                                               uint32_t k_at, int row, turns turn) {
    uint32_t q[4][4];
    rows_of(q, f.qkv + h.qkv, f.stride, row, f.queries, h.lane);
#pragma unroll 1
    for (int i = turn.first; i * 32 < f.tokens; i += turn.step) {
        uint32_t keys = k_at + i * 2 * TILE + operand_b(h.lane);
        uint32_t values = k_at + TILE_BYTES + i * 2 * TILE + operand_a(h.lane);
        int left = f.tokens - i * 32;
        if (left >= 32)
            attend<2, false>(t, q, keys, values, 32, f.scale);
        else if (left > 16)
            attend<2, true>(t, q, keys, values, left, f.scale);
        else
            attend<1, true>(t, q, keys, values, left, f.scale);
    }
}

// Parts of y, then for every row of a part its highest score and its total.
enum { FORWARD_PARTS = FLASH_WARPS * PART };

__device__ __forceinline__ void store_seen(float* parts, softmax& t, const head& h) {
    store_part(parts, t.y, h);
    add_lanes(t.total);
    float2* of = (float2*)(parts + FORWARD_PARTS) + h.warp * 16 + (h.lane >> 2);
    if ((h.lane & 3) == 0) {
        of[0] = make_float2(t.most[0], t.total[0]);
        of[8] = make_float2(t.most[1], t.total[1]);
    }
}

// Parts become relative to the highest score of all and are divided by the total of all; a thread
// takes eight columns of a row, as in join_parts.
__device__ __forceinline__ void level_parts(float* parts, const flash& f, const head& h, int row) {
    const float2* of = (const float2*)(parts + FORWARD_PARTS) + threadIdx.x / 8;
    float most = -INFINITY, total = 0;
    for (int w = 0; w < FLASH_WARPS; w++) most = fmaxf(most, of[w * 16].x);
    for (int w = 0; w < FLASH_WARPS; w++) total += of[w * 16].y * power2(of[w * 16].x - most);
    for (int w = 0; w < FLASH_WARPS; w++) {
        float by = power2(of[w * 16].x - most) / total;
        float* x = parts + w * PART + (int)threadIdx.x / 8 * DEPTH + (int)threadIdx.x % 8 * 8;
        for (int i = 0; i < 8; i++) x[i] *= by;
    }
    int at = row + (int)threadIdx.x / 8;
    if (at < f.queries && threadIdx.x % 8 == 0) f.lse[h.rows + at] = most + log2f(total);
}

// ---- a warpgroup: 64 queries --------------------------------------------------------------------

// Sees 64 keys. p: the weights of the 64 before, whose values are still to be added (MORE), and
// then those of these.
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
        [&](int row, turns turn) {
            softmax t = {{}, {-INFINITY, -INFINITY}, {0, 0}};
            forward_narrow(t, f, h, k_at, row, turn);
            if (!GROUPS) {
                finish_queries(f, h, t, row);
            } else {
                __syncthreads();
                store_seen((float*)room, t, h);
            }
        },
        [&](int row) {
            level_parts((float*)room, f, h, row);
            join_parts(f.y + h.y, h.width, (const float*)room, 1, row, f.queries);
        });
}

}  // namespace

#endif
