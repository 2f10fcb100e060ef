// pool.c - reading a feature map by place: coordinates beside a cell's features, and sums over the
// cells weighted by a softmax. The weights are kept, one row per sum, for the backward pass.
#include <math.h>
#include <string.h>

#include "nn/cpu/cpu.h"
#include "nn/cpu/gemm.h"

// ---- COORDS -------------------------------------------------------------------------------------

static void coords_forward(const nn_call* c) {
    int rows = nn_in(c, 0)->dim[0], columns = nn_in(c, 0)->dim[1], width = nn_in(c, 0)->dim[2];
    const float* x = c->in[0];
    float* y = c->out;
    for (int64_t i = 0; i < (int64_t)c->rows * rows; i++)
        for (int j = 0; j < columns; j++, x += width, y += width + 2) {
            memcpy(y, x, (size_t)width * sizeof *y);
            y[width] = (float)(2 * j + 1) / (float)columns - 1;
            y[width + 1] = (float)(2 * (i % rows) + 1) / (float)rows - 1;
        }
}

static void coords_backward(const nn_call* c) {
    int width = nn_in(c, 0)->dim[2];
    int64_t cells = (int64_t)c->rows * nn_in(c, 0)->size / width;
    const float* dy = c->dout;
    float* dx = c->din[0];
    for (int64_t i = 0; i < cells; i++, dx += width, dy += width + 2)
        nn_loops_get()->scaled(width, 1, dy, dx, c->accumulate[0]);
}

// ---- SOFTPOOL -----------------------------------------------------------------------------------

typedef struct sizes {
    int cells, sums, width;
} sizes;

static sizes sizes_of(const nn_graph* g, const nn_node* n) {
    const nn_tensor *l = &g->tensor[n->in[0]], *v = &g->tensor[n->in[1]];
    return (sizes){l->dim[0], l->dim[1], v->dim[1]};
}

static size_t save_bytes(const nn_graph* g, const nn_node* n, int rows) {
    sizes s = sizes_of(g, n);
    return (size_t)rows * (size_t)s.sums * (size_t)s.cells * sizeof(float);
}

static size_t scratch_bytes(const nn_graph* g, const nn_node* n, int rows) {
    (void)rows;
    sizes s = sizes_of(g, n);
    return (size_t)s.sums * (size_t)s.cells * sizeof(float);
}

// p (sums, cells) from l (cells, sums)
static void softmax_columns(const sizes* s, const float* l, float* p) {
    for (int k = 0; k < s->sums; k++, p += s->cells) {
        float most = l[k], sum = 0;
        for (int t = 1; t < s->cells; t++) most = fmaxf(most, l[t * s->sums + k]);
        for (int t = 0; t < s->cells; t++) sum += p[t] = expf(l[t * s->sums + k] - most);
        for (int t = 0; t < s->cells; t++) p[t] /= sum;
    }
}

static void softpool_forward(const nn_call* c) {
    sizes s = sizes_of(c->graph, c->node);
    for (int64_t i = 0; i < c->rows; i++) {
        float* p = (float*)c->save + i * s.sums * s.cells;
        softmax_columns(&s, (const float*)c->in[0] + i * s.cells * s.sums, p);
        nn_gemm(&(nn_product){.m = s.sums,
                              .n = s.width,
                              .k = s.cells,
                              .a = p,
                              .lda = s.cells,
                              .b = (const float*)c->in[1] + i * s.cells * s.width,
                              .ldb = s.width,
                              .c = (float*)c->out + i * s.sums * s.width,
                              .ldc = s.width});
    }
}

static void softpool_backward(const nn_call* c) {
    sizes s = sizes_of(c->graph, c->node);
    float* dp = c->scratch;  // (sums, cells)
    for (int64_t i = 0; i < c->rows; i++) {
        const float* p = (const float*)c->save + i * s.sums * s.cells;
        const float* v = (const float*)c->in[1] + i * s.cells * s.width;
        const float* dy = (const float*)c->dout + i * s.sums * s.width;
        if (c->din[1])
            nn_gemm(&(nn_product){.m = s.cells,
                                  .n = s.width,
                                  .k = s.sums,
                                  .a = p,
                                  .lda = s.cells,
                                  .turn_a = 1,
                                  .b = dy,
                                  .ldb = s.width,
                                  .add = c->accumulate[1],
                                  .c = (float*)c->din[1] + i * s.cells * s.width,
                                  .ldc = s.width});
        if (!c->din[0]) continue;
        nn_gemm(&(nn_product){.m = s.sums,
                              .n = s.cells,
                              .k = s.width,
                              .a = dy,
                              .lda = s.width,
                              .b = v,
                              .ldb = s.width,
                              .turn_b = 1,
                              .c = dp,
                              .ldc = s.cells});
        float* dl = (float*)c->din[0] + i * s.cells * s.sums;
        if (!c->accumulate[0]) memset(dl, 0, (size_t)(s.cells * s.sums) * sizeof *dl);
        for (int k = 0; k < s.sums; k++) {
            nn_loops_get()->softmax_back(s.cells, p + k * s.cells, dp + k * s.cells, 1);
            for (int t = 0; t < s.cells; t++) dl[t * s.sums + k] += dp[k * s.cells + t];
        }
    }
}

const nn_kernel nn_cpu_coords = {coords_forward, coords_backward, NULL, NULL};
const nn_kernel nn_cpu_softpool = {softpool_forward, softpool_backward, save_bytes, scratch_bytes};
