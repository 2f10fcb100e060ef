// attention.c - masked multi-head attention; the probabilities are kept for the backward pass.
#include <math.h>
#include <string.h>

#include "nn/cpu/cpu.h"

typedef struct sizes {
    int tokens, width, heads, depth;
    float scale;
} sizes;

static sizes sizes_of(const nn_graph* g, const nn_node* n) {
    sizes s = {
        .tokens = g->tensor[n->out].dim[0], .width = g->tensor[n->out].dim[1], .heads = n->heads};
    s.depth = s.width / s.heads;
    s.scale = 1.0f / sqrtf((float)s.depth);
    return s;
}

static size_t save_bytes(const nn_graph* g, const nn_node* n, int rows) {
    sizes s = sizes_of(g, n);
    return (size_t)rows * (size_t)s.heads * (size_t)s.tokens * (size_t)s.tokens * sizeof(float);
}

static size_t scratch_bytes(const nn_graph* g, const nn_node* n, int rows) {
    (void)rows;
    sizes s = sizes_of(g, n);
    return ((size_t)s.tokens * (size_t)s.tokens + 3 * (size_t)s.tokens * (size_t)s.width) *
           sizeof(float);
}

static void forward(const nn_call* c) {
    sizes s = sizes_of(c->graph, c->node);
    int t = s.tokens, stride = 3 * s.width;
    for (int i = 0; i < c->rows; i++) {
        for (int h = 0; h < s.heads; h++) {
            const float* q = (const float*)c->in[0] + (int64_t)i * t * stride + h * s.depth;
            float* p = (float*)c->save + ((int64_t)i * s.heads + h) * t * t;
            float* y = (float*)c->out + (int64_t)i * t * s.width + h * s.depth;
            nn_gemm(0, 1, t, t, s.depth, q, stride, q + s.width, stride, 0, p, t);
            for (int r = 0; r < t; r++)
                nn_loops_get()->softmax(t, p + (int64_t)r * t, c->node->mask + (int64_t)r * t,
                                        s.scale);
            nn_gemm(0, 0, t, s.depth, t, p, t, q + 2 * s.width, stride, 0, y, s.width);
        }
    }
}

static void backward(const nn_call* c) {
    sizes s = sizes_of(c->graph, c->node);
    int t = s.tokens, stride = 3 * s.width;
    float* ds = c->scratch;                    // (T, T)
    float* dqkv = (float*)c->scratch + t * t;  // (T, 3D) of one sample
    for (int i = 0; i < c->rows; i++) {
        float* dx = (float*)c->din[0] + (int64_t)i * t * stride;
        float* to = c->accumulate[0] ? dqkv : dx;
        for (int h = 0; h < s.heads; h++) {
            const float* q = (const float*)c->in[0] + (int64_t)i * t * stride + h * s.depth;
            const float* p = (const float*)c->save + ((int64_t)i * s.heads + h) * t * t;
            const float* dy = (const float*)c->dout + (int64_t)i * t * s.width + h * s.depth;
            float* dq = to + h * s.depth;
            nn_gemm(1, 0, t, s.depth, t, p, t, dy, s.width, 0, dq + 2 * s.width, stride);  // dV
            nn_gemm(0, 1, t, t, s.depth, dy, s.width, q + 2 * s.width, stride, 0, ds, t);  // dP
            for (int r = 0; r < t; r++)
                nn_loops_get()->softmax_back(t, p + (int64_t)r * t, ds + (int64_t)r * t, s.scale);
            nn_gemm(0, 0, t, s.depth, t, ds, t, q + s.width, stride, 0, dq, stride);  // dQ
            nn_gemm(1, 0, t, s.depth, t, ds, t, q, stride, 0, dq + s.width, stride);  // dK
        }
        if (c->accumulate[0]) nn_loops_get()->scaled((int64_t)t * stride, 1, dqkv, dx, 1);
    }
}

const nn_kernel nn_cpu_attention = {forward, backward, save_bytes, scratch_bytes};
