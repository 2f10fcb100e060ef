// pool.cu - reading a feature map by place: coordinates beside a cell's features, and sums over the
// cells weighted by a softmax. The weights are kept, one row per sum, for the backward pass.
#include "nn/cuda/device.cuh"

namespace {

enum { POOL_THREADS = 256, POOL_WARPS = POOL_THREADS / 32 };

// ---- COORDS: (H, W, C) -> (H, W, C + 2) ----

__global__ void __launch_bounds__(POOL_THREADS)
    coords_value(uint32_t count, divider wide, divider columns, divider lines, const float* x,
                 float* y) {
    uint32_t i = blockIdx.x * POOL_THREADS + threadIdx.x, at, column, line;
    if (i >= count) return;
    uint32_t cell = split(i, wide, &at), width = wide.d - 2;
    split(split(cell, columns, &column), lines, &line);
    if (at < width)
        y[i] = x[cell * width + at];
    else if (at == width)
        y[i] = (float)(2 * column + 1) / (float)columns.d - 1;
    else
        y[i] = (float)(2 * line + 1) / (float)lines.d - 1;
}

__global__ void __launch_bounds__(POOL_THREADS)
    coords_slope(uint32_t count, divider width, const float* dy, float* dx, int add) {
    uint32_t i = blockIdx.x * POOL_THREADS + threadIdx.x, at;
    if (i >= count) return;
    uint32_t cell = split(i, width, &at);
    float g = dy[cell * (width.d + 2) + at];
    dx[i] = add ? dx[i] + g : g;
}

static void coords_forward(const nn_call* c) {
    const nn_tensor* t = nn_in(c, 0);
    uint32_t count = elements(queue_of(c), (int64_t)c->rows * nn_out(c)->size);
    launch(queue_of(c), "coords", coords_value, blocks_for(count, POOL_THREADS), POOL_THREADS,
           count, divide_by((uint32_t)t->dim[2] + 2), divide_by((uint32_t)t->dim[1]),
           divide_by((uint32_t)t->dim[0]), input(c, 0), (float*)c->out);
}

static void coords_backward(const nn_call* c) {
    if (!c->din[0]) return;
    uint32_t count = elements(queue_of(c), (int64_t)c->rows * nn_in(c, 0)->size);
    launch(queue_of(c), "coords", coords_slope, blocks_for(count, POOL_THREADS), POOL_THREADS,
           count, divide_by((uint32_t)nn_in(c, 0)->dim[2]), (const float*)c->dout, gradient(c, 0),
           adds(c, 0));
}

// ---- SOFTPOOL: logits l (T, K), values v (T, C) -> y (K, C) ----

struct sizes {
    int cells, sums, width;
};

static sizes sizes_of(const nn_graph* g, const nn_node* n) {
    const nn_tensor *l = tensor_of(g, n->in[0]), *v = tensor_of(g, n->in[1]);
    return sizes{l->dim[0], l->dim[1], v->dim[1]};
}

static size_t weight_bytes(const nn_graph* g, const nn_node* n, int rows) {
    sizes s = sizes_of(g, n);
    return (size_t)rows * (size_t)s.sums * (size_t)s.cells * sizeof(float);
}

// w (rows, K, T): a warp per sum
__global__ void __launch_bounds__(POOL_THREADS)
    softpool_weights(uint32_t count, sizes s, const float* l, float* w) {
    uint32_t sum = blockIdx.x * POOL_WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (sum >= count) return;  // whole warps leave
    const float* from = l + (int64_t)(sum / s.sums) * s.cells * s.sums + sum % s.sums;
    float* to = w + (int64_t)sum * s.cells;
    float most = -INFINITY, total = 0;
    for (int t = lane; t < s.cells; t += 32) most = fmaxf(most, from[(int64_t)t * s.sums]);
    for (int o = 16; o > 0; o /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, o));
    for (int t = lane; t < s.cells; t += 32) {
        float e = expf(from[(int64_t)t * s.sums] - most);
        to[t] = e;
        total += e;
    }
    total = warp_sum(total);
    for (int t = lane; t < s.cells; t += 32) to[t] /= total;
}

// y[k, c] = sum over t of w[k, t] v[t, c]
__global__ void __launch_bounds__(POOL_THREADS)
    softpool_value(uint32_t count, sizes s, divider width, const float* w, const float* v,
                   float* y) {
    uint32_t i = blockIdx.x * POOL_THREADS + threadIdx.x, at;
    if (i >= count) return;
    uint32_t sum = split(i, width, &at);
    const float* weight = w + (int64_t)sum * s.cells;
    const float* value = v + (int64_t)(sum / s.sums) * s.cells * s.width + at;
    float total = 0;
    for (int t = 0; t < s.cells; t++) total += weight[t] * value[(int64_t)t * s.width];
    y[i] = total;
}

// dv[t, c] = sum over k of w[k, t] dy[k, c]
__global__ void __launch_bounds__(POOL_THREADS)
    softpool_dvalue(uint32_t count, sizes s, divider width, divider cells, const float* w,
                    const float* dy, float* dv, int add) {
    uint32_t i = blockIdx.x * POOL_THREADS + threadIdx.x, at, t;
    if (i >= count) return;
    int64_t sample = split(split(i, width, &at), cells, &t);
    const float* weight = w + sample * s.sums * s.cells + t;
    const float* slope = dy + sample * s.sums * s.width + at;
    float total = 0;
    for (int k = 0; k < s.sums; k++)
        total += weight[(int64_t)k * s.cells] * slope[(int64_t)k * s.width];
    dv[i] = add ? dv[i] + total : total;
}

// dw[k, t] = sum over c of dy[k, c] v[t, c]; then dl[t, k] = w (dw - sum over t of w dw).
// A warp per sum; dw is scratch, read only by the lane that wrote it.
__global__ void __launch_bounds__(POOL_THREADS)
    softpool_dlogit(uint32_t count, sizes s, const float* w, const float* v, const float* dy,
                    float* dw, float* dl, int add) {
    uint32_t sum = blockIdx.x * POOL_WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (sum >= count) return;  // whole warps leave
    int64_t sample = sum / s.sums, k = sum % s.sums;
    const float* value = v + sample * s.cells * s.width;
    const float *slope = dy + (int64_t)sum * s.width, *weight = w + (int64_t)sum * s.cells;
    float *mine = dw + (int64_t)sum * s.cells, mean = 0;
    for (int t = lane; t < s.cells; t += 32) {
        float total = 0;
        for (int c = 0; c < s.width; c++) total += slope[c] * value[(int64_t)t * s.width + c];
        mine[t] = total;
        mean += weight[t] * total;
    }
    mean = warp_sum(mean);
    float* to = dl + sample * s.cells * s.sums + k;
    for (int t = lane; t < s.cells; t += 32) {
        float g = weight[t] * (mine[t] - mean);
        float* p = to + (int64_t)t * s.sums;
        *p = add ? *p + g : g;
    }
}

static void softpool_forward(const nn_call* c) {
    nn_cuda_queue* q = queue_of(c);
    sizes s = sizes_of(c->graph, c->node);
    float* w = (float*)c->save;
    elements(q, (int64_t)c->rows * s.sums * s.cells);
    uint32_t sums = elements(q, (int64_t)c->rows * s.sums);
    launch(q, "softpool", softpool_weights, blocks_for(sums, POOL_WARPS), POOL_THREADS, sums, s,
           input(c, 0), w);
    uint32_t count = elements(q, (int64_t)c->rows * s.sums * s.width);
    launch(q, "softpool", softpool_value, blocks_for(count, POOL_THREADS), POOL_THREADS, count, s,
           divide_by((uint32_t)s.width), w, input(c, 1), (float*)c->out);
}

static void softpool_backward(const nn_call* c) {
    nn_cuda_queue* q = queue_of(c);
    sizes s = sizes_of(c->graph, c->node);
    const float *w = (const float*)c->save, *dy = (const float*)c->dout;
    uint32_t sums = elements(q, (int64_t)c->rows * s.sums);
    if (c->din[0])
        launch(q, "softpool", softpool_dlogit, blocks_for(sums, POOL_WARPS), POOL_THREADS, sums, s,
               w, input(c, 1), dy, (float*)c->scratch, gradient(c, 0), adds(c, 0));
    uint32_t count = elements(q, (int64_t)c->rows * s.cells * s.width);
    if (c->din[1])
        launch(q, "softpool", softpool_dvalue, blocks_for(count, POOL_THREADS), POOL_THREADS, count,
               s, divide_by((uint32_t)s.width), divide_by((uint32_t)s.cells), w, dy, gradient(c, 1),
               adds(c, 1));
}

}  // namespace

const nn_kernel nn_cuda_coords = {coords_forward, coords_backward, NULL, NULL};
const nn_kernel nn_cuda_softpool = {softpool_forward, softpool_backward, weight_bytes,
                                    weight_bytes};
