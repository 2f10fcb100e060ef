// norm.cu - LayerNorm over the last dimension, GroupNorm over positions and a group's channels.
#include "nn/cuda/device.cuh"

namespace {

// ---- layernorm: a team of threads per row; save holds mean and 1/deviation of every row
// -----------

enum { LN_THREADS = 256, LN_WARP_WIDTH = 1024 };  // wider rows get a block of their own

typedef struct ln_sizes {
    int64_t rows;
    int width;
} ln_sizes;

static ln_sizes ln_sizes_of(const nn_graph* g, const nn_node* n, int rows) {
    const nn_tensor* x = &g->tensor[n->in[0]];
    int width = last_of(x);
    return ln_sizes{(int64_t)rows * (x->size / width), width};
}

template <int TEAM, int V>
__global__ void __launch_bounds__(LN_THREADS)
    ln_forward_kernel(int64_t rows, int width, const float* x, const float* gamma,
                      const float* beta, float eps, float* y, float2* stat) {
    int64_t row = (int64_t)blockIdx.x * (LN_THREADS / TEAM) + threadIdx.x / TEAM;
    int lane = threadIdx.x % TEAM;
    if (row >= rows) return;  // whole teams leave
    x += row * width;
    y += row * width;
    float sum = 0, square = 0, v[V], a[V], b[V];
    for (int i = lane * V; i < width; i += TEAM * V) {
        load<V>(v, x + i);
        for (int j = 0; j < V; j++) sum += v[j];
    }
    float mean = team_sum<TEAM>(sum) / width;
    for (int i = lane * V; i < width; i += TEAM * V) {
        load<V>(v, x + i);
        for (int j = 0; j < V; j++) square += (v[j] - mean) * (v[j] - mean);
    }
    float scale = 1.0f / sqrtf(team_sum<TEAM>(square) / width + eps);
    for (int i = lane * V; i < width; i += TEAM * V) {
        load<V>(v, x + i);
        load<V>(a, gamma + i);
        load<V>(b, beta + i);
        for (int j = 0; j < V; j++) v[j] = a[j] * ((v[j] - mean) * scale) + b[j];
        store<V>(y + i, v);
    }
    if (lane == 0) stat[row] = make_float2(mean, scale);
}

// with h = (x - mean) scale and g = dy gamma: dx = scale (g - mean(g) - h mean(g h))
template <int TEAM, int V>
__global__ void __launch_bounds__(LN_THREADS)
    ln_backward_kernel(int64_t rows, int width, const float* x, const float* gamma,
                       const float2* stat, const float* dy, float* dx, int add) {
    int64_t row = (int64_t)blockIdx.x * (LN_THREADS / TEAM) + threadIdx.x / TEAM;
    int lane = threadIdx.x % TEAM;
    if (row >= rows) return;
    x += row * width;
    dy += row * width;
    dx += row * width;
    float mean = stat[row].x, scale = stat[row].y, sum_g = 0, sum_gh = 0, v[V], a[V], g[V];
    for (int i = lane * V; i < width; i += TEAM * V) {
        load<V>(v, x + i);
        load<V>(a, gamma + i);
        load<V>(g, dy + i);
        for (int j = 0; j < V; j++) {
            sum_g += g[j] * a[j];
            sum_gh += g[j] * a[j] * ((v[j] - mean) * scale);
        }
    }
    sum_g = team_sum<TEAM>(sum_g) / width;
    sum_gh = team_sum<TEAM>(sum_gh) / width;
    for (int i = lane * V; i < width; i += TEAM * V) {
        load<V>(v, x + i);
        load<V>(a, gamma + i);
        load<V>(g, dy + i);
        for (int j = 0; j < V; j++)
            g[j] = scale * (g[j] * a[j] - sum_g - (v[j] - mean) * scale * sum_gh);
        put<V>(dx + i, g, add);
    }
}

struct ln_columns {
    const float *x, *dy;
    const float2* stat;
    int64_t width;
    __device__ void operator()(int64_t row, int col, float* v) const {
        float g = dy[row * width + col];
        v[0] = g;
        v[1] = g * ((x[row * width + col] - stat[row].x) * stat[row].y);
    }
};

static void ln_forward(const nn_call* c) {
    ln_sizes s = ln_sizes_of(c->graph, c->node, c->rows);
    const float *x = input(c, 0), *gamma = input(c, 1), *beta = input(c, 2);
    float* y = (float*)c->out;
    int quads =
        s.width % 4 == 0 && aligned16(x) && aligned16(gamma) && aligned16(beta) && aligned16(y);
    int wide = s.width > LN_WARP_WIDTH;
    auto kernel = wide ? quads ? ln_forward_kernel<LN_THREADS, 4> : ln_forward_kernel<LN_THREADS, 1>
                  : quads ? ln_forward_kernel<32, 4>
                          : ln_forward_kernel<32, 1>;
    launch(queue_of(c), "layernorm", kernel, blocks_for(s.rows, wide ? 1 : LN_THREADS / 32),
           LN_THREADS, s.rows, s.width, x, gamma, beta, c->node->eps, y, (float2*)c->save);
}

static void ln_backward(const nn_call* c) {
    ln_sizes s = ln_sizes_of(c->graph, c->node, c->rows);
    const float *x = input(c, 0), *gamma = input(c, 1), *dy = (const float*)c->dout;
    const float2* stat = (const float2*)c->save;
    if (c->din[0]) {
        int quads = s.width % 4 == 0 && aligned16(x) && aligned16(gamma) && aligned16(dy) &&
                    aligned16(c->din[0]);
        int wide = s.width > LN_WARP_WIDTH;
        auto kernel =
            wide    ? quads ? ln_backward_kernel<LN_THREADS, 4> : ln_backward_kernel<LN_THREADS, 1>
               : quads ? ln_backward_kernel<32, 4>
                    : ln_backward_kernel<32, 1>;
        launch(queue_of(c), "layernorm", kernel, blocks_for(s.rows, wide ? 1 : LN_THREADS / 32),
               LN_THREADS, s.rows, s.width, x, gamma, stat, dy, gradient(c, 0), adds(c, 0));
    }
    if (c->din[1] || c->din[2]) {
        column_sink<2> sink = {{gradient(c, 2), gradient(c, 1)}, (float*)c->scratch};
        column_sums(queue_of(c), "layernorm", s.rows, s.width, sink,
                    ln_columns{x, dy, stat, s.width});
    }
}

static size_t ln_save(const nn_graph* g, const nn_node* n, int rows) {
    return (size_t)ln_sizes_of(g, n, rows).rows * sizeof(float2);
}

static size_t ln_scratch(const nn_graph* g, const nn_node* n, int rows) {
    ln_sizes s = ln_sizes_of(g, n, rows);
    return column_scratch<2>(s.rows, s.width);
}

// ---- adanorm: a warp per row; save is layernorm's ----

__global__ void __launch_bounds__(LN_THREADS)
    ada_forward_kernel(int64_t rows, int width, const float* x, const float* scale,
                       const float* shift, float eps, float* y, float2* stat) {
    int64_t row = (int64_t)blockIdx.x * (LN_THREADS / 32) + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    if (row >= rows) return;
    int64_t at = row * width;
    float sum = 0, square = 0;
    for (int i = lane; i < width; i += 32) sum += x[at + i];
    float mean = warp_sum(sum) / width;
    for (int i = lane; i < width; i += 32) square += (x[at + i] - mean) * (x[at + i] - mean);
    float by = 1.0f / sqrtf(warp_sum(square) / width + eps);
    for (int i = lane; i < width; i += 32)
        y[at + i] = (x[at + i] - mean) * by * (1.0f + scale[at + i]) + shift[at + i];
    if (lane == 0) stat[row] = make_float2(mean, by);
}

struct ada_sinks {
    float* d[3];  // of x, scale, shift; NULL: not wanted
    int add[3];
};

__global__ void __launch_bounds__(LN_THREADS)
    ada_backward_kernel(int64_t rows, int width, const float* x, const float* scale,
                        const float2* stat, const float* dy, ada_sinks to) {
    int64_t row = (int64_t)blockIdx.x * (LN_THREADS / 32) + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    if (row >= rows) return;
    int64_t at = row * width;
    float mean = stat[row].x, by = stat[row].y, sum_g = 0, sum_gh = 0;
    for (int i = lane; i < width; i += 32) {
        float g = dy[at + i] * (1.0f + scale[at + i]);
        sum_g += g;
        sum_gh += g * ((x[at + i] - mean) * by);
    }
    sum_g = warp_sum(sum_g) / width;
    sum_gh = warp_sum(sum_gh) / width;
    for (int i = lane; i < width; i += 32) {
        float g = dy[at + i], h = (x[at + i] - mean) * by;
        float d[3] = {by * (g * (1.0f + scale[at + i]) - sum_g - h * sum_gh), g * h, g};
        for (int k = 0; k < 3; k++)
            if (to.d[k]) to.d[k][at + i] = to.add[k] ? to.d[k][at + i] + d[k] : d[k];
    }
}

static void ada_forward(const nn_call* c) {
    ln_sizes s = ln_sizes_of(c->graph, c->node, c->rows);
    launch(queue_of(c), "adanorm", ada_forward_kernel, blocks_for(s.rows, LN_THREADS / 32),
           LN_THREADS, s.rows, s.width, input(c, 0), input(c, 1), input(c, 2), c->node->eps,
           (float*)c->out, (float2*)c->save);
}

static void ada_backward(const nn_call* c) {
    ln_sizes s = ln_sizes_of(c->graph, c->node, c->rows);
    ada_sinks to;
    for (int k = 0; k < 3; k++) to.d[k] = gradient(c, k), to.add[k] = adds(c, k);
    launch(queue_of(c), "adanorm", ada_backward_kernel, blocks_for(s.rows, LN_THREADS / 32),
           LN_THREADS, s.rows, s.width, input(c, 0), input(c, 1), (const float2*)c->save,
           (const float*)c->dout, to);
}

// ---- groupnorm: save holds mean and 1/deviation of every (sample, group)
// -------------------------- Positions of a sample are cut into splits. First every split's sums
// per channel go to scratch, then a warp per group adds up its channels and splits, then each
// element is computed.

enum { GN_LANES = 16, GN_BLOCKS = 528 };  // blocks wanted: four for each of 132 processors

typedef struct gn_sizes {
    int samples, positions, channels, groups, splits;
} gn_sizes;

// 64 positions are the fewest worth a block
static int64_t gn_most_splits(gn_sizes s) {
    return (s.positions + 63) / 64;
}

static gn_sizes gn_sizes_of(const nn_graph* g, const nn_node* n, int rows) {
    const nn_tensor* x = &g->tensor[n->in[0]];
    gn_sizes s = {rows, x->size / last_of(x), last_of(x), n->groups, 1};
    int64_t blocks = (int64_t)rows * ((s.channels + 31) / 32);
    int64_t most = gn_most_splits(s), enough = (GN_BLOCKS + blocks - 1) / blocks;
    s.splits = (int)(most < enough ? most : enough);
    return s;
}

// sums of one split per channel: of (x - shift) and its square, or of dy and dy h
struct gn_sums {
    const float *x, *dy;  // dy NULL: forward
    const float2* stat;
    float* part;  // (samples, splits, 2, channels)
};

// any member of a group's first position stands in for its mean, which keeps squares small
__device__ __forceinline__ float gn_shift(const float* x, int64_t sample, gn_sizes s, int group) {
    return x[sample * s.positions * s.channels + group * (s.channels / s.groups)];
}

__global__ void __launch_bounds__(32 * GN_LANES) gn_partial_kernel(gn_sizes s, gn_sums a) {
    __shared__ float shared[2][GN_LANES][33];
    int tiles = (s.channels + 31) / 32;
    int channel = blockIdx.x % tiles * 32 + threadIdx.x, line = blockIdx.x / tiles;
    int split_at = line % s.splits;
    int64_t sample = line / s.splits;
    int first = (int)((int64_t)s.positions * split_at / s.splits);
    int last = (int)((int64_t)s.positions * (split_at + 1) / s.splits);
    float one = 0, two = 0;
    if (channel < s.channels) {
        int group = channel / (s.channels / s.groups);
        float2 stat = a.dy ? a.stat[sample * s.groups + group]
                           : make_float2(gn_shift(a.x, sample, s, group), 1.0f);
        int64_t at = sample * s.positions * s.channels + channel;
#pragma unroll 4
        for (int p = first + threadIdx.y; p < last; p += GN_LANES) {
            float h = (a.x[at + (int64_t)p * s.channels] - stat.x) * stat.y;
            float g = a.dy ? a.dy[at + (int64_t)p * s.channels] : h;
            one += g;
            two += g * h;
        }
    }
    shared[0][threadIdx.y][threadIdx.x] = one;
    shared[1][threadIdx.y][threadIdx.x] = two;
    __syncthreads();
    if (threadIdx.y >= 2 || channel >= s.channels) return;
    float sum = 0;
    for (int i = 0; i < GN_LANES; i++) sum += shared[threadIdx.y][i][threadIdx.x];
    a.part[((int64_t)line * 2 + threadIdx.y) * s.channels + channel] = sum;
}

// a warp per (sample, group): adds up a group's parts, each channel weighted (gamma) or not (NULL)
__device__ __forceinline__ void gn_group_sums(gn_sizes s, const float* part, const float* weight,
                                              int64_t sample, int group, double* one, double* two) {
    int width = s.channels / s.groups;
    *one = *two = 0;
    for (int i = threadIdx.x % 32; i < s.splits * width; i += 32) {
        int channel = group * width + i % width;
        const float* p = part + (sample * s.splits + i / width) * 2 * s.channels + channel;
        double w = weight ? (double)weight[channel] : 1.0;
        *one += w * (double)p[0];
        *two += w * (double)p[s.channels];
    }
    *one = warp_sum(*one);
    *two = warp_sum(*two);
}

// forward: sums to mean and 1/deviation; backward: to the means of g and g h
__global__ void __launch_bounds__(128)
    gn_group_kernel(gn_sizes s, const float* part, const float* x, const float* weight, float eps,
                    float2* result) {
    int64_t line = (int64_t)blockIdx.x * 4 + threadIdx.x / 32;
    if (line >= (int64_t)s.samples * s.groups) return;
    int64_t sample = line / s.groups;
    int group = (int)(line % s.groups);
    double one, two, count = (double)s.positions * (s.channels / s.groups);
    gn_group_sums(s, part, weight, sample, group, &one, &two);
    one /= count;
    two /= count;
    if (!weight) {  // one and two are about the shift
        double variance = two - one * one;
        one += (double)gn_shift(x, sample, s, group);
        two = 1.0 / sqrt((variance > 0 ? variance : 0) + (double)eps);
    }
    if (threadIdx.x % 32 == 0) result[line] = make_float2((float)one, (float)two);
}

struct gn_arrays {
    const float *x, *gamma, *beta, *dy;
    const float2 *stat, *mean;  // of (sample, group); mean: of g and g h
    float* to;
    int add;
};

template <int V, bool BACK>
__global__ void __launch_bounds__(MAP_THREADS)
    gn_apply_kernel(uint32_t count, divider size, divider channels, divider width, int groups,
                    gn_arrays a) {
    uint32_t i = (blockIdx.x * MAP_THREADS + threadIdx.x) * V, inside, channel;
    if (i >= count) return;
    uint32_t sample = split(i, size, &inside);
    split(inside, channels, &channel);
    float v[V], w[V], b[V];
    load<V>(v, a.x + i);
    load<V>(w, a.gamma + channel);
    load<V>(b, BACK ? a.dy + i : a.beta + channel);
#pragma unroll
    for (int j = 0; j < V; j++) {
        uint32_t line = sample * groups + quotient(channel + j, width);
        float2 stat = a.stat[line];
        float h = (v[j] - stat.x) * stat.y;
        if (BACK) {
            float2 mean = a.mean[line];
            v[j] = stat.y * (b[j] * w[j] - mean.x - h * mean.y);
        } else {
            v[j] = w[j] * h + b[j];
        }
    }
    put<V>(a.to + i, v, a.add);
}

template <bool BACK>
static void gn_apply(const nn_call* c, gn_sizes s, gn_arrays a) {
    uint32_t count = elements(queue_of(c), (int64_t)s.samples * s.positions * s.channels);
    int quads = s.channels % 4 == 0 && aligned16(a.x) && aligned16(a.gamma) && aligned16(a.to) &&
                aligned16(BACK ? a.dy : a.beta);
    divider size = divide_by((uint32_t)(s.positions * s.channels)),
            channels = divide_by((uint32_t)s.channels),
            width = divide_by((uint32_t)(s.channels / s.groups));
    auto kernel = quads ? gn_apply_kernel<4, BACK> : gn_apply_kernel<1, BACK>;
    launch(queue_of(c), "groupnorm", kernel, blocks_for(count, (quads ? 4 : 1) * MAP_THREADS),
           MAP_THREADS, count, size, channels, width, s.groups, a);
}

static void gn_partials(const nn_call* c, gn_sizes s, gn_sums a) {
    uint32_t blocks = (uint32_t)((int64_t)s.samples * s.splits * ((s.channels + 31) / 32));
    launch(queue_of(c), "groupnorm", gn_partial_kernel, blocks, dim3(32, GN_LANES), s, a);
}

static size_t gn_part_floats(gn_sizes s) {
    return (size_t)s.samples * s.splits * 2 * s.channels;
}

static void gn_forward(const nn_call* c) {
    gn_sizes s = gn_sizes_of(c->graph, c->node, c->rows);
    const float* x = input(c, 0);
    float* part = (float*)c->scratch;
    gn_partials(c, s, gn_sums{x, NULL, NULL, part});
    launch(queue_of(c), "groupnorm", gn_group_kernel, blocks_for((int64_t)s.samples * s.groups, 4),
           128, s, part, x, (const float*)NULL, c->node->eps, (float2*)c->save);
    gn_apply<false>(c, s,
                    gn_arrays{x, input(c, 1), input(c, 2), NULL, (const float2*)c->save, NULL,
                              (float*)c->out, 0});
}

// sums over samples and splits of the parts
struct gn_columns {
    const float* part;
    int64_t channels;
    __device__ void operator()(int64_t row, int col, float* v) const {
        v[0] = part[row * 2 * channels + col];
        v[1] = part[(row * 2 + 1) * channels + col];
    }
};

static void gn_backward(const nn_call* c) {
    gn_sizes s = gn_sizes_of(c->graph, c->node, c->rows);
    const float *x = input(c, 0), *dy = (const float*)c->dout;
    const float2* stat = (const float2*)c->save;
    pieces scratch = {(char*)c->scratch};
    float* part = scratch.take(gn_part_floats(s));
    float2* mean = (float2*)scratch.take((size_t)s.samples * s.groups * 2);
    gn_partials(c, s, gn_sums{x, dy, stat, part});
    if (c->din[0]) {
        launch(queue_of(c), "groupnorm", gn_group_kernel,
               blocks_for((int64_t)s.samples * s.groups, 4), 128, s, part, x, input(c, 1), 0.0f,
               mean);
        gn_apply<true>(c, s,
                       gn_arrays{x, input(c, 1), NULL, dy, stat, mean, gradient(c, 0), adds(c, 0)});
    }
    if (c->din[1] || c->din[2]) {
        int64_t lines = (int64_t)s.samples * s.splits;
        column_sink<2> sink = {{gradient(c, 2), gradient(c, 1)},
                               scratch.take(column_scratch<2>(lines, s.channels) / sizeof(float))};
        column_sums(queue_of(c), "groupnorm", lines, s.channels, sink,
                    gn_columns{part, s.channels});
    }
}

static size_t gn_save(const nn_graph* g, const nn_node* n, int rows) {
    (void)g;
    return (size_t)rows * n->groups * sizeof(float2);
}

// Enough for fewer rows too, which are cut into more splits: samples * splits is at most
// samples + GN_BLOCKS, and at most samples times the most splits there can be.
static size_t gn_scratch(const nn_graph* g, const nn_node* n, int rows) {
    gn_sizes s = gn_sizes_of(g, n, rows);
    int64_t lines = (int64_t)rows * gn_most_splits(s);
    if (lines > rows + GN_BLOCKS) lines = rows + GN_BLOCKS;
    return pieces::bytes((size_t)lines * 2 * s.channels) +
           pieces::bytes((size_t)rows * s.groups * 2) + column_scratch<2>(lines, s.channels);
}

}  // namespace

const nn_kernel nn_cuda_layernorm = {ln_forward, ln_backward, ln_save, ln_scratch};
const nn_kernel nn_cuda_adanorm = {ada_forward, ada_backward, ln_save, NULL};
const nn_kernel nn_cuda_groupnorm = {gn_forward, gn_backward, gn_save, gn_scratch};
