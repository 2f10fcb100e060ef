// shape.cu - joining, cutting and averaging along one dimension. A tensor is seen as (outer, line):
// outer counts samples and the dimensions left of the axis, a line is the axis times all to its
// right.
#include "nn/cuda/device.cuh"

namespace {

static int64_t outer_of(const nn_tensor* t, int axis, int64_t rows) {
    for (int i = 0; i < axis; i++) rows *= t->dim[i];
    return rows;
}

static int line_of(const nn_tensor* t, int axis) {
    int line = 1;
    for (int i = axis; i < t->rank; i++) line *= t->dim[i];
    return line;
}

// ---- CONCAT: a line of the whole is one line of each part after the other ----

struct concat_parts {
    float* part[NN_MAX_IN];         // NULL: not wanted
    uint32_t start[NN_MAX_IN + 1];  // in a line of the whole
    int add[NN_MAX_IN];
    int count;
};

// JOIN: whole from parts; otherwise the gradients of the parts from that of the whole
template <int V, bool JOIN>
__global__ void __launch_bounds__(MAP_THREADS)
    concat_kernel(uint32_t count, divider line, concat_parts p, float* whole) {
    uint32_t i = (blockIdx.x * MAP_THREADS + threadIdx.x) * V, at;
    if (i >= count) return;
    uint32_t outer = split(i, line, &at);
    // constant indices keep the table in the constant bank, where a running index would copy it
    float* part = p.part[0];
    uint32_t start = 0, width = p.start[1];
    int add = p.add[0];
#pragma unroll
    for (int k = 1; k < NN_MAX_IN; k++) {
        if (k < p.count && at >= p.start[k]) {
            part = p.part[k];
            start = p.start[k];
            width = p.start[k + 1] - start;
            add = p.add[k];
        }
    }
    if (!part) return;
    part += (size_t)outer * width + (at - start);
    float v[V];
    if (JOIN) {
        load<V>(v, part);
        store<V>(whole + i, v);
    } else {
        load<V>(v, whole + i);
        put<V>(part, v, add);
    }
}

template <bool JOIN>
static void concat_run(const nn_call* c, const concat_parts& p, float* whole) {
    nn_cuda_queue* q = queue_of(c);
    int line = line_of(nn_out(c), c->node->axis), quads = aligned16(whole);
    uint32_t count = elements(q, (int64_t)c->rows * nn_out(c)->size);
    for (int i = 0; i < p.count; i++) quads &= aligned16(p.part[i]) && p.start[i + 1] % 4 == 0;
    divider d = divide_by((uint32_t)line);
    if (quads)
        launch(q, "concat", concat_kernel<4, JOIN>, blocks_for(count, 4 * MAP_THREADS), MAP_THREADS,
               count, d, p, whole);
    else
        launch(q, "concat", concat_kernel<1, JOIN>, blocks_for(count, MAP_THREADS), MAP_THREADS,
               count, d, p, whole);
}

static concat_parts concat_layout(const nn_call* c) {
    concat_parts p = {};
    p.count = c->node->in_count;
    for (int i = 0; i < p.count; i++)
        p.start[i + 1] = p.start[i] + (uint32_t)line_of(nn_in(c, i), c->node->axis);
    return p;
}

static void concat_forward(const nn_call* c) {
    concat_parts p = concat_layout(c);
    for (int i = 0; i < p.count; i++) p.part[i] = (float*)c->in[i];
    concat_run<true>(c, p, (float*)c->out);
}

// all gradients at once, except that a tensor given twice gets its second one after its first
static void concat_backward(const nn_call* c) {
    int done[NN_MAX_IN] = {0}, left = 0;
    for (int i = 0; i < c->node->in_count; i++) left += !(done[i] = c->din[i] == NULL);
    while (left > 0) {
        concat_parts p = concat_layout(c);
        for (int i = 0; i < p.count; i++) {
            int wait = done[i];
            for (int j = 0; j < i; j++) wait |= p.part[j] == c->din[i];
            if (wait) continue;
            p.part[i] = gradient(c, i);
            p.add[i] = adds(c, i);
            done[i] = 1;
            left--;
        }
        concat_run<false>(c, p, (float*)c->dout);
    }
}

// ---- SLICE: [first, first + part) of every line ----

template <int V>
__global__ void __launch_bounds__(MAP_THREADS)
    slice_kernel(uint32_t count, divider part, uint32_t line, uint32_t first, const float* x,
                 float* y) {
    uint32_t i = (blockIdx.x * MAP_THREADS + threadIdx.x) * V, at;
    if (i >= count) return;
    uint32_t outer = split(i, part, &at);
    float v[V];
    load<V>(v, x + (size_t)outer * line + first + at);
    store<V>(y + i, v);
}

// adding touches the slice alone
template <int V>
__global__ void __launch_bounds__(MAP_THREADS)
    slice_add_kernel(uint32_t count, divider part, uint32_t line, uint32_t first, const float* dy,
                     float* dx) {
    uint32_t i = (blockIdx.x * MAP_THREADS + threadIdx.x) * V, at;
    if (i >= count) return;
    uint32_t outer = split(i, part, &at);
    float v[V];
    load<V>(v, dy + i);
    put<V>(dx + (size_t)outer * line + first + at, v, 1);
}

// writing fills whole lines, 0 outside the slice
template <int V>
__global__ void __launch_bounds__(MAP_THREADS)
    slice_fill_kernel(uint32_t count, divider line, uint32_t part, uint32_t first, const float* dy,
                      float* dx) {
    uint32_t i = (blockIdx.x * MAP_THREADS + threadIdx.x) * V, at;
    if (i >= count) return;
    uint32_t outer = split(i, line, &at);
    float v[V] = {};
    if (at >= first && at < first + part) load<V>(v, dy + (size_t)outer * part + (at - first));
    store<V>(dx + i, v);
}

typedef struct slice_sizes {
    int64_t outer;
    uint32_t line, first, part;
    int quads;  // all of them multiples of 4
} slice_sizes;

static slice_sizes slice_sizes_of(const nn_call* c, const void* x, const void* y) {
    int axis = c->node->axis;
    const nn_tensor *tx = nn_in(c, 0), *ty = nn_out(c);
    slice_sizes s = {outer_of(tx, axis, c->rows), (uint32_t)line_of(tx, axis), 0,
                     (uint32_t)line_of(ty, axis), 0};
    s.first = (uint32_t)c->node->from * (s.line / (uint32_t)tx->dim[axis]);
    s.quads = (s.line | s.first | s.part) % 4 == 0 && aligned16(x) && aligned16(y);
    return s;
}

static void slice_forward(const nn_call* c) {
    const float* x = input(c, 0);
    float* y = (float*)c->out;
    slice_sizes s = slice_sizes_of(c, x, y);
    uint32_t count = elements(queue_of(c), s.outer * s.part);
    launch(queue_of(c), "slice", s.quads ? slice_kernel<4> : slice_kernel<1>,
           blocks_for(count, (s.quads ? 4 : 1) * MAP_THREADS), MAP_THREADS, count,
           divide_by(s.part), s.line, s.first, x, y);
}

static void slice_backward(const nn_call* c) {
    const float* dy = (const float*)c->dout;
    float* dx = gradient(c, 0);
    if (!dx) return;
    slice_sizes s = slice_sizes_of(c, dx, dy);
    int add = adds(c, 0), per_block = (s.quads ? 4 : 1) * MAP_THREADS;
    uint32_t count = elements(queue_of(c), s.outer * (add ? s.part : s.line));
    if (add)
        launch(queue_of(c), "slice", s.quads ? slice_add_kernel<4> : slice_add_kernel<1>,
               blocks_for(count, per_block), MAP_THREADS, count, divide_by(s.part), s.line, s.first,
               dy, dx);
    else
        launch(queue_of(c), "slice", s.quads ? slice_fill_kernel<4> : slice_fill_kernel<1>,
               blocks_for(count, per_block), MAP_THREADS, count, divide_by(s.line), s.part, s.first,
               dy, dx);
}

// ---- MEAN over the first dimension: (T, inner) -> (inner) ----

enum { MEAN_LANES = 8 };

__global__ void __launch_bounds__(32 * MEAN_LANES)
    mean_kernel(int tokens, int inner, int tiles, const float* x, float* y) {
    __shared__ float shared[MEAN_LANES][32];
    int col = blockIdx.x % tiles * 32 + threadIdx.x;
    int64_t sample = blockIdx.x / tiles;
    float sum = 0;
    if (col < inner) {
#pragma unroll 4
        for (int t = threadIdx.y; t < tokens; t += MEAN_LANES)
            sum += x[(sample * tokens + t) * inner + col];
    }
    shared[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || col >= inner) return;
    for (int i = 1; i < MEAN_LANES; i++) sum += shared[i][threadIdx.x];
    y[sample * inner + col] = sum / tokens;
}

// dx[sample, t, j] = dy[sample, j] / T
__global__ void __launch_bounds__(MAP_THREADS)
    mean_slope_kernel(uint32_t count, divider size, divider inner, float share, const float* dy,
                      float* dx, int add) {
    uint32_t i = blockIdx.x * MAP_THREADS + threadIdx.x, inside, j;
    if (i >= count) return;
    uint32_t sample = split(i, size, &inside);
    split(inside, inner, &j);
    float g = dy[(size_t)sample * inner.d + j] * share;
    dx[i] = add ? dx[i] + g : g;
}

static void mean_forward(const nn_call* c) {
    int tokens = nn_in(c, 0)->dim[0], inner = nn_in(c, 0)->size / tokens;
    uint32_t tiles = blocks_for(inner, 32);
    launch(queue_of(c), "mean", mean_kernel, tiles * (uint32_t)c->rows, dim3(32, MEAN_LANES),
           tokens, inner, (int)tiles, input(c, 0), (float*)c->out);
}

static void mean_backward(const nn_call* c) {
    int tokens = nn_in(c, 0)->dim[0], size = nn_in(c, 0)->size;
    if (!c->din[0]) return;
    uint32_t count = elements(queue_of(c), (int64_t)c->rows * size);
    launch(queue_of(c), "mean", mean_slope_kernel, blocks_for(count, MAP_THREADS), MAP_THREADS,
           count, divide_by((uint32_t)size), divide_by((uint32_t)(size / tokens)),
           1.0f / (float)tokens, (const float*)c->dout, gradient(c, 0), adds(c, 0));
}

// ---- PREPEND: a line of the result is the parameter, then a line of x ----

__global__ void __launch_bounds__(MAP_THREADS)
    prepend_kernel(uint32_t count, divider line, uint32_t width, const float* x, const float* p,
                   float* y) {
    uint32_t i = blockIdx.x * MAP_THREADS + threadIdx.x, at;
    if (i >= count) return;
    uint32_t outer = split(i, line, &at);
    y[i] = at < width ? p[at] : x[(size_t)outer * (line.d - width) + at - width];
}

__global__ void __launch_bounds__(MAP_THREADS)
    rest_kernel(uint32_t count, divider part, uint32_t width, const float* dy, float* dx, int add) {
    uint32_t i = blockIdx.x * MAP_THREADS + threadIdx.x, at;
    if (i >= count) return;
    uint32_t outer = split(i, part, &at);
    float g = dy[(size_t)outer * (part.d + width) + width + at];
    dx[i] = add ? dx[i] + g : g;
}

struct first_rows {
    const float* dy;
    int64_t line;
    __device__ void operator()(int64_t row, int col, float* v) const {
        v[0] = dy[row * line + col];
    }
};

typedef struct prepend_sizes {
    int64_t outer, part;
    int width;
} prepend_sizes;

static prepend_sizes prepend_sizes_of(const nn_graph* g, const nn_node* n, int rows) {
    const nn_tensor* x = &g->tensor[n->in[0]];
    int64_t part = (int64_t)x->dim[x->rank - 2] * last_of(x);
    return prepend_sizes{(int64_t)rows * x->size / part, part, last_of(x)};
}

static void prepend_forward(const nn_call* c) {
    prepend_sizes s = prepend_sizes_of(c->graph, c->node, c->rows);
    uint32_t line = (uint32_t)(s.part + s.width), count = elements(queue_of(c), s.outer * line);
    launch(queue_of(c), "prepend", prepend_kernel, blocks_for(count, MAP_THREADS), MAP_THREADS,
           count, divide_by(line), (uint32_t)s.width, input(c, 0), input(c, 1), (float*)c->out);
}

static void prepend_backward(const nn_call* c) {
    prepend_sizes s = prepend_sizes_of(c->graph, c->node, c->rows);
    const float* dy = (const float*)c->dout;
    uint32_t count = elements(queue_of(c), s.outer * s.part);
    if (c->din[0])
        launch(queue_of(c), "prepend", rest_kernel, blocks_for(count, MAP_THREADS), MAP_THREADS,
               count, divide_by((uint32_t)s.part), (uint32_t)s.width, dy, gradient(c, 0),
               adds(c, 0));
    column_sink<1> sink = {{gradient(c, 1)}, (float*)c->scratch};
    if (c->din[1])
        column_sums(queue_of(c), "prepend", s.outer, s.width, sink,
                    first_rows{dy, s.part + s.width});
}

static size_t prepend_scratch(const nn_graph* g, const nn_node* n, int rows) {
    prepend_sizes s = prepend_sizes_of(g, n, rows);
    return column_scratch<1>(s.outer, s.width);
}

}  // namespace

const nn_kernel nn_cuda_concat = {concat_forward, concat_backward, NULL, NULL};
const nn_kernel nn_cuda_slice = {slice_forward, slice_backward, NULL, NULL};
const nn_kernel nn_cuda_mean = {mean_forward, mean_backward, NULL, NULL};
const nn_kernel nn_cuda_prepend = {prepend_forward, prepend_backward, NULL, prepend_scratch};
