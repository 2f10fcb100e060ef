// attention.c - masked multi-head attention; the probabilities are kept for the backward pass.
#include <math.h>
#include <string.h>

#include "nn/cpu/cpu.h"
#include "nn/cpu/gemm.h"

typedef struct sizes {
    int tokens, width, heads, depth, groups;  // groups: of tokens, in a sample
    float scale;
} sizes;

static sizes sizes_of(const nn_graph* g, const nn_node* n) {
    const nn_tensor* y = &g->tensor[n->out];
    sizes s = {.tokens = y->dim[y->rank - 2],
               .width = y->dim[y->rank - 1],
               .heads = n->heads,
               .groups = nn_attention_groups(y)};
    s.depth = s.width / s.heads;
    s.scale = 1.0f / sqrtf((float)s.depth);
    return s;
}

static size_t save_bytes(const nn_graph* g, const nn_node* n, int rows) {
    sizes s = sizes_of(g, n);
    return (size_t)rows * (size_t)s.groups * (size_t)s.heads * (size_t)s.tokens * (size_t)s.tokens *
           sizeof(float);
}

static size_t scratch_bytes(const nn_graph* g, const nn_node* n, int rows) {
    (void)rows;
    sizes s = sizes_of(g, n);
    size_t square = (size_t)s.tokens * (size_t)s.tokens;
    return (3 * square + 3 * (size_t)s.tokens * (size_t)s.width) * sizeof(float);
}

typedef enum kind {
    BETWEEN_TOKENS,  // c (T, T) = a b', a and b (T, depth)
    OVER_TOKENS,     // c (T, depth) = a b, a (T, T)
    OVER_TURNED      // c (T, depth) = a' b
} kind;

typedef struct matrix {
    const float* at;
    int ld;
} matrix;

// one product of one head
static void multiply(const sizes* s, kind what, matrix a, matrix b, float* c, int ldc) {
    int square = what == BETWEEN_TOKENS;
    nn_gemm(&(nn_product){.m = s->tokens,
                          .n = square ? s->tokens : s->depth,
                          .k = square ? s->depth : s->tokens,
                          .a = a.at,
                          .lda = a.ld,
                          .turn_a = what == OVER_TURNED,
                          .b = b.at,
                          .ldb = b.ld,
                          .turn_b = square,
                          .c = c,
                          .ldc = ldc});
}

// The probabilities of head h of group i as they weigh the values: p itself, or with dropout p
// times the factors, both in scratch.
static const float* dropped(const nn_call* c, const sizes* s, int i, int h, const float* p) {
    int64_t square = (int64_t)s->tokens * s->tokens;
    float *factor = (float*)c->scratch + square, *to = factor + square;
    if (!c->train || c->node->alpha == 0) return p;
    uint64_t group = (uint64_t)c->first * (uint64_t)s->groups + (uint64_t)i;
    uint64_t head = group * (uint64_t)s->heads + (uint64_t)h;
    nn_cpu_dropped(c, head * (uint64_t)square, square, factor);
    nn_loops_get()->product(square, p, factor, to, 0);
    return to;
}

static void forward(const nn_call* c) {
    sizes s = sizes_of(c->graph, c->node);
    int t = s.tokens, stride = 3 * s.width;
    const uint8_t* mask = c->node->mask;
    for (int i = 0; i < c->rows * s.groups; i++) {
        for (int h = 0; h < s.heads; h++) {
            const float* q = (const float*)c->in[0] + (int64_t)i * t * stride + h * s.depth;
            float* p = (float*)c->save + ((int64_t)i * s.heads + h) * t * t;
            float* y = (float*)c->out + (int64_t)i * t * s.width + h * s.depth;
            matrix key = {q + s.width, stride}, value = {q + 2 * s.width, stride};
            multiply(&s, BETWEEN_TOKENS, (matrix){q, stride}, key, p, t);
            for (int r = 0; r < t; r++)
                nn_loops_get()->softmax(t, p + (int64_t)r * t, mask ? mask + (int64_t)r * t : NULL,
                                        s.scale);
            multiply(&s, OVER_TOKENS, (matrix){dropped(c, &s, i, h, p), t}, value, y, s.width);
        }
    }
}

static void backward(const nn_call* c) {
    sizes s = sizes_of(c->graph, c->node);
    int t = s.tokens, stride = 3 * s.width;
    float* ds = c->scratch;                        // (T, T), then two more for dropout
    float* factor = (float*)c->scratch + t * t;    // (T, T)
    float* dqkv = (float*)c->scratch + 3 * t * t;  // (T, 3D) of one group
    for (int i = 0; i < c->rows * s.groups; i++) {
        float* dx = (float*)c->din[0] + (int64_t)i * t * stride;
        float* to = c->accumulate[0] ? dqkv : dx;
        for (int h = 0; h < s.heads; h++) {
            const float* q = (const float*)c->in[0] + (int64_t)i * t * stride + h * s.depth;
            const float* p = (const float*)c->save + ((int64_t)i * s.heads + h) * t * t;
            const float* dy = (const float*)c->dout + (int64_t)i * t * s.width + h * s.depth;
            float* dq = to + h * s.depth;
            matrix query = {q, stride}, key = {q + s.width, stride};
            matrix value = {q + 2 * s.width, stride}, slope = {ds, t}, back = {dy, s.width};
            const float* weigh = dropped(c, &s, i, h, p);
            multiply(&s, OVER_TURNED, (matrix){weigh, t}, back, dq + 2 * s.width, stride);  // dV
            multiply(&s, BETWEEN_TOKENS, back, value, ds, t);                               // dP
            for (int j = 0; weigh != p && j < t * t; j++) ds[j] *= factor[j];
            for (int r = 0; r < t; r++)
                nn_loops_get()->softmax_back(t, p + (int64_t)r * t, ds + (int64_t)r * t, s.scale);
            multiply(&s, OVER_TOKENS, slope, key, dq, stride);              // dQ
            multiply(&s, OVER_TURNED, slope, query, dq + s.width, stride);  // dK
        }
        if (c->accumulate[0]) nn_loops_get()->scaled((int64_t)t * stride, 1, dqkv, dx, 1);
    }
}

const nn_kernel nn_cpu_attention = {forward, backward, save_bytes, scratch_bytes};
