// tile_simd.c - register tiles for one instruction set; compiled once per set, see tile.h.
//
// The numbers of b lie along the vector lanes, those of a are broadcast. Every number of the result
// is a chain of multiply-adds over one strip's inner dimension, in order, wherever it stands in a
// tile: its bits do not depend on the number of rows.
#include <string.h>

#include "nn/cpu/tile.h"

#if defined(FIRM_SIMD_avx512)
enum { LANES = 16, ROWS = 14 };
#elif defined(FIRM_SIMD_avx2)
enum { LANES = 8, ROWS = 6 };
#elif defined(FIRM_SIMD_neon)
enum { LANES = 4, ROWS = 8 };
#else
enum { LANES = 4, ROWS = 6 };
#endif
enum { COLS = 2 * LANES };
enum { AHEAD = 8, LINE = 64 };  // rows that packing asks for before it needs them; bytes of a line

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef float vec4 __attribute__((vector_size(16)));

static inline vec load(const float* p) {
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store(float* p, vec v) {
    memcpy(p, &v, sizeof v);
}

#define INLINE static inline __attribute__((always_inline))

// sums of zero; what they will be added to is asked for meanwhile
INLINE void begin(const nn_strip* s, int rows, int vectors, vec (*acc)[2], const float* c) {
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            acc[r][v] = (vec){0};
            if (s->end == NN_TILE_ADD) __builtin_prefetch(c + r * s->ldc + v * LANES, 1);
        }
}

INLINE void finish(const nn_strip* s, int rows, int vectors, vec (*acc)[2], float* c) {
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            float* to = c + r * s->ldc + v * LANES;
            vec x = acc[r][v];
            if (s->end == NN_TILE_ADD) x = load(to) + x;
            if (s->end == NN_TILE_BIAS) x = load(s->bias + v * LANES) + x;
            store(to, x);
        }
}

// Rows of a at constant distance: pointers to every third of them, the others by index.
INLINE void tile_by_rows(const nn_strip* s, int rows, int vectors, const float* a, float* c) {
    vec acc[ROWS][2];
    begin(s, rows, vectors, acc, c);
    const float* b = s->b;
    uintptr_t ahead = (uintptr_t)s->ahead;
    int64_t step = s->a_step;
    for (int segment = 0; segment < s->segments; segment++) {
        const float* from = a + segment * s->a_segment;
        const float* third[(ROWS + 2) / 3];
#pragma GCC unroll 5
        for (int q = 0; q < (rows + 2) / 3; q++) third[q] = from + 3 * q * step;
        for (int64_t p = 0; p < s->depth; p++) {
            vec x[2];
            __builtin_prefetch((const void*)ahead);
            ahead += LINE;
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) x[v] = load(b + v * LANES);
#pragma GCC unroll 14
            for (int r = 0; r < rows; r++) {
                float y = third[r / 3][(r % 3) * step];
#pragma GCC unroll 2
                for (int v = 0; v < vectors; v++) acc[r][v] += y * x[v];
            }
#pragma GCC unroll 5
            for (int q = 0; q < (rows + 2) / 3; q++) third[q]++;
            b += s->b_step;
        }
    }
    finish(s, rows, vectors, acc, c);
}

INLINE void tile_by_columns(const nn_strip* s, int rows, int vectors, const float* a, float* c) {
    vec acc[ROWS][2];
    begin(s, rows, vectors, acc, c);
    const float* b = s->b;
    for (int segment = 0; segment < s->segments; segment++) {
        const float* from = a + segment * s->a_segment;
        for (int64_t p = 0; p < s->depth; p++) {
            vec x[2];
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) x[v] = load(b + v * LANES);
#pragma GCC unroll 14
            for (int r = 0; r < rows; r++) {
                float y = from[r];
#pragma GCC unroll 2
                for (int v = 0; v < vectors; v++) acc[r][v] += y * x[v];
            }
            from += s->a_step;
            b += s->b_step;
        }
    }
    finish(s, rows, vectors, acc, c);
}

// ---- one function for each number of rows and vectors -------------------------------------------

typedef void (*tile_fn)(const nn_strip* s, const float* a, float* c);

#define TILE(rows, vectors)                                                                  \
    static void by_rows_##rows##_##vectors(const nn_strip* s, const float* a, float* c) {    \
        tile_by_rows(s, rows, vectors, a, c);                                                \
    }                                                                                        \
    static void by_columns_##rows##_##vectors(const nn_strip* s, const float* a, float* c) { \
        tile_by_columns(s, rows, vectors, a, c);                                             \
    }
#define TILES(rows) TILE(rows, 1) TILE(rows, 2)
#define ENTRY(rows)                                    \
    {                                                  \
        {by_rows_##rows##_1, by_columns_##rows##_1}, { \
            by_rows_##rows##_2, by_columns_##rows##_2  \
        }                                              \
    }

TILES(1)
TILES(2)
TILES(3)
TILES(4)
TILES(5)
TILES(6)
#if defined(FIRM_SIMD_avx512) || defined(FIRM_SIMD_neon)
TILES(7)
TILES(8)
#endif
#if defined(FIRM_SIMD_avx512)
TILES(9)
TILES(10)
TILES(11)
TILES(12)
TILES(13)
TILES(14)
#endif

static const tile_fn tile[ROWS][2][2] = {
    ENTRY(1), ENTRY(2),  ENTRY(3),  ENTRY(4),  ENTRY(5),  ENTRY(6),
#if defined(FIRM_SIMD_avx512) || defined(FIRM_SIMD_neon)
    ENTRY(7), ENTRY(8),
#endif
#if defined(FIRM_SIMD_avx512)
    ENTRY(9), ENTRY(10), ENTRY(11), ENTRY(12), ENTRY(13), ENTRY(14),
#endif
};

// A tile narrower than its vectors goes through memory of its own.
static void narrow_tile(const nn_strip* s, int rows, int vectors, const float* a, float* c) {
    float sum[ROWS * COLS];
    nn_strip whole = *s;
    whole.ldc = COLS;
    whole.end = NN_TILE_SET;
    tile[rows - 1][vectors - 1][s->by_columns](&whole, a, sum);
    for (int r = 0; r < rows; r++, c += s->ldc)
        for (int j = 0; j < s->width; j++) {
            float x = sum[r * COLS + j];
            c[j] = s->end == NN_TILE_ADD ? c[j] + x : s->end == NN_TILE_BIAS ? s->bias[j] + x : x;
        }
}

// A tile asks for as many lines as it reads rows of b, so the first one or two tiles of a strip ask
// for all of the next.
static const float* ahead_of(const nn_strip* s, int tile_number) {
    enum { FLOATS = LINE / sizeof(float) };
    if (!s->ahead || tile_number * FLOATS >= s->b_step) return s->b;
    return s->ahead + (int64_t)tile_number * s->segments * s->depth * FLOATS;
}

// Tiles of even height: 128 rows are two of 12 and eight of 13, not nine of 14 and one of 2.
static void strip(const nn_strip* s) {
    int vectors = s->width > LANES ? 2 : 1, tiles = (s->m + ROWS - 1) / ROWS;
    int64_t step = s->by_columns ? 1 : s->a_step;
    nn_strip now = *s;
    for (int t = 0, from = 0; t < tiles; t++) {
        int rows = (s->m - from) / (tiles - t);
        const float* a = s->a + from * step;
        float* c = s->c + from * s->ldc;
        now.ahead = ahead_of(s, t);
        if (s->width == vectors * LANES)
            tile[rows - 1][vectors - 1][s->by_columns](&now, a, c);
        else
            narrow_tile(&now, rows, vectors, a, c);
        from += rows;
    }
}

// ---- packing ------------------------------------------------------------------------------------

static void pack(int depth, int width, const float* b, int64_t ldb, float* to) {
    int stride = width > LANES ? COLS : LANES;
    for (int p = 0; p < depth; p++, b += ldb, to += stride) {
        for (int v = 0; v < width; v += 16) __builtin_prefetch(b + AHEAD * ldb + v);
        if (width == stride) {
            for (int v = 0; v < stride; v += LANES) store(to + v, load(b + v));
        } else {
            memcpy(to, b, (size_t)width * sizeof *to);
            memset(to + width, 0, (size_t)(stride - width) * sizeof *to);
        }
    }
}

// four rows of four numbers each, turned
static inline void turn4(const float* from, int64_t ld, float* to, int stride) {
    vec4 r[4], t[4];
    for (int i = 0; i < 4; i++) memcpy(&r[i], from + i * ld, sizeof r[i]);
    t[0] = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
    t[1] = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
    t[2] = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
    t[3] = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    r[0] = __builtin_shufflevector(t[0], t[1], 0, 1, 4, 5);
    r[1] = __builtin_shufflevector(t[0], t[1], 2, 3, 6, 7);
    r[2] = __builtin_shufflevector(t[2], t[3], 0, 1, 4, 5);
    r[3] = __builtin_shufflevector(t[2], t[3], 2, 3, 6, 7);
    for (int i = 0; i < 4; i++) memcpy(to + i * stride, &r[i], sizeof r[i]);
}

static void pack_turned(int depth, int width, const float* b, int64_t ldb, float* to) {
    int stride = width > LANES ? COLS : LANES;
    int even = depth / 4 * 4, full = width / 4 * 4;
    for (int j = 0; j < full; j += 4) {
        for (int p = 0; p < even; p += 4) turn4(b + j * ldb + p, ldb, to + p * stride + j, stride);
        for (int p = even; p < depth; p++)
            for (int i = j; i < j + 4; i++) to[p * stride + i] = b[i * ldb + p];
    }
    for (int j = full; j < stride; j++)
        for (int p = 0; p < depth; p++) to[p * stride + j] = j < width ? b[j * ldb + p] : 0.0f;
}

#define JOIN2(a, b) a##_##b
#define JOIN(a, b) JOIN2(a, b)
#define STRING2(x) #x
#define STRING(x) STRING2(x)

extern const nn_tiles JOIN(nn_tiles, FIRM_SIMD);
const nn_tiles JOIN(nn_tiles, FIRM_SIMD) = {.name = STRING(FIRM_SIMD),
                                            .rows = ROWS,
                                            .cols = COLS,
                                            .lanes = LANES,
                                            .strip = strip,
                                            .pack = pack,
                                            .pack_turned = pack_turned};
