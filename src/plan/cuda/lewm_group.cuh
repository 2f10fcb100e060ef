// lewm_group.cuh - a LeWM rollout as one kernel, for searches too small to fill a GPU product by
// product.
//
// Candidates never mix, so groups of blocks take some 40 each and go through all macro steps on
// their own. A block of a group owns one head of every block's attention and 128 hidden units of
// every MLP: for its candidates' rows it computes that head or these units and what they add to the
// 192 numbers of each row. These parts are handed to the row's block; the group meets; then every
// warp adds up a row in the order of the parts, passes the gate, hands out the next operands; the
// group meets again. So nobody reads what another may be writing: parts are read between the first
// meeting and the second, operands between the second and the next branch's first.
//
//     product: rows (m) x 192 -> q, k, v of a head, or 128 hidden units -> part of 192
//     row:     sum of parts, residual, gate, modulation, norms (lewm_rows.cuh)
//
// A warp owns the same columns of a product for all rows, so its weights go from the device's
// memory straight to registers, packed in the order of the tensor cores' fragments, and are asked
// for before the block waits for the others.
#ifndef PLAN_CUDA_LEWM_GROUP_CUH
#define PLAN_CUDA_LEWM_GROUP_CUH

#include "nn/cuda/mma.cuh"
#include "plan/cuda/lewm_meet.cuh"
#include "plan/cuda/lewm_rows.cuh"

namespace lewm_group {

enum {
    WIDTH = 192,
    HEAD = 64,
    UNITS = 128,              // of an MLP, per block
    CONTEXT = 3,              // latents at most
    DEPTH = 16,               // blocks at most
    FEW = 3,                  // tiles that hold one token of every candidate
    PAIRS = WIDTH / 64,       // of a row, per lane
    A_LINE = WIDTH * 2 + 16,  // bytes of a row in shared memory; 16 more keep banks apart
    O_LINE = HEAD * 2 + 16,
    H_LINE = UNITS * 2 + 16,
    THREADS = 32 * WARPS
};

// NEAR: a group is a cluster, and rows travel through its shared memory instead of the device's.
template <bool NEAR>
struct room_sizes {
    enum {
        CANDIDATES = NEAR ? 48 : 42,  // of a group
        ROWS = NEAR ? 144 : 128,      // of a group: tiles of 16
        MANY = ROWS / 16,
        AT_A = 0,                       // operands of a branch
        AT_QKV = AT_A + ROWS * A_LINE,  // of all tokens; or an MLP's hidden units
        // results of the attention; or parts (rows of this block, blocks of the group, WIDTH)
        AT_O = AT_QKV + ROWS * A_LINE,
        ROOM = AT_O + ROWS * (NEAR ? WIDTH * 4 : O_LINE)
    };
};

// Two products one after the other: packed weights (splits, WARPS, fragments, 32), biases.
typedef struct layers {
    const uint4 *in, *out;
    const float *in_bias, *out_bias;
} layers;

typedef struct group_args {
    rows_args r;
    int splits;                               // blocks of a group: heads, and parts of an MLP
    int each;                                 // candidates of a group
    float* part;                              // (groups, splits, ROWS, WIDTH); not NEAR
    unsigned* met;                            // (groups, 32) counters of the groups' meetings, 0
    int cluster;                              // a group is a cluster
    layers attention[DEPTH], mlp[DEPTH + 1];  // the head last
} group_args;

// ---- packed weights -----------------------------------------------------------------------------

// Column c of part s of a product is row c / segment * apart + s * part_rows + c % segment of the
// weights (out, in); its numbers begin at s * part_ins.
typedef struct pack_args {
    const bf16* w;
    int in, splits, k_tiles, n_tiles;  // tiles of 16 numbers; of 8 columns, per warp
    int segment, apart, part_rows, part_ins;
    uint4* to;
} pack_args;

static __host__ __device__ __forceinline__ int packed_count(int splits, int k_tiles, int n_tiles) {
    return splits * WARPS * k_tiles * n_tiles / 2 * 32;
}

__global__ void __launch_bounds__(THREADS) lewm_pack_kernel(const pack_args p) {
    const int i = (int)(blockIdx.x * THREADS + threadIdx.x), lane = i % 32,
              each = p.k_tiles * p.n_tiles / 2, two = i / 32 % each, warp = i / 32 / each % WARPS,
              split = i / 32 / each / WARPS;
    if (split >= p.splits) return;
    uint32_t v[4];
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int tile = 2 * two + e / 2, k = tile / p.n_tiles * 16 + e % 2 * 8 + lane % 4 * 2,
                  c = (warp * p.n_tiles + tile % p.n_tiles) * 8 + lane / 4,
                  row = c / p.segment * p.apart + split * p.part_rows + c % p.segment;
        v[e] = *(const uint32_t*)(p.w + (size_t)row * p.in + split * p.part_ins + k);
    }
    p.to[i] = uint4{v[0], v[1], v[2], v[3]};
}

// what a lane holds of a warp's weights
template <int K, int N>
struct fragments {
    uint4 v[K * N / 2];
};

template <int K, int N>
static __device__ __forceinline__ void fetch(fragments<K, N>& w, const uint4* packed, int split) {
    const uint4* from = packed +
                        (size_t)(split * WARPS + (int)threadIdx.x / 32) * (K * N / 2) * 32 +
                        threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < K * N / 2; i++) w.v[i] = fetch16(from + i * 32);
}

// ---- where a block stands -----------------------------------------------------------------------

typedef struct standing {
    int group, split;
    int first_row, count;  // candidates of this group
    meeting meets;
    unsigned char* room;
} standing;

// ---- products -----------------------------------------------------------------------------------

// acc = `count` rows x weights: M tiles of 16 rows, N tiles of 8 columns of this warp, K tiles of
// 16 numbers
template <int M, int N, int K>
static __device__ __forceinline__ void product(float (&acc)[M][N][4], const unsigned char* rows,
                                               int line, const fragments<K, N>& w, int count) {
    const int lane = (int)threadIdx.x % 32;
    const uint32_t at = shared_address(rows) + (uint32_t)((lane & 15) * line + (lane >> 4) * 16);
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) acc[m][n][i] = 0;
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
        for (int m = 0; m < M; m++) {
            if (m * 16 >= count) break;
            uint32_t a[4];
            ldsm4(a, at + (uint32_t)(m * 16 * line + k * 32));
#pragma unroll
            for (int n = 0; n < N; n++) {
                const int i = k * N + n;
                const uint4 b = w.v[i / 2];
                mma(acc[m][n], a, i % 2 ? b.z : b.x, i % 2 ? b.w : b.y);
            }
        }
}

// For a lane's two numbers of every tile: what(row of the group, column, the two).
template <int M, int N, typename F>
static __device__ __forceinline__ void every_pair(const float (&acc)[M][N][4], F what) {
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                what(m * 16 + half * 8 + lane / 4, (warp * N + n) * 8 + lane % 4 * 2,
                     make_float2(acc[m][n][2 * half], acc[m][n][2 * half + 1]));
}

// Operands of tokens first .. last into shared memory; 0 for candidates that are not there. NEAR:
// they are there.
template <bool NEAR>
static __device__ __forceinline__ void bring_rows(const group_args& g, const standing& s, int first,
                                                  int last) {
    if (NEAR) return;
    const int n = (last - first + 1) * g.each;
    const uint32_t to = shared_address(s.room + room_sizes<NEAR>::AT_A);
    for (int i = (int)threadIdx.x; i < n * (WIDTH / 8); i += THREADS) {
        const int row = i / (WIDTH / 8), piece = i % (WIDTH / 8), c = row % g.each,
                  there = c < s.count;
        const bf16* from =
            (const bf16*)g.r.a +
            ((size_t)(first + row / g.each) * g.r.rows + s.first_row + (there ? c : 0)) * WIDTH;
        copy16(to + (uint32_t)(row * A_LINE + piece * 16), from + piece * 8, there ? 16 : 0);
    }
    copies_done();
    __syncthreads();
}

// What this block adds to n rows; NEAR: to where the row's block has its parts.
template <bool NEAR, int M>
static __device__ __forceinline__ void write_part(const group_args& g, const standing& s,
                                                  const float (&acc)[M][3][4], int n) {
    const int splits = g.splits;
    float *part = g.part + (size_t)(s.group * splits + s.split) * room_sizes<NEAR>::ROWS * WIDTH,
          *own = (float*)(s.room + room_sizes<NEAR>::AT_O) + s.split * WIDTH;
    every_pair(acc, [&](int row, int column, float2 v) {
        if (row >= n) return;
        if (NEAR)
            put_far(far_of(s.meets, own + row / splits * splits * WIDTH + column, row % splits), v);
        else
            put_pair(part + row * WIDTH + column, v);
    });
}

// ---- MLP ----------------------------------------------------------------------------------------

// the exact form; the normal distribution's tail by Abramowitz and Stegun 7.1.26, off by 1e-7
static __device__ __forceinline__ float gelu_exact(float x) {
    const float z = fabsf(x), t = __fdividef(1.0f, fmaf(0.23164190f, z, 1.0f)),
                tail =
                    t * fmaf(t,
                             fmaf(t, fmaf(t, fmaf(t, 0.5307027145f, -0.7265760135f), 0.7107068705f),
                                  -0.142248368f),
                             0.127414796f);
    return fmaxf(x, 0.0f) - z * tail * power2(-0.72134752f * z * z);
}

// Tokens first .. last through this block's hidden units.
template <bool NEAR, int M>
static __device__ __forceinline__ void mlp(const group_args& g, standing& s, const layers& l,
                                           int first, int last) {
    const int n = (last - first + 1) * g.each;
    unsigned char* hidden = s.room + room_sizes<NEAR>::AT_QKV;
    fragments<WIDTH / 16, 2> up;
    fragments<UNITS / 16, 3> down;
    fetch(up, l.in, s.split);
    fetch(down, l.out, s.split);
    meet_wait(s.meets);
    bring_rows<NEAR>(g, s, first, last);
    {
        float acc[M][2][4];
        product<M, 2, WIDTH / 16>(acc, s.room + room_sizes<NEAR>::AT_A, A_LINE, up, n);
        const float* bias = l.in_bias + s.split * UNITS;
        every_pair(acc, [&](int row, int column, float2 v) {
            const float2 b = pair(bias + column);
            *(uint32_t*)(hidden + row * H_LINE + column * 2) =
                pack2(gelu_exact(v.x + b.x), gelu_exact(v.y + b.y));
        });
    }
    __syncthreads();
    float acc[M][3][4];
    product<M, 3, UNITS / 16>(acc, hidden, H_LINE, down, n);
    write_part<NEAR>(g, s, acc, n);
    meet_arrive(s.meets);
}

// ---- attention ----------------------------------------------------------------------------------

// keys and values of a head (2 x 64 numbers) of one token of a row, kept while the window grows
static __device__ __forceinline__ bf16* kept(const group_args& g, const standing& s, int block,
                                             int token, int candidate, int piece) {
    const int inner = g.r.s.inner;
    return (bf16*)g.r.qkv +
           ((size_t)(block * g.r.s.context + token) * g.r.rows + s.first_row + candidate) * 3 *
               inner +
           (1 + piece / 8) * inner + s.split * HEAD + piece % 8 * 8;
}

// in the background
template <bool NEAR>
static __device__ __forceinline__ void bring_kept(const group_args& g, const standing& s, int block,
                                                  int tokens) {
    const uint32_t to = shared_address(s.room + room_sizes<NEAR>::AT_QKV);
    for (int i = (int)threadIdx.x; i < tokens * s.count * 16; i += THREADS) {
        const int piece = i % 16, c = i / 16 % s.count, token = i / 16 / s.count;
        copy16(to + (uint32_t)((token * g.each + c) * A_LINE + HEAD * 2 + piece * 16),
               kept(g, s, block, token, c, piece), 16);
    }
}

template <bool NEAR>
static __device__ __forceinline__ void keep(const group_args& g, const standing& s, int block,
                                            int token) {
    for (int i = (int)threadIdx.x; i < s.count * 16; i += THREADS) {
        const int piece = i % 16, c = i / 16;
        *(uint4*)kept(g, s, block, token, c, piece) =
            *(const uint4*)(s.room + room_sizes<NEAR>::AT_QKV + (token * g.each + c) * A_LINE +
                            HEAD * 2 + piece * 16);
    }
}

// Attention of tokens from .. last in shared memory: eight lanes have a query, eight numbers each.
// NEAR: results take the queries' places.
template <bool NEAR>
static __device__ __forceinline__ void attend(const group_args& g, const standing& s, int from,
                                              int last) {
    const int n = (last - from + 1) * g.each, number = (int)threadIdx.x % 8 * EIGHT;
    const float scale = 0.125f * 1.4426950408889634f;  // 1 / sqrt(HEAD), in powers of 2
    for (int base = 0; base < n; base += THREADS / 8) {
        const int i = base + (int)threadIdx.x / 8, there = i < n, row = there ? i : 0,
                  token = from + row / g.each, c = row % g.each;
        unsigned char* own = s.room + room_sizes<NEAR>::AT_QKV + c * A_LINE + number * 2;
        const int step = g.each * A_LINE;  // from token to token
        float q[EIGHT], out[EIGHT], score[CONTEXT], top = -INFINITY, sum = 0;
        eight(q, (const bf16*)(own + token * step));
#pragma unroll
        for (int k = 0; k < EIGHT; k++) out[k] = 0;
#pragma unroll
        for (int j = 0; j < CONTEXT; j++) {
            if (j > last) break;
            float key[EIGHT], dot = 0;
            eight(key, (const bf16*)(own + j * step + HEAD * 2));
#pragma unroll
            for (int k = 0; k < EIGHT; k++) dot += q[k] * key[k];
#pragma unroll
            for (int o = 4; o; o /= 2) dot += __shfl_xor_sync(~0u, dot, o);
            score[j] = dot * scale;
            if (j <= token) top = fmaxf(top, score[j]);
        }
#pragma unroll
        for (int j = 0; j < CONTEXT; j++) {
            if (j > token) break;
            // what is not finite must stay so
            const float w = power2(score[j] - top) + 0.0f * score[j];
            float value[EIGHT];
            eight(value, (const bf16*)(own + j * step + HEAD * 4));
            sum += w;
#pragma unroll
            for (int k = 0; k < EIGHT; k++) out[k] += w * value[k];
        }
#pragma unroll
        for (int k = 0; k < EIGHT; k++) out[k] /= sum;
        if (there)
            put_eight(NEAR ? (bf16*)(own + token * step)
                           : (bf16*)(s.room + room_sizes<NEAR>::AT_O + row * O_LINE) + number,
                      out);
    }
}

// Tokens first .. last through this block's head; from .. last ask.
template <bool NEAR, int M, int MORE>
static __device__ __forceinline__ void attention(const group_args& g, standing& s, int block,
                                                 int first, int from, int last) {
    const layers& l = g.attention[block];
    const int n = (last - first + 1) * g.each, inner = g.r.s.inner,
              grows = first == last && g.r.s.context > 1 && last + 1 < g.r.s.context;
    fragments<HEAD / 16, 3> out;
    {
        fragments<WIDTH / 16, 3> in;
        fetch(in, l.in, s.split);
        if (first == last) bring_kept<NEAR>(g, s, block, first);
        meet_wait(s.meets);
        bring_rows<NEAR>(g, s, first, last);
        float acc[M][3][4];
        product<M, 3, WIDTH / 16>(acc, s.room + room_sizes<NEAR>::AT_A, A_LINE, in, n);
        fetch(out, l.out, s.split);
        const float* bias = l.in_bias + s.split * HEAD;
        every_pair(acc, [&](int row, int column, float2 v) {
            if (row >= n) return;
            // a bias of the keys moves all scores of a query alike and changes nothing
            const int part = column / HEAD;
            if (part != 1) {
                const float2 b = pair(bias + part * inner + column % HEAD);
                v.x += b.x, v.y += b.y;
            }
            *(uint32_t*)(s.room + room_sizes<NEAR>::AT_QKV + (first * g.each + row) * A_LINE +
                         column * 2) = pack2(v.x, v.y);
        });
    }
    copies_done();
    __syncthreads();
    if (grows) keep<NEAR>(g, s, block, last);
    attend<NEAR>(g, s, from, last);
    __syncthreads();
    const int passing = (last - from + 1) * g.each;
    const unsigned char* mixed = s.room + (NEAR ? room_sizes<NEAR>::AT_QKV + from * g.each * A_LINE
                                                : room_sizes<NEAR>::AT_O);
    float acc[MORE][3][4];
    product<MORE, 3, HEAD / 16>(acc, mixed, NEAR ? A_LINE : O_LINE, out, passing);
    write_part<NEAR>(g, s, acc, passing);
    meet_arrive(s.meets);
}

// ---- rows ---------------------------------------------------------------------------------------

// The sum of all parts of a row of the group, in their order, and the bias.
template <bool NEAR>
static __device__ __forceinline__ row_pairs<PAIRS> sum_parts(const group_args& g, const standing& s,
                                                             int row, const float* bias) {
    const float *part =
                    g.part + ((size_t)(s.group * g.splits) * room_sizes<NEAR>::ROWS + row) * WIDTH,
                *own = (const float*)(s.room + room_sizes<NEAR>::AT_O) +
                       row / g.splits * g.splits * WIDTH;
    row_pairs<PAIRS> v;
#pragma unroll
    for (int k = 0; k < PAIRS; k++) v.v[k] = make_float2(0, 0);
#pragma unroll 8
    for (int i = 0; i < g.splits; i++)
#pragma unroll
        for (int k = 0; k < PAIRS; k++) {
            const float2 p =
                NEAR ? pair(own + i * WIDTH + column(k))
                     : fresh_pair(part + (size_t)i * room_sizes<NEAR>::ROWS * WIDTH + column(k));
            v.v[k].x += p.x, v.v[k].y += p.y;
        }
#pragma unroll
    for (int k = 0; k < PAIRS; k++) {
        const float2 b = pair(bias + column(k));
        v.v[k].x += b.x, v.v[k].y += b.y;
    }
    return v;
}

// A warp's rows of tokens first .. last, one after another.
typedef struct own_row {
    int at, token, candidate, row;  // row of the group; row of the search
    bool there;
} own_row;

static __device__ __forceinline__ own_row row_at(const group_args& g, const standing& s, int at,
                                                 int first, int last) {
    const int c = at % g.each;
    return {at, first + at / g.each, c, s.first_row + c,
            at < (last - first + 1) * g.each && c < s.count};
}

static __device__ __forceinline__ int first_own(const group_args& g, const standing& s) {
    return (int)threadIdx.x / 32 * g.splits + s.split;
}

static __device__ __forceinline__ float* latent(const group_args& g, const own_row& o, int step) {
    return g.r.path + ((size_t)o.row * g.r.horizon + step) * WIDTH;
}

// A row's operands of the next branch, for all blocks of the group.
template <bool NEAR>
static __device__ __forceinline__ void hand_out(const group_args& g, const standing& s,
                                                const own_row& o, const row_pairs<PAIRS>& x,
                                                const modulation<PAIRS>& m, bool head) {
    if (!NEAR) {
        modulate<bf16, PAIRS>(g.r, x, m, head,
                              (bf16*)g.r.a + ((size_t)o.token * g.r.rows + o.row) * WIDTH);
        return;
    }
    const unsigned char* line = s.room + room_sizes<NEAR>::AT_A + o.at * A_LINE;
    modulate<bf16, PAIRS>(g.r, x, m, head, (bf16*)line);
    __syncwarp();
    for (int i = (int)threadIdx.x % 32; i < g.splits * (WIDTH / 8); i += 32) {
        const unsigned char* piece = line + i % (WIDTH / 8) * 16;
        const int to = i / (WIDTH / 8);
        if (to != s.split) put_far(far_of(s.meets, piece, to), *(const uint4*)piece);
    }
}

// A token of a candidate starts as a latent; the newest of step t, if t > 0, is the head's.
template <bool NEAR>
static __device__ __forceinline__ void place_row(const group_args& g, const standing& s, int t,
                                                 const own_row& o, int last) {
    if (!o.there) return;
    const rows_args& r = g.r;
    const int from = t - last + o.token;
    const float* z0 = lewm_part(lewm_search_at(r.searches, r.s, o.row / r.each), r.s.z0_at);
    const modulation<PAIRS> m = modulation_of<bf16, PAIRS>(r, from, o.row, 0, 0);
    const size_t at = ((size_t)o.token * r.rows + o.row) * WIDTH;
    const bool made = from && o.token == last;
    row_pairs<PAIRS> z;
    if (made) z = sum_parts<NEAR>(g, s, o.candidate, g.mlp[r.s.depth].out_bias);
#pragma unroll
    for (int k = 0; k < PAIRS; k++) {
        const int f = column(k);
        if (made)
            put_pair(latent(g, o, from - 1) + f, z.v[k]);
        else
            z.v[k] = from ? fresh_pair(latent(g, o, from - 1) + f) : pair(z0 + f);
        const float2 p = pair(r.positions + o.token * WIDTH + f);
        z.v[k].x += p.x, z.v[k].y += p.y;
        put_pair(r.x + at + f, z.v[k]);
    }
    hand_out<NEAR>(g, s, o, z, m, false);
}

// Tokens first .. last of step t. NEAR: a warp places all tokens of the candidates whose newest
// latent its block has the parts of.
template <bool NEAR>
static __device__ __forceinline__ void place(const group_args& g, standing& s, int t, int first,
                                             int last) {
    const int tokens = last - first + 1, stride = WARPS * g.splits;
    if (t) meet_wait(s.meets);
    if (NEAR)
        for (int c = first_own(g, s); c < g.each; c += stride)
            for (int k = 0; k < tokens; k++)
                place_row<NEAR>(g, s, t, row_at(g, s, k * g.each + c, first, last), last);
    else
        for (int i = first_own(g, s); i < tokens * g.each; i += stride)
            place_row<NEAR>(g, s, t, row_at(g, s, i, first, last), last);
    meet_arrive(s.meets);
}

// What a gate needs beside the parts: read before the block waits for them.
typedef struct gated {
    row_pairs<PAIRS> x, by;
    modulation<PAIRS> m;
} gated;

typedef struct gate_of {
    int t, block, branch, last;  // branch 0 of the attention, 1 of the MLP
} gate_of;

static __device__ __forceinline__ gated gate_read(const rows_args& r, const own_row& o,
                                                  const gate_of& k) {
    const int from = k.t - k.last + o.token;
    gated v = {};
    if (!o.there) return v;
    v.by = chunk<bf16, PAIRS>(r, from, o.row, k.block, k.branch ? 5 : 2);
    v.m = modulation_of<bf16, PAIRS>(r, from, o.row, k.block + k.branch, k.branch ? 0 : 3);
#pragma unroll
    for (int i = 0; i < PAIRS; i++)
        v.x.v[i] = fresh_pair(r.x + ((size_t)o.token * r.rows + o.row) * WIDTH + column(i));
    return v;
}

// x += gate * y for tokens first .. k.last, then the next product's operands.
template <bool NEAR>
static __device__ __forceinline__ void gate(const group_args& g, standing& s, const gate_of& k,
                                            int first) {
    const rows_args& r = g.r;
    const float* bias = k.branch ? g.mlp[k.block].out_bias : g.attention[k.block].out_bias;
    own_row o = row_at(g, s, first_own(g, s), first, k.last);
    gated v = gate_read(r, o, k);
    meet_wait(s.meets);
    while (o.at < (k.last - first + 1) * g.each) {
        if (o.there) {
            const size_t at = ((size_t)o.token * r.rows + o.row) * WIDTH;
            const row_pairs<PAIRS> y = sum_parts<NEAR>(g, s, o.at, bias);
#pragma unroll
            for (int i = 0; i < PAIRS; i++) {
                v.x.v[i].x += v.by.v[i].x * y.v[i].x;
                v.x.v[i].y += v.by.v[i].y * y.v[i].y;
                put_pair(r.x + at + column(i), v.x.v[i]);
            }
            hand_out<NEAR>(g, s, o, v.x, v.m, k.block + k.branch == r.s.depth);
        }
        o = row_at(g, s, o.at + WARPS * g.splits, first, k.last);
        v = gate_read(r, o, k);
    }
    meet_arrive(s.meets);
}

// ---- the kernel ---------------------------------------------------------------------------------

template <bool NEAR>
static __device__ __forceinline__ void step(const group_args& g, standing& s, int t) {
    const int MANY = room_sizes<NEAR>::MANY;
    const int depth = g.r.s.depth, context = g.r.s.context, slides = t >= context,
              last = slides ? context - 1 : t, first = slides ? 0 : last;
    const bool many = (last - first + 1) * g.each > 16 * FEW;
    place<NEAR>(g, s, t, first, last);
    for (int b = 0; b < depth; b++) {
        const int from = b == depth - 1 ? last : first;  // tokens that go through
        if (!many)
            attention<NEAR, FEW, FEW>(g, s, b, first, from, last);
        else if (from == first)
            attention<NEAR, MANY, MANY>(g, s, b, first, from, last);
        else
            attention<NEAR, MANY, FEW>(g, s, b, first, from, last);
        gate<NEAR>(g, s, {t, b, 0, last}, from);
        if (many && from == first)
            mlp<NEAR, MANY>(g, s, g.mlp[b], from, last);
        else
            mlp<NEAR, FEW>(g, s, g.mlp[b], from, last);
        gate<NEAR>(g, s, {t, b, 1, last}, from);
    }
    mlp<NEAR, FEW>(g, s, g.mlp[depth], last, last);
}

template <bool NEAR>
__global__ void __launch_bounds__(THREADS, 1)
    lewm_group_kernel(const __grid_constant__ group_args g) {
    LAUNCHED_ROOM(room);
    standing s = {(int)blockIdx.x / g.splits, (int)blockIdx.x % g.splits, 0, 0, {}, room};
    s.meets = {g.met + s.group * 32, (unsigned)g.splits, 0, g.cluster != 0};
    s.first_row = s.group * g.each;
    s.count = g.r.rows - s.first_row;
    if (s.count <= 0) return;
    if (s.count > g.each) s.count = g.each;
    if (NEAR) {  // until all are there
        meet_arrive(s.meets);
        meet_wait(s.meets);
    }
    for (int t = 0; t < g.r.horizon; t++) step<NEAR>(g, s, t);
    meet_wait(s.meets);
    for (int i = first_own(g, s); i < s.count; i += WARPS * g.splits) {
        const own_row o = row_at(g, s, i, 0, 0);
        const row_pairs<PAIRS> z = sum_parts<NEAR>(g, s, i, g.mlp[g.r.s.depth].out_bias);
#pragma unroll
        for (int k = 0; k < PAIRS; k++) put_pair(latent(g, o, g.r.horizon - 1) + column(k), z.v[k]);
    }
}

}  // namespace lewm_group

#endif
