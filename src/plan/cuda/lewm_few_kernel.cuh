// lewm_few_kernel.cuh - a rollout of few candidates: attention and MLP by a cluster's blocks, their
// parts on their way to the rows' owners, and the kernel.
#ifndef PLAN_CUDA_LEWM_FEW_KERNEL_CUH
#define PLAN_CUDA_LEWM_FEW_KERNEL_CUH

#include "plan/cuda/lewm_few_rows.cuh"

namespace lewm_few {

// ---- a branch -----------------------------------------------------------------------------------

// until the operands of so many slots are there
static __device__ __forceinline__ void operands_wait(standing& s, int slots) {
    const uint32_t at = barrier_at(s, OPERANDS);
    if (refills()) barrier_expect(at, slots * s.count * ROW);
    barrier_wait(at, s.products++ & 1);
    group_publish();  // what others put here, too
}

// This block's part of so many slots' rows, to the rows' owners: warpgroup i has column block i. A
// thread's rows are all of the same owner.
template <int N>
static __device__ __forceinline__ void send_parts(const standing& s, const float (&d)[N][4],
                                                  int slots) {
    const uint32_t lines = s.a + (uint32_t)(s.group * COLUMN);
    put_rows(d, s, lines, make_float2(0, 0), true, same);
    some_meet(1 + s.group, 128);
    const int thread = s.warp % 4 * 32 + s.lane, owner = thread / 8, piece = thread % 8;
    if (thread < OWN_ROWS && thread % CONTEXT < slots &&
        thread / CONTEXT * BLOCKS + s.rank < s.count)
        barrier_arrive(barrier_at(s, ROWS + thread));  // this block's own rows
    if (owner == s.rank) return;
    const int source = s.rank < owner ? s.rank : s.rank - 1;
    const uint32_t to = far_of(s.parts + (uint32_t)(source * ROW + s.group * LINE + piece * 16),
                               owner),
                   barrier = far_of(barrier_at(s, ROWS), owner);
#pragma unroll 1
    for (int slot = 0; slot < slots; slot++)
#pragma unroll
        for (int k = 0; k < OWN; k++) {
            const int c = k * BLOCKS + owner, w = k * CONTEXT + slot;
            if (c >= s.count) break;
            put_far(to + (uint32_t)(w * OTHERS * ROW),
                    take16(lines + (uint32_t)((slot * s.each + c) * LINE + piece * 16)),
                    barrier + (uint32_t)w * 8);
        }
}

// The second product, `count` pieces a warpgroup of the rows in h, and its parts.
template <int COUNT, int N>
static __device__ __forceinline__ void second(const few_args& g, standing& s, int slots) {
    float d[N][4];
    product<COUNT>(d, s, s.group, GROUPS, s.h);
    finish(d);
    release(g, s, COUNT * GROUPS);
    send_parts(s, d, slots);
}

// ---- MLP ----------------------------------------------------------------------------------------

static __device__ __forceinline__ void mlp(const few_args& g, standing& s, int block, int slots) {
    const float* bias = g.up_bias[block] + s.rank * UNITS;
    if (slots > 1) {  // every warpgroup a third of the rows
        const float2 b[2] = {biases(s, bias), biases(s, bias + 64)};
        const uint32_t third = (uint32_t)(s.group * FEW * 8 * LINE);
        float d[2][FEW][4];
#pragma unroll
        for (int i = 0; i < 2; i++) product<COLUMNS>(d[i], s, i, 2, s.a + third);
        finish(d[0]);
        group_own(d[1]);
        release(g, s, UP);
#pragma unroll
        for (int i = 0; i < 2; i++)
            put_rows(d[i], s, s.h + (uint32_t)(i * COLUMN) + third, b[i],
                     (s.group + 1) * FEW <= MANY, gelu);
    } else if (s.group < 2) {  // half of the units
        const float2 b = biases(s, bias + s.group * 64);
        float d[FEW][4];
        product<COLUMNS>(d, s, s.group, 2, s.a);
        finish(d);
        release(g, s, UP);
        put_rows(d, s, s.h + (uint32_t)(s.group * COLUMN), b, true, gelu);
    } else {
        release(g, s, UP);
    }
    group_publish();
    __syncthreads();
    if (slots > 1)
        second<UNITS / 64, MANY>(g, s, slots);
    else
        second<UNITS / 64, FEW>(g, s, slots);
}

// ---- attention ----------------------------------------------------------------------------------

// keys or values of a token that is in the window of later steps, while it grows
static __device__ __forceinline__ bf16* kept(const few_args& g, const standing& s, int block,
                                             int token, int part, int c) {
    const size_t own = (size_t)(s.cluster * BLOCKS + s.rank) * g.r.s.depth + block;
    return g.kept + (((own * (CONTEXT - 1) + token) * 2 + part) * s.each + c) * HEAD;
}

// eight threads a candidate
static __device__ __forceinline__ int candidate_of(void) {
    return (int)threadIdx.x / 8;
}

// Keys and values of this thread's candidate and piece, of the tokens before.
struct earlier {
    uint4 v[CONTEXT - 1][2];
};
static __device__ __forceinline__ void fetch_kept(earlier& e, const few_args& g, const standing& s,
                                                  int block, int tokens) {
    const int c = candidate_of(), piece = s.lane % 8;
    if (c >= s.count) return;
#pragma unroll
    for (int token = 0; token < CONTEXT - 1; token++)
#pragma unroll
        for (int part = 0; part < 2; part++)
            if (token < tokens)
                e.v[token][part] = fresh16(kept(g, s, block, token, part, c) + piece * 8);
}
static __device__ __forceinline__ void keep(const few_args& g, const standing& s, int block,
                                            int token) {
    const int c = candidate_of(), piece = s.lane % 8;
    if (c >= s.count) return;
    for (int part = 0; part < 2; part++)
        *(uint4*)(kept(g, s, block, token, part, c) + piece * 8) =
            take16(s.h + (uint32_t)((1 + part) * COLUMN) + piece_at(c, piece));
}

static __device__ __forceinline__ void eight_of(float (&x)[EIGHT], uint4 v) {
    const uint32_t w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 p = unpack2(w[i]);
        x[2 * i] = p.x, x[2 * i + 1] = p.y;
    }
}

// A candidate's window of T tokens: the last token's result, or all tokens'. Results take the
// queries' places in h. KEPT: only the last token is in h.
template <int T, bool ALL, bool KEPT>
static __device__ __forceinline__ void attend(const standing& s, const earlier& e) {
    const int c = candidate_of(), piece = s.lane % 8;
    const bool there = c < s.count;
    float key[T][EIGHT], value[T][EIGHT];
    auto place_of = [&](int part, int token) {
        const int slot = token == T - 1 ? 0 : token + 1;
        return s.h + (uint32_t)(part * COLUMN) + piece_at(slot * s.each + (there ? c : 0), piece);
    };
#pragma unroll
    for (int i = 0; i < T; i++) {
        const bool old = KEPT && i < T - 1;
        eight_of(key[i], old ? e.v[i][0] : take16(place_of(1, i)));
        eight_of(value[i], old ? e.v[i][1] : take16(place_of(2, i)));
    }
#pragma unroll
    for (int i = ALL ? 0 : T - 1; i < T; i++) {
        float q[EIGHT], dot[T], out[EIGHT], sum = 0, top = -INFINITY;
        eight_of(q, take16(place_of(0, i)));
#pragma unroll
        for (int j = 0; j <= i; j++) {
            dot[j] = 0;
#pragma unroll
            for (int k = 0; k < EIGHT; k++) dot[j] = fmaf(q[k], key[j][k], dot[j]);
        }
#pragma unroll
        for (int o = 4; o; o /= 2)
#pragma unroll
            for (int j = 0; j <= i; j++) dot[j] += __shfl_xor_sync(~0u, dot[j], o);
#pragma unroll
        for (int j = 0; j <= i; j++) top = fmaxf(top, dot[j]);
#pragma unroll
        for (int k = 0; k < EIGHT; k++) out[k] = 0;
#pragma unroll
        for (int j = 0; j <= i; j++) {
            // log2(e) / sqrt(HEAD); what is not finite must stay so
            const float w = power2((dot[j] - top) * 0.18033688f) + 0.0f * dot[j];
            sum += w;
#pragma unroll
            for (int k = 0; k < EIGHT; k++) out[k] = fmaf(w, value[j][k], out[k]);
        }
        const float scale = 1.0f / sum;
        uint32_t r[4];
#pragma unroll
        for (int k = 0; k < 4; k++) r[k] = pack2(out[2 * k] * scale, out[2 * k + 1] * scale);
        if (there) put16(place_of(0, i), make_uint4(r[0], r[1], r[2], r[3]));
    }
}

// q, k or v of this block's head
template <int N>
static __device__ __forceinline__ void project(const few_args& g, standing& s, int block) {
    // a bias of the keys moves all scores of a query alike and changes nothing
    const float* bias = g.qkv_bias[block] + s.group * g.r.s.inner + s.rank * HEAD;
    const float2 b = s.group == 1 ? make_float2(0, 0) : biases(s, bias);
    float d[N][4];
    product<COLUMNS>(d, s, s.group, GROUPS, s.a);
    finish(d);
    release(g, s, QKV);
    put_rows(d, s, s.h + (uint32_t)(s.group * COLUMN), b, true, same);
}

// `slots` come in, `passing` of them go on.
static __device__ __forceinline__ void attention(const few_args& g, standing& s, int block, int t,
                                                 int slots, int passing) {
    earlier e;
    if (slots > 1) {
        project<MANY>(g, s, block);
    } else {
        fetch_kept(e, g, s, block, t);
        project<FEW>(g, s, block);
    }
    __syncthreads();
    if (t < CONTEXT - 1) keep(g, s, block, t);
    if (t == 0)
        attend<1, false, true>(s, e);
    else if (t == 1)
        attend<2, false, true>(s, e);
    else if (t == 2)
        attend<3, false, true>(s, e);
    else if (passing == 1)
        attend<3, false, false>(s, e);
    else
        attend<3, true, false>(s, e);
    group_publish();
    __syncthreads();
    if (passing > 1)
        second<1, MANY>(g, s, passing);
    else
        second<1, FEW>(g, s, passing);
}

// ---- the kernel ---------------------------------------------------------------------------------

static __device__ __forceinline__ void step(const few_args& g, standing& s, int t) {
    const int depth = g.r.s.depth, slides = t >= CONTEXT, last = slides ? CONTEXT - 1 : t,
              slots = slides ? CONTEXT : 1;
    row_pairs<PAIRS> x;
    gated w;
    place(g, s, {t, 0, 0, last, slots}, x);
#pragma unroll 1
    for (int b = 0; b < depth; b++) {
        const int passing = b == depth - 1 ? 1 : slots;
        const gate_of first = {t, b, 0, last, passing}, then = {t, b, 1, last, passing};
        gate_fetch(w, g, s, first);
        operands_wait(s, slots);
        attention(g, s, b, t, slots, passing);
        gate(g, s, first, w, x);
        gate_fetch(w, g, s, then);
        operands_wait(s, passing);
        mlp(g, s, b, passing);
        gate(g, s, then, w, x);
    }
    operands_wait(s, 1);
    mlp(g, s, depth, 1);
}

__global__ void __launch_bounds__(THREADS, 1) lewm_few_kernel(const __grid_constant__ few_args g) {
#if defined __CUDA_ARCH_FEAT_SM90_ALL || !defined __CUDACC__
    LAUNCHED_ROOM(room);
    const uint32_t base = shared_address(room);
    standing s = {};
    s.rank = block_in_cluster();
    s.cluster = (int)blockIdx.x / BLOCKS;
    s.each = g.each;
    s.first_row = s.cluster * g.each;
    s.count = g.r.rows - s.first_row < g.each ? g.r.rows - s.first_row : g.each;
    s.warp = uniform((int)threadIdx.x / 32);  // products in a branch want to know
    s.lane = (int)threadIdx.x % 32, s.group = s.warp / 4;
    s.a = base + AT_A, s.h = base + AT_H, s.ring = base + AT_RING;
    s.parts = base + AT_PARTS, s.barriers = base + AT_BARRIERS;
    s.pieces = g.r.horizon * pieces_of_step(g.r.s.depth);
    if (threadIdx.x == 0) {
        for (int i = 0; i < ROWS; i++) barrier_make(barrier_at(s, i), 1);
        for (int i = 0; i < OWN_ROWS; i++) barrier_make(barrier_at(s, ROWS + i), 1 + GROUPS);
        barriers_made();
    }
    __syncthreads();
    if (refills()) refill(g, s);
    cluster_meets();
#pragma unroll 1
    for (int t = 0; t < g.r.horizon; t++) step(g, s, t);
    const own_row o = own_of(s, 1);
    if (o.there) newest(g, s, o, g.r.horizon - 1);
    cluster_meets();
#endif
}

}  // namespace lewm_few

#endif
