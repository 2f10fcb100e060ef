// loss.cu - one error per sample, the mean over its elements; batch reductions and their seeds are
// the executor's business. A loss is a pair of formulas: the error of one element, and its slopes.
#include "nn/cuda/device.cuh"

namespace {

// log(1 + e^x) without overflow
__device__ __forceinline__ float softplus(float x) {
    return fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x)));
}

__device__ __forceinline__ float sigmoid(float x) {
    float e = expf(-fabsf(x));
    return x >= 0 ? 1.0f / (1.0f + e) : e / (1.0f + e);
}

// (x - t)^2
struct mse {
    static const int inputs = 2;
    __device__ float error(const float* in) const { return (in[0] - in[1]) * (in[0] - in[1]); }
    __device__ void slopes(const float* in, float g, float* d) const {
        d[0] = 2.0f * g * (in[0] - in[1]);
        d[1] = -d[0];
    }
};

// logits x, targets t in 0..1: alpha t softplus(-x) + (1 - t) softplus(x)
struct bce {
    static const int inputs = 2;
    float alpha;
    __device__ float error(const float* in) const {
        return alpha * in[1] * softplus(-in[0]) + (1.0f - in[1]) * softplus(in[0]);
    }
    __device__ void slopes(const float* in, float g, float* d) const {
        d[0] = g * ((1.0f - in[1]) * sigmoid(in[0]) - alpha * in[1] * sigmoid(-in[0]));
        d[1] = g * (alpha * softplus(-in[0]) - softplus(in[0]));
    }
};

// mean m, log variance v, target t: (v + (t - m)^2 e^-v) / 2
struct nll {
    static const int inputs = 3;
    __device__ float error(const float* in) const {
        float miss = in[2] - in[0];
        return 0.5f * (in[1] + miss * miss * expf(-in[1]));
    }
    __device__ void slopes(const float* in, float g, float* d) const {
        float miss = in[2] - in[0], precision = expf(-in[1]);
        d[0] = -g * miss * precision;
        d[1] = 0.5f * g * (1.0f - miss * miss * precision);
        d[2] = g * miss * precision;
    }
};

enum { LOSS_THREADS = 256 };

template <int N>
struct loss_inputs {
    const float* in[N];
};

// a team of threads per sample
template <int TEAM, class L>
__global__ void __launch_bounds__(LOSS_THREADS)
    loss_kernel(int samples, int size, loss_inputs<L::inputs> a, L loss, float* y) {
    int64_t sample = (int64_t)blockIdx.x * (LOSS_THREADS / TEAM) + threadIdx.x / TEAM;
    if (sample >= samples) return;  // whole teams leave
    float sum = 0;
    for (int i = threadIdx.x % TEAM; i < size; i += TEAM) {
        float one[L::inputs];
#pragma unroll
        for (int n = 0; n < L::inputs; n++) one[n] = a.in[n][sample * size + i];
        sum += loss.error(one);
    }
    sum = team_sum<TEAM>(sum);
    if (threadIdx.x % TEAM == 0) y[sample] = sum / size;
}

template <class L>
static void forward(const nn_call* c, L loss) {
    int size = nn_in(c, 0)->size, wide = size > 512;
    loss_inputs<L::inputs> a;
    for (int i = 0; i < L::inputs; i++) a.in[i] = input(c, i);
    launch(queue_of(c), "loss", wide ? loss_kernel<LOSS_THREADS, L> : loss_kernel<32, L>,
           blocks_for(c->rows, wide ? 1 : LOSS_THREADS / 32), LOSS_THREADS, c->rows, size, a, loss,
           (float*)c->out);
}

template <class L>
struct loss_slopes {
    L loss;
    const float* dy;
    divider size;
    float share;
    __device__ void operator()(const float* in, float* d, uint32_t i) const {
        loss.slopes(in, dy[quotient(i, size)] * share, d);
    }
};

template <class L>
static void backward(const nn_call* c, L loss) {
    int size = nn_in(c, 0)->size, wanted = 0;
    map_arrays<L::inputs, L::inputs> a = {};
    for (int i = 0; i < L::inputs; i++) {
        a.in[i] = input(c, i);
        a.out[i] = gradient(c, i);
        a.add[i] = adds(c, i);
        wanted |= a.out[i] != NULL;
    }
    loss_slopes<L> f = {loss, (const float*)c->dout, divide_by((uint32_t)size), 1.0f / (float)size};
    if (wanted) map(queue_of(c), "loss", (int64_t)c->rows * size, a, f);
}

static void mse_forward(const nn_call* c) {
    forward(c, mse{});
}
static void mse_backward(const nn_call* c) {
    backward(c, mse{});
}
static void bce_forward(const nn_call* c) {
    forward(c, bce{c->node->alpha});
}
static void bce_backward(const nn_call* c) {
    backward(c, bce{c->node->alpha});
}
static void nll_forward(const nn_call* c) {
    forward(c, nll{});
}
static void nll_backward(const nn_call* c) {
    backward(c, nll{});
}

// ---- CHORD: the largest squared distance of the first pairs, softened by eps; a thread per row ----

// *which: where the pair begins; the first of equals
__device__ __forceinline__ float worst_pair(const float* x, const float* t, int pairs, int* which) {
    float most = -1;
    for (int p = 0; p < pairs; p++) {
        float a = x[2 * p] - t[2 * p], b = x[2 * p + 1] - t[2 * p + 1], q = a * a + b * b;
        if (q <= most) continue;
        most = q;
        *which = 2 * p;
    }
    return most;
}

__global__ void __launch_bounds__(LOSS_THREADS)
    chord_value(uint32_t rows, int width, int pairs, float eps, const float* x, const float* t,
                float* y) {
    uint32_t r = blockIdx.x * LOSS_THREADS + threadIdx.x;
    if (r >= rows) return;
    int which = 0;
    float q = worst_pair(x + (int64_t)r * width, t + (int64_t)r * width, pairs, &which);
    y[r] = eps > 0 ? sqrtf(q + eps * eps) - eps : q;
}

struct chord_sinks {
    float* to[2];
    int add[2];
};

__global__ void __launch_bounds__(LOSS_THREADS)
    chord_slope(uint32_t rows, int width, int pairs, float eps, const float* x, const float* t,
                const float* dy, chord_sinks d) {
    uint32_t r = blockIdx.x * LOSS_THREADS + threadIdx.x;
    if (r >= rows) return;
    int64_t at = (int64_t)r * width;
    int which = 0;
    float q = worst_pair(x + at, t + at, pairs, &which);
    float dq = eps > 0 ? dy[r] / (2 * sqrtf(q + eps * eps)) : dy[r];
    for (int j = 0; j < width; j++) {
        float g = j == which || j == which + 1 ? 2 * dq * (x[at + j] - t[at + j]) : 0.0f;
        if (d.to[0]) d.to[0][at + j] = d.add[0] ? d.to[0][at + j] + g : g;
        if (d.to[1]) d.to[1][at + j] = d.add[1] ? d.to[1][at + j] - g : -g;
    }
}

static void chord_forward(const nn_call* c) {
    uint32_t rows = elements(queue_of(c), (int64_t)c->rows * nn_out(c)->size);
    launch(queue_of(c), "chord", chord_value, blocks_for(rows, LOSS_THREADS), LOSS_THREADS, rows,
           last_of(nn_in(c, 0)), c->node->pairs, c->node->eps, input(c, 0), input(c, 1),
           (float*)c->out);
}

static void chord_backward(const nn_call* c) {
    uint32_t rows = elements(queue_of(c), (int64_t)c->rows * nn_out(c)->size);
    chord_sinks d = {{gradient(c, 0), gradient(c, 1)}, {adds(c, 0), adds(c, 1)}};
    if (!d.to[0] && !d.to[1]) return;
    launch(queue_of(c), "chord", chord_slope, blocks_for(rows, LOSS_THREADS), LOSS_THREADS, rows,
           last_of(nn_in(c, 0)), c->node->pairs, c->node->eps, input(c, 0), input(c, 1),
           (const float*)c->dout, d);
}

}  // namespace

const nn_kernel nn_cuda_mse = {mse_forward, mse_backward, NULL, NULL};
const nn_kernel nn_cuda_bce = {bce_forward, bce_backward, NULL, NULL};
const nn_kernel nn_cuda_nll = {nll_forward, nll_backward, NULL, NULL};
const nn_kernel nn_cuda_chord = {chord_forward, chord_backward, NULL, NULL};
