// sigreg.cu - SIGReg (ref/sigreg.c says what it is); the batch is one shard. A thread per time step
// and direction sums the waves of all samples in order. save: directions (M, D), projections
// (samples, T, M), what the knots are off (T M, knots, 2).
#include "nn/cuda/random.cuh"
#include "nn/sigreg.h"

namespace {

typedef struct sizes {
    int samples, T, D, M;
} sizes;

static sizes sizes_of(const nn_graph* g, const nn_node* n, int rows) {
    const nn_tensor* z = &g->tensor[n->in[0]];
    return sizes{rows, z->dim[0], z->dim[1], n->groups};
}

enum { THREADS = 128 };

static uint32_t place_blocks(sizes s) {
    return blocks_for((int64_t)s.T * s.M, THREADS);
}

struct parts {
    float *direction, *projected, *off;
};

static parts parts_of(const nn_call* c, sizes s) {
    pieces p = {(char*)c->save};
    parts out;
    out.direction = p.take((size_t)s.M * s.D);
    out.projected = p.take((size_t)s.samples * s.T * s.M);
    out.off = p.take((size_t)s.T * s.M * SIGREG_KNOTS * 2);
    return out;
}

static size_t save_bytes(const nn_graph* g, const nn_node* n, int rows) {
    sizes s = sizes_of(g, n, rows);
    return pieces::bytes((size_t)s.M * s.D) + pieces::bytes((size_t)s.samples * s.T * s.M) +
           pieces::bytes((size_t)s.T * s.M * SIGREG_KNOTS * 2);
}

// forward: partial losses; backward: gradients of the projections, and the sum of dout
static size_t scratch_bytes(const nn_graph* g, const nn_node* n, int rows) {
    sizes s = sizes_of(g, n, rows);
    return pieces::bytes(2 * (size_t)place_blocks(s)) +
           pieces::bytes((size_t)s.samples * s.T * s.M) + pieces::bytes(2);
}

// number i of all directions before they are scaled; rng_normal4's formula
__device__ __forceinline__ float normal(const device_key& key, uint32_t i) {
    uint32_t word[4], at = i % 4;
    draw(key, i / 4, word);
    float radius = sqrtf(-2.0f * logf(rng_unit(word[at & 2])));
    float angle = 6.283185307f * rng_unit(word[(at & 2) + 1]);
    return radius * (at & 1 ? sinf(angle) : cosf(angle));
}

// a warp per direction
__global__ void __launch_bounds__(THREADS) direction_kernel(sizes s, device_key key, float* to) {
    int m = (int)(blockIdx.x * (THREADS / 32) + threadIdx.x / 32), lane = threadIdx.x % 32;
    if (m >= s.M) return;
    float square = 0;
    for (int d = lane; d < s.D; d += 32) {
        float v = normal(key, (uint32_t)m * s.D + d);
        to[(size_t)m * s.D + d] = v;
        square += v * v;
    }
    float by = 1.0f / sqrtf(warp_sum(square));
    for (int d = lane; d < s.D; d += 32) to[(size_t)m * s.D + d] *= by;
}

struct knots {
    float phi[SIGREG_KNOTS], weight[SIGREG_KNOTS], tau[SIGREG_KNOTS];
};

static knots knots_of(void) {
    knots k;
    for (int i = 0; i < SIGREG_KNOTS; i++) {
        k.phi[i] = (float)sigreg_phi(i);
        k.weight[i] = (float)sigreg_weight(i);
        k.tau[i] = (float)sigreg_tau(i);
    }
    return k;
}

// the block's share of n sum_k W_k ((C - phi)^2 + S^2) / (T M), to part
__global__ void __launch_bounds__(THREADS)
    waves_kernel(sizes s, knots at, const float* projected, float* off, double* part) {
    __shared__ double shared[THREADS / 32];
    int i = (int)(blockIdx.x * THREADS + threadIdx.x), places = s.T * s.M;
    double loss = 0;
    if (i < places) {
        float c_sum[SIGREG_KNOTS] = {}, s_sum[SIGREG_KNOTS] = {};
        for (int b = 0; b < s.samples; b++) {
            float step = at.tau[0] * projected[(size_t)b * places + i], c1, s1;
            sincosf(step, &s1, &c1);
            float cw = c1, sw = s1;
#pragma unroll
            for (int k = 0; k < SIGREG_KNOTS; k++) {
                c_sum[k] += cw;
                s_sum[k] += sw;
                float turned = cw * c1 - sw * s1;
                sw = sw * c1 + cw * s1;
                cw = turned;
            }
        }
#pragma unroll
        for (int k = 0; k < SIGREG_KNOTS; k++) {
            float c = c_sum[k] / (float)s.samples - at.phi[k], v = s_sum[k] / (float)s.samples;
            off[((size_t)i * SIGREG_KNOTS + k) * 2] = c;
            off[((size_t)i * SIGREG_KNOTS + k) * 2 + 1] = v;
            loss += (double)at.weight[k] * ((double)c * c + (double)v * v);
        }
    }
    loss = warp_sum(loss);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = loss;
    __syncthreads();
    if (threadIdx.x != 0) return;
    double sum = 0;
    for (int w = 0; w < THREADS / 32; w++) sum += shared[w];
    part[blockIdx.x] = sum * s.samples / places;
}

__global__ void loss_kernel(int samples, int parts, const double* part, float* out) {
    double sum = 0;
    for (int i = 0; i < parts; i++) sum += part[i];
    for (int i = threadIdx.x; i < samples; i += blockDim.x) out[i] = (float)sum;
}

static void forward(const nn_call* c) {
    sizes s = sizes_of(c->graph, c->node, c->rows);
    nn_cuda_queue* q = queue_of(c);
    parts p = parts_of(c, s);
    launch(q, "sigreg", direction_kernel, blocks_for(s.M, THREADS / 32), THREADS, s,
           device_key_of(c, RNG_DIRECTIONS), p.direction);
    nn_cuda_gemm(q, 0, 1, (int64_t)s.samples * s.T, s.M, s.D, input(c, 0), s.D, p.direction, s.D,
                 0.0f, p.projected, s.M, NULL);
    double* part = (double*)c->scratch;
    launch(q, "sigreg", waves_kernel, place_blocks(s), THREADS, s, knots_of(), p.projected, p.off,
           part);
    launch(q, "sigreg", loss_kernel, 1, 128, s.samples, (int)place_blocks(s), part, (float*)c->out);
}

// in double: gradients of either sign may nearly cancel
__global__ void sum_kernel(int samples, const float* dout, double* to) {
    double sum = 0;
    for (int i = threadIdx.x; i < samples; i += 32) sum += dout[i];
    sum = warp_sum(sum);
    if (threadIdx.x == 0) *to = sum;
}

__global__ void __launch_bounds__(THREADS)
    slope_kernel(sizes s, knots at, const float* projected, const float* off, const double* total,
                 float* ds) {
    int i = (int)(blockIdx.x * THREADS + threadIdx.x), places = s.T * s.M, b = blockIdx.y;
    if (i >= places) return;
    float step = at.tau[0] * projected[(size_t)b * places + i], c1, s1, sum = 0;
    sincosf(step, &s1, &c1);
    float cw = c1, sw = s1;
#pragma unroll
    for (int k = 0; k < SIGREG_KNOTS; k++) {
        float2 e = *(const float2*)(off + ((size_t)i * SIGREG_KNOTS + k) * 2);
        sum += at.weight[k] * at.tau[k] * (e.y * cw - e.x * sw);
        float turned = cw * c1 - sw * s1;
        sw = sw * c1 + cw * s1;
        cw = turned;
    }
    ds[(size_t)b * places + i] = sum * (float)(2.0 / places * *total);
}

static void backward(const nn_call* c) {
    sizes s = sizes_of(c->graph, c->node, c->rows);
    nn_cuda_queue* q = queue_of(c);
    parts p = parts_of(c, s);
    pieces room = {(char*)c->scratch};
    room.take(2 * (size_t)place_blocks(s));
    float* ds = room.take((size_t)s.samples * s.T * s.M);
    double* total = (double*)room.take(2);
    launch(q, "sigreg", sum_kernel, 1, 32, s.samples, (const float*)c->dout, total);
    dim3 blocks(place_blocks(s), (uint32_t)s.samples);
    slope_kernel<<<blocks, THREADS, 0, (cudaStream_t)nn_cuda_stream(q)>>>(
        s, knots_of(), p.projected, p.off, total, ds);
    nn_cuda_check(q, "sigreg");
    nn_cuda_gemm(q, 0, 0, (int64_t)s.samples * s.T, s.D, s.M, ds, s.M, p.direction, s.D,
                 adds(c, 0) ? 1.0f : 0.0f, gradient(c, 0), s.D, NULL);
}

}  // namespace

const nn_kernel nn_cuda_sigreg = {forward, backward, save_bytes, scratch_bytes};
