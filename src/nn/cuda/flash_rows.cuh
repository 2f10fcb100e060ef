// flash_rows.cuh - what attention's kernels share: a head's rows between the device's memory,
// shared memory and registers, and sums over rows.
#ifndef NN_CUDA_FLASH_ROWS_CUH
#define NN_CUDA_FLASH_ROWS_CUH

#include "nn/cuda/flash.h"
#include "nn/cuda/mma.cuh"
#include "nn/cuda/warpgroup.cuh"

namespace {

enum {
    ROWS = NN_CUDA_FLASH_TOKENS,  // room for tokens: 17 tiles of 16
    DEPTH = NN_CUDA_FLASH_DEPTH,
    ROW = DEPTH * 2,  // bytes
    TILE = 16 * ROW,
    TILE_BYTES = ROWS * ROW,
    FLASH_WARPS = 4
};

#define LOG2E 1.4426950408889634f

struct flash {
    int tokens, queries, heads;
    int64_t stride;  // of a token in qkv
    const bf16* qkv;
    bf16* y;
    float* lse;
    const bf16* dy;
    bf16* dqkv;
    float *mean, *sums;
    float scale;  // of scores, in units of log 2
};

// The head that a block works on.
struct head {
    int width, warp, lane;
    int64_t qkv, y, rows, sums;  // where it begins in qkv, in y, in lse, in sums

    __device__ explicit head(const flash& f) {
        int group = (int)blockIdx.x / f.heads, number = (int)blockIdx.x % f.heads;
        width = f.heads * DEPTH;
        warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
        qkv = (int64_t)group * f.tokens * f.stride + number * DEPTH;
        y = (int64_t)group * f.tokens * width + number * DEPTH;
        rows = ((int64_t)group * f.heads + number) * f.tokens;
        sums = (int64_t)group * 3 * width + number * DEPTH;
    }
};

// Which of the other side's tiles a warp sees: first, first + step ..
struct turns {
    int first, step;
};

// Calls wide(row) for the warps of a warpgroup that takes 64 rows, `row` being a warp's first of
// 16; up to 16 rows are left, for which narrow(row, turns) is called with every warp seeing a part
// of what is to be seen, and then joined(row). Without warpgroups a warp takes 16 rows alone.
template <bool GROUPS, class WIDE, class NARROW, class JOINED>
__device__ __forceinline__ void for_tiles(const head& h, int rows, const WIDE& wide,
                                          const NARROW& narrow, const JOINED& joined) {
    if (!GROUPS) {
        for (int row = h.warp * 16; row < rows; row += FLASH_WARPS * 16) narrow(row, turns{0, 1});
        return;
    }
    int row = 0;
#pragma unroll 1
    for (; row + 16 < rows; row += 64) wide(row + h.warp * 16);
    if (row >= rows) return;
    narrow(row, turns{h.warp, FLASH_WARPS});
    __syncthreads();
    joined(row);
}

// the rows of one matrix of a head into shared memory; 0 past the last token
__device__ __forceinline__ void bring(uint32_t to, const bf16* from, int64_t stride, int tokens) {
    for (int i = threadIdx.x; i < ROWS * 8; i += blockDim.x) {
        int row = i >> 3, piece = i & 7, there = row < tokens;
        copy16(to + piece_at(row, piece), from + (there ? row : 0) * stride + piece * 8,
               there ? 16 : 0);
    }
}

// waits for what was brought
template <bool GROUPS>
__device__ __forceinline__ void brought(void) {
    copies_done();
    if (GROUPS) group_publish();
    __syncthreads();
}

// The operand a (16 x 16 numbers, four of them along a row of 64) of rows `row` .. of a matrix in
// the device's memory; 0 past the last token.
__device__ __forceinline__ void rows_of(uint32_t (&a)[4][4], const bf16* from, int64_t stride,
                                        int row, int tokens, int lane) {
    int low = row + (lane >> 2), high = low + 8, column = 2 * (lane & 3);
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int r = i & 1 ? high : low;
            a[k][i] = r < tokens
                          ? *(const uint32_t*)(from + r * stride + 16 * k + 8 * (i >> 1) + column)
                          : 0;
        }
}

// a tile of 16 rows times by[0] (rows 0 .. 7) and by[1] into bfloat16
__device__ __forceinline__ void store_tile(bf16* to, int64_t stride, const float (&x)[8][4],
                                           const float (&by)[2], int row, int tokens, int lane) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int at = row + (lane >> 2) + 8 * r;
        if (at >= tokens) continue;
        bf16* line = to + at * stride + 2 * (lane & 3);
#pragma unroll
        for (int n = 0; n < 8; n++)
            *(uint32_t*)(line + 8 * n) = pack2(x[n][2 * r] * by[r], x[n][2 * r + 1] * by[r]);
    }
}

// ---- rows that the warps share ------------------------------------------------------------------

enum { PART = 16 * DEPTH };  // a warp's part of 16 rows

// Where numbers 2 r and 2 r + 1 of x[n] lie in a part.
__device__ __forceinline__ int part_at(int n, int r, int lane) {
    return ((lane >> 2) + 8 * r) * DEPTH + 8 * n + 2 * (lane & 3);
}

// A warp's part of 16 rows into shared memory, where nobody reads operands any more.
__device__ __forceinline__ void store_part(float* parts, const float (&x)[8][4], const head& h) {
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int r = 0; r < 2; r++)
            *(float2*)(parts + h.warp * PART + part_at(n, r, h.lane)) =
                make_float2(x[n][2 * r], x[n][2 * r + 1]);
}

// The parts of 16 rows added up, times `by`, into bfloat16: a thread has eight columns of a row.
__device__ __forceinline__ void join_parts(bf16* to, int64_t stride, const float* parts, float by,
                                           int row, int rows) {
    int at = row + (int)threadIdx.x / 8, column = (int)threadIdx.x % 8 * 8;
    if (at >= rows) return;
    float sum[8] = {};
    for (int w = 0; w < FLASH_WARPS; w++)
#pragma unroll
        for (int i = 0; i < 8; i++) sum[i] += parts[w * PART + (at - row) * DEPTH + column + i];
#pragma unroll
    for (int i = 0; i < 8; i += 2)
        *(uint32_t*)(to + at * stride + column + i) = pack2(sum[i] * by, sum[i + 1] * by);
}

static_assert(FLASH_WARPS * 32 == 16 * DEPTH / 8, "a thread joins eight columns of a row");

// ---- operands -----------------------------------------------------------------------------------

// results of 16 columns as an operand
__device__ __forceinline__ void operand_of(uint32_t (&a)[4], const float (&low)[4],
                                           const float (&high)[4]) {
    a[0] = pack2(low[0], low[1]), a[1] = pack2(low[2], low[3]);
    a[2] = pack2(high[0], high[1]), a[3] = pack2(high[2], high[3]);
}

// s = a times the next 8 W rows of a matrix, a's 64 columns long
template <int W>
__device__ __forceinline__ void group_scores(float (&s)[W][4], const uint32_t (&a)[4][4],
                                             uint64_t rows) {
    group_mma<false, false>(s, a[0], rows);
#pragma unroll
    for (int k = 1; k < 4; k++) group_mma<true, false>(s, a[k], rows + 2 * k);
}

// y += w times the next 16 G rows of a matrix
template <int G>
__device__ __forceinline__ void group_mix(float (&y)[8][4], const uint32_t (&w)[G][4],
                                          uint64_t rows) {
#pragma unroll
    for (int k = 0; k < G; k++) group_mma<true, true>(y, w[k], rows + k * (TILE >> 4));
}

// ---- sums over rows -----------------------------------------------------------------------------

// Adds a tile's results (16 x 64) up over its rows, onto a warp's line of sums.
__device__ __forceinline__ void add_rows(float* line, const float (&x)[8][4], int row, int tokens,
                                         int lane) {
    int low = row + (lane >> 2);
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float sum = (low < tokens ? x[n][i] : 0) + (low + 8 < tokens ? x[n][i + 2] : 0);
            for (int o = 4; o < 32; o *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
            if (lane < 4) line[8 * n + 2 * lane + i] += sum;
        }
}

__device__ __forceinline__ void clear_sums(float* line, int lines) {
    for (int i = threadIdx.x; i < lines * DEPTH; i += blockDim.x) line[i] = 0;
}

// The warps' lines added up, times `by`.
__device__ __forceinline__ void store_sums(const float* line, float by, float* to) {
    __syncthreads();
    if (threadIdx.x >= DEPTH) return;
    float total = 0;
    for (int w = 0; w < FLASH_WARPS; w++) total += line[w * DEPTH + threadIdx.x];
    to[threadIdx.x] = total * by;
}

static_assert(DEPTH == 64, "1 / sqrt(64) is written as 0.125");

}  // namespace

#endif
