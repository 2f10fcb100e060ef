// cluster_kernel.cu - the cluster way: a whole search as one kernel that never lets go of its
// weights.
//
// A search of 300 candidates is 150 macro steps, one after the other, of six products each: little
// arithmetic, many dependencies. So the time goes into passing activations on, and weights must not
// be fetched again and again. Sixteen multiprocessors form a cluster that holds the transition
// once: each block owns 1/16 of the output features of every product, its weights in registers and
// shared memory, and the cluster owns 48 candidates through all macro steps. After each product the
// blocks send one another their slices, already in the order in which the next product's mma
// instructions read them (an accumulator fragment m16n8 is exactly half an operand fragment
// m16k16). Seven clusters cover 300 candidates. They meet once per iteration, at the costs; elites
// and the refit are computed by every block for itself, from the same numbers in the same order.
//
// LayerNorm is not applied before but after the product:
//     LN(h) W = (h W - mean 1'W) / deviation,
// so that raw h can be sent at once, and row statistics travel beside it as partial sums.
//
// Waiting needs no barriers across the cluster: a block sends product p + 1 only after all slices
// of p have come in, so a buffer is never overwritten before everyone has read it as long as two
// consecutive products use different buffers.
#include <type_traits>

#include "plan/cuda/cluster.cuh"
#include "plan/cuda/mma.cuh"

using namespace cluster_layout;

namespace {

// ---- small parts --------------------------------------------------------------------------------

__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}
template <typename T>
__device__ __forceinline__ void multiply(float (&d)[4], uint2 lo, uint2 hi, uint2 w) {
    const uint32_t a[4] = {lo.x, lo.y, hi.x, hi.y};
    ::multiply<T>(d, a, w.x, w.y);
}

// Byte of feature f (of the 32 that c and u fill) and a row, as an operand fragment.
__device__ __forceinline__ int cu_at(int row, int f) {
    return (((f >> 3) * 3 + (row >> 4)) * 32 + (row & 7) * 4 + ((f & 7) >> 1)) * 8 +
           ((row >> 3) & 1) * 4 + (f & 1) * 2;
}

// ---- exchange -----------------------------------------------------------------------------------

// A slice goes through global memory: every block writes its own there, and one bulk copy hands it
// to all sixteen blocks' shared memory at once. Measured against this on an H200 (ms a search):
// 2.35; stores into the others' shared memory and a cluster barrier 3.44; sixteen bulk copies from
// shared memory to shared memory 3.31; no exchange at all, and so wrong results, 1.62.

// Sends `chunk` bytes that this block has written to `from` into place `rank` of everyone's buffer;
// all threads call it.
__device__ __forceinline__ void post(uint32_t base, uint32_t rank, const char* from, int buffer,
                                     int chunk, int which) {
    uint32_t bar = base + AT_BAR + (uint32_t)which * 8;
    asm volatile("fence.proxy.async.global;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
            "[%0], [%1], %2, [%3], %4;" ::"r"(base + (uint32_t)buffer + rank * (uint32_t)chunk),
            "l"(from), "r"(chunk), "r"(bar), "h"((uint16_t)0xffff)
            : "memory");
    if (threadIdx.x == 32)
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar),
                     "r"(RANKS * chunk)
                     : "memory");
}

// Waits until all sixteen slices have come.
__device__ __forceinline__ void await(uint32_t base, int which, uint32_t& phases) {
    uint32_t bar = base + AT_BAR + (uint32_t)which * 8, parity = phases >> which & 1;
    while (!barrier_passed(bar, parity)) continue;
    phases ^= 1u << which;
}

// ---- products -----------------------------------------------------------------------------------

// acc[row tile][feature tile] of 6 k16 tiles x 3 feature tiles; weight(i) is this lane's part of
// the i-th fragment. `a` points at this lane's part of the first k8 group; group i lies (i / per) *
// stride + (i % per) * K8 on.
template <typename T, int PER, int STRIDE, typename W>
__device__ __forceinline__ void products(float (&acc)[3][3][4], W weight, const char* a) {
#pragma unroll
    for (int i = 0; i < 9; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) acc[i / 3][i % 3][j] = 0.0f;
#pragma unroll
    for (int k = 0; k < 6; k++) {
        const char *lo = a + 2 * k / PER * STRIDE + 2 * k % PER * K8,
                   *hi = a + (2 * k + 1) / PER * STRIDE + (2 * k + 1) % PER * K8;
        uint2 w[3];
#pragma unroll
        for (int n = 0; n < 3; n++) w[n] = weight(k * 3 + n);
#pragma unroll
        for (int m = 0; m < 3; m++) {
            uint2 x = *(const uint2*)(lo + m * 256), y = *(const uint2*)(hi + m * 256);
#pragma unroll
            for (int n = 0; n < 3; n++) multiply<T>(acc[m][n], x, y, w[n]);
        }
    }
}

// This warp's sums, as two planes of (row, row + 8) per tile, into its slot.
template <int N>
__device__ __forceinline__ void write_partial(char* smem, int slot, int lane,
                                              const float (&acc)[3][N][4]) {
#pragma unroll
    for (int m = 0; m < 3; m++)
#pragma unroll
        for (int n = 0; n < N; n++) {
            char* to = smem + AT_PARTIAL + (slot * 9 + m * N + n) * 512 + lane * 8;
            *(float2*)to = make_float2(acc[m][n][0], acc[m][n][1]);
            *(float2*)(to + 256) = make_float2(acc[m][n][2], acc[m][n][3]);
        }
}

// Sum over `slots` slots (every STEP-th) of one plane of a tile.
template <int SLOTS, int STEP>
__device__ __forceinline__ float2 read_partial(const char* smem, int slot, int tile, int plane,
                                               int lane) {
    const char* at = smem + AT_PARTIAL + (slot * 9 + tile) * 512 + plane * 256 + lane * 8;
    float2 sum = *(const float2*)at;
#pragma unroll
    for (int i = 1; i < SLOTS; i++) {
        float2 v = *(const float2*)(at + i * STEP * 9 * 512);
        sum.x += v.x;
        sum.y += v.y;
    }
    return sum;
}

// Mean and 1 / deviation of every row from the sixteen partial sums beside h (Chan et al.).
__device__ __forceinline__ void row_statistics(char* smem, int tid) {
    if (tid >= ROWS * 4) return;
    int row = tid / 4, quarter = tid % 4;
    const char* at = smem + AT_H + quarter * 4 * H_CHUNK + 3 * K8 + row * 8;
    float2 part[4];
    float sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        part[i] = *(const float2*)(at + i * H_CHUNK);
        sum += part[i].x;
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    float mean = sum * (1.0f / HIDDEN);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float d = part[i].x * (1.0f / 24) - mean;
        squares += fmaf(24.0f * d, d, part[i].y);
    }
    squares += __shfl_xor_sync(~0u, squares, 1);
    squares += __shfl_xor_sync(~0u, squares, 2);
    if (quarter == 0)
        *(float2*)(smem + AT_ROW + row * 8) =
            make_float2(mean, rsqrtf(fmaf(squares, 1.0f / HIDDEN, 1e-5f)));
}

// The residual stream's slice of this thread (one row, 3 x 2 features) and its row's partial sums
// into the stage. Warps 0 .. 5 only: warp = 2 row tile + half.
template <typename T>
__device__ __forceinline__ void stage_h(char* stage, const float (&h)[3][2], int warp, int lane) {
    int m = warp >> 1, half = warp & 1;
    float sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int n = 0; n < 3; n++) {
        *(uint32_t*)(stage + (n * 3 + m) * 256 + lane * 8 + half * 4) =
            pack_two<T>(h[n][0], h[n][1]);
        sum += h[n][0] + h[n][1];
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    float mean = sum * (1.0f / 24);
#pragma unroll
    for (int n = 0; n < 3; n++) {
        squares = fmaf(h[n][0] - mean, h[n][0] - mean, squares);
        squares = fmaf(h[n][1] - mean, h[n][1] - mean, squares);
    }
    squares += __shfl_xor_sync(~0u, squares, 1);
    squares += __shfl_xor_sync(~0u, squares, 2);
    if (lane % 4 == 0)
        *(float2*)(stage + 3 * K8 + (m * 16 + half * 8 + lane / 4) * 8) = make_float2(sum, squares);
}

// One row's two features of tile `tile` (3 x feature group + row tile): LayerNorm's correction,
// bias, GELU.
__device__ __forceinline__ float2 up_half(const cluster_args& p, const char* smem, int b, int tile,
                                          int half, int lane) {
    int n = tile / 3, r = tile % 3;
    float2 v = read_partial<4, 2>(smem, n / 3, r * 3 + n % 3, half, lane);
    float2 s = *(const float2*)(smem + AT_ROW + (r * 16 + half * 8 + lane / 4) * 8);
    const char* at = smem + AT_VECTORS + (b * 48 + n * 8 + lane % 4 * 2) * 4;
    float2 bias = *(const float2*)(at + V_UP * 4), sums = *(const float2*)(at + V_UP_SUM * 4);
    float d = s.y * p.scale_up[b];
    return make_float2(gelu_fast(fmaf(d, fmaf(-s.x, sums.x, v.x), bias.x)),
                       gelu_fast(fmaf(d, fmaf(-s.x, sums.y, v.y), bias.y)));
}

// ---- between iterations -------------------------------------------------------------------------

// All clusters' costs are there.
__device__ __forceinline__ void meet(const cluster_args& p, int iteration) {
    if (threadIdx.x == 0) {
        unsigned seen, target = (unsigned)(iteration + 1) * (gridDim.x / RANKS);
        do
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                         : "=r"(seen)
                         : "l"(p.barrier)
                         : "memory");
        while (seen < target);
    }
    __syncthreads();
}

// Ranks the costs, refits mean and spread; the same in every block.
__device__ __noinline__ void refit(const cluster_args& p, char* smem, const float* value,
                                   int iteration, int report) {
    int tid = (int)threadIdx.x, lane = tid % 32, n = p.n, padded = (n + 3) / 4 * 4;
    int width = p.horizon * p.s.action;
    uint32_t* key = (uint32_t*)(smem + AT_PARTIAL);
    float* taken = (float*)(key + padded);  // (elites, width)
    int *elite = (int*)(smem + AT_ELITE), *count = (int*)(smem + AT_COUNT);
    float *mean = (float*)(smem + AT_MEAN), *spread = (float*)(smem + AT_SPREAD);
    for (int i = tid; i < padded; i += THREADS) key[i] = i < n ? order_key(__ldcg(value + i)) : ~0u;
    if (tid == 0) *count = 0;
    __syncthreads();
    for (int first = tid - lane; first < n; first += THREADS) {
        int i = first + lane, rank = 0;
        uint32_t mine = i < n ? key[i] : ~0u;
        // equal costs rank by number: those before count too
        for (int j = 0; j < first; j += 4) {
            uint4 k = *(const uint4*)(key + j);
            rank += (k.x <= mine) + (k.y <= mine) + (k.z <= mine) + (k.w <= mine);
        }
        for (int j = first; j < first + 32 && j < n; j++)
            rank += j < i ? key[j] <= mine : j > i && key[j] < mine;
        for (int j = first + 32; j < padded; j += 4) {
            uint4 k = *(const uint4*)(key + j);
            rank += (k.x < mine) + (k.y < mine) + (k.z < mine) + (k.w < mine);
        }
        if (i < n && rank < p.s.elites) {
            elite[rank] = i;
            if (mine < order_key(__int_as_float(0x7f800000))) atomicAdd(count, 1);
        }
    }
    __syncthreads();
    int elites = *count;  // finite ones come first
    for (int e = tid; e < elites * width; e += THREADS) {
        int i = elite[e / width], j = e % width;
        float v = mean[j];
        if (i)
            v = __fadd_rn(
                v, __fmul_rn(spread[j], p.noise[((size_t)iteration * n + i) * 4 * p.quads + j]));
        taken[e] = v;
    }
    __syncthreads();
    for (int j = tid; j < width && elites > 0; j += THREADS) {
        double sum = 0.0, squares = 0.0;
#pragma unroll 6
        for (int i = 0; i < elites; i++) sum += (double)taken[i * width + j];
        double centre = sum / elites;
#pragma unroll 6
        for (int i = 0; i < elites; i++) {
            double d = (double)taken[i * width + j] - centre;
            squares = __dadd_rn(squares, __dmul_rn(d, d));
        }
        mean[j] = (float)centre;
        if (elites > 1) spread[j] = (float)sqrt(squares / (elites - 1));
    }
    __syncthreads();
    if (!report) return;
    search* q = search_at(p.searches, p.s, 0);
    for (int j = tid; j < width; j += THREADS) search_mean(q, p.s)[j] = mean[j];
    if (tid == 0) {
        double sum = 0.0;
        for (int i = 0; i < elites; i++) sum += (double)__ldcg(value + elite[i]);
        q->elites = elites;
        q->elite_cost = elites ? (float)(sum / elites) : __int_as_float(0x7f800000);
    }
}

// ---- the kernel ---------------------------------------------------------------------------------

template <typename T, bool TIMED>
__global__ void __launch_bounds__(THREADS, 1)
    cluster_kernel(const __grid_constant__ cluster_args p) {
#if __CUDA_ARCH__ >= 900  // elsewhere cluster_why_not() says no
    extern __shared__ __align__(128) char smem[];
    const uint32_t base = (uint32_t)__cvta_generic_to_shared(smem);
    const int tid = (int)threadIdx.x, warp = tid / 32, lane = tid % 32;
    const int g = lane / 4, pair = lane % 4 * 2;  // row within 8; first of two features within 8
    const uint32_t rank = blockIdx.x % RANKS;
    const int cluster = (int)blockIdx.x / RANKS, clusters = (int)gridDim.x / RANKS;
    const int config = p.s.config, action = p.s.action;
    // warps 0 .. 5 finish products: one row, two features of every tile
    const bool finishes = warp < 6;
    const int m = warp >> 1, half = warp & 1, row = m * 16 + half * 8 + g;
    search* q = search_at(p.searches, p.s, 0);

    // weights
    uint2 up[BLOCKS][18], down[18];  // the rest is in shared memory
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
        for (int i = 0; i < 18; i++) {
            size_t at = (((size_t)b * RANKS + rank) * WARPS + (size_t)warp) * 18 * 32 +
                        (size_t)(i * 32 + lane);
            asm volatile("ld.global.nc.v2.u32 {%0,%1}, [%2];"
                         : "=r"(up[b][i].x), "=r"(up[b][i].y)
                         : "l"(p.w_up + at));
            if (b == 0)
                asm volatile("ld.global.nc.v2.u32 {%0,%1}, [%2];"
                             : "=r"(down[i].x), "=r"(down[i].y)
                             : "l"(p.w_down + at));
        }
    for (int i = tid; i < WARPS * 18 * 32; i += THREADS)
        ((uint2*)(smem + AT_W_DOWN))[i] = p.w_down[(RANKS + rank) * WARPS * 18 * 32 + i];
    for (int i = tid; i < 30 * 32; i += THREADS)
        ((uint2*)(smem + AT_W_IN))[i] = p.w_in[rank * 30 * 32 + i];
    for (int i = tid; i < 48 * 32; i += THREADS)
        ((uint2*)(smem + AT_W_HEADS))[i] = p.w_heads[rank * 48 * 32 + i];
    float* vectors = (float*)(smem + AT_VECTORS);
    for (int i = tid; i < VECTORS; i += THREADS) vectors[i] = p.vectors[rank * VECTORS + i];
    // the search
    float *mean = (float*)(smem + AT_MEAN), *spread = (float*)(smem + AT_SPREAD);
    float* bound = (float*)(smem + AT_BOUND);
    for (int i = tid; i < p.horizon * action && !p.u; i += THREADS) {
        mean[i] = search_mean(q, p.s)[i];
        spread[i] = search_spread(q, p.s)[i];
    }
    for (int i = tid; i < action; i += THREADS) {
        bound[i] = p.u_low[i];
        bound[32 + i] = p.u_high[i];
    }
    for (int i = tid; i < 4 * K8 / 4; i += THREADS) ((uint32_t*)(smem + AT_CU))[i] = 0;
    if (tid == 0) {
        for (uint32_t i = 0; i < 3; i++)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(base + AT_BAR + i * 8)
                         : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    cluster_sync();

    uint32_t phases = 0;  // parity to wait for, per barrier
    int stage = 0;        // two take turns: the copy of the one before last is surely over
    auto staged = [&]() { return p.stage + ((size_t)blockIdx.x * 2 + (size_t)stage) * G_CHUNK; };
    auto send = [&](int buffer, int chunk, int which) {
        post(base, rank, staged(), buffer, chunk, which);
        stage ^= 1;
    };
    unsigned long long* clocks = (unsigned long long*)(smem + AT_CLOCK);  // and the last reading
    auto mark = [&](int part) {
        if (!TIMED || blockIdx.x || tid) return;
        unsigned long long now = clock64();
        clocks[part] += now - clocks[CLOCKS];
        clocks[CLOCKS] = now;
    };
    if (TIMED && tid == 0) {
        for (int i = 0; i < CLOCKS; i++) clocks[i] = 0;
        clocks[CLOCKS] = clock64();
    }

    // after the last iteration, once more for the mean's own path
    const int rounds = p.iterations + (p.u ? 0 : 1);
    for (int it = 0; it < rounds; it++) {
        const bool last = !p.u && it == p.iterations;
        if (last && cluster) break;
        const int step_rows = ROWS * clusters;
        for (int first = cluster * ROWS; first < (last ? 1 : p.n); first += step_rows) {
            // candidate u of macro step t, clamped as it will be executed, into the operands
            auto fill_u = [&](int t) {
                int r = tid / 5, id = first + r;  // five threads a row
                if (r >= ROWS) return;
                for (int k = tid % 5; k < action; k += 5) {
                    int j = t * action + k;
                    float v;
                    if (p.u) {
                        v = id < p.n ? p.u[((size_t)id * p.horizon + t) * action + k] : 0.0f;
                    } else {
                        v = mean[j];
                        if (!last && id && id < p.n)
                            v = __fadd_rn(
                                v, __fmul_rn(spread[j],
                                             p.noise[((size_t)it * p.n + id) * 4 * p.quads + j]));
                    }
                    v = v < bound[k] ? bound[k] : v;
                    v = v > bound[32 + k] ? bound[32 + k] : v;
                    *(T*)(smem + AT_CU + cu_at(r, config + k)) = operand<T>(v);
                }
            };
            float h[3][2], fiber[2], c[2];
            const float* m0 = search_m0(q, p.s);
            fiber[0] = m0[rank * 8 + pair];
            fiber[1] = m0[rank * 8 + pair + 1];
            c[0] = pair < config ? q->c0[pair] : 0.0f;
            c[1] = pair + 1 < config ? q->c0[pair + 1] : 0.0f;
            for (int i = tid; i < 16 * 3 * 32; i += THREADS) {
                int f = i / 96 * 8 + i % 4 * 2;
                uint32_t both = pack_two<T>(m0[f], m0[f + 1]);
                *(uint2*)(smem + AT_G + i * 8) = make_uint2(both, both);
            }
            if (finishes) {
                if (pair < config) *(T*)(smem + AT_CU + cu_at(row, pair)) = operand<T>(c[0]);
                if (pair + 1 < config)
                    *(T*)(smem + AT_CU + cu_at(row, pair + 1)) = operand<T>(c[1]);
            }
            if (tid < ROWS) ((int*)(smem + AT_BAD))[tid] = 0;
            fill_u(0);
            __syncthreads();
            mark(CLOCK_START);

            for (int t = 0; t < p.horizon; t++) {
                // h = [m, c, u] W_in + b: warps 0 .. 3 take the fiber, warp 4 c and u
                if (warp < 5) {
                    float acc[3][3][4] = {};
                    const char* a = smem + (warp < 4 ? AT_G + warp * 4 * K8 : AT_CU) + lane * 8;
#pragma unroll
                    for (int k = 0; k < 2; k++)
#pragma unroll
                        for (int r = 0; r < 3; r++) {
                            uint2 x = *(const uint2*)(a + 2 * k * K8 + r * 256),
                                  y = *(const uint2*)(a + (2 * k + 1) * K8 + r * 256);
#pragma unroll
                            for (int n = 0; n < 3; n++)
                                multiply<T>(
                                    acc[r][n], x, y,
                                    ((const uint2*)(smem + AT_W_IN))[((warp * 2 + k) * 3 + n) * 32 +
                                                                     lane]);
                        }
                    write_partial<3>(smem, warp, lane, acc);
                }
                __syncthreads();
                mark(CLOCK_IN);
                if (finishes) {
#pragma unroll
                    for (int n = 0; n < 3; n++) {
                        float2 v = read_partial<5, 1>(smem, 0, m * 3 + n, half, lane);
                        const float* b = vectors + V_IN + n * 8 + pair;
                        h[n][0] = fmaf(v.x, p.scale_in, b[0]);
                        h[n][1] = fmaf(v.y, p.scale_in, b[1]);
                    }
                    stage_h<T>(staged(), h, warp, lane);
                }
                send(AT_H, H_CHUNK, 0);
                mark(CLOCK_IN_END);
                if (t + 1 < p.horizon) fill_u(t + 1);
                await(base, 0, phases);
                mark(CLOCK_IN_WAIT);

#pragma unroll
                for (int b = 0; b < BLOCKS; b++) {
                    float acc[3][3][4];
                    // g = GELU(LN(h) W1 + b1): warp = 2 (quarter of the inputs) + half of outputs
                    products<T, 3, H_CHUNK>(
                        acc, [&](int i) { return up[b][i]; },
                        smem + AT_H + (warp >> 1) * 4 * H_CHUNK + lane * 8);
                    row_statistics(smem, tid);
                    write_partial<3>(smem, warp, lane, acc);
                    __syncthreads();
                    mark(CLOCK_UP);
                    // tiles warp and warp + 8 whole, the last two by halves
                    char* out = staged() + lane * 8;
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        int tile = warp + i * 8;
                        float2 v = up_half(p, smem, b, tile, 0, lane),
                               w = up_half(p, smem, b, tile, 1, lane);
                        *(uint2*)(out + tile * 256) =
                            make_uint2(pack_two<T>(v.x, v.y), pack_two<T>(w.x, w.y));
                    }
                    if (warp < 4) {
                        int tile = 16 + (warp >> 1);
                        float2 v = up_half(p, smem, b, tile, warp & 1, lane);
                        *(uint32_t*)(out + tile * 256 + (warp & 1) * 4) = pack_two<T>(v.x, v.y);
                    }
                    send(AT_G, G_CHUNK, 1);
                    mark(CLOCK_UP_END);
                    await(base, 1, phases);
                    mark(CLOCK_UP_WAIT);
                    // h += g W2 + b2: every warp an eighth of the inputs
                    products<T, 12, 0>(
                        acc,
                        [&](int i) {
                            const uint2* held = (const uint2*)(smem + AT_W_DOWN);
                            return b == 0 ? down[i] : held[(warp * 18 + i) * 32 + lane];
                        },
                        smem + AT_G + warp * 12 * K8 + lane * 8);
                    write_partial<3>(smem, warp, lane, acc);
                    __syncthreads();
                    mark(CLOCK_DOWN);
                    if (finishes) {
#pragma unroll
                        for (int n = 0; n < 3; n++) {
                            float2 v = read_partial<8, 1>(smem, 0, m * 3 + n, half, lane);
                            const float* bias = vectors + V_DOWN + b * 24 + n * 8 + pair;
                            h[n][0] += fmaf(v.x, p.scale_down[b], bias[0]);
                            h[n][1] += fmaf(v.y, p.scale_down[b], bias[1]);
                        }
                        stage_h<T>(staged(), h, warp, lane);
                    }
                    send(AT_H, H_CHUNK, 0);
                    mark(CLOCK_DOWN_END);
                    await(base, 0, phases);
                    mark(CLOCK_DOWN_WAIT);
                }

                // [m, c] += LN(h) W + b: 8 of the fiber here, c in every block
                {
                    float acc[3][2][4] = {};
                    const char* a = smem + AT_H + warp * 2 * H_CHUNK + lane * 8;
#pragma unroll
                    for (int k = 0; k < 3; k++)
#pragma unroll
                        for (int r = 0; r < 3; r++) {
                            uint2 x = *(const uint2*)(a + 2 * k / 3 * H_CHUNK + 2 * k % 3 * K8 +
                                                      r * 256),
                                  y = *(const uint2*)(a + (2 * k + 1) / 3 * H_CHUNK +
                                                      (2 * k + 1) % 3 * K8 + r * 256);
#pragma unroll
                            for (int n = 0; n < 2; n++)
                                multiply<T>(
                                    acc[r][n], x, y,
                                    ((const uint2*)(smem +
                                                    AT_W_HEADS))[((warp * 3 + k) * 2 + n) * 32 +
                                                                 lane]);
                        }
                    row_statistics(smem, tid);
                    write_partial<2>(smem, warp, lane, acc);
                    __syncthreads();
                    mark(CLOCK_HEADS);
                }
                if (finishes) {
                    float2 s = *(const float2*)(smem + AT_ROW + row * 8);
                    float d = s.y * p.scale_heads;
                    float2 v = read_partial<8, 1>(smem, 0, m * 2, half, lane);
                    const float *bias = vectors + V_HEADS + pair,
                                *sums = vectors + V_HEADS_SUM + pair;
                    fiber[0] += fmaf(d, fmaf(-s.x, sums[0], v.x), bias[0]);
                    fiber[1] += fmaf(d, fmaf(-s.x, sums[1], v.y), bias[1]);
                    v = read_partial<8, 1>(smem, 0, m * 2 + 1, half, lane);
                    c[0] += fmaf(d, fmaf(-s.x, sums[8], v.x), bias[8]);
                    c[1] += fmaf(d, fmaf(-s.x, sums[9], v.y), bias[9]);
                    if (pair < 2 * p.s.pairs) {
                        float length = sqrtf(fmaf(c[0], c[0], fmaf(c[1], c[1], 1e-12f)));
                        c[0] /= length;
                        c[1] /= length;
                    }
                    *(uint32_t*)(staged() + m * 256 + lane * 8 + half * 4) =
                        pack_two<T>(fiber[0], fiber[1]);
                    float* seen = (float*)(smem + AT_C) + row * 8;
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        int f = pair + i, id = first + row;
                        if (f >= config) continue;
                        *(T*)(smem + AT_CU + cu_at(row, f)) = operand<T>(c[i]);
                        seen[f] = c[i];
                        if (!isfinite(c[i])) ((int*)(smem + AT_BAD))[row] = 1;
                        if (rank == 0 && !last && id < p.n)
                            p.c[((size_t)id * p.horizon + t) * config + f] = c[i];
                        if (rank == 0 && last && row == 0) p.path[t * config + f] = c[i];
                    }
                }
                if (t + 1 < p.horizon) {
                    send(AT_G, X_CHUNK, 2);
                    mark(CLOCK_HEADS_END);
                    await(base, 2, phases);
                    mark(CLOCK_HEADS_WAIT);
                } else {
                    __syncthreads();
                    mark(CLOCK_HEADS_END);
                }
            }
            if (!p.u && !last && rank == 0 && tid < ROWS && first + tid < p.n) {
                float v = __int_as_float(0x7f800000);
                if (((int*)(smem + AT_BAD))[tid])
                    atomicAdd(&q->nonfinite, 1);
                else
                    v = cost_of(p.cost, (const float*)(smem + AT_C) + tid * 8, q->goal);
                p.value[(p.iterations - 1 - it) & 1][first + tid] = v;
            }
            // the last h was read and nothing sent since: all must be done before it is overwritten
            cluster_sync();
            mark(CLOCK_COST);
        }
        if (p.u || last) continue;
        if (rank == 0 && tid == 0) {
            __threadfence();
            atomicAdd(p.barrier, 1u);
        }
        meet(p, it);
        mark(CLOCK_MEET);
        refit(p, smem, p.value[(p.iterations - 1 - it) & 1], it,
              blockIdx.x == 0 && it + 1 == p.iterations);
        mark(CLOCK_REFIT);
    }
    for (int i = tid; TIMED && i < CLOCKS && blockIdx.x == 0; i += THREADS) p.clocks[i] = clocks[i];
    cluster_sync();  // nobody leaves while others may still send to it
#endif
}

}  // namespace

cluster_fn cluster_kernel_of(plan_precision precision, bool timed) {
    if (precision == PLAN_TF32)
        return timed ? cluster_kernel<__half, true> : cluster_kernel<__half, false>;
    return timed ? cluster_kernel<__nv_bfloat16, true> : cluster_kernel<__nv_bfloat16, false>;
}
