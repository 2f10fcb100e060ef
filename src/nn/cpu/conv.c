// conv.c - convolution and its transpose as im2col + product, one sample at a time so that the
// unrolled patches stay in cache. Channels are last, so the kernel's row of taps is one contiguous
// copy.
#include <string.h>

#include "nn/cpu/cpu.h"

// a large image that is read by patches, and the grid of patch positions on it
typedef struct geometry {
    int height, width, channels;  // image
    int rows, cols;               // grid
    int kernel, stride, pad;
} geometry;

// col (rows * cols, kernel * kernel * channels)
static void unroll(const geometry* g, const float* image, float* col) {
    int run = g->kernel * g->channels;
    for (int y = 0; y < g->rows; y++) {
        for (int x = 0; x < g->cols; x++) {
            int left = x * g->stride - g->pad;
            int from = left < 0 ? -left : 0;
            int to = left + g->kernel > g->width ? g->width - left : g->kernel;
            for (int ky = 0; ky < g->kernel; ky++, col += run) {
                int row = y * g->stride - g->pad + ky;
                if (row < 0 || row >= g->height) {
                    memset(col, 0, (size_t)run * sizeof *col);
                    continue;
                }
                const float* src = image + ((int64_t)row * g->width + left) * g->channels;
                if (from > 0) memset(col, 0, (size_t)(from * g->channels) * sizeof *col);
                memcpy(col + from * g->channels, src + from * g->channels,
                       (size_t)((to - from) * g->channels) * sizeof *col);
                if (to < g->kernel)
                    memset(col + to * g->channels, 0,
                           (size_t)((g->kernel - to) * g->channels) * sizeof *col);
            }
        }
    }
}

// the transpose: adds every patch back to where it came from
static void fold(const geometry* g, const float* col, float* image) {
    int run = g->kernel * g->channels;
    for (int y = 0; y < g->rows; y++) {
        for (int x = 0; x < g->cols; x++) {
            int left = x * g->stride - g->pad;
            int from = left < 0 ? -left : 0;
            int to = left + g->kernel > g->width ? g->width - left : g->kernel;
            for (int ky = 0; ky < g->kernel; ky++, col += run) {
                int row = y * g->stride - g->pad + ky;
                if (row < 0 || row >= g->height) continue;
                float* dst = image + ((int64_t)row * g->width + left) * g->channels;
                for (int i = from * g->channels; i < to * g->channels; i++) dst[i] += col[i];
            }
        }
    }
}

static geometry conv_geometry(const nn_graph* g, const nn_node* n, int image, int grid) {
    const nn_tensor *ti = &g->tensor[image], *tg = &g->tensor[grid];
    return (geometry){ti->dim[0], ti->dim[1], ti->dim[2], tg->dim[0],
                      tg->dim[1], n->kernel,  n->stride,  n->pad};
}

static size_t scratch_for(geometry q) {
    return (size_t)q.rows * (size_t)q.cols * (size_t)(q.kernel * q.kernel * q.channels) *
           sizeof(float);
}

static size_t conv_scratch(const nn_graph* g, const nn_node* n, int rows) {
    (void)rows;
    return scratch_for(conv_geometry(g, n, n->in[0], n->out));
}

static size_t convt_scratch(const nn_graph* g, const nn_node* n, int rows) {
    (void)rows;
    return scratch_for(conv_geometry(g, n, n->out, n->in[0]));
}

// ---- conv2d: image -> grid ----

static void conv_forward(const nn_call* c) {
    geometry q = conv_geometry(c->graph, c->node, c->node->in[0], c->node->out);
    int k = q.kernel * q.kernel * q.channels, n = nn_out(c)->dim[2], m = q.rows * q.cols;
    for (int i = 0; i < c->rows; i++) {
        const float* x = (const float*)c->in[0] + (int64_t)i * nn_in(c, 0)->size;
        float* y = (float*)c->out + (int64_t)i * nn_out(c)->size;
        unroll(&q, x, c->scratch);
        if (c->in[2]) nn_loops_get()->fill_rows(m, n, c->in[2], y);
        nn_gemm(0, 0, m, n, k, c->scratch, k, c->in[1], n, c->in[2] ? 1.0f : 0.0f, y, n);
    }
}

static void conv_backward(const nn_call* c) {
    geometry q = conv_geometry(c->graph, c->node, c->node->in[0], c->node->out);
    int k = q.kernel * q.kernel * q.channels, n = nn_out(c)->dim[2], m = q.rows * q.cols;
    for (int i = 0; i < c->rows; i++) {
        const float* x = (const float*)c->in[0] + (int64_t)i * nn_in(c, 0)->size;
        const float* dy = (const float*)c->dout + (int64_t)i * nn_out(c)->size;
        if (c->din[1]) {
            unroll(&q, x, c->scratch);
            nn_gemm(1, 0, k, n, m, c->scratch, k, dy, n, 1.0f, c->din[1], n);
        }
        if (c->din[2]) nn_loops_get()->sum_rows(m, n, dy, c->din[2]);
        if (c->din[0]) {
            float* dx = (float*)c->din[0] + (int64_t)i * nn_in(c, 0)->size;
            if (!c->accumulate[0]) memset(dx, 0, (size_t)nn_in(c, 0)->size * sizeof *dx);
            nn_gemm(0, 1, m, k, n, dy, n, c->in[1], n, 0.0f, c->scratch, k);
            fold(&q, c->scratch, dx);
        }
    }
}

// ---- convt2d: grid -> image ----

static void convt_forward(const nn_call* c) {
    geometry q = conv_geometry(c->graph, c->node, c->node->out, c->node->in[0]);
    int k = nn_in(c, 0)->dim[2], n = q.kernel * q.kernel * q.channels, m = q.rows * q.cols;
    for (int i = 0; i < c->rows; i++) {
        const float* x = (const float*)c->in[0] + (int64_t)i * nn_in(c, 0)->size;
        float* y = (float*)c->out + (int64_t)i * nn_out(c)->size;
        nn_gemm(0, 0, m, n, k, x, k, c->in[1], n, 0.0f, c->scratch, n);
        if (c->in[2])
            nn_loops_get()->fill_rows((int64_t)q.height * q.width, q.channels, c->in[2], y);
        else
            memset(y, 0, (size_t)nn_out(c)->size * sizeof *y);
        fold(&q, c->scratch, y);
    }
}

static void convt_backward(const nn_call* c) {
    geometry q = conv_geometry(c->graph, c->node, c->node->out, c->node->in[0]);
    int k = nn_in(c, 0)->dim[2], n = q.kernel * q.kernel * q.channels, m = q.rows * q.cols;
    for (int i = 0; i < c->rows; i++) {
        const float* x = (const float*)c->in[0] + (int64_t)i * nn_in(c, 0)->size;
        const float* dy = (const float*)c->dout + (int64_t)i * nn_out(c)->size;
        unroll(&q, dy, c->scratch);
        if (c->din[1]) nn_gemm(1, 0, k, n, m, x, k, c->scratch, n, 1.0f, c->din[1], n);
        if (c->din[2])
            nn_loops_get()->sum_rows((int64_t)q.height * q.width, q.channels, dy, c->din[2]);
        if (c->din[0])
            nn_gemm(0, 1, m, k, n, c->scratch, n, c->in[1], n, c->accumulate[0] ? 1.0f : 0.0f,
                    (float*)c->din[0] + (int64_t)i * nn_in(c, 0)->size, k);
    }
}

const nn_kernel nn_cpu_conv2d = {conv_forward, conv_backward, NULL, conv_scratch};
const nn_kernel nn_cpu_convt2d = {convt_forward, convt_backward, NULL, convt_scratch};
