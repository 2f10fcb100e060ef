// spatial.cu - agent, block and macro action as geometric features, a thread per sample; the rule
// is in nn/spatial.h.
#include "nn/cuda/device.cuh"

#define SPATIAL_REAL float
#define SPATIAL_SQRT sqrtf
#define SPATIAL_FN static __device__
#include "nn/spatial.h"

namespace {

enum { SPATIAL_THREADS = 128 };

struct action_scale {
    float mean[2], std[2];
};

static action_scale scale_of(const nn_call* c) {
    return action_scale{{c->node->mean[0], c->node->mean[1]}, {c->node->std[0], c->node->std[1]}};
}

__global__ void __launch_bounds__(SPATIAL_THREADS)
    spatial_value(uint32_t rows, action_scale s, const float* x, const float* v, const float* u,
                  float* y) {
    uint32_t r = blockIdx.x * SPATIAL_THREADS + threadIdx.x;
    if (r >= rows) return;
    spatial_features(x + r * SPATIAL_CONFIG, v + 2 * r, u + r * SPATIAL_ACTION, s.mean, s.std,
                     y + r * SPATIAL_FEATURES);
}

template <int N>
__device__ __forceinline__ void give(float* to, uint32_t row, const float (&from)[N], int add) {
    for (int j = 0; to && j < N; j++)
        to[row * N + j] = add ? to[row * N + j] + from[j] : from[j];
}

struct spatial_sinks {
    float* to[3];
    int add[3];
};

__global__ void __launch_bounds__(SPATIAL_THREADS)
    spatial_slope(uint32_t rows, action_scale s, const float* x, const float* v, const float* u,
                  const float* dy, spatial_sinks d) {
    uint32_t r = blockIdx.x * SPATIAL_THREADS + threadIdx.x;
    if (r >= rows) return;
    float dc[SPATIAL_CONFIG], dv[2], du[SPATIAL_ACTION];
    spatial_gradient(x + r * SPATIAL_CONFIG, v + 2 * r, u + r * SPATIAL_ACTION, s.mean, s.std,
                     dy + r * SPATIAL_FEATURES, dc, dv, du);
    give(d.to[0], r, dc, d.add[0]);
    give(d.to[1], r, dv, d.add[1]);
    give(d.to[2], r, du, d.add[2]);
}

static void forward(const nn_call* c) {
    uint32_t rows = (uint32_t)c->rows;
    launch(queue_of(c), "spatial", spatial_value, blocks_for(rows, SPATIAL_THREADS),
           SPATIAL_THREADS, rows, scale_of(c), input(c, 0), input(c, 1), input(c, 2),
           (float*)c->out);
}

static void backward(const nn_call* c) {
    uint32_t rows = (uint32_t)c->rows;
    spatial_sinks d;
    for (int i = 0; i < 3; i++) {
        d.to[i] = gradient(c, i);
        d.add[i] = adds(c, i);
    }
    launch(queue_of(c), "spatial", spatial_slope, blocks_for(rows, SPATIAL_THREADS),
           SPATIAL_THREADS, rows, scale_of(c), input(c, 0), input(c, 1), input(c, 2),
           (const float*)c->dout, d);
}

}  // namespace

const nn_kernel nn_cuda_spatial = {forward, backward, NULL, NULL};
