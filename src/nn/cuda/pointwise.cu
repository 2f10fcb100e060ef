// pointwise.cu - ops that look at one element at a time (PAIRNORM, RELATIVE: at two).
#include "nn/cuda/device.cuh"

namespace {

static int64_t count_of(const nn_call* c) {
    return (int64_t)c->rows * nn_in(c, 0)->size;
}

// the usual call: one result from N inputs
template <int N, class F>
static void forward_map(const nn_call* c, const char* what, F f) {
    map_arrays<N, 1> a = {};
    for (int i = 0; i < N; i++) a.in[i] = input(c, i);
    a.out[0] = (float*)c->out;
    map(queue_of(c), what, count_of(c), a, f);
}

// gradients of both inputs of an op; what f needs besides dout is in x and y
template <int N, class F>
static void backward_map(const nn_call* c, const char* what, const float* const (&in)[N], F f) {
    map_arrays<N, 2> a = {};
    for (int i = 0; i < N; i++) a.in[i] = in[i];
    for (int i = 0; i < 2 && i < c->node->in_count; i++) {
        a.out[i] = gradient(c, i);
        a.add[i] = adds(c, i);
    }
    if (a.out[0] || a.out[1]) map(queue_of(c), what, count_of(c), a, f);
}

// ---- GELU: x s with s = sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3), which is the tanh form
// ----

#define GELU_SCALE 0.7978845608028654f
#define GELU_CUBIC 0.044715f

__device__ __forceinline__ float gelu_sigmoid(float x) {
    return 1.0f / (1.0f + expf(-2.0f * GELU_SCALE * (x + GELU_CUBIC * x * x * x)));
}

struct gelu_value {
    __device__ void operator()(const float* x, float* y, uint32_t) const {
        y[0] = x[0] * gelu_sigmoid(x[0]);
    }
};

// d(x s)/dx = s + x s (1 - s) 2 du/dx
struct gelu_slope {
    __device__ void operator()(const float* in, float* d, uint32_t) const {
        float x = in[1], s = gelu_sigmoid(x);
        float inner = 2.0f * GELU_SCALE * (1.0f + 3.0f * GELU_CUBIC * x * x);
        d[0] = in[0] * (s + x * s * (1.0f - s) * inner);
        d[1] = 0.0f;  // not stored
    }
};

static void gelu_forward(const nn_call* c) {
    forward_map<1>(c, "gelu", gelu_value{});
}

static void gelu_backward(const nn_call* c) {
    backward_map<2>(c, "gelu", {(const float*)c->dout, input(c, 0)}, gelu_slope{});
}

// ---- ERFGELU: x Phi(x) ----

struct erfgelu_value {
    __device__ void operator()(const float* x, float* y, uint32_t) const {
        y[0] = x[0] * normcdff(x[0]);
    }
};

struct erfgelu_slope {
    __device__ void operator()(const float* in, float* d, uint32_t) const {
        float x = in[1];
        d[0] = in[0] * (normcdff(x) + x * 0.3989422804f * expf(-0.5f * x * x));
        d[1] = 0.0f;  // not stored
    }
};

static void erfgelu_forward(const nn_call* c) {
    forward_map<1>(c, "gelu", erfgelu_value{});
}

static void erfgelu_backward(const nn_call* c) {
    backward_map<2>(c, "gelu", {(const float*)c->dout, input(c, 0)}, erfgelu_slope{});
}

// ---- SILU: x s, s = 1 / (1 + e^-x) ----

struct silu_value {
    __device__ void operator()(const float* x, float* y, uint32_t) const {
        y[0] = x[0] / (1.0f + expf(-x[0]));
    }
};

struct silu_slope {
    __device__ void operator()(const float* in, float* d, uint32_t) const {
        float x = in[1], s = 1.0f / (1.0f + expf(-x));
        d[0] = in[0] * s * (1.0f + x * (1.0f - s));
        d[1] = 0.0f;  // not stored
    }
};

static void silu_forward(const nn_call* c) {
    forward_map<1>(c, "silu", silu_value{});
}

static void silu_backward(const nn_call* c) {
    backward_map<2>(c, "silu", {(const float*)c->dout, input(c, 0)}, silu_slope{});
}

// ---- ADD: alpha x + beta y ----

struct add_value {
    float alpha, beta;
    __device__ void operator()(const float* x, float* y, uint32_t) const {
        y[0] = alpha * x[0] + beta * x[1];
    }
};

struct add_slope {
    float alpha, beta;
    __device__ void operator()(const float* dz, float* d, uint32_t) const {
        d[0] = alpha * dz[0];
        d[1] = beta * dz[0];
    }
};

static void add_forward(const nn_call* c) {
    forward_map<2>(c, "add", add_value{c->node->alpha, c->node->beta});
}

static void add_backward(const nn_call* c) {
    backward_map<1>(c, "add", {(const float*)c->dout}, add_slope{c->node->alpha, c->node->beta});
}

// ---- ADDP: x + p, p repeated over samples and leading dimensions ----

template <int V>
__global__ void __launch_bounds__(MAP_THREADS)
    addp_kernel(uint32_t count, divider period, const float* x, const float* p, float* y) {
    uint32_t i = (blockIdx.x * MAP_THREADS + threadIdx.x) * V, at;
    if (i >= count) return;
    split(i, period, &at);
    float a[V], b[V];
    load<V>(a, x + i);
    load<V>(b, p + at);
#pragma unroll
    for (int v = 0; v < V; v++) a[v] += b[v];
    store<V>(y + i, a);
}

static void addp_forward(const nn_call* c) {
    nn_cuda_queue* q = queue_of(c);
    uint32_t count = elements(q, count_of(c)), period = (uint32_t)nn_addp_period(c->graph, c->node);
    const float *x = input(c, 0), *p = input(c, 1);
    float* y = (float*)c->out;
    if (period % 4 == 0 && aligned16(x) && aligned16(p) && aligned16(y))
        launch(q, "addp", addp_kernel<4>, blocks_for(count, 4 * MAP_THREADS), MAP_THREADS, count,
               divide_by(period), x, p, y);
    else
        launch(q, "addp", addp_kernel<1>, blocks_for(count, MAP_THREADS), MAP_THREADS, count,
               divide_by(period), x, p, y);
}

struct same_value {
    __device__ void operator()(const float* x, float* y, uint32_t) const { y[0] = x[0]; }
};

static void addp_backward(const nn_call* c) {
    const float* dy = (const float*)c->dout;
    int64_t period = nn_addp_period(c->graph, c->node);
    if (c->din[0]) {
        map_arrays<1, 1> a = {{dy}, {gradient(c, 0)}, {adds(c, 0)}};
        map(queue_of(c), "addp", count_of(c), a, same_value{});
    }
    if (c->din[1])
        nn_cuda_column_sums(queue_of(c), count_of(c) / period, period, dy, gradient(c, 1),
                            c->scratch);
}

static size_t addp_scratch(const nn_graph* g, const nn_node* n, int rows) {
    int64_t period = nn_addp_period(g, n);
    return nn_cuda_column_sums_bytes((int64_t)rows * g->tensor[n->in[0]].size / period, period);
}

// ---- MUL: x y ----

struct mul_value {
    __device__ void operator()(const float* x, float* y, uint32_t) const { y[0] = x[0] * x[1]; }
};

struct mul_slope {
    __device__ void operator()(const float* in, float* d, uint32_t) const {
        d[0] = in[0] * in[2];
        d[1] = in[0] * in[1];
    }
};

static void mul_forward(const nn_call* c) {
    forward_map<2>(c, "mul", mul_value{});
}

static void mul_backward(const nn_call* c) {
    backward_map<3>(c, "mul", {(const float*)c->dout, input(c, 0), input(c, 1)}, mul_slope{});
}

// ---- PAIRNORM: (s, c) / max(|(s, c)|, 1e-6) for the first pairs of the last dimension ----

#define SHORTEST_PAIR 1e-6f

// one thread per element; a pair's two threads both find its length
__global__ void __launch_bounds__(MAP_THREADS)
    pairnorm_value(uint32_t count, divider width, uint32_t paired, const float* x, float* y) {
    uint32_t i = blockIdx.x * MAP_THREADS + threadIdx.x, at;
    if (i >= count) return;
    split(i, width, &at);
    float v = x[i];
    if (at < paired) {
        float other = at % 2 ? x[i - 1] : x[i + 1];
        v /= fmaxf(hypotf(v, other), SHORTEST_PAIR);
    }
    y[i] = v;
}

// with the unit pair u: dx = (dy - u (u . dy)) / length; a pair too short to turn is only scaled
__global__ void __launch_bounds__(MAP_THREADS)
    pairnorm_slope(uint32_t count, divider width, uint32_t paired, const float* x, const float* dy,
                   float* dx, int add) {
    uint32_t i = blockIdx.x * MAP_THREADS + threadIdx.x, at;
    if (i >= count) return;
    split(i, width, &at);
    float g = dy[i];
    if (at < paired) {
        uint32_t j = at % 2 ? i - 1 : i + 1;
        float length = hypotf(x[i], x[j]);
        if (length <= SHORTEST_PAIR) {
            g /= SHORTEST_PAIR;
        } else {
            float u = x[i] / length, w = x[j] / length;
            g = (g - u * (u * g + w * dy[j])) / length;
        }
    }
    dx[i] = add ? dx[i] + g : g;
}

static void pairnorm_forward(const nn_call* c) {
    uint32_t count = elements(queue_of(c), count_of(c));
    launch(queue_of(c), "pairnorm", pairnorm_value, blocks_for(count, MAP_THREADS), MAP_THREADS,
           count, divide_by((uint32_t)last_of(nn_in(c, 0))), (uint32_t)(2 * c->node->pairs),
           input(c, 0), (float*)c->out);
}

static void pairnorm_backward(const nn_call* c) {
    uint32_t count = elements(queue_of(c), count_of(c));
    if (!c->din[0]) return;
    launch(queue_of(c), "pairnorm", pairnorm_slope, blocks_for(count, MAP_THREADS), MAP_THREADS,
           count, divide_by((uint32_t)last_of(nn_in(c, 0))), (uint32_t)(2 * c->node->pairs),
           input(c, 0), (const float*)c->dout, gradient(c, 0), adds(c, 0));
}

// ---- CLAMP: min(max(x, alpha), beta); the bounds themselves still pass a gradient ----

struct clamp_value {
    float low, high;
    __device__ void operator()(const float* x, float* y, uint32_t) const {
        y[0] = fminf(fmaxf(x[0], low), high);
    }
};

struct clamp_slope {
    float low, high;
    __device__ void operator()(const float* in, float* d, uint32_t) const {
        d[0] = in[1] >= low && in[1] <= high ? in[0] : 0.0f;
        d[1] = 0.0f;  // not stored
    }
};

static void clamp_forward(const nn_call* c) {
    forward_map<1>(c, "clamp", clamp_value{c->node->alpha, c->node->beta});
}

static void clamp_backward(const nn_call* c) {
    backward_map<2>(c, "clamp", {(const float*)c->dout, input(c, 0)},
                    clamp_slope{c->node->alpha, c->node->beta});
}

// ---- RELATIVE: the turn between (sin, cos) pairs, as a pair again; x - y for the rest ----

// one thread per element: even ones of a pair are sines, odd ones cosines
__global__ void __launch_bounds__(MAP_THREADS)
    relative_value(uint32_t count, divider width, uint32_t paired, const float* x, const float* y,
                   float* z) {
    uint32_t i = blockIdx.x * MAP_THREADS + threadIdx.x, at;
    if (i >= count) return;
    split(i, width, &at);
    if (at >= paired)
        z[i] = x[i] - y[i];
    else if (at % 2 == 0)
        z[i] = x[i] * y[i + 1] - x[i + 1] * y[i];
    else
        z[i] = x[i] * y[i] + x[i - 1] * y[i - 1];
}

struct relative_sinks {
    float* to[2];
    int add[2];
};

__global__ void __launch_bounds__(MAP_THREADS)
    relative_slope(uint32_t count, divider width, uint32_t paired, const float* x, const float* y,
                   const float* dz, relative_sinks d) {
    uint32_t i = blockIdx.x * MAP_THREADS + threadIdx.x, at;
    if (i >= count) return;
    split(i, width, &at);
    float gx, gy;
    if (at >= paired) {
        gx = dz[i];
        gy = -dz[i];
    } else if (at % 2 == 0) {
        gx = dz[i] * y[i + 1] + dz[i + 1] * y[i];
        gy = dz[i + 1] * x[i] - dz[i] * x[i + 1];
    } else {
        gx = dz[i] * y[i] - dz[i - 1] * y[i - 1];
        gy = dz[i - 1] * x[i - 1] + dz[i] * x[i];
    }
    if (d.to[0]) d.to[0][i] = d.add[0] ? d.to[0][i] + gx : gx;
    if (d.to[1]) d.to[1][i] = d.add[1] ? d.to[1][i] + gy : gy;
}

static void relative_forward(const nn_call* c) {
    uint32_t count = elements(queue_of(c), count_of(c));
    launch(queue_of(c), "relative", relative_value, blocks_for(count, MAP_THREADS), MAP_THREADS,
           count, divide_by((uint32_t)last_of(nn_in(c, 0))), (uint32_t)(2 * c->node->pairs),
           input(c, 0), input(c, 1), (float*)c->out);
}

static void relative_backward(const nn_call* c) {
    uint32_t count = elements(queue_of(c), count_of(c));
    relative_sinks d = {{gradient(c, 0), gradient(c, 1)}, {adds(c, 0), adds(c, 1)}};
    if (!d.to[0] && !d.to[1]) return;
    launch(queue_of(c), "relative", relative_slope, blocks_for(count, MAP_THREADS), MAP_THREADS,
           count, divide_by((uint32_t)last_of(nn_in(c, 0))), (uint32_t)(2 * c->node->pairs),
           input(c, 0), input(c, 1), (const float*)c->dout, d);
}

}  // namespace

const nn_kernel nn_cuda_gelu = {gelu_forward, gelu_backward, NULL, NULL};
const nn_kernel nn_cuda_erfgelu = {erfgelu_forward, erfgelu_backward, NULL, NULL};
const nn_kernel nn_cuda_silu = {silu_forward, silu_backward, NULL, NULL};
const nn_kernel nn_cuda_add = {add_forward, add_backward, NULL, NULL};
const nn_kernel nn_cuda_addp = {addp_forward, addp_backward, NULL, addp_scratch};
const nn_kernel nn_cuda_mul = {mul_forward, mul_backward, NULL, NULL};
const nn_kernel nn_cuda_pairnorm = {pairnorm_forward, pairnorm_backward, NULL, NULL};
const nn_kernel nn_cuda_clamp = {clamp_forward, clamp_backward, NULL, NULL};
const nn_kernel nn_cuda_relative = {relative_forward, relative_backward, NULL, NULL};
