// lewm_few.cuh - a LeWM rollout as one kernel, for searches too small to fill a GPU product by
// product.
//
// Candidates never mix, so clusters of 16 blocks take some 40 each and go through all macro steps
// on their own. A block of a cluster has one head of every block's attention and 128 hidden units
// of every MLP: for all rows of its cluster it computes that head, or these units, and what they
// add to the 192 numbers of each row. These parts go to the row's owner, a warp of one of the
// blocks, which adds them up in the blocks' order, passes the gate, and hands the next operands to
// all blocks. Both ways are stores into far shared memory that barriers count, so nobody meets.
//
//     product: rows x 192 -> q, k, v of a head, or 128 hidden units -> part of 192
//     row:     sum of parts, residual, gate, modulation, norms (lewm_rows.cuh)
//
// Products are turned: 64 features of the weights times the rows, by warpgroups, both from shared
// memory. Weights come in pieces of 64 features x 64 numbers, packed beforehand in the order of
// their use, through a ring that is refilled as soon as a product is done with its pieces.
//
// A cluster's row n = slot * each + candidate. Slot 0 has the newest token, which every step has;
// slots 1 and 2 the older ones. In shared memory, 64 numbers of a row are a line of 128 bytes, and
// lines of all rows a column block (mma.cuh).
//
// What is where in time: a block's rows `a` are read by the first product, then take its parts of
// these rows, which are read until the row's owner has them all, after which the owner sends the
// row's next operands. So no row of `a` is overwritten early. The same holds for the places of the
// parts: their senders have the operands that follow from them before they send the next ones.
#ifndef PLAN_CUDA_LEWM_FEW_CUH
#define PLAN_CUDA_LEWM_FEW_CUH

#include "plan/cuda/lewm_few_ops.cuh"
#include "plan/cuda/lewm_rows.cuh"

namespace lewm_few {

enum {
    WIDTH = 192,
    HEAD = 64,
    UNITS = 128,  // of an MLP, per block
    BLOCKS = 16,  // of a cluster
    CONTEXT = 3,  // latents
    DEPTH = 8,    // blocks at most
    GROUPS = 3,   // warpgroups of a block
    THREADS = 128 * GROUPS,
    COLUMNS = WIDTH / 64,      // column blocks of a row
    LINE = 128,                // bytes
    ROW = COLUMNS * LINE,      // bytes
    OWN = 3,                   // candidates whose rows a block owns, at most
    OWN_ROWS = OWN * CONTEXT,  // a warp each
    OTHERS = BLOCKS - 1,
    PIECE = 64 * LINE,  // bytes of weights
    PAIRS = WIDTH / 64,
    // pieces of a block's attention and MLP
    QKV = 3 * COLUMNS,
    OUT = COLUMNS,
    UP = UNITS / 64 * COLUMNS,
    DOWN = UNITS / 64 * COLUMNS,
    PIECES = QKV + OUT + UP + DOWN
};

// Rows in tiles of eight: one token of all candidates, all tokens of as many as there can be.
enum {
    FEW = 6,
    MANY = 17,
    CANDIDATES = MANY * 8 / CONTEXT,  // of a cluster
    SLOTS = 9,                        // pieces of weights in the ring
    COLUMN = MANY * 8 * LINE,         // bytes of a column block
    AT_A = 0,
    AT_H = AT_A + COLUMNS * COLUMN,  // q, k and v of a head, or hidden units
    AT_RING = AT_H + COLUMNS * COLUMN,
    AT_PARTS = AT_RING + SLOTS * PIECE,  // (OWN_ROWS, OTHERS, ROW)
    AT_BARRIERS = AT_PARTS + OWN_ROWS * OTHERS * ROW,
    OPERANDS = SLOTS,  // barriers: pieces, operands, own rows
    ROWS = OPERANDS + 1,
    BARRIERS = ROWS + OWN_ROWS,
    ROOM = AT_BARRIERS + BARRIERS * 8
};

typedef struct few_args {
    rows_args r;
    int each;             // candidates of a cluster
    const char* weights;  // (BLOCKS, pieces of a step, PIECE)
    bf16* kept;           // (clusters, BLOCKS, depth, CONTEXT - 1, 2, each, HEAD)
    const float *qkv_bias[DEPTH], *out_bias[DEPTH], *up_bias[DEPTH + 1], *down_bias[DEPTH + 1];
} few_args;

static __host__ __device__ __forceinline__ int pieces_of_step(int depth) {
    return depth * PIECES + UP + DOWN;
}

// ---- packed weights -----------------------------------------------------------------------------

// The piece for columns 64 c .. of tile i is number c * tiles + i of its product. Feature f of tile
// i of block s is row i * apart + s * rows + f of the weights (out, in); its numbers begin at
// s * ins.
typedef struct pack_args {
    const bf16* w;
    int in, columns, tiles, apart, rows, ins;
    char* to;       // of block 0
    size_t stride;  // bytes from block to block
} pack_args;

static __host__ __device__ __forceinline__ int packed_count(const pack_args& p) {
    return BLOCKS * p.columns * p.tiles * (PIECE / 16);
}

__global__ void __launch_bounds__(256) lewm_few_pack_kernel(const pack_args p) {
    const int i = (int)(blockIdx.x * 256 + threadIdx.x);
    if (i >= packed_count(p)) return;
    const int part = i % 8, f = i / 8 % 64, piece = i / (PIECE / 16) % (p.columns * p.tiles),
              s = i / (PIECE / 16) / (p.columns * p.tiles), tile = piece % p.tiles,
              column = piece / p.tiles;
    *(uint4*)(p.to + s * p.stride + (size_t)piece * PIECE + piece_at(f, part)) =
        *(const uint4*)(p.w + (size_t)(tile * p.apart + s * p.rows + f) * p.in + s * p.ins +
                        column * 64 + part * 8);
}

// ---- where a thread stands ----------------------------------------------------------------------

typedef struct standing {
    int rank, cluster, first_row, count, each;  // candidates: of the search, how many, stride
    int warp, lane, group;
    uint32_t a, h, ring, parts, barriers;
    int taken, asked, pieces;  // of weights: used up, asked for, of all steps
    int products, met, own;    // operands, parts of slot 0 and of this warp's row waited for so far
} standing;

static __device__ __forceinline__ uint32_t barrier_at(const standing& s, int number) {
    return s.barriers + (uint32_t)number * 8;
}

// ---- weights ------------------------------------------------------------------------------------

// One thread's work: asks for the pieces that have room.
static __device__ __forceinline__ void refill(const few_args& g, standing& s) {
    const int step = pieces_of_step(g.r.s.depth);
#pragma unroll 1
    while (s.asked < s.pieces && s.asked < s.taken + SLOTS) {
        const int slot = s.asked % SLOTS;
        barrier_expect(barrier_at(s, slot), PIECE);
        bring(s.ring + (uint32_t)slot * PIECE,
              g.weights + ((size_t)s.rank * step + s.asked % step) * PIECE, PIECE,
              barrier_at(s, slot));
        s.asked++;
    }
}
static __device__ __forceinline__ bool refills(void) {
    return threadIdx.x == THREADS - 32;
}

// d = 64 features x rows: COUNT pieces from number `piece` on, `apart` from each other, and column
// blocks of rows from `rows` on. Begins; finish() ends.
template <int COUNT, int N>
static __device__ __forceinline__ void product(float (&d)[N][4], const standing& s, int piece,
                                               int apart, uint32_t rows) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const int at = s.taken + piece + i * apart;
        barrier_wait(barrier_at(s, at % SLOTS), at / SLOTS & 1);
    }
    group_begin();
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const int slot = (s.taken + piece + i * apart) % SLOTS;
        const uint64_t a = group_operand(s.ring + (uint32_t)slot * PIECE),
                       b = group_operand(rows + (uint32_t)(i * COLUMN));
#pragma unroll
        for (int k = 0; k < 4; k++) group_product(d, a + 2 * k, b + 2 * k, i || k);
    }
}
template <int N>
static __device__ __forceinline__ void finish(float (&d)[N][4]) {
    group_commit();
    group_wait<0>();
    group_own(d);
}

// This warpgroup is done with so many pieces; when all are, they make room for others. One warp
// waits for that.
static __device__ __forceinline__ void release(const few_args& g, standing& s, int pieces) {
    s.taken += pieces;
    if (s.warp != THREADS / 32 - 1) {
        some_arrive(1 + GROUPS, THREADS);
        return;
    }
    some_meet(1 + GROUPS, THREADS);
    if (refills()) refill(g, s);
}

// ---- results as rows ----------------------------------------------------------------------------

static __device__ __forceinline__ float same(float x) {
    return x;
}
// the tanh form, like cuBLASLt's
static __device__ __forceinline__ float gelu(float x) {
    const float z = x * fmaf(0.0356774081f * x, x, 0.7978845608f), half = 0.5f * x;
    return fmaf(half, tanh_fast(z), half);
}

// f(results + bias) as operands: rows from `to` on, this warp's 16 features from number `first` of
// the line on. whole: all N tiles, or all but one.
template <int N, typename F>
static __device__ __forceinline__ void put_rows(const float (&d)[N][4], const standing& s,
                                                uint32_t to, float2 bias, bool whole, F f) {
    const int m = s.lane / 8, piece = s.warp % 4 * 2 + m % 2;
    const uint32_t at = to + piece_at(s.lane % 8, piece);
#pragma unroll
    for (int n = 0; n < N; n += 2) {
        uint32_t r[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (n + i / 2 >= N) break;
            const float* v = d[n + i / 2] + i % 2 * 2;
            const float b = i % 2 ? bias.y : bias.x;
            r[i] = pack2(f(v[0] + b), f(v[1] + b));
        }
        if (n + 1 < N && (n + 2 < N || whole)) {
            put_turned(at + (uint32_t)((n + m / 2) * 8 * LINE), r);
        } else {
            const uint32_t two[2] = {r[0], r[1]};
            put_turned(at + (uint32_t)(n * 8 * LINE), two);
        }
    }
}

// biases of this thread's two features of a tile
static __device__ __forceinline__ float2 biases(const standing& s, const float* bias) {
    const float* b = bias + s.warp % 4 * 16 + s.lane / 4;
    return make_float2(b[0], b[8]);
}

// ---- own rows -----------------------------------------------------------------------------------

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
