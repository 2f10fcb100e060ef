// spatial.cu - disc, pushed shape and macro action as geometric features, a thread per sample; the
// rule is in nn/spatial.h.
#include "nn/cuda/device.cuh"

#define SPATIAL_REAL float
#define SPATIAL_SQRT sqrtf
#define SPATIAL_FN static __device__
#include "nn/spatial.h"

namespace {

enum { SPATIAL_THREADS = 128 };

// What a sample is computed with, passed by value.
struct spatial_rule {
    nn_push push;
    int features, macro;
    float mean[2], std[2];
};

static spatial_rule rule_of(const nn_call* c) {
    const nn_push* s = &c->node->push;
    return spatial_rule{*s,
                        nn_push_features(s),
                        s->controls * s->action,
                        {c->node->mean[0], c->node->mean[1]},
                        {c->node->std[0], c->node->std[1]}};
}

__global__ void __launch_bounds__(SPATIAL_THREADS)
    spatial_value(uint32_t rows, const __grid_constant__ spatial_rule q, const float* x,
                  const float* v, const float* u, float* y) {
    uint32_t r = blockIdx.x * SPATIAL_THREADS + threadIdx.x;
    if (r >= rows) return;
    float pose[SPATIAL_CONFIG], control[SPATIAL_ACTION];
    spatial_gather(&q.push, x + (size_t)r * q.push.config, u + (size_t)r * q.macro, pose, control);
    spatial_features(&q.push, pose, v + 2 * r, control, q.mean, q.std, y + (size_t)r * q.features);
}

struct spatial_sinks {
    float* to[3];
    int add[3];
};

// Where input i's gradient of a row goes, zeroed unless it is added to; NULL: not wanted.
__device__ __forceinline__ float* sink(const spatial_sinks& d, int i, uint32_t row, int size) {
    if (!d.to[i]) return nullptr;
    float* to = d.to[i] + (size_t)row * size;
    for (int j = 0; !d.add[i] && j < size; j++) to[j] = 0;
    return to;
}

__global__ void __launch_bounds__(SPATIAL_THREADS)
    spatial_slope(uint32_t rows, const __grid_constant__ spatial_rule q, const float* x,
                  const float* v, const float* u, const float* dy, spatial_sinks d) {
    uint32_t r = blockIdx.x * SPATIAL_THREADS + threadIdx.x;
    if (r >= rows) return;
    const nn_push* s = &q.push;
    float pose[SPATIAL_CONFIG], control[SPATIAL_ACTION];
    float dc[SPATIAL_CONFIG], dv[2], du[SPATIAL_ACTION];
    spatial_gather(s, x + (size_t)r * s->config, u + (size_t)r * q.macro, pose, control);
    spatial_gradient(s, pose, v + 2 * r, control, q.mean, q.std, dy + (size_t)r * q.features, dc, dv,
                     du);
    float *to_c = sink(d, 0, r, s->config), *to_v = sink(d, 1, r, 2), *to_u = sink(d, 2, r, q.macro);
    for (int i = 0; i < 2; i++) {
        if (to_c) {
            to_c[s->angle + i] += dc[i];
            to_c[s->agent[i]] += dc[2 + i];
            to_c[s->block[i]] += dc[4 + i];
        }
        if (to_v) to_v[i] += dv[i];
        for (int k = 0; to_u && k < s->controls; k++) to_u[k * s->action + i] += du[2 * k + i];
    }
}

static void forward(const nn_call* c) {
    uint32_t rows = (uint32_t)c->rows;
    launch(queue_of(c), "spatial", spatial_value, blocks_for(rows, SPATIAL_THREADS),
           SPATIAL_THREADS, rows, rule_of(c), input(c, 0), input(c, 1), input(c, 2),
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
           SPATIAL_THREADS, rows, rule_of(c), input(c, 0), input(c, 1), input(c, 2),
           (const float*)c->dout, d);
}

}  // namespace

const nn_kernel nn_cuda_spatial = {forward, backward, NULL, NULL};
