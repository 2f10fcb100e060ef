// tile.h - register tiles of a matrix product, compiled once per instruction set (tile_simd.c) and
// chosen at run time. A tile is up to `rows` x `cols` numbers of the result, held in registers
// while the sum over the inner dimension runs; everything else about products is in gemm.c and
// conv.c.
#ifndef NN_CPU_TILE_H
#define NN_CPU_TILE_H

#include <stdint.h>

// What happens to the sum of a tile: c = sum, c += sum, or c = bias + sum.
typedef enum nn_tile_end { NN_TILE_SET, NN_TILE_ADD, NN_TILE_BIAS } nn_tile_end;

// One column strip of a product: c (m, width) from op(a) (m, depth) and b (depth, width).
// The inner dimension comes in `segments` runs of `depth` numbers; b's rows follow each other
// through all of them.
typedef struct nn_strip {
    const float* a;  // element (i, s, p): by rows a[i * a_step + s * a_segment + p],
                     // by columns a[i + s * a_segment + p * a_step]
    int64_t a_step, a_segment;
    int by_columns;
    int m, depth, segments;
    const float* b;  // (segments * depth, b_step); at least nn_tile_width(width) numbers a row
    int64_t b_step;
    const float* ahead;  // of the same shape: what the next strip will read. NULL: b is nearby
    float* c;            // (m, ldc)
    int64_t ldc;
    int width;  // columns of the result: 1 .. cols
    nn_tile_end end;
    const float* bias;  // (width), NN_TILE_BIAS only
} nn_strip;

typedef struct nn_tiles {
    const char* name;
    int rows, cols, lanes;  // largest tile, numbers in a vector
    void (*strip)(const nn_strip* s);
    // to (depth, stride) = columns of b (depth, width), padded with zeros to whole vectors
    void (*pack)(int depth, int width, const float* b, int64_t ldb, float* to);
    // to (depth, stride) = columns of b' where b is (width, depth)
    void (*pack_turned)(int depth, int width, const float* b, int64_t ldb, float* to);
} nn_tiles;

const nn_tiles* nn_tiles_get(void);

#endif
