// conv.cu - convolution and its transpose as unrolled patches and a product. Channels are last, so
// a kernel cell is one contiguous run of channels. Samples are taken in chunks whose unrolled
// patches stay below CHUNK_BYTES. The transpose of unrolling gathers (each pixel adds up the
// patches it lies in, in order), so nothing is added to memory by two threads.
#include "nn/cuda/device.cuh"

namespace {

#define CHUNK_BYTES ((int64_t)256 << 20)

// an image that is read by patches, and the grid of patch positions on it
typedef struct geometry {
    int height, width, channels;  // image
    int rows, cols;               // grid
    int kernel, stride, pad;
} geometry;

static geometry geometry_of(const nn_graph* g, const nn_node* n, int image, int grid) {
    const nn_tensor *ti = &g->tensor[image], *tg = &g->tensor[grid];
    return geometry{ti->dim[0], ti->dim[1], ti->dim[2], tg->dim[0],
                    tg->dim[1], n->kernel,  n->stride,  n->pad};
}

static int64_t patch_of(const geometry* g) {  // numbers of one unrolled patch
    return (int64_t)g->kernel * g->kernel * g->channels;
}

static int64_t grid_of(const geometry* g) {
    return (int64_t)g->rows * g->cols;
}

// a 1 x 1 kernel's patches are the image itself
static int is_plain(const geometry* g) {
    return g->kernel == 1 && g->stride == 1 && g->pad == 0;
}

static int chunk_of(const geometry* g, int samples) {
    int64_t most = CHUNK_BYTES / (grid_of(g) * patch_of(g) * (int64_t)sizeof(float));
    return most < 1 ? 1 : most < samples ? (int)most : samples;
}

static size_t unrolled_floats(const geometry* g, int samples) {
    return is_plain(g) ? 0 : (size_t)(chunk_of(g, samples) * grid_of(g) * patch_of(g));
}

// ---- unroll: image -> (samples * grid, patch) ----

struct unroll_index {
    divider run, cell, col, row;  // channels / V, kernel * kernel, grid columns, grid rows
    divider side;                 // kernel
};

template <int V>
__global__ void __launch_bounds__(MAP_THREADS)
    unroll_kernel(uint32_t count, geometry g, unroll_index n, const float* image, float* patches) {
    uint32_t i = blockIdx.x * MAP_THREADS + threadIdx.x, run, cell, gx, gy, kx;
    if (i >= count) return;
    uint32_t rest = split(i, n.run, &run);
    rest = split(rest, n.cell, &cell);
    rest = split(rest, n.col, &gx);
    uint32_t sample = split(rest, n.row, &gy), ky = split(cell, n.side, &kx);
    int y = (int)gy * g.stride - g.pad + (int)ky, x = (int)gx * g.stride - g.pad + (int)kx;
    float v[V] = {};
    if (y >= 0 && y < g.height && x >= 0 && x < g.width)
        load<V>(v, image + (((size_t)sample * g.height + y) * g.width + x) * g.channels + run * V);
    store<V>(patches + (size_t)i * V, v);
}

static void unroll(nn_cuda_queue* q, const geometry* g, int samples, const float* image,
                   float* patches) {
    int v = g->channels % 4 == 0 && aligned16(image) && aligned16(patches) ? 4 : 1;
    uint32_t count = elements(q, samples * grid_of(g) * patch_of(g) / v);
    unroll_index n = {divide_by((uint32_t)(g->channels / v)),
                      divide_by((uint32_t)(g->kernel * g->kernel)), divide_by((uint32_t)g->cols),
                      divide_by((uint32_t)g->rows), divide_by((uint32_t)g->kernel)};
    launch(q, "unroll", v == 4 ? unroll_kernel<4> : unroll_kernel<1>,
           blocks_for(count, MAP_THREADS), MAP_THREADS, count, *g, n, image, patches);
}

// ---- fold: (samples * grid, patch) -> image, every pixel from all patches it lies in ----

struct fold_index {
    divider run, col, row;  // channels / V, image width, image height
    divider stride;
};

// the grid position whose cell k lies on pixel `at`, or -1
__device__ __forceinline__ int grid_at(int at, int k, int pad, divider stride, int size) {
    int from = at + pad - k;
    if (from < 0) return -1;
    uint32_t rest, where = split((uint32_t)from, stride, &rest);
    return rest == 0 && where < (uint32_t)size ? (int)where : -1;
}

template <int V>
__global__ void __launch_bounds__(MAP_THREADS)
    fold_kernel(uint32_t count, geometry g, fold_index n, const float* patches, const float* bias,
                float* image, int add) {
    uint32_t i = blockIdx.x * MAP_THREADS + threadIdx.x, run, x, y;
    if (i >= count) return;
    uint32_t rest = split(i, n.run, &run);
    rest = split(rest, n.col, &x);
    uint32_t sample = split(rest, n.row, &y);
    float sum[V] = {}, v[V];
    if (bias) load<V>(sum, bias + run * V);
    for (int ky = 0; ky < g.kernel; ky++) {
        int gy = grid_at((int)y, ky, g.pad, n.stride, g.rows);
        if (gy < 0) continue;
        for (int kx = 0; kx < g.kernel; kx++) {
            int gx = grid_at((int)x, kx, g.pad, n.stride, g.cols);
            if (gx < 0) continue;
            size_t patch = ((size_t)sample * g.rows + gy) * g.cols + gx;
            size_t cell = patch * (g.kernel * g.kernel) + ky * g.kernel + kx;
            load<V>(v, patches + cell * g.channels + run * V);
#pragma unroll
            for (int j = 0; j < V; j++) sum[j] += v[j];
        }
    }
    put<V>(image + (size_t)i * V, sum, add);
}

static void fold(nn_cuda_queue* q, const geometry* g, int samples, const float* patches,
                 const float* bias, float* image, int add) {
    int v =
        g->channels % 4 == 0 && aligned16(image) && aligned16(patches) && aligned16(bias) ? 4 : 1;
    uint32_t count = elements(q, (int64_t)samples * g->height * g->width * (g->channels / v));
    fold_index n = {divide_by((uint32_t)(g->channels / v)), divide_by((uint32_t)g->width),
                    divide_by((uint32_t)g->height), divide_by((uint32_t)g->stride)};
    launch(q, "fold", v == 4 ? fold_kernel<4> : fold_kernel<1>, blocks_for(count, MAP_THREADS),
           MAP_THREADS, count, *g, n, patches, bias, image, add);
}

// ---- conv2d: image -> grid. y = unrolled x times w ----

static geometry conv_geometry(const nn_graph* g, const nn_node* n) {
    return geometry_of(g, n, n->in[0], n->out);
}

static void conv_forward(const nn_call* c) {
    nn_cuda_queue* q = queue_of(c);
    geometry g = conv_geometry(c->graph, c->node);
    int64_t k = patch_of(&g), n = nn_out(c)->dim[2], chunk = chunk_of(&g, c->rows);
    for (int64_t i = 0; i < c->rows; i += chunk) {
        int samples = (int)(c->rows - i < chunk ? c->rows - i : chunk);
        const float *x = input(c, 0) + i * nn_in(c, 0)->size, *patches = x;
        if (!is_plain(&g)) {
            unroll(q, &g, samples, x, (float*)c->scratch);
            patches = (const float*)c->scratch;
        }
        nn_cuda_gemm(q, 0, 0, samples * grid_of(&g), n, k, patches, k, input(c, 1), n, 0.0f,
                     (float*)c->out + i * nn_out(c)->size, n, input(c, 2));
    }
}

static void conv_backward(const nn_call* c) {
    nn_cuda_queue* q = queue_of(c);
    geometry g = conv_geometry(c->graph, c->node);
    int64_t k = patch_of(&g), n = nn_out(c)->dim[2], chunk = chunk_of(&g, c->rows);
    pieces scratch = {(char*)c->scratch};
    float* unrolled = scratch.take(unrolled_floats(&g, c->rows));
    for (int64_t i = 0; i < c->rows; i += chunk) {
        int samples = (int)(c->rows - i < chunk ? c->rows - i : chunk);
        int64_t m = samples * grid_of(&g);
        const float *x = input(c, 0) + i * nn_in(c, 0)->size, *patches = x;
        const float* dy = (const float*)c->dout + i * nn_out(c)->size;
        if (c->din[1] && !is_plain(&g)) {
            unroll(q, &g, samples, x, unrolled);
            patches = unrolled;
        }
        if (c->din[1])
            nn_cuda_gemm(q, 1, 0, k, n, m, patches, k, dy, n, 1.0f, gradient(c, 1), n, NULL);
        if (!c->din[0]) continue;
        float* dx = gradient(c, 0) + i * nn_in(c, 0)->size;
        if (is_plain(&g)) {
            nn_cuda_gemm(q, 0, 1, m, k, n, dy, n, input(c, 1), n, adds(c, 0) ? 1.0f : 0.0f, dx, k,
                         NULL);
        } else {
            nn_cuda_gemm(q, 0, 1, m, k, n, dy, n, input(c, 1), n, 0.0f, unrolled, k, NULL);
            fold(q, &g, samples, unrolled, NULL, dx, adds(c, 0));
        }
    }
    if (c->din[2])
        nn_cuda_column_sums(q, c->rows * grid_of(&g), n, (const float*)c->dout, gradient(c, 2),
                            scratch.at);
}

static size_t conv_scratch(const nn_graph* g, const nn_node* n, int rows) {
    geometry q = conv_geometry(g, n);
    return pieces::bytes(unrolled_floats(&q, rows)) +
           nn_cuda_column_sums_bytes(rows * grid_of(&q), g->tensor[n->out].dim[2]);
}

// ---- convt2d: grid -> image. y = fold of x times w ----

static geometry convt_geometry(const nn_graph* g, const nn_node* n) {
    return geometry_of(g, n, n->out, n->in[0]);
}

static void convt_forward(const nn_call* c) {
    nn_cuda_queue* q = queue_of(c);
    geometry g = convt_geometry(c->graph, c->node);
    int64_t k = nn_in(c, 0)->dim[2], n = patch_of(&g), chunk = chunk_of(&g, c->rows);
    for (int64_t i = 0; i < c->rows; i += chunk) {
        int samples = (int)(c->rows - i < chunk ? c->rows - i : chunk);
        const float* x = input(c, 0) + i * nn_in(c, 0)->size;
        float *y = (float*)c->out + i * nn_out(c)->size, *patches = (float*)c->scratch;
        if (is_plain(&g)) {
            nn_cuda_gemm(q, 0, 0, samples * grid_of(&g), n, k, x, k, input(c, 1), n, 0.0f, y, n,
                         input(c, 2));
            continue;
        }
        nn_cuda_gemm(q, 0, 0, samples * grid_of(&g), n, k, x, k, input(c, 1), n, 0.0f, patches, n,
                     NULL);
        fold(q, &g, samples, patches, input(c, 2), y, 0);
    }
}

static void convt_backward(const nn_call* c) {
    nn_cuda_queue* q = queue_of(c);
    geometry g = convt_geometry(c->graph, c->node);
    int64_t k = nn_in(c, 0)->dim[2], n = patch_of(&g), chunk = chunk_of(&g, c->rows);
    pieces scratch = {(char*)c->scratch};
    float* unrolled = scratch.take(unrolled_floats(&g, c->rows));
    for (int64_t i = 0; i < c->rows && (c->din[0] || c->din[1]); i += chunk) {
        int samples = (int)(c->rows - i < chunk ? c->rows - i : chunk);
        int64_t m = samples * grid_of(&g);
        const float* x = input(c, 0) + i * nn_in(c, 0)->size;
        const float *dy = (const float*)c->dout + i * nn_out(c)->size, *patches = dy;
        if (!is_plain(&g)) {
            unroll(q, &g, samples, dy, unrolled);
            patches = unrolled;
        }
        if (c->din[1])
            nn_cuda_gemm(q, 1, 0, k, n, m, x, k, patches, n, 1.0f, gradient(c, 1), n, NULL);
        if (c->din[0])
            nn_cuda_gemm(q, 0, 1, m, k, n, patches, n, input(c, 1), n, adds(c, 0) ? 1.0f : 0.0f,
                         gradient(c, 0) + i * nn_in(c, 0)->size, k, NULL);
    }
    if (c->din[2])
        nn_cuda_column_sums(q, (int64_t)c->rows * g.height * g.width, g.channels,
                            (const float*)c->dout, gradient(c, 2), scratch.at);
}

static size_t convt_scratch(const nn_graph* g, const nn_node* n, int rows) {
    geometry q = convt_geometry(g, n);
    return pieces::bytes(unrolled_floats(&q, rows)) +
           nn_cuda_column_sums_bytes((int64_t)rows * q.height * q.width, q.channels);
}

}  // namespace

const nn_kernel nn_cuda_conv2d = {conv_forward, conv_backward, NULL, conv_scratch};
const nn_kernel nn_cuda_convt2d = {convt_forward, convt_backward, NULL, convt_scratch};
