// lewm_few_rows.cuh - what a row's owner does in a rollout of few candidates: parts added up, the
// gate, norms, and the next operands handed out; and how tokens begin and latents end.
#ifndef PLAN_CUDA_LEWM_FEW_ROWS_CUH
#define PLAN_CUDA_LEWM_FEW_ROWS_CUH

#include "plan/cuda/lewm_few.cuh"

namespace lewm_few {

// A warp's row: of slot warp % 3.
typedef struct own_row {
    int k, slot, n, row;  // of the block's candidates; of the cluster; of the search
    bool there;
} own_row;

static __device__ __forceinline__ own_row own_of(const standing& s, int slots) {
    const int k = s.warp / CONTEXT, slot = s.warp % CONTEXT, c = k * BLOCKS + s.rank;
    return {k, slot, slot * s.each + c, s.first_row + c,
            s.warp < OWN_ROWS && slot < slots && c < s.count};
}

// numbers of a row that a lane has, as they travel: column(k) and the next
static __device__ __forceinline__ uint32_t word_of(const standing& s, int n) {
    return (uint32_t)(((s.lane / 4) ^ (n & 7)) * 16 + s.lane % 4 * 4);
}
static __device__ __forceinline__ uint32_t parts_of(const standing& s) {
    return s.parts + (uint32_t)(s.warp * OTHERS * ROW);
}

// A chunk of the modulation, without and with its bias.
struct raw_chunk {
    uint32_t v[PAIRS];
    float2 bias[PAIRS];
};
static __device__ __forceinline__ raw_chunk fetch_chunk(const rows_args& r, int t, int row,
                                                        int block, int i) {
    raw_chunk c;
    const int at = (block * LEWM_CHUNKS + i) * WIDTH;
    const bf16* mod = (const bf16*)r.mod + ((size_t)t * r.rows + row) * r.s.modulation + at;
#pragma unroll
    for (int k = 0; k < PAIRS; k++) {
        c.v[k] = fetch4(mod + column(k));
        c.bias[k] = fetch8(r.mod_bias + at + column(k));
    }
    return c;
}
static __device__ __forceinline__ row_pairs<PAIRS> chunk_of(const raw_chunk& c) {
    row_pairs<PAIRS> x;
#pragma unroll
    for (int k = 0; k < PAIRS; k++) {
        const float2 v = unpack2(c.v[k]);
        x.v[k] = make_float2(v.x + c.bias[k].x, v.y + c.bias[k].y);
    }
    return x;
}

// What a gate needs beside the parts: read long before the parts are there.
struct gated {
    raw_chunk by, shift, scale;
    float2 bias[PAIRS];
};

// what a row's gate is: step, block, branch (0 of the attention, 1 of the MLP), last token, slots
// that pass
typedef struct gate_of {
    int t, block, branch, last, slots;
} gate_of;

// the macro step whose action a slot's token has
static __device__ __forceinline__ int step_of(const gate_of& k, int slot) {
    return slot ? k.t - k.last + slot - 1 : k.t;
}

static __device__ __forceinline__ void gate_fetch(gated& v, const few_args& g, const standing& s,
                                                  const gate_of& k) {
    const own_row o = own_of(s, k.slots);
    if (!o.there) return;
    const rows_args& r = g.r;
    const int from = step_of(k, o.slot), next = k.block + k.branch;
    v.by = fetch_chunk(r, from, o.row, k.block, k.branch ? 5 : 2);
    if (next < r.s.depth) {
        v.shift = fetch_chunk(r, from, o.row, next, k.branch ? 0 : 3);
        v.scale = fetch_chunk(r, from, o.row, next, k.branch ? 1 : 4);
    }
    const float* bias = k.branch ? g.down_bias[k.block] : g.out_bias[k.block];
#pragma unroll
    for (int i = 0; i < PAIRS; i++) v.bias[i] = fetch8(bias + column(i));
}

// Waits for the parts of this warp's row.
static __device__ __forceinline__ void parts_wait(standing& s) {
    const uint32_t at = barrier_at(s, ROWS + s.warp);
    if (s.lane == 0) barrier_expect(at, OTHERS * ROW);
    __syncwarp();
    barrier_wait(at, s.own++ & 1);
}

// The sum of all parts of this warp's row: its block's own, then the others' in their order.
static __device__ __forceinline__ row_pairs<PAIRS> sum_parts(const standing& s, const own_row& o) {
    const uint32_t word = word_of(s, o.n), own = s.a + (uint32_t)(o.n * LINE) + word,
                   parts = parts_of(s) + word;
    row_pairs<PAIRS> v;
#pragma unroll
    for (int k = 0; k < PAIRS; k++) v.v[k] = unpack2(take4(own + (uint32_t)(k * COLUMN)));
#pragma unroll
    for (int i = 0; i < OTHERS; i++)
#pragma unroll
        for (int k = 0; k < PAIRS; k++) {
            const float2 p = unpack2(take4(parts + (uint32_t)(i * ROW + k * LINE)));
            v.v[k].x += p.x, v.v[k].y += p.y;
        }
    return v;
}

// A row's operands, to all blocks of the cluster. They are put in order where parts of the row
// were.
static __device__ __forceinline__ void hand_out(const standing& s, const own_row& o,
                                                const row_pairs<PAIRS>& x) {
    const uint32_t room = parts_of(s), word = word_of(s, o.n);
    __syncwarp();
#pragma unroll
    for (int k = 0; k < PAIRS; k++)
        put4(room + (uint32_t)(k * LINE) + word, pack2(x.v[k].x, x.v[k].y));
    __syncwarp();
    if (s.lane >= ROW / 16) return;
    const uint4 v = take16(room + (uint32_t)s.lane * 16);
    const uint32_t to = s.a + (uint32_t)(s.lane / 8 * COLUMN + o.n * LINE + s.lane % 8 * 16),
                   barrier = barrier_at(s, OPERANDS);
#pragma unroll 4
    for (int i = 0; i < BLOCKS; i++) {
        const int block = (s.rank + i) % BLOCKS;
        put_far(far_of(to, block), v, far_of(barrier, block));
    }
}

// LN(x; eps). Both sums at once, since the next product waits for them: good to five digits unless
// a row's mean is some 30 times its spread.
static __device__ __forceinline__ void standard(row_pairs<PAIRS>& x, float eps) {
    float sum = 0, square = 0;
#pragma unroll
    for (int k = 0; k < PAIRS; k++) {
        sum += x.v[k].x + x.v[k].y;
        square = fmaf(x.v[k].x, x.v[k].x, fmaf(x.v[k].y, x.v[k].y, square));
    }
#pragma unroll
    for (int k = 16; k; k /= 2) {
        sum += __shfl_xor_sync(~0u, sum, k);
        square += __shfl_xor_sync(~0u, square, k);
    }
    // what is not finite must stay so
    const float mean = sum * (1.0f / WIDTH),
                spread = fmaxf(square * (1.0f / WIDTH) - mean * mean, 0.0f) + 0.0f * square,
                scale = rsqrtf(spread + eps);
#pragma unroll
    for (int k = 0; k < PAIRS; k++)
        x.v[k].x = (x.v[k].x - mean) * scale, x.v[k].y = (x.v[k].y - mean) * scale;
}
// a row as operands, like modulate() of lewm_rows.cuh
static __device__ __forceinline__ row_pairs<PAIRS> normed(row_pairs<PAIRS> x,
                                                          const modulation<PAIRS>& m, int head) {
    if (!head) {
        standard(x, 1e-6f);
#pragma unroll
        for (int k = 0; k < PAIRS; k++) {
            x.v[k].x = fmaf(x.v[k].x, 1.0f + m.scale.v[k].x, m.shift.v[k].x);
            x.v[k].y = fmaf(x.v[k].y, 1.0f + m.scale.v[k].y, m.shift.v[k].y);
        }
    }
    standard(x, 1e-5f);
    return x;
}

// x += gate * y, then the next product's operands.
static __device__ __forceinline__ void gate(const few_args& g, standing& s, const gate_of& k,
                                            const gated& w, row_pairs<PAIRS>& x) {
    const own_row o = own_of(s, k.slots);
    s.met++;
    if (!o.there) return;
    parts_wait(s);
    row_pairs<PAIRS> y = sum_parts(s, o), by = chunk_of(w.by);
    modulation<PAIRS> m = {};
    const int head = k.block + k.branch == g.r.s.depth;
    if (!head) m.shift = chunk_of(w.shift), m.scale = chunk_of(w.scale);
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        x.v[i].x += by.v[i].x * (y.v[i].x + w.bias[i].x);
        x.v[i].y += by.v[i].y * (y.v[i].y + w.bias[i].y);
    }
    hand_out(s, o, normed(x, m, head));
}

static __device__ __forceinline__ float* latent(const few_args& g, const own_row& o, int step) {
    return g.r.path + ((size_t)o.row * g.r.horizon + step) * WIDTH;
}

// The head's result: the newest latent.
static __device__ __forceinline__ row_pairs<PAIRS> newest(const few_args& g, standing& s,
                                                          const own_row& o, int step) {
    const float* bias = g.down_bias[g.r.s.depth];
    float2 b[PAIRS];
#pragma unroll
    for (int i = 0; i < PAIRS; i++) b[i] = fetch8(bias + column(i));
    parts_wait(s);
    row_pairs<PAIRS> z = sum_parts(s, o);
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        z.v[i].x += b[i].x, z.v[i].y += b[i].y;
        put_pair(latent(g, o, step) + column(i), z.v[i]);
    }
    return z;
}

// Tokens of step t start as latents: the newest is the head's; an older one is known, but its row
// of `a` is free only when all blocks have come to the head.
static __device__ __forceinline__ void place(const few_args& g, standing& s, const gate_of& k,
                                             row_pairs<PAIRS>& x) {
    const rows_args& r = g.r;
    const own_row o = own_of(s, k.slots);
    const int parity = s.met & 1;
    if (k.t) s.met++;
    if (!o.there) return;
    const int from = step_of(k, o.slot), token = o.slot ? o.slot - 1 : k.last;
    const raw_chunk shift = fetch_chunk(r, from, o.row, 0, 0),
                    scale = fetch_chunk(r, from, o.row, 0, 1);
    row_pairs<PAIRS> z;
    if (from && !o.slot) {
        z = newest(g, s, o, from - 1);
    } else {
        const float* z0 = lewm_part(lewm_search_at(r.searches, r.s, o.row / r.each), r.s.z0_at);
#pragma unroll
        for (int i = 0; i < PAIRS; i++)
            z.v[i] = from ? fresh8(latent(g, o, from - 1) + column(i)) : pair(z0 + column(i));
        if (k.t) barrier_wait(barrier_at(s, ROWS + o.k * CONTEXT), parity);
    }
#pragma unroll
    for (int i = 0; i < PAIRS; i++) {
        const float2 p = pair(r.positions + token * WIDTH + column(i));
        x.v[i] = make_float2(z.v[i].x + p.x, z.v[i].y + p.y);
    }
    const modulation<PAIRS> m = {chunk_of(shift), chunk_of(scale)};
    hand_out(s, o, normed(x, m, 0));
}

}  // namespace lewm_few

#endif
