// flash.cu - attention over a few hundred tokens on tensor cores: a block per group and head, with
// all of its queries, keys and values in shared memory. Forward: a warp takes 16 queries and sees 32
// keys at a time under a running softmax. Backward: a warp owns 16 keys and sees 16 queries at a
// time; the slopes of the scores go through shared memory for the gradients of the queries, 32 of
// which the warps then form together. Every sum has one owner and a fixed order.
#include "nn/cuda/device.cuh"
#include "nn/cuda/flash.h"
#include "nn/cuda/mma.cuh"

namespace {

enum {
    ROWS = NN_CUDA_FLASH_TOKENS,  // room for tokens: 18 tiles of 16
    DEPTH = NN_CUDA_FLASH_DEPTH,
    TILE_BYTES = ROWS * DEPTH * 2,
    FORWARD_WARPS = 9,   // two tiles of queries each
    BACKWARD_WARPS = 18  // a tile of keys each
};

#define LOG2E 1.4426950408889634f

struct flash {
    int tokens, heads;
    int64_t stride;  // of a token in qkv
    const bf16* qkv;
    bf16* y;
    float* lse;
    const bf16* dy;
    bf16* dqkv;
    float scale;  // of scores, in units of log 2
};

// the rows of one matrix of a head into shared memory; 0 past the last token
__device__ __forceinline__ void bring(uint32_t to, const bf16* from, int64_t stride, int tokens) {
    for (int i = threadIdx.x; i < ROWS * 8; i += blockDim.x) {
        int row = i >> 3, piece = i & 7, there = row < tokens;
        copy16(to + piece_at(row, piece), from + (there ? row : 0) * stride + piece * 8,
               there ? 16 : 0);
    }
}

// ---- forward ------------------------------------------------------------------------------------

__global__ void __launch_bounds__(FORWARD_WARPS * 32, 2) forward_kernel(flash f) {
    extern __shared__ __align__(128) unsigned char room[];
    uint32_t q_at = shared_address(room), k_at = q_at + TILE_BYTES, v_at = k_at + TILE_BYTES;
    int group = blockIdx.x / f.heads, head = blockIdx.x % f.heads, width = f.heads * DEPTH;
    const bf16* from = f.qkv + (int64_t)group * f.tokens * f.stride + head * DEPTH;
    bring(q_at, from, f.stride, f.tokens);
    bring(k_at, from + width, f.stride, f.tokens);
    bring(v_at, from + 2 * width, f.stride, f.tokens);
    copies_done();
    __syncthreads();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int tile = warp; tile * 16 < f.tokens; tile += FORWARD_WARPS) {
        uint32_t q[4][4];
#pragma unroll
        for (int k = 0; k < 4; k++) ldsm4(q[k], a_at(q_at, tile * 16, k, lane));
        float y[8][4] = {}, most[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};
        for (int first = 0; first < f.tokens; first += 32) {
            float s[4][4] = {};
#pragma unroll
            for (int k = 0; k < 4; k++)
#pragma unroll
                for (int n = 0; n < 2; n++) {
                    uint32_t b[4];
                    ldsm4(b, b_at(k_at, first + 16 * n, k, lane));
                    mma(s[2 * n], q[k], b[0], b[1]);
                    mma(s[2 * n + 1], q[k], b[2], b[3]);
                }
            float high[2] = {-INFINITY, -INFINITY};
#pragma unroll
            for (int n = 0; n < 4; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int key = first + 8 * n + 2 * (lane & 3) + (i & 1);
                    s[n][i] = key < f.tokens ? s[n][i] * f.scale : -INFINITY;
                    high[i >> 1] = fmaxf(high[i >> 1], s[n][i]);
                }
#pragma unroll
            for (int r = 0; r < 2; r++) {
                high[r] = fmaxf(high[r], __shfl_xor_sync(0xffffffffu, high[r], 1));
                high[r] = fmaxf(high[r], __shfl_xor_sync(0xffffffffu, high[r], 2));
                high[r] = fmaxf(high[r], most[r]);
                float shrink = exp2f(most[r] - high[r]);
                most[r] = high[r];
                total[r] *= shrink;
#pragma unroll
                for (int n = 0; n < 8; n++) {
                    y[n][2 * r] *= shrink;
                    y[n][2 * r + 1] *= shrink;
                }
            }
#pragma unroll
            for (int n = 0; n < 4; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    s[n][i] = exp2f(s[n][i] - most[i >> 1]);
                    total[i >> 1] += s[n][i];
                }
#pragma unroll
            for (int k = 0; k < 2; k++) {
                uint32_t p[4] = {pack2(s[2 * k][0], s[2 * k][1]), pack2(s[2 * k][2], s[2 * k][3]),
                                 pack2(s[2 * k + 1][0], s[2 * k + 1][1]),
                                 pack2(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
                for (int n = 0; n < 4; n++) {
                    uint32_t b[4];
                    ldsm4_turned(b, b_turned_at(v_at, first + 16 * k, n, lane));
                    mma(y[2 * n], p, b[0], b[1]);
                    mma(y[2 * n + 1], p, b[2], b[3]);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            total[r] += __shfl_xor_sync(0xffffffffu, total[r], 1);
            total[r] += __shfl_xor_sync(0xffffffffu, total[r], 2);
            int row = tile * 16 + (lane >> 2) + 8 * r;
            if (row >= f.tokens) continue;
            float by = 1.0f / total[r];
            bf16* to = f.y + ((int64_t)group * f.tokens + row) * width + head * DEPTH;
#pragma unroll
            for (int n = 0; n < 8; n++)
                *(uint32_t*)(to + 8 * n + 2 * (lane & 3)) =
                    pack2(y[n][2 * r] * by, y[n][2 * r + 1] * by);
            if ((lane & 3) == 0)
                f.lse[((int64_t)group * f.heads + head) * f.tokens + row] =
                    most[r] + log2f(total[r]);
        }
    }
}

// ---- backward -----------------------------------------------------------------------------------

enum {
    STEP = 32,                     // queries whose slopes are in shared memory at a time
    SLOPE_BYTES = ROWS * STEP * 2  // (keys, queries)
};

// byte offset of 16-byte piece `piece` (0 .. 3) of a key's slopes
__device__ __forceinline__ uint32_t slope_at(int key, int piece) {
    return (uint32_t)(key * (STEP * 2) + ((piece ^ (key >> 1 & 3)) << 4));
}

// dy into shared memory, and dy . y of every row; eight threads have a row
__device__ __forceinline__ void bring_slopes(uint32_t to, const flash& f, int group, int head,
                                             float* mean) {
    int width = f.heads * DEPTH;
    for (int i = threadIdx.x; i < ROWS * 8; i += blockDim.x) {
        int row = i >> 3, piece = i & 7;
        uint4 g = make_uint4(0, 0, 0, 0), v = g;
        if (row < f.tokens) {
            int64_t at = ((int64_t)group * f.tokens + row) * width + head * DEPTH + piece * 8;
            g = *(const uint4*)(f.dy + at);
            v = *(const uint4*)(f.y + at);
        }
        const uint32_t a[4] = {g.x, g.y, g.z, g.w}, b[4] = {v.x, v.y, v.z, v.w};
        float sum = 0;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            float2 s = unpack2(a[k]), t = unpack2(b[k]);
            sum += s.x * t.x + s.y * t.y;
        }
        for (int o = 4; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
        if (piece == 0) mean[row] = sum;
        asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to + piece_at(row, piece)),
                     "r"(g.x), "r"(g.y), "r"(g.z), "r"(g.w));
    }
}

__global__ void __launch_bounds__(BACKWARD_WARPS * 32, 1) backward_kernel(flash f) {
    extern __shared__ __align__(128) unsigned char room[];
    uint32_t q_at = shared_address(room), k_at = q_at + TILE_BYTES, v_at = k_at + TILE_BYTES;
    uint32_t g_at = v_at + TILE_BYTES, s_at = g_at + TILE_BYTES;
    float* mean = (float*)(room + 4 * TILE_BYTES + 2 * SLOPE_BYTES);
    float* lse = mean + ROWS;
    int group = blockIdx.x / f.heads, head = blockIdx.x % f.heads, width = f.heads * DEPTH;
    const bf16* from = f.qkv + (int64_t)group * f.tokens * f.stride + head * DEPTH;
    bf16* to = f.dqkv + (int64_t)group * f.tokens * f.stride + head * DEPTH;
    bring(q_at, from, f.stride, f.tokens);
    bring(k_at, from + width, f.stride, f.tokens);
    bring(v_at, from + 2 * width, f.stride, f.tokens);
    bring_slopes(g_at, f, group, head, mean);
    // queries that are not there have probability 0 everywhere
    for (int i = threadIdx.x; i < ROWS; i += blockDim.x)
        lse[i] = i < f.tokens ? f.lse[((int64_t)group * f.heads + head) * f.tokens + i] : INFINITY;
    copies_done();
    __syncthreads();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, key = warp * 16;
    float dk[8][4] = {}, dv[8][4] = {};
    for (int step = 0; step * STEP < f.tokens; step++) {
        uint32_t slopes = s_at + (step & 1) * SLOPE_BYTES;
#pragma unroll 1  // both at once would not fit in registers
        for (int half = 0; half < 2; half++) {
            int query = step * STEP + half * 16;
            float s[2][4] = {}, dp[2][4] = {};
#pragma unroll
            for (int k = 0; k < 4; k++) {
                uint32_t a[4], b[4];
                ldsm4(a, a_at(k_at, key, k, lane));
                ldsm4(b, b_at(q_at, query, k, lane));
                mma(s[0], a, b[0], b[1]);
                mma(s[1], a, b[2], b[3]);
                ldsm4(a, a_at(v_at, key, k, lane));
                ldsm4(b, b_at(g_at, query, k, lane));
                mma(dp[0], a, b[0], b[1]);
                mma(dp[1], a, b[2], b[3]);
            }
#pragma unroll
            for (int n = 0; n < 2; n++) {
                int at = query + 8 * n + 2 * (lane & 3);
                float2 l = *(const float2*)(lse + at), m = *(const float2*)(mean + at);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int row = key + (lane >> 2) + 8 * (i >> 1);
                    float p = exp2f(s[n][i] * f.scale - (i & 1 ? l.y : l.x));
                    s[n][i] = row < f.tokens ? p : 0.0f;
                    dp[n][i] = s[n][i] * (dp[n][i] - (i & 1 ? m.y : m.x));
                }
            }
            uint32_t p[4] = {pack2(s[0][0], s[0][1]), pack2(s[0][2], s[0][3]),
                             pack2(s[1][0], s[1][1]), pack2(s[1][2], s[1][3])};
            uint32_t d[4] = {pack2(dp[0][0], dp[0][1]), pack2(dp[0][2], dp[0][3]),
                             pack2(dp[1][0], dp[1][1]), pack2(dp[1][2], dp[1][3])};
#pragma unroll
            for (int n = 0; n < 4; n++) {
                uint32_t b[4];
                ldsm4_turned(b, b_turned_at(g_at, query, n, lane));
                mma(dv[2 * n], p, b[0], b[1]);
                mma(dv[2 * n + 1], p, b[2], b[3]);
                ldsm4_turned(b, b_turned_at(q_at, query, n, lane));
                mma(dk[2 * n], d, b[0], b[1]);
                mma(dk[2 * n + 1], d, b[2], b[3]);
            }
            // slopes of this warp's keys: rows lane / 4 and 8 more, queries in pieces of 8
#pragma unroll
            for (int n = 0; n < 2; n++)
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    int row = key + (lane >> 2) + 8 * r;
                    asm volatile("st.shared.b32 [%0], %1;" ::"r"(
                                     slopes + slope_at(row, 2 * half + n) + 4 * (lane & 3)),
                                 "r"(d[2 * n + r]));
                }
        }
        __syncthreads();
        // dq of 32 queries: a warp has 16 of them and 8 of the head's numbers
        if (warp < 16) {
            int part = warp & 1, column = warp >> 1;
            float dq[4] = {};
            for (int k = 0; k < f.tokens; k += 16) {
                uint32_t a[4], b[2];
                int row = k + ((lane >> 4) << 3) + (lane & 7);
                ldsm4_turned(a, slopes + slope_at(row, 2 * part + ((lane >> 3) & 1)));
                ldsm2_turned(b, k_at + piece_at(k + (lane & 15), column));
                mma(dq, a, b[0], b[1]);
            }
#pragma unroll
            for (int r = 0; r < 2; r++) {
                int row = step * STEP + part * 16 + (lane >> 2) + 8 * r;
                if (row < f.tokens)
                    *(uint32_t*)(to + row * f.stride + column * 8 + 2 * (lane & 3)) =
                        pack2(dq[2 * r] * 0.125f, dq[2 * r + 1] * 0.125f);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int row = key + (lane >> 2) + 8 * r;
        if (row >= f.tokens) continue;
        bf16* line = to + row * f.stride + 2 * (lane & 3);
#pragma unroll
        for (int n = 0; n < 8; n++) {
            *(uint32_t*)(line + width + 8 * n) =
                pack2(dk[n][2 * r] * 0.125f, dk[n][2 * r + 1] * 0.125f);
            *(uint32_t*)(line + 2 * width + 8 * n) = pack2(dv[n][2 * r], dv[n][2 * r + 1]);
        }
    }
}

static_assert(DEPTH == 64, "1 / sqrt(64) is written as 0.125");

static flash flash_of(const nn_cuda_flash* f) {
    return flash{f->tokens,
                 f->heads,
                 (int64_t)3 * f->heads * DEPTH,
                 (const bf16*)f->qkv,
                 (bf16*)f->y,
                 f->lse,
                 (const bf16*)f->dy,
                 (bf16*)f->dqkv,
                 0.125f * LOG2E};
}

static void run(nn_cuda_queue* q, const nn_cuda_flash* f, void (*kernel)(flash), int warps,
                int bytes) {
    cudaError_t st = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (st != cudaSuccess) nn_cuda_note(q, "attention: %s", cudaGetErrorString(st));
    kernel<<<f->groups * f->heads, warps * 32, bytes, (cudaStream_t)nn_cuda_stream(q)>>>(
        flash_of(f));
    nn_cuda_check(q, "attention");
}

}  // namespace

void nn_cuda_flash_forward(nn_cuda_queue* q, const nn_cuda_flash* f) {
    run(q, f, forward_kernel, FORWARD_WARPS, 3 * TILE_BYTES);
}

void nn_cuda_flash_backward(nn_cuda_queue* q, const nn_cuda_flash* f) {
    run(q, f, backward_kernel, BACKWARD_WARPS,
        4 * TILE_BYTES + 2 * SLOPE_BYTES + 2 * ROWS * (int)sizeof(float));
}
