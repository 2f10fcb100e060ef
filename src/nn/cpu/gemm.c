// gemm.c - products as strips of b, packed and small enough for the first cache, under which the
// rows of a pass by (tile.h).
#include "nn/cpu/gemm.h"

#include "nn/cpu/tile.h"

enum {
    DEPTH = 192,  // rows of b in a strip
    WIDEST = 32,  // columns of a strip at most
    BLOCK = 512,  // rows of a that stay in the second cache while all strips pass
    FEW = 28      // rows of a that are not worth packing b for
};

static int padded(const nn_tiles* t, int width) {
    return width > t->lanes ? t->cols : t->lanes;
}

size_t nn_gemm_packed(int64_t k, int n) {
    int lanes = nn_tiles_get()->lanes;
    return (size_t)k * (size_t)((n + lanes - 1) / lanes * lanes);
}

void nn_gemm_pack(int64_t k, int n, const float* b, int64_t ldb, int turned, float* to) {
    const nn_tiles* t = nn_tiles_get();
    for (int j = 0; j < n; j += t->cols) {
        int width = n - j < t->cols ? n - j : t->cols;
        if (turned)
            t->pack_turned((int)k, width, b + j * ldb, ldb, to + k * j);
        else
            t->pack((int)k, width, b + j, ldb, to + k * j);
    }
}

// rows `from` .. of op(b), columns j ..: where they are, or packed into room
static void take_b(const nn_product* p, const nn_tiles* t, const float* b, int64_t from, int j,
                   nn_strip* s, float* room) {
    s->b_step = padded(t, s->width);
    if (p->packed) {
        s->b = b + p->k * j + from * s->b_step;
        // Read next: the whole strip beside this one; behind the last one, deeper rows of the first
        if (p->n - j >= 2 * t->cols)
            s->ahead = s->b + p->k * t->cols;
        else if (p->n == j + s->width && from + s->depth < p->k)
            s->ahead = b + (from + s->depth) * padded(t, p->n < t->cols ? p->n : t->cols);
        return;
    }
    if (!p->turn_b && p->m <= FEW && s->width == s->b_step && s->segments == 1) {
        s->b = b + from * p->ldb + j;
        s->b_step = p->ldb;
        return;
    }
    for (int i = 0; i < s->segments; i++, b += p->b_run) {
        float* to = room + (int64_t)i * s->depth * s->b_step;
        if (p->turn_b)
            t->pack_turned(s->depth, s->width, b + j * p->ldb + from, p->ldb, to);
        else
            t->pack(s->depth, s->width, b + from * p->ldb + j, p->ldb, to);
    }
    s->b = room;
}

// all columns of the rows of one block of a; `together` runs from `run` on
static void block(const nn_product* p, const nn_tiles* t, nn_strip s, int64_t run, int together) {
    float room[DEPTH * WIDEST] __attribute__((aligned(64)));
    const float *a = s.a + run * p->a_run, *b = p->b + run * p->b_run;
    int parts = together > 1 ? 1 : (int)((p->k + DEPTH - 1) / DEPTH);
    int64_t from = 0;
    s.segments = together;
    s.a_segment = p->a_run;
    for (int part = 0; part < parts; part++) {
        s.depth = (int)((p->k - from) / (parts - part));
        s.a = a + from * (p->turn_a ? p->lda : 1);
        s.end = part || run || p->add ? NN_TILE_ADD : p->bias ? NN_TILE_BIAS : NN_TILE_SET;
        for (int j = 0; j < p->n; j += t->cols) {
            nn_strip q = s;
            q.width = p->n - j < t->cols ? p->n - j : t->cols;
            q.c = s.c + j;
            q.bias = p->bias ? p->bias + j : NULL;
            take_b(p, t, b, from, j, &q, room);
            t->strip(&q);
        }
        from += s.depth;
    }
}

void nn_gemm(const nn_product* p) {
    const nn_tiles* t = nn_tiles_get();
    int64_t runs = p->runs ? p->runs : 1, fit = p->k && p->k < DEPTH ? DEPTH / p->k : 1;
    for (int64_t i = 0; i < p->m; i += BLOCK) {
        nn_strip s = {.a = p->a + i * (p->turn_a ? 1 : p->lda),
                      .a_step = p->lda,
                      .by_columns = p->turn_a,
                      .m = (int)(p->m - i < BLOCK ? p->m - i : BLOCK),
                      .c = p->c + i * p->ldc,
                      .ldc = p->ldc};
        for (int64_t run = 0; run < runs; run += fit)
            block(p, t, s, run, (int)(runs - run < fit ? runs - run : fit));
    }
}
