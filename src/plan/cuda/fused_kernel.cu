// fused_kernel.cu - the batch way on Hopper: the rollouts of an iteration in one kernel, all macro
// steps, no activation ever leaves the multiprocessor.
//
// A block, one a multiprocessor, has two warpgroups. Each advances a tile of 64 rows by a macro
// step at a time, and keeps their residual stream h, 64 x 384 float32, in registers as the sums
// that the second product of each residual block adds to. The inner activations exist 64 at a time:
// outputs of the first product, GELU, the second product's operand, all in registers. Only LN(h)
// and x lie in shared memory, as operands.
//
// Weights come by as a stream: 108 chunks of 24 KB a macro step, stored in the order of their use
// and as the tensor cores read them, for both warpgroups in five places. Nobody waits in order to
// fetch: whichever warp is the last to be done with a place has its next chunk copied there, and
// goes on. A warpgroup that computes GELU or LayerNorm leaves the tensor cores to the other, which
// may be five chunks ahead.
//
// More tiles than warpgroups are spread evenly: a tile may change hands between two of its macro
// steps, see task_at().
#include "plan/cuda/fused.cuh"
#include "plan/cuda/wgmma.cuh"

#pragma nv_diag_suppress 177  // compiled for other GPUs the kernel is empty, its constants unused

using namespace fused;

namespace {

// TIMED: the cycles since the last mark went into this part.
template <int V>
__device__ __forceinline__ void mark(char* smem, int part) {
    if constexpr (V & TIMED) {
        if (blockIdx.x == 0 && threadIdx.x % 128 == 0) {
            unsigned long long* c =
                (unsigned long long*)(smem + AT_CLOCKS) + threadIdx.x / 128 * 16;
            unsigned long long now = clock64();
            c[part] += now - c[15];
            c[15] = now;
        }
        __syncwarp();
    }
}

// The thread within its warpgroup and the warpgroup, asked for anew: h leaves no registers to keep
// what follows from them.
__device__ __forceinline__ uint32_t thread_again() {
    uint32_t t;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(t));
    return t % 128;
}
__device__ __forceinline__ uint32_t group_again() {
    uint32_t t;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(t));
    return t / 128;
}

// Likewise a number to divide by, whose reciprocal would be kept.
__device__ __forceinline__ int again(int n) {
    asm volatile("" : "+r"(n));
    return n;
}

__device__ __forceinline__ void group_sync() {
    asm volatile("bar.sync %0, 128;" ::"r"(group_again() + 1) : "memory");
}

// ---- barriers -----------------------------------------------------------------------------------

// Waits take microseconds; one of a million tries is a fault of ours, and ends the kernel with a
// note to the host instead of holding the GPU forever.
constexpr int MOST_TRIES = 1 << 20;

__device__ __forceinline__ void note_stuck(const fused_args& p, uint32_t what, uint32_t which) {
    p.stuck[1] = what, p.stuck[2] = which, p.stuck[3] = blockIdx.x;
    p.stuck[4] = threadIdx.x, p.stuck[0] = 1;
    __threadfence_system();
}

// Waits until place `at` is filled, for the time of this parity.
__device__ __forceinline__ void wait_for(const fused_args& p, uint32_t base, uint32_t at,
                                         uint32_t parity) {
    int tries = 0;
#pragma unroll 1
    while (!barrier_passed(base + AT_FULL + at * 8, parity))
        if (++tries == MOST_TRIES) {
            note_stuck(p, STUCK_PLACE, at);
            asm volatile("trap;\nexit;");
            __builtin_unreachable();
        }
}

// Where in the stream of chunks one is: place and parity in one register.
struct place {
    uint32_t word = 0;
    __device__ __forceinline__ uint32_t at() const { return word >> 1; }
    __device__ __forceinline__ uint32_t parity() const { return word & 1; }
    __device__ __forceinline__ void next() {
        word += 2;
        if (word >= 2 * PLACES) word = parity() ^ 1;
    }
    __device__ __forceinline__ uint32_t before() const { return at() ? at() - 1 : PLACES - 1; }
};

// All four warps of a warpgroup have written operands that the tensor cores read next.
__device__ __forceinline__ void operands_written() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    group_sync();
}

// ---- the stream of weights ----------------------------------------------------------------------

// Copies chunk `next` of a macro step into place `at`, which is free.
__device__ __forceinline__ void fetch(const fused_args& p, uint32_t base, uint32_t at,
                                      uint32_t next) {
    const uint32_t full = base + AT_FULL + at * 8;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "r"(CHUNK)
                 : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
        "[%3];" ::"r"(base + AT_CHUNKS + at * CHUNK),
        "l"(p.chunks + (size_t)next * CHUNK), "r"(CHUNK), "r"(full)
        : "memory");
}

// The next chunk has come; its address.
template <int V>
__device__ __forceinline__ uint32_t take(const fused_args& p, char* smem, uint32_t base,
                                         const place& w, int before) {
    mark<V>(smem, before);
    if (!(V & NO_WEIGHTS)) {
        wait_for(p, base, w.at(), w.parity());
        __syncwarp();  // products are issued by whole warps
        mark<V>(smem, PART_WEIGHTS);
    }
    return base + AT_CHUNKS + w.at() * CHUNK;
}

// This warp is done with place `at`; the last one to say so has the place's next chunk fetched. How
// often it was said tells which chunk that is.
template <int V>
__device__ __forceinline__ void give(const fused_args& p, uint32_t base, uint32_t at) {
    constexpr uint32_t WARPS = THREADS / 32;
    uint32_t given;
    if (V & NO_WEIGHTS || threadIdx.x % 32 != 0) return;
    asm volatile("atom.acq_rel.cta.shared::cta.add.u32 %0, [%1], 1;"
                 : "=r"(given)
                 : "r"(base + AT_GIVEN + at * 4)
                 : "memory");
    if (given % WARPS != WARPS - 1) return;
    const uint32_t next = (given / WARPS + 1) * PLACES + at;
    if (next < (uint32_t)(p.slots * p.count)) fetch(p, base, at, next % (uint32_t)p.count);
}

// The products of chunks w.before() and w.at(), each a committed group, end; each is given back as
// its own are done, and sums may be read.
template <int V>
__device__ __forceinline__ void finish_two(const fused_args& p, uint32_t base, const place& w) {
    wgmma_wait_but_one();
    give<V>(p, base, w.before());
    wgmma_wait();
    give<V>(p, base, w.at());
}

// ---- LayerNorm and GELU -------------------------------------------------------------------------

// h += bias, and LN(h) as operands. A thread holds rows r and r + 8, features 8 j + pair, + 1; four
// threads hold a row.
template <typename T>
__device__ __forceinline__ void normalise(float (&h0)[96], float (&h1)[96], const float* bias,
                                          char* side) {
    const uint32_t thread = thread_again(), row = thread / 32 * 16 + thread % 32 / 4,
                   pair = thread % 4 * 2, key = (row & 7) * 16 + pair * 2;
    asm volatile("" : "+l"(bias));
    char* to = side + row * 128;
    float sum[2] = {0, 0}, squares[2] = {0, 0};
#pragma unroll
    for (int j = 0; j < 48; j++) {
        float* d = j < 24 ? h0 + 4 * j : h1 + 4 * (j - 24);
        float2 b = __ldg((const float2*)(bias + 8 * j + pair));
        d[0] += b.x, d[1] += b.y, d[2] += b.x, d[3] += b.y;
        sum[0] += d[0] + d[1];
        sum[1] += d[2] + d[3];
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        sum[i] += __shfl_xor_sync(~0u, sum[i], 1);
        sum[i] += __shfl_xor_sync(~0u, sum[i], 2);
        sum[i] *= 1.0f / HIDDEN;
    }
#pragma unroll
    for (int j = 0; j < 48; j++) {
        const float* d = j < 24 ? h0 + 4 * j : h1 + 4 * (j - 24);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float off = d[i] - sum[i / 2];
            squares[i / 2] = fmaf(off, off, squares[i / 2]);
        }
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        squares[i] += __shfl_xor_sync(~0u, squares[i], 1);
        squares[i] += __shfl_xor_sync(~0u, squares[i], 2);
        squares[i] = rsqrtf(fmaf(squares[i], 1.0f / HIDDEN, 1e-5f));
        sum[i] *=
            -squares[i];  // (h - mean) scale as h scale + this: nowhere to keep 192 differences
    }
#pragma unroll
    for (int j = 0; j < 48; j++) {
        const float* d = j < 24 ? h0 + 4 * j : h1 + 4 * (j - 24);
        // no warp's products read the old operands any more
        if (j == 0) group_sync();
        char* at = to + (key ^ (uint32_t)(j % 8 * 16)) + j / 8 * TILE;
        *(uint32_t*)at =
            pack_two<T>(fmaf(d[0], squares[0], sum[0]), fmaf(d[1], squares[0], sum[0]));
        *(uint32_t*)(at + 8 * 128) =
            pack_two<T>(fmaf(d[2], squares[1], sum[1]), fmaf(d[3], squares[1], sum[1]));
    }
}

// gelu_fast() without its care for a divisor's whole range, which 1 + 2^t does not have: where 2^t
// is infinite, x / (1 + 2^t) is 0.
__device__ __forceinline__ float gelu_lean(float x) {
    float t = x * fmaf(-0.10294324f, x * x, -2.3022082f), e;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(t));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(1.0f + e));
    return x * e;
}

// g = GELU(scale s + bias) of 64 inner features, as the operands of four k16 steps.
template <typename T, int V>
__device__ __forceinline__ void activate(const float (&s)[32], const float* bias, float scale,
                                         uint32_t (&g)[4][4]) {
    asm volatile("" : "+l"(bias));  // read here, not while the products need the registers
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const float* d = s + 4 * j;
        if (V & NO_GELU) {
            g[j / 2][j % 2 * 2] = pack_two<T>(d[0], d[1]);
            g[j / 2][j % 2 * 2 + 1] = pack_two<T>(d[2], d[3]);
            continue;
        }
        float2 b = __ldg((const float2*)(bias + 8 * j));
        g[j / 2][j % 2 * 2] =
            pack_two<T>(gelu_lean(fmaf(d[0], scale, b.x)), gelu_lean(fmaf(d[1], scale, b.y)));
        g[j / 2][j % 2 * 2 + 1] =
            pack_two<T>(gelu_lean(fmaf(d[2], scale, b.x)), gelu_lean(fmaf(d[3], scale, b.y)));
    }
}

// ---- rows ---------------------------------------------------------------------------------------

// Byte of operand (row, k) of a warpgroup's side; k even: two operands.
__device__ __forceinline__ uint32_t operand_at(uint32_t row, uint32_t k) {
    return k / 64 * TILE + row * 128 + ((k % 64 / 8) ^ (row & 7)) * 16 + k % 8 * 2;
}

// What a warpgroup does in a slot: macro step `step` of the 64 rows of a tile.
struct task {
    int tile, step;
    bool fresh;         // another tile than in the slot before
    bool taken, given;  // another warpgroup made its step before, will make its step after
};

// Few tiles: a warpgroup keeps its own through all macro steps, slot by slot. Where tiles are more
// than warpgroups ("lanes"), their steps lie one after another in the lanes' slots. A tile that
// does not end in its lane goes on in the next one's first slots: there its first steps are made,
// so that a lane's last slots find them done long ago. Lanes count from the last block to the
// first: blocks wait only for such as were started before.
__device__ __forceinline__ task task_at(const fused_args& p, int slot) {
    const int mine = (int)(blockIdx.x * (ROWS / 64) + group_again());
    const int horizon = again(p.horizon), lane = p.lanes - 1 - mine,
              tile = (lane * p.slots + slot) / horizon,
              before = lane * p.slots - tile * horizon,  // positive: its steps in the lane before
        inside = before + p.slots,                       // below the horizon: some in the next
        r = before + slot;
    task now = {tile, r, slot == 0 || r == 0, false, false};
    if (before > 0) {
        now.step = r - before;
        now.given = r == horizon - 1;
    } else if (inside < horizon) {
        now.step = r + horizon - inside;
        now.taken = r == 0 && lane + 1 < p.lanes;  // past the last lane there are no rows
    }
    return now;
}

// The state that the rows of a tile reached has been written, and may be read by another block.
__device__ __forceinline__ void hand_over(const fused_args& p, int tile) {
    __threadfence();
    group_sync();
    if (thread_again() == 0)
        asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(p.handed + tile) : "memory");
}
__device__ __forceinline__ uint32_t handed(const fused_args& p, int tile) {
    uint32_t there;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                 : "=r"(there)
                 : "l"(p.handed + tile)
                 : "memory");
    return there;
}
__device__ __forceinline__ void take_over(const fused_args& p, int tile) {
    int tries = 0;
#pragma unroll 1
    while (!handed(p, tile) && ++tries < MOST_TRIES)
        ;
    // the kernel goes on with whatever is there and ends, and its answers are refused: a trap here
    // would cost registers
    if (tries == MOST_TRIES) note_stuck(p, STUCK_TILE, (uint32_t)tile);
    group_sync();
    if (thread_again() == 0) p.handed[tile] = 0;  // for the next launch
}

__device__ __forceinline__ float start_of(const fused_args& p, search* q, int col) {
    return col >= p.s.state   ? 0.0f
           : col < p.s.config ? q->c0[col]
                              : search_m0(q, p.s)[col - p.s.config];
}

// Every row starts at its search's (c0, m0), or goes on where another warpgroup brought it. Several
// numbers are read at once: memory is far.
template <typename T>
__device__ __forceinline__ void begin_rows(const fused_args& p, char* side, int first, bool taken) {
    constexpr int TWOS = MAX_STATE / 2, AT_ONCE = 17;
    const int per_search = again(p.per_search);
    static_assert(64 * TWOS % (128 * AT_ONCE) == 0, "no rest");
    for (int i = (int)thread_again(); i < SIDE / 4; i += 128) ((uint32_t*)side)[i] = 0;
    group_sync();
#pragma unroll 1
    for (int e = (int)thread_again(); e < 64 * TWOS; e += 128 * AT_ONCE) {
        float2 v[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int r = first + (e + 128 * i) / TWOS, col = (e + 128 * i) % TWOS * 2;
            search* q = search_at(p.searches, p.s, min(r, p.rows - 1) / per_search);
            if (taken)
                v[i] = __ldcg((const float2*)(p.state + (size_t)r * MAX_STATE + col));
            else
                v[i] = make_float2(start_of(p, q, col), start_of(p, q, col + 1));
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int r = (e + 128 * i) / TWOS, col = (e + 128 * i) % TWOS * 2;
            if (!taken) *(float2*)(p.state + (size_t)(first + r) * MAX_STATE + col) = v[i];
            if (col < p.s.state)
                *(T*)(side + operand_at((uint32_t)r, (uint32_t)col)) = operand<T>(v[i].x);
            if (col + 1 < p.s.state)
                *(T*)(side + operand_at((uint32_t)r, (uint32_t)col + 1)) = operand<T>(v[i].y);
        }
    }
    group_sync();
}

// Candidate u of macro step t, clamped as it will be executed, behind the state in x.
template <typename T>
__device__ __forceinline__ void fill_u(const fused_args& p, char* side, int first, int t) {
    const int action = again(p.s.action);
#pragma unroll 4
    for (int e = (int)thread_again(); e < 64 * action; e += 128) {
        int r = e / action, k = e - r * action, whole = min(first + r, p.rows - 1);
        float v = __ldg(p.u + ((size_t)whole * p.horizon + t) * action + k),
              low = __ldg(p.u_low + k), high = __ldg(p.u_high + k);
        v = v < low ? low : v;
        v = v > high ? high : v;
        *(T*)(side + operand_at((uint32_t)r, (uint32_t)(p.s.state + k))) = operand<T>(v);
    }
}

// The state that a thread moves on, all at once and early: memory is far.
__device__ __forceinline__ void read_state(const fused_args& p, float2 (&was)[34], int first) {
    const uint32_t thread = thread_again(), r = thread / 32 * 16 + thread % 32 / 4;
    const float* old = p.state + (size_t)(first + (int)r) * MAX_STATE + thread % 4 * 2;
#pragma unroll
    for (int i = 0; i < 34; i++) was[i] = *(const float2*)(old + i % 2 * 8 * MAX_STATE + i / 2 * 8);
}

// [c, m] += y: the state in memory and, as operands, in x; c of macro step t.
template <typename T>
__device__ __forceinline__ void move_on(const fused_args& p, const float (&y)[68],
                                        const float2 (&was)[34], char* side, int first, int t) {
    const uint32_t thread = thread_again(), r = thread / 32 * 16 + thread % 32 / 4,
                   two = thread % 4 * 2, key = (r & 7) * 16 + two * 2;
    const int config = p.s.config, state = p.s.state, whole = first + (int)r;
    char* x = side + r * 128;
    float* old = p.state + (size_t)whole * MAX_STATE + two;
    const float* bias = p.bias_heads + two;
#pragma unroll
    for (int j = 0; j < MAX_STATE / 8; j++) {
        int col = 8 * j + (int)two;
        if (col >= state) break;
        float2 b = *(const float2*)(bias + 8 * j);
        char* at = x + (key ^ (uint32_t)(j % 8 * 16)) + j / 8 * TILE;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float2 v = was[2 * j + i];
            v.x += fmaf(y[4 * j + 2 * i], p.scale_heads, b.x);
            v.y += fmaf(y[4 * j + 2 * i + 1], p.scale_heads, b.y);
            if (j == 0 && col < 2 * p.s.pairs) {
                // the tiny number only keeps a pair of exact zeros from becoming 0 / 0
                float length = sqrtf(fmaf(v.x, v.x, fmaf(v.y, v.y, 1e-12f)));
                v.x /= length;
                v.y /= length;
            }
            *(float2*)(old + i * 8 * MAX_STATE + 8 * j) = v;
            if (col + 1 < state)
                *(uint32_t*)(at + i * 8 * 128) = pack_two<T>(v.x, v.y);
            else
                *(T*)(at + i * 8 * 128) = operand<T>(v.x);
            if (j == 0 && whole + 8 * i < p.rows) {
                float* c = p.c + ((size_t)(whole + 8 * i) * p.horizon + t) * config;
                if (col < config) c[col] = v.x;
                if (col + 1 < config) c[col + 1] = v.y;
            }
        }
    }
}

// ---- a macro step -------------------------------------------------------------------------------

// Factor of every count of products: all of them, or none.
template <int V>
constexpr int ALL = V& NO_PRODUCTS ? 0 : 1;

// h = x W_in: 64 inputs and half of the outputs a chunk.
template <typename T, int V>
__device__ __forceinline__ void first_product(const fused_args& p, char* smem, uint32_t base,
                                              place& w, float (&h0)[96], float (&h1)[96]) {
#pragma unroll
    for (int i = 0; i < 96; i++) h0[i] = h1[i] = 0.0f;
    mark<V>(smem, PART_STATE);
#pragma unroll 1
    for (int k = 0; k < MAX_X / 64; k++) {
        uint64_t a = wgmma_operand(base + group_again() * SIDE + (uint32_t)(k * TILE));
        uint64_t b = wgmma_operand(take<V>(p, smem, base, w, PART_IN));
        wgmma_begin();
#pragma unroll
        for (int i = 0; i < 4 * ALL<V>; i++) wgmma_192<T>(h0, a + 2 * i, b + 2 * i, 1);
        wgmma_commit();
        w.next();
        b = wgmma_operand(take<V>(p, smem, base, w, PART_IN));
        wgmma_begin();
#pragma unroll
        for (int i = 0; i < 4 * ALL<V>; i++) wgmma_192<T>(h1, a + 2 * i, b + 2 * i, 1);
        wgmma_commit();
        finish_two<V>(p, base, w);
        w.next();
    }
    wgmma_own(h0);
    wgmma_own(h1);
    mark<V>(smem, PART_IN);
}

// s = LN(h) W_up for 64 inner features: two chunks of 192 inputs. Of fewer outputs at a time shared
// memory could not feed LN(h) fast enough.
template <typename T, int V>
__device__ __forceinline__ void product_up(const fused_args& p, char* smem, uint32_t base, place& w,
                                           float (&s)[32]) {
    uint64_t a = wgmma_operand(base + group_again() * SIDE),
             b = wgmma_operand(take<V>(p, smem, base, w, PART_DOWN));
    asm volatile("" : "+l"(a));  // 24 sums with it would not fit beside h
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < 12 * ALL<V>; k++)
        wgmma_64<T>(s, a + k / 4 * (TILE >> 4) + k % 4 * 2, b + k / 4 * (TILE >> 4) + k % 4 * 2,
                    k > 0);
    wgmma_commit();
    w.next();
    b = wgmma_operand(take<V>(p, smem, base, w, PART_UP));
    a += 3 * (TILE >> 4);
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < 12 * ALL<V>; k++)
        wgmma_64<T>(s, a + k / 4 * (TILE >> 4) + k % 4 * 2, b + k / 4 * (TILE >> 4) + k % 4 * 2, 1);
    wgmma_commit();
    finish_two<V>(p, base, w);
    if (V & NO_PRODUCTS)
        for (int i = 0; i < 32; i++) s[i] = __int_as_float((int)threadIdx.x + i);
    wgmma_own(s);
    w.next();
    mark<V>(smem, PART_UP);
}

// h += g W_down of these 64: two chunks of 32 inputs.
template <typename T, int V>
__device__ __forceinline__ void product_down(const fused_args& p, char* smem, uint32_t base,
                                             place& w, const uint32_t (&g)[4][4], float (&h0)[96],
                                             float (&h1)[96]) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        uint64_t b = wgmma_operand_64(take<V>(p, smem, base, w, PART_DOWN));
        wgmma_begin();
#pragma unroll
        for (int k = 0; k < 2 * ALL<V>; k++) wgmma_192_held<T>(h0, g[2 * half + k], b + 2 * k);
#pragma unroll
        for (int k = 0; k < 2 * ALL<V>; k++)
            wgmma_192_held<T>(h1, g[2 * half + k], b + (192 * 64 >> 4) + 2 * k);
        wgmma_commit();
        if (half == 0) w.next();
    }
    finish_two<V>(p, base, w);
    w.next();
    mark<V>(smem, PART_DOWN);
}

// h += GELU(LN(h) W_up + b) W_down; `bias` is what h still lacks of the layer before.
template <typename T, int V>
__device__ __forceinline__ void residual_block(const fused_args& p, char* smem, uint32_t base,
                                               place& w, int block, const float* bias,
                                               float (&h0)[96], float (&h1)[96]) {
    normalise<T>(h0, h1, bias, smem + group_again() * SIDE);
    operands_written();
    mark<V>(smem, PART_NORM);
#pragma unroll 1
    for (int inner = 0; inner < p.s.inner; inner += 64) {
        float s[32];
        uint32_t g[4][4];
        product_up<T, V>(p, smem, base, w, s);
        activate<T, V>(s, p.bias_up[block] + inner + thread_again() % 4 * 2, p.scale_up[block], g);
        if (V & TIMED) {
            // GELU ends here
#pragma unroll
            for (int i = 0; i < 16; i++) asm volatile("" : "+r"(g[i / 4][i % 4])::"memory");
            mark<V>(smem, PART_GELU);
        }
        product_down<T, V>(p, smem, base, w, g, h0, h1);
    }
    wgmma_own(h0);
    wgmma_own(h1);
}

// y = LN(h) W: 64 inputs a chunk.
template <typename T, int V>
__device__ __forceinline__ void product_of_heads(const fused_args& p, char* smem, uint32_t base,
                                                 place& w, float (&y)[68]) {
#pragma unroll
    for (int i = 0; i < 68; i++) y[i] = 0.0f;
#pragma unroll 1
    for (int k = 0; k < HIDDEN / 64; k++) {
        uint64_t a = wgmma_operand(base + group_again() * SIDE + (uint32_t)(k * TILE)),
                 b = wgmma_operand(take<V>(p, smem, base, w, PART_HEADS));
        wgmma_begin();
#pragma unroll
        for (int i = 0; i < 4 * ALL<V>; i++) wgmma_136<T>(y, a + 2 * i, b + 2 * i, 1);
        wgmma_commit();
        wgmma_wait();
        give<V>(p, base, w.at());
        w.next();
    }
    wgmma_own(y);
    mark<V>(smem, PART_HEADS);
}

// All that a warpgroup does.
template <typename T, int V>
__device__ __forceinline__ void predict(const fused_args& p, char* smem, uint32_t base) {
    place w;
#pragma unroll 1
    for (int slot = 0; slot < p.slots; slot++) {
        float h0[96], h1[96];
        task now = task_at(p, slot);
        if (now.taken) take_over(p, now.tile);
        if (now.fresh) begin_rows<T>(p, smem + group_again() * SIDE, now.tile * 64, now.taken);
        fill_u<T>(p, smem + group_again() * SIDE, now.tile * 64, now.step);
        operands_written();

        first_product<T, V>(p, smem, base, w, h0, h1);
#pragma unroll 1
        for (int block = 0; block < p.s.blocks; block++)
            residual_block<T, V>(p, smem, base, w, block,
                                 block ? p.bias_down[block - 1] : p.bias_in, h0, h1);
        normalise<T>(h0, h1, p.bias_down[p.s.blocks - 1], smem + group_again() * SIDE);
        operands_written();
        mark<V>(smem, PART_NORM);

        float2 was[34];
        float y[68];
        read_state(p, was, task_at(p, slot).tile * 64);
        product_of_heads<T, V>(p, smem, base, w, y);
        // the other warps' products may still read LN(h) where x goes
        group_sync();
        now = task_at(p, slot);
        move_on<T>(p, y, was, smem + group_again() * SIDE, now.tile * 64, now.step);
        if (now.given) hand_over(p, now.tile);
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

template <typename T, int V>
__global__ void __launch_bounds__(THREADS, 1) fused_kernel(const __grid_constant__ fused_args p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // elsewhere fused_create() finds the kernel empty
    extern __shared__ __align__(1024) char smem[];  // as operands need it; no register holds where
    const uint32_t base = (uint32_t)__cvta_generic_to_shared(smem);
    unsigned long long* clocks = (unsigned long long*)(smem + AT_CLOCKS) + threadIdx.x / 128 * 16;
    if (threadIdx.x == 0) {
        if (base % 1024) __trap();
        for (uint32_t i = 0; i < PLACES; i++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(base + AT_FULL + i * 8)
                         : "memory");
            ((uint32_t*)(smem + AT_GIVEN))[i] = 0;
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x == 0 && !(V & NO_WEIGHTS))
        for (uint32_t i = 0; i < PLACES; i++) fetch(p, base, i, i);
    if (V & TIMED && threadIdx.x % 128 == 0)
        for (int i = 0; i < 16; i++) clocks[i] = i < 15 ? 0 : (unsigned long long)clock64();
    __syncwarp();
    predict<T, V>(p, smem, base);
    if (V & TIMED && blockIdx.x == 0 && threadIdx.x % 128 == 0)
        for (int i = 0; i < PARTS; i++) p.clocks[threadIdx.x / 128 * 16 + i] += clocks[i];
#endif
}

}  // namespace

fused::kernel_fn fused::kernel_of(plan_precision precision, int variant) {
    if (precision == PLAN_TF32) return variant ? NULL : fused_kernel<__half, 0>;
    switch (variant) {
        case 0: return fused_kernel<__nv_bfloat16, 0>;
        case TIMED: return fused_kernel<__nv_bfloat16, TIMED>;
        case NO_GELU: return fused_kernel<__nv_bfloat16, NO_GELU>;
        case NO_WEIGHTS: return fused_kernel<__nv_bfloat16, NO_WEIGHTS>;
        case NO_PRODUCTS: return fused_kernel<__nv_bfloat16, NO_PRODUCTS>;
    }
    return NULL;
}
