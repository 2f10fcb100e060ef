// fused_kernel.cu - the batch way on Hopper: the rollouts of an iteration in one kernel, all macro
// steps, no activation ever leaves the multiprocessor.
//
// A block owns 128 rows; two warpgroups take 64 of them each, and keep the residual stream h, 64 x
// 384 float32, in registers as the sums that the second product of each residual block adds to. The
// inner activations exist 64 at a time: outputs of the first product, GELU, the second product's
// operand, all in registers. Only LN(h) and x lie in shared memory, as operands.
//
// Weights come by as a stream: 108 chunks of 24 KB a macro step, stored in the order of their use
// and as the tensor cores read them. One thread fetches them ahead into five places; two blocks
// form a cluster, and each fetches one half for both. While one warpgroup computes GELU or
// LayerNorm, the other can have the tensor cores.
#include "plan/cuda/fused.cuh"
#include "plan/cuda/wgmma.cuh"

#pragma nv_diag_suppress 177  // compiled for other GPUs the kernel is empty, its constants unused

using namespace fused;

namespace {

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

// ---- barriers -----------------------------------------------------------------------------------

// Waits for barrier `which` (AT_FULL or AT_EMPTY + 8 place) to pass the phase of this parity. A
// wait takes microseconds; one of a million tries is a fault of ours, and ends the kernel with a
// note to the host instead of holding the GPU forever.
constexpr int MOST_TRIES = 1 << 20;

__device__ __forceinline__ uint32_t try_wait(uint32_t bar, uint32_t parity) {
    uint32_t done;
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(bar), "r"(parity)
        : "memory");
    return done;
}
__device__ __forceinline__ void wait_for(const fused_args& p, uint32_t base, uint32_t which,
                                         uint32_t parity) {
    int tries = 0;
#pragma unroll 1
    while (!try_wait(base + which, parity))
        if (++tries == MOST_TRIES) {
            p.stuck[1] = which, p.stuck[2] = parity, p.stuck[3] = blockIdx.x;
            p.stuck[4] = threadIdx.x, p.stuck[0] = 1;
            __threadfence_system();
            asm volatile("trap;\nexit;");
            __builtin_unreachable();
        }
}

// Where in the stream of chunks one is.
struct place {
    uint32_t at = 0, parity = 0;
    __device__ __forceinline__ void next() {
        if (++at == PLACES) at = 0, parity ^= 1;
    }
    __device__ __forceinline__ uint32_t before(uint32_t n = 1) const {
        return at >= n ? at - n : at + PLACES - n;
    }
};

// This warp is done with place `at`, in both blocks' eyes. It has only read there, and its reads
// are over: nothing to make visible, and no fence of the cluster, which would take longer than
// GELU.
template <int V>
__device__ __forceinline__ void give(uint32_t base, uint32_t at) {
    if (V & NO_WEIGHTS) return;
    if (threadIdx.x % 32 < PAIR)
        asm volatile(
            "{\n.reg .b32 a;\nmapa.shared::cluster.u32 a, %0, %1;\n"
            "mbarrier.arrive.shared::cluster.b64 _, [a];\n}" ::"r"(base + AT_EMPTY + at * 8),
            "r"(threadIdx.x % 32)
            : "memory");
}

__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

// All four warps of a warpgroup have written operands that the tensor cores read next.
__device__ __forceinline__ void operands_written(int group) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
}

// ---- fetching -----------------------------------------------------------------------------------

struct ahead {
    uint32_t at, parity;  // next place
    int next, left;       // next chunk of a macro step; chunks still to fetch
};

// Fetches this block's half of the next chunk for both, if there is one; one thread.
__device__ __forceinline__ void supply(const fused_args& p, char* smem, uint32_t base) {
    ahead* a = (ahead*)(smem + AT_AHEAD);
    if (a->left == 0) return;
    uint32_t rank = blockIdx.x % PAIR, full = base + AT_FULL + a->at * 8;
    wait_for(p, base, AT_EMPTY + a->at * 8, a->parity ^ 1);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "r"(CHUNK)
                 : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], "
        "[%1], %2, [%3], %4;" ::"r"(base + AT_CHUNKS + a->at * CHUNK + rank * (CHUNK / PAIR)),
        "l"(p.chunks + (size_t)a->next * CHUNK + rank * (CHUNK / PAIR)), "r"(CHUNK / PAIR),
        "r"(full), "h"((uint16_t)3)
        : "memory");
    a->left--;
    a->next = a->next + 1 == p.count ? 0 : a->next + 1;
    if (++a->at == PLACES) a->at = 0, a->parity ^= 1;
}

// ---- the consumers ------------------------------------------------------------------------------

// Byte of operand (row, k) of a warpgroup's side; k even: two operands.
__device__ __forceinline__ uint32_t operand_at(uint32_t row, uint32_t k) {
    return k / 64 * TILE + row * 128 + ((k % 64 / 8) ^ (row & 7)) * 16 + k % 8 * 2;
}

// The next chunk has come; its address. A later one is fetched meanwhile.
template <int V>
__device__ __forceinline__ uint32_t take(const fused_args& p, char* smem, uint32_t base,
                                         const place& w, int before) {
    mark<V>(smem, before);
    if (!(V & NO_WEIGHTS)) {
        if (threadIdx.x == 0) supply(p, smem, base);
        __syncwarp();
        mark<V>(smem, PART_FETCH);
        wait_for(p, base, AT_FULL + w.at * 8, w.parity);
        __syncwarp();  // products are issued by whole warps
        mark<V>(smem, PART_WEIGHTS);
    }
    return base + AT_CHUNKS + w.at * CHUNK;
}

// The thread within its warpgroup, asked for anew: h leaves no registers to keep what follows from
// it.
__device__ __forceinline__ uint32_t thread_again() {
    uint32_t t;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(t));
    return t % 128;
}

// h += bias, and LN(h) as operands. A thread holds rows r and r + 8, features 8 j + pair, + 1; four
// threads hold a row.
template <typename T>
__device__ __forceinline__ void normalise(float (&h0)[96], float (&h1)[96], const float* bias,
                                          char* side, int group) {
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
        if (j == 0) asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
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

// Every row starts at its search's (c0, m0).
template <typename T>
__device__ __forceinline__ void begin_rows(const fused_args& p, char* side, int first) {
    const int thread = (int)thread_again(), config = p.s.config, state = p.s.state;
    for (int i = thread; i < SIDE / 4; i += 128) ((uint32_t*)side)[i] = 0;
    asm volatile("bar.sync %0, 128;" ::"r"(threadIdx.x / 128 + 1) : "memory");
#pragma unroll 1
    for (int e = thread; e < 64 * MAX_STATE / 2; e += 128) {
        int r = e / (MAX_STATE / 2), col = e % (MAX_STATE / 2) * 2;
        search* q = search_at(p.searches, p.s, min(first + r, p.rows - 1) / p.per_search);
        float v[2];
        for (int i = 0; i < 2; i++)
            v[i] = col + i >= state   ? 0.0f
                   : col + i < config ? q->c0[col + i]
                                      : search_m0(q, p.s)[col + i - config];
        *(float2*)(p.state + (size_t)(first + r) * MAX_STATE + col) = make_float2(v[0], v[1]);
        for (int i = 0; i < 2 && col + i < state; i++)
            *(T*)(side + operand_at((uint32_t)r, (uint32_t)(col + i))) = operand<T>(v[i]);
    }
}

// Candidate u of macro step t, clamped as it will be executed, behind the state in x.
template <typename T>
__device__ __forceinline__ void fill_u(const fused_args& p, char* side, int first, int t) {
    const int action = p.s.action;
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

template <typename T, int V>
__device__ __forceinline__ void consume(const fused_args& p, char* smem, uint32_t base, int group) {
    const int first = (int)blockIdx.x * ROWS + group * 64;  // row of the whole
    const uint32_t operands = base + (uint32_t)(group * SIDE);
    begin_rows<T>(p, smem + group * SIDE, first);
    asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
    place w;
#pragma unroll 1
    for (int t = 0; t < p.horizon; t++) {
        float h0[96], h1[96];
#pragma unroll
        for (int i = 0; i < 96; i++) h0[i] = h1[i] = 0.0f;
        fill_u<T>(p, smem + group * SIDE, first, t);
        operands_written(group);
        mark<V>(smem, PART_STATE);

        // h = x W_in: 64 inputs and half of the outputs a chunk
#pragma unroll 1
        for (int k = 0; k < MAX_X / 64; k++) {
            uint64_t a = wgmma_operand(operands + (uint32_t)(k * TILE));
            uint64_t b = wgmma_operand(take<V>(p, smem, base, w, PART_IN));
            wgmma_begin();
#pragma unroll
            for (int i = 0; i < (V & NO_PRODUCTS ? 0 : 4); i++)
                wgmma_192<T>(h0, a + 2 * i, b + 2 * i, 1);
            w.next();
            b = wgmma_operand(take<V>(p, smem, base, w, PART_IN));
            wgmma_begin();
#pragma unroll
            for (int i = 0; i < (V & NO_PRODUCTS ? 0 : 4); i++)
                wgmma_192<T>(h1, a + 2 * i, b + 2 * i, 1);
            wgmma_commit();
            wgmma_wait();
            give<V>(base, w.before());
            give<V>(base, w.at);
            w.next();
        }
        wgmma_own(h0);
        wgmma_own(h1);
        mark<V>(smem, PART_IN);
        const float* bias = p.bias_in;
#pragma unroll 1
        for (int block = 0; block < p.s.blocks; block++) {
            normalise<T>(h0, h1, bias, smem + group * SIDE, group);
            operands_written(group);
            mark<V>(smem, PART_NORM);
            bias = p.bias_down[block];
            const float* up = p.bias_up[block] + thread_again() % 4 * 2;
            const float scale = p.scale_up[block];
#pragma unroll 1
            for (int inner = 0; inner < p.s.inner; inner += 64, up += 64) {
                float s[32];
                uint32_t g[4][4];
                uint64_t a = wgmma_operand(operands),
                         b = wgmma_operand(take<V>(p, smem, base, w, PART_GIVE));
                asm volatile("" : "+l"(a));  // 24 sums with it would not fit beside h
                // 64 outputs: with fewer, shared memory could not feed LN(h) fast enough
                wgmma_begin();
#pragma unroll
                for (int k = 0; k < (V & NO_PRODUCTS ? 0 : 12); k++)
                    wgmma_64<T>(s, a + k / 4 * (TILE >> 4) + k % 4 * 2,
                                b + k / 4 * (TILE >> 4) + k % 4 * 2, k > 0);
                w.next();
                b = wgmma_operand(take<V>(p, smem, base, w, PART_UP));
                a += 3 * (TILE >> 4);
                wgmma_begin();
#pragma unroll
                for (int k = 0; k < (V & NO_PRODUCTS ? 0 : 12); k++)
                    wgmma_64<T>(s, a + k / 4 * (TILE >> 4) + k % 4 * 2,
                                b + k / 4 * (TILE >> 4) + k % 4 * 2, 1);
                wgmma_commit();
                wgmma_wait();
                if (V & NO_PRODUCTS)
                    for (int i = 0; i < 32; i++) s[i] = __int_as_float((int)threadIdx.x + i);
                wgmma_own(s);
                mark<V>(smem, PART_UP);
                give<V>(base, w.before());
                give<V>(base, w.at);
                w.next();
                mark<V>(smem, PART_GIVE);
                activate<T, V>(s, up, scale, g);
                if (V & TIMED) {
                    // GELU ends here, not among the products
#pragma unroll
                    for (int i = 0; i < 16; i++) asm volatile("" : "+r"(g[i / 4][i % 4])::"memory");
                    mark<V>(smem, PART_GELU);
                }
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    b = wgmma_operand_64(take<V>(p, smem, base, w, PART_DOWN));
                    wgmma_begin();
#pragma unroll
                    for (int k = 0; k < (V & NO_PRODUCTS ? 0 : 2); k++)
                        wgmma_192_held<T>(h0, g[2 * half + k], b + 2 * k);
#pragma unroll
                    for (int k = 0; k < (V & NO_PRODUCTS ? 0 : 2); k++)
                        wgmma_192_held<T>(h1, g[2 * half + k], b + (192 * 64 >> 4) + 2 * k);
                    w.next();
                }
                wgmma_commit();
                wgmma_wait();
                mark<V>(smem, PART_DOWN);
                give<V>(base, w.before());
                give<V>(base, w.before(2));
                mark<V>(smem, PART_GIVE);
            }
            wgmma_own(h0);
            wgmma_own(h1);
        }

        // [c, m] += LN(h) W + b
        normalise<T>(h0, h1, bias, smem + group * SIDE, group);
        operands_written(group);
        mark<V>(smem, PART_NORM);
        float2 was[34];
        read_state(p, was, first);
        float y[68];
#pragma unroll
        for (int i = 0; i < 68; i++) y[i] = 0.0f;
#pragma unroll 1
        for (int k = 0; k < HIDDEN / 64; k++) {
            uint64_t a = wgmma_operand(operands + (uint32_t)(k * TILE)),
                     b = wgmma_operand(take<V>(p, smem, base, w, PART_HEADS));
            wgmma_begin();
#pragma unroll
            for (int i = 0; i < (V & NO_PRODUCTS ? 0 : 4); i++)
                wgmma_136<T>(y, a + 2 * i, b + 2 * i, 1);
            wgmma_commit();
            wgmma_wait();
            give<V>(base, w.at);
            w.next();
        }
        wgmma_own(y);
        mark<V>(smem, PART_HEADS);
        // the other warps' products may still read LN(h) where x goes
        asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
        move_on<T>(p, y, was, smem + group * SIDE, first, t);
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

template <typename T, int V>
__global__ void __launch_bounds__(THREADS, 1) __cluster_dims__(PAIR, 1, 1)
    fused_kernel(const __grid_constant__ fused_args p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // elsewhere fused_create() finds the kernel empty
    extern __shared__ char shared[];
    const uint32_t raw = (uint32_t)__cvta_generic_to_shared(shared);
    const uint32_t base = (raw + 1023) / 1024 * 1024;
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < PLACES; i++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(base + AT_FULL + i * 8)
                         : "memory");
            // every consumer warp of both blocks
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 16;" ::"r"(base + AT_EMPTY + i * 8)
                         : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    char* smem = shared + (base - raw);
    __syncthreads();
    cluster_sync();
    if (threadIdx.x == 0) {
        *(ahead*)(smem + AT_AHEAD) = {0, 0, 0, p.horizon * p.count};
        for (int i = 0; i < p.ahead && !(V & NO_WEIGHTS); i++) supply(p, smem, base);
    }
    if (V & TIMED && threadIdx.x % 128 == 0)
        for (int i = 0; i < 16; i++)
            ((unsigned long long*)(smem + AT_CLOCKS))[threadIdx.x / 128 * 16 + i] =
                i < 15 ? 0 : (unsigned long long)clock64();
    __syncwarp();
    consume<T, V>(p, smem, base, (int)threadIdx.x / 128);
    __syncwarp();
    if (V & TIMED && blockIdx.x == 0 && threadIdx.x % 128 == 0)
        for (int i = 0; i < PARTS; i++)
            p.clocks[threadIdx.x / 128 * 16 + i] +=
                ((unsigned long long*)(smem + AT_CLOCKS))[threadIdx.x / 128 * 16 + i];
    cluster_sync();  // nobody leaves while the other block may still write here
#endif
}

}  // namespace

fused::kernel_fn fused::kernel_of(plan_precision precision, int variant) {
    if (precision == PLAN_TF32) return fused_kernel<__half, 0>;
    switch (variant) {
        case TIMED: return fused_kernel<__nv_bfloat16, TIMED>;
        case NO_GELU: return fused_kernel<__nv_bfloat16, NO_GELU>;
        case NO_WEIGHTS: return fused_kernel<__nv_bfloat16, NO_WEIGHTS>;
        case NO_PRODUCTS: return fused_kernel<__nv_bfloat16, NO_PRODUCTS>;
    }
    return fused_kernel<__nv_bfloat16, 0>;
}
