// product.cu - the layered way's kernels: matrix products with their epilogues, and LayerNorm.
//
// 16-bit operands go through the tensor cores (mma.sync m16n8k16, float32 sums), float32 ones
// through fused multiply-adds. Every output is summed over its inputs in ascending order by one
// thread or one chain of mma instructions, whatever the tile: a row's bits depend neither on the
// tile's size nor on the rows beside it.
#include "plan/cuda/mma.cuh"

#define SPATIAL_REAL float
#define SPATIAL_SQRT sqrtf
#define SPATIAL_FN static __device__
#include "nn/spatial.h"

// ---- epilogue -----------------------------------------------------------------------------------

// Two neighbouring outputs (column even) of one row.
template <typename T, product_kind KIND>
static __device__ __forceinline__ void finish(const product& p, int row, int col, float v0,
                                              float v1) {
    if (row >= p.rows || col >= p.outputs) return;
    bool two = col + 1 < p.outputs;
    if (KIND == PRODUCT_STORE || KIND == PRODUCT_ADD) {
        float* out = (float*)p.out + (size_t)row * p.out_stride + col;
        out[0] = KIND == PRODUCT_ADD ? out[0] + v0 : v0;
        if (two) out[1] = KIND == PRODUCT_ADD ? out[1] + v1 : v1;
    } else if (KIND == PRODUCT_GELU) {
        T* out = (T*)p.out + (size_t)row * p.out_stride + col;
        out[0] = operand<T>(sizeof(T) == 4 ? gelu_exact(v0) : gelu_fast(v0));
        if (two) out[1] = operand<T>(sizeof(T) == 4 ? gelu_exact(v1) : gelu_fast(v1));
    } else {
        finish_state<T>(p, row, col, v0, v1);
    }
}

// ---- 16-bit operands ----------------------------------------------------------------------------

constexpr int BK = 32, STRIDE = BK + 8;  // 80 bytes a row: ldmatrix meets every bank once

// Tile of BM rows x BN outputs, warps of WM x WN, STAGES slices of BK inputs in flight.
template <int BM, int BN, int WM, int WN, int STAGES>
struct tile {
    static constexpr int M = BM, N = BN, wm = WM, wn = WN, stages = STAGES;
    static constexpr int threads = BM / WM * (BN / WN) * 32;
    static constexpr int bytes = STAGES * (BM + BN) * STRIDE * 2;
};
typedef tile<32, 32, 16, 16, 6> small_tile;    // one search: as many blocks as there are processors
typedef tile<128, 128, 64, 32, 4> large_tile;  // many searches: as few loads as possible

template <typename T, product_kind KIND, typename TILE>
__global__ void __launch_bounds__(TILE::threads) product_kernel(const __grid_constant__ product p) {
    constexpr int BM = TILE::M, BN = TILE::N, MT = TILE::wm / 16, NT = TILE::wn / 8;
    extern __shared__ __align__(16) char shared[];
    int tid = (int)threadIdx.x, warp = tid / 32, lane = tid % 32;
    int row0 = (int)blockIdx.y * BM, col0 = (int)blockIdx.x * BN;
    int wrow = warp / (BN / TILE::wn) * TILE::wm, wcol = warp % (BN / TILE::wn) * TILE::wn;
    int in = p.l.in, slices = in / BK;
    const T *a = (const T*)p.a + (size_t)row0 * in, *w = (const T*)p.l.w + (size_t)col0 * in;
    uint32_t base = (uint32_t)__cvta_generic_to_shared(shared);

    // a stage: BM rows of a, then BN rows of w, each BK inputs in 4 pieces of 16 bytes
    auto load = [&](int slice) {
        uint32_t stage = base + (uint32_t)(slice % TILE::stages) * (BM + BN) * STRIDE * 2;
        for (int i = tid; i < (BM + BN) * 4; i += TILE::threads) {
            int r = i / 4, piece = i % 4;
            const T* from = r < BM ? a + (size_t)r * in : w + (size_t)(r - BM) * in;
            copy16(stage + (uint32_t)(r * STRIDE + piece * 8) * 2, from + slice * BK + piece * 8);
        }
    };
    float acc[MT][NT][4] = {};
#pragma unroll
    for (int i = 0; i < TILE::stages - 1; i++) {
        if (i < slices) load(i);
        asm volatile("cp.async.commit_group;");
    }
    for (int slice = 0; slice < slices; slice++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(TILE::stages - 2));
        __syncthreads();
        if (slice + TILE::stages - 1 < slices) load(slice + TILE::stages - 1);
        asm volatile("cp.async.commit_group;");
        uint32_t stage = base + (uint32_t)(slice % TILE::stages) * (BM + BN) * STRIDE * 2;
        uint32_t at_a = stage + (uint32_t)((wrow + lane % 16) * STRIDE + lane / 16 * 8) * 2;
        uint32_t at_w =
            stage +
            (uint32_t)((BM + wcol + lane / 16 * 8 + lane % 8) * STRIDE + lane / 8 % 2 * 8) * 2;
#pragma unroll
        for (int k = 0; k < BK; k += 16) {
            uint32_t fa[MT][4], fw[NT / 2][4];
#pragma unroll
            for (int m = 0; m < MT; m++)
                load_matrices(fa[m], at_a + (uint32_t)(m * 16 * STRIDE + k) * 2);
#pragma unroll
            for (int n = 0; n < NT / 2; n++)
                load_matrices(fw[n], at_w + (uint32_t)(n * 16 * STRIDE + k) * 2);
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int n = 0; n < NT; n++)
                    multiply<T>(acc[m][n], fa[m], fw[n / 2][n % 2 * 2], fw[n / 2][n % 2 * 2 + 1]);
        }
    }
#pragma unroll
    for (int n = 0; n < NT; n++) {
        int col = col0 + wcol + n * 8 + lane % 4 * 2;
        float b0 = p.l.bias[col], b1 = p.l.bias[col + 1];
#pragma unroll
        for (int m = 0; m < MT; m++) {
            int row = row0 + wrow + m * 16 + lane / 4;
            finish<T, KIND>(p, row, col, fmaf(acc[m][n][0], p.l.scale, b0),
                            fmaf(acc[m][n][1], p.l.scale, b1));
            finish<T, KIND>(p, row + 8, col, fmaf(acc[m][n][2], p.l.scale, b0),
                            fmaf(acc[m][n][3], p.l.scale, b1));
        }
    }
}

// ---- float32 operands ---------------------------------------------------------------------------

constexpr int FK = 16;  // inputs of a slice

// BM x BN outputs, TM x TN per thread; the sums start from the bias and take the inputs in order,
// as on the CPU. The next slice is on its way to registers while this one is multiplied.
template <product_kind KIND, int BM, int BN, int TM, int TN>
__global__ void __launch_bounds__(BM* BN / (TM * TN))
    product_float(const __grid_constant__ product p) {
    constexpr int THREADS = BM * BN / (TM * TN), LA = BM * FK / 4 / THREADS,
                  LW = BN * FK / 4 / THREADS;
    static_assert(LA >= 1 && LW >= 1, "each thread copies whole float4s");
    __shared__ __align__(16) float sa[2][FK][BM + 4], sw[2][FK][BN];
    int tid = (int)threadIdx.x, tr = tid / (BN / TN) * TM, tc = tid % (BN / TN) * TN;
    int row0 = (int)blockIdx.y * BM, col0 = (int)blockIdx.x * BN, in = p.l.in, out = p.l.out;
    const float *a = (const float*)p.a + (size_t)row0 * in, *w = (const float*)p.l.w + col0;
    float acc[TM][TN];
    float4 na[LA], nw[LW];
    auto fetch = [&](int k0) {
#pragma unroll
        for (int i = 0; i < LA; i++) {
            int e = tid + i * THREADS;
            na[i] = *(const float4*)(a + (size_t)(e / (FK / 4)) * in + k0 + e % (FK / 4) * 4);
        }
#pragma unroll
        for (int i = 0; i < LW; i++) {
            int e = tid + i * THREADS;
            nw[i] = *(const float4*)(w + (size_t)(k0 + e / (BN / 4)) * out + e % (BN / 4) * 4);
        }
    };
    auto keep = [&](int slot) {
#pragma unroll
        for (int i = 0; i < LA; i++) {
            int e = tid + i * THREADS, r = e / (FK / 4), k = e % (FK / 4) * 4;
            sa[slot][k][r] = na[i].x, sa[slot][k + 1][r] = na[i].y;
            sa[slot][k + 2][r] = na[i].z, sa[slot][k + 3][r] = na[i].w;
        }
#pragma unroll
        for (int i = 0; i < LW; i++) {
            int e = tid + i * THREADS;
            *(float4*)&sw[slot][e / (BN / 4)][e % (BN / 4) * 4] = nw[i];
        }
    };
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j++) acc[i][j] = p.l.bias[col0 + tc + j];
    fetch(0);
    keep(0);
    __syncthreads();
    for (int k0 = 0, slot = 0; k0 < in; k0 += FK, slot ^= 1) {
        if (k0 + FK < in) fetch(k0 + FK);
#pragma unroll
        for (int k = 0; k < FK; k++) {
            float x[TM], y[TN];
#pragma unroll
            for (int i = 0; i < TM; i += 4) *(float4*)&x[i] = *(const float4*)&sa[slot][k][tr + i];
#pragma unroll
            for (int j = 0; j < TN; j += 4) *(float4*)&y[j] = *(const float4*)&sw[slot][k][tc + j];
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < TN; j++) acc[i][j] = fmaf(y[j], x[i], acc[i][j]);
        }
        if (k0 + FK < in) keep(slot ^ 1);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j += 2)
            finish<float, KIND>(p, row0 + tr + i, col0 + tc + j, acc[i][j], acc[i][j + 1]);
}

// ---- launching ----------------------------------------------------------------------------------

constexpr int MANY_ROWS = 2048;  // from here on large tiles fill the GPU

template <typename T, product_kind KIND, typename TILE>
static void launch(const product* p, cudaStream_t stream) {
    dim3 grid((unsigned)((p->outputs + TILE::N - 1) / TILE::N),
              (unsigned)((p->rows + TILE::M - 1) / TILE::M));
    product_kernel<T, KIND, TILE><<<grid, TILE::threads, TILE::bytes, stream>>>(*p);
}

template <product_kind KIND>
static void launch_any(plan_precision precision, const product* p, cudaStream_t stream) {
    bool many = p->rows >= MANY_ROWS;
    if (precision == PLAN_FP32) {
        int tile = many ? 128 : 32;
        dim3 grid((unsigned)((p->outputs + tile - 1) / tile),
                  (unsigned)((p->rows + tile - 1) / tile));
        if (many)
            product_float<KIND, 128, 128, 8, 8><<<grid, 256, 0, stream>>>(*p);
        else
            product_float<KIND, 32, 32, 4, 4><<<grid, 64, 0, stream>>>(*p);
    } else if (precision == PLAN_TF32) {
        many ? launch<__half, KIND, large_tile>(p, stream)
             : launch<__half, KIND, small_tile>(p, stream);
    } else {
        many ? launch<__nv_bfloat16, KIND, large_tile>(p, stream)
             : launch<__nv_bfloat16, KIND, small_tile>(p, stream);
    }
}

firm_status product_run(const plan_gpu* g, product_kind kind, const product* p, firm_error* err) {
    plan_precision how = g->setup.precision;
    switch (kind) {
        case PRODUCT_STORE: launch_any<PRODUCT_STORE>(how, p, g->stream); break;
        case PRODUCT_GELU: launch_any<PRODUCT_GELU>(how, p, g->stream); break;
        case PRODUCT_ADD: launch_any<PRODUCT_ADD>(how, p, g->stream); break;
        case PRODUCT_HEADS: launch_any<PRODUCT_HEADS>(how, p, g->stream); break;
    }
    GPU(cudaGetLastError());
    return FIRM_OK;
}

template <typename T, product_kind KIND>
static cudaError_t allow_shared(void) {
    cudaError_t code =
        cudaFuncSetAttribute(product_kernel<T, KIND, large_tile>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, large_tile::bytes);
    if (code != cudaSuccess) return code;
    return cudaFuncSetAttribute(product_kernel<T, KIND, small_tile>,
                                cudaFuncAttributeMaxDynamicSharedMemorySize, small_tile::bytes);
}

template <typename T>
static firm_status allow_all(firm_error* err) {
    GPU((allow_shared<T, PRODUCT_STORE>()));
    GPU((allow_shared<T, PRODUCT_GELU>()));
    GPU((allow_shared<T, PRODUCT_ADD>()));
    GPU((allow_shared<T, PRODUCT_HEADS>()));
    return FIRM_OK;
}

firm_status product_prepare(firm_error* err) {
    TRY(allow_all<__half>(err));
    return allow_all<__nv_bfloat16>(err);
}

// ---- LayerNorm ----------------------------------------------------------------------------------

// One warp: a = (h - mean) / sqrt(variance + eps) of a row; scale and shift are in the weights.
template <typename T>
static __device__ __forceinline__ void normalise_row(const float* h, T* a, int features, int lane) {
    float sum = 0.0f, squares = 0.0f;
    for (int i = lane; i < features; i += 32) sum += h[i];
#pragma unroll
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    float mean = sum / (float)features;
    for (int i = lane; i < features; i += 32) squares = fmaf(h[i] - mean, h[i] - mean, squares);
#pragma unroll
    for (int d = 16; d; d /= 2) squares += __shfl_xor_sync(~0u, squares, d);
    float scale = 1.0f / sqrtf(squares / (float)features + 1e-5f);
    for (int i = lane; i < features; i += 32) a[i] = operand<T>((h[i] - mean) * scale);
}

template <typename T>
__global__ void __launch_bounds__(256)
    normalise_kernel(const float* h, T* a, int rows, int features, int stride) {
    int row = (int)(blockIdx.x * 8 + threadIdx.x / 32);
    if (row >= rows) return;
    normalise_row(h + (size_t)row * stride, a + (size_t)row * stride, features,
                  (int)threadIdx.x % 32);
}

firm_status normalise_run(const plan_gpu* g, int rows, firm_error* err) {
    int blocks = (rows + 7) / 8, n = g->size.hidden, stride = g->size.h_in;
    switch (g->setup.precision) {
        case PLAN_FP32:
            normalise_kernel<<<blocks, 256, 0, g->stream>>>(g->h, (float*)g->a, rows, n, stride);
            break;
        case PLAN_TF32:
            normalise_kernel<<<blocks, 256, 0, g->stream>>>(g->h, (__half*)g->a, rows, n, stride);
            break;
        case PLAN_BF16:
            normalise_kernel<<<blocks, 256, 0, g->stream>>>(g->h, (__nv_bfloat16*)g->a, rows, n,
                                                            stride);
            break;
    }
    GPU(cudaGetLastError());
    return FIRM_OK;
}

// ---- spatial residual ---------------------------------------------------------------------------

struct spatial_args {
    sizes s;
    int rows, t, horizon;
    const float *h, *state, *u, *velocity, *u_low, *u_high;
    void* out;
    nn_push push;
    float mean[2], std[2];
};

// One warp per row, one lane per point of the agent's path.
template <typename T>
__global__ void __launch_bounds__(256) spatial_kernel(const __grid_constant__ spatial_args p) {
    int row = (int)(blockIdx.x * 8 + threadIdx.x / 32), lane = threadIdx.x % 32;
    if (row >= p.rows) return;
    const sizes& s = p.s;
    T* out = (T*)p.out + (size_t)row * s.s_in;
    normalise_row(p.h + (size_t)row * s.h_in, out, s.hidden, lane);
    const float* state = p.state + (size_t)row * s.state;
    float v[2] = {0, 0};
    for (int k = lane; k < s.fiber; k += 32) {
        v[0] = fmaf(state[s.config + k], p.velocity[2 * k], v[0]);
        v[1] = fmaf(state[s.config + k], p.velocity[2 * k + 1], v[1]);
    }
#pragma unroll
    for (int d = 16; d; d /= 2) {
        v[0] += __shfl_xor_sync(~0u, v[0], d);
        v[1] += __shfl_xor_sync(~0u, v[1], d);
    }
    const nn_push& push = p.push;
    if (lane > push.controls) return;
    v[0] += p.velocity[2 * s.fiber];
    v[1] += p.velocity[2 * s.fiber + 1];
    float c[SPATIAL_CONFIG], at[2], speed[2], f[NN_PUSH_EACH(NN_PUSH_BOXES)];
    for (int i = 0; i < 2; i++) {
        c[i] = state[push.angle + i];
        c[2 + i] = state[push.agent[i]];
        c[4 + i] = state[push.block[i]];
    }
    const float* from = p.u + ((size_t)row * p.horizon + p.t) * s.action;
    spatial_start(&push, c, v, at, speed);
    for (int k = 0; k < lane; k++) {
        float u[2];
        for (int i = 0; i < 2; i++) {
            int n = k * push.action + i;
            u[i] = from[n] < p.u_low[n] ? p.u_low[n] : from[n];
            u[i] = u[i] > p.u_high[n] ? p.u_high[n] : u[i];
        }
        spatial_step(&push, u, p.mean, p.std, at, speed);
    }
    spatial_point(&push, c, at, f);
    const int each = NN_PUSH_EACH(push.boxes);
    for (int k = 0; k < each; k++) out[s.hidden + lane * each + k] = operand<T>(f[k]);
}

firm_status spatial_run(const plan_gpu* g, int rows, int t, int horizon, firm_error* err) {
    spatial_args p = {g->size,
                      rows,
                      t,
                      horizon,
                      g->h,
                      g->state,
                      g->u,
                      g->velocity,
                      g->u_low,
                      g->u_high,
                      g->spatial,
                      g->push,
                      {g->action_mean[0], g->action_mean[1]},
                      {g->action_std[0], g->action_std[1]}};
    int blocks = (rows + 7) / 8;
    switch (g->setup.precision) {
        case PLAN_FP32: spatial_kernel<float><<<blocks, 256, 0, g->stream>>>(p); break;
        case PLAN_TF32: spatial_kernel<__half><<<blocks, 256, 0, g->stream>>>(p); break;
        case PLAN_BF16: spatial_kernel<__nv_bfloat16><<<blocks, 256, 0, g->stream>>>(p); break;
    }
    GPU(cudaGetLastError());
    return FIRM_OK;
}
