// embed_kernels.cuh - around the product that makes patches tokens: bytes to patches in bfloat16,
// the stream of tokens with class and positions, and back: its gradient in bfloat16, summed over
// pictures. A thread has eight neighbouring numbers.
#ifndef NN_CUDA_EMBED_KERNELS_CUH
#define NN_CUDA_EMBED_KERNELS_CUH

#include "nn/cuda/mma.cuh"

namespace {

enum { EMBED_VEC = 8, EMBED_THREADS = 256, EMBED_CHUNKS = 32 };

// Patches in a row of a picture. Their lines of bytes lie together, and so do they.
struct stripe {
    int side, patch, padded;  // padded: numbers of a patch with the zeros behind them
    float scale[3], shift[3];
    const uint8_t* frames;
    bf16* to;  // (patches, padded)
};

__device__ __forceinline__ void store8(bf16* to, const float (&v)[EMBED_VEC]) {
    *(uint4*)to =
        make_uint4(pack2(v[0], v[1]), pack2(v[2], v[3]), pack2(v[4], v[5]), pack2(v[6], v[7]));
}

__device__ __forceinline__ void load8(float (&v)[EMBED_VEC], const float* from) {
    float4 a = *(const float4*)from, b = *(const float4*)(from + 4);
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
    v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
}

__device__ __forceinline__ void store8(float* to, const float (&v)[EMBED_VEC]) {
    *(float4*)to = make_float4(v[0], v[1], v[2], v[3]);
    *(float4*)(to + 4) = make_float4(v[4], v[5], v[6], v[7]);
}

// A block takes a stripe. A patch's row of bytes is even, so that two neighbours lie in one row.
__device__ __forceinline__ void cut_patches(const stripe& s) {
    LAUNCHED_ROOM(room);
    uint32_t line = (uint32_t)s.side * 3, row = (uint32_t)s.patch * 3, inputs = row * s.patch;
    uint32_t pieces = (uint32_t)s.padded / EMBED_VEC, count = (uint32_t)(s.side / s.patch) * pieces;
    const uint8_t* from = s.frames + (int64_t)blockIdx.x * line * s.patch;
    bf16* to = s.to + (int64_t)blockIdx.x * count * EMBED_VEC;
    for (uint32_t i = threadIdx.x * 16; i < line * s.patch; i += blockDim.x * 16)
        *(uint4*)(room + i) = *(const uint4*)(from + i);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
        uint32_t patch = i / pieces, k = i % pieces * EMBED_VEC, y = k / row, x = k % row;
        float scale[3], shift[3], v[EMBED_VEC];
#pragma unroll
        for (uint32_t c = 0; c < 3; c++) {
            uint32_t of = (k + c) % 3;  // a row of a patch holds whole pixels
            scale[c] = of == 0 ? s.scale[0] : of == 1 ? s.scale[1] : s.scale[2];
            shift[c] = of == 0 ? s.shift[0] : of == 1 ? s.shift[1] : s.shift[2];
        }
#pragma unroll
        for (uint32_t j = 0; j < EMBED_VEC; j += 2) {
            v[j] = v[j + 1] = 0;
            if (k + j < inputs) {
                uint32_t two = *(const uint16_t*)(room + y * line + patch * row + x);
                v[j] = (float)(two & 255) * scale[j % 3] + shift[j % 3];
                v[j + 1] = (float)(two >> 8) * scale[(j + 1) % 3] + shift[(j + 1) % 3];
            }
            x += 2;
            if (x == row) x = 0, y++;
        }
        store8(to + i * EMBED_VEC, v);
    }
}

// The stream of tokens: a picture has `tokens`, the first of which is the class.
struct stream {
    int64_t rows;  // tokens of all pictures
    int tokens, width;
    const bf16* products;  // (pictures, tokens - 1, width)
    const float *bias, *first, *positions;
    float* y;
};

__device__ __forceinline__ void join_tokens(const stream& s) {
    uint32_t pieces = (uint32_t)s.width / EMBED_VEC;
    int64_t i = (int64_t)blockIdx.x * EMBED_THREADS + threadIdx.x;
    int64_t row = i / pieces;
    if (row >= s.rows) return;
    uint32_t picture = (uint32_t)row / (uint32_t)s.tokens,
             token = (uint32_t)row % (uint32_t)s.tokens;
    int col = (int)(i - row * pieces) * EMBED_VEC;
    float v[EMBED_VEC], at[EMBED_VEC];
    load8(at, s.positions + (int64_t)token * s.width + col);
    if (token == 0) {
        load8(v, s.first + col);
    } else {
        load8(v, s.bias + col);
        uint4 p = *(const uint4*)(s.products + (row - picture - 1) * s.width + col);
        const uint32_t word[4] = {p.x, p.y, p.z, p.w};
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float2 two = unpack2(word[j]);
            v[2 * j] += two.x, v[2 * j + 1] += two.y;
        }
    }
#pragma unroll
    for (int j = 0; j < EMBED_VEC; j++) v[j] += at[j];
    store8(s.y + row * s.width + col, v);
}

// The gradient of the stream: patches' tokens in bfloat16, and sums over the pictures of each of
// EMBED_CHUNKS chunks.
struct stream_back {
    int pictures, tokens, width, blocks;  // blocks: of a chunk
    const float* dy;
    bf16* products;
    float* part;  // (EMBED_CHUNKS, tokens, width)
};

__device__ __forceinline__ void split_tokens(const stream_back& s) {
    int chunk = (int)blockIdx.x / s.blocks, size = s.tokens * s.width;
    int i = ((int)blockIdx.x % s.blocks * EMBED_THREADS + (int)threadIdx.x) * EMBED_VEC;
    if (i >= size) return;
    int first = (int)((int64_t)s.pictures * chunk / EMBED_CHUNKS);
    int last = (int)((int64_t)s.pictures * (chunk + 1) / EMBED_CHUNKS);
    float sum[EMBED_VEC] = {};
#pragma unroll 4
    for (int p = first; p < last; p++) {
        float v[EMBED_VEC];
        load8(v, s.dy + (int64_t)p * size + i);
#pragma unroll
        for (int j = 0; j < EMBED_VEC; j++) sum[j] += v[j];
        if (i >= s.width) store8(s.products + (int64_t)p * (size - s.width) + i - s.width, v);
    }
    store8(s.part + (int64_t)chunk * size + i, sum);
}

// The chunks added up onto the gradients of positions and class, and into total for the bias's.
struct stream_sums {
    int tokens, width;
    const float* part;
    float *positions, *first, *total;  // the first two may be NULL
};

__device__ __forceinline__ void add_chunks(const stream_sums& s) {
    int i = (int)(blockIdx.x * EMBED_THREADS + threadIdx.x), size = s.tokens * s.width;
    if (i >= size) return;
    float sum = 0;
#pragma unroll 8
    for (int c = 0; c < EMBED_CHUNKS; c++) sum += s.part[(int64_t)c * size + i];
    if (s.positions) s.positions[i] += sum;
    if (s.first && i < s.width) s.first[i] += sum;
    s.total[i] = sum;
}

}  // namespace

#endif
