// lewm_few.cuh - a LeWM rollout as one kernel, for searches too small to fill a GPU product by
// product: its order, sizes, weights and products.
//
//   lewm_few.cu          the host's side
//   lewm_few_kernel.cuh  the kernel and its branches
//   lewm_few_rows.cuh    between the products
//   lewm_few_ops.cuh     instructions
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

}  // namespace lewm_few

#endif
