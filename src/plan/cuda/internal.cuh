// internal.cuh - what the files of the GPU planner share: its memory, its layers, small helpers.
#ifndef PLAN_CUDA_INTERNAL_CUH
#define PLAN_CUDA_INTERNAL_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

extern "C" {
#include "core/clock.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/status.h"
#include "plan/gpu.h"
}

// Returns early with a status and the CUDA call's own words.
firm_status gpu_failed(cudaError_t code, const char* what, firm_error* err);
#define GPU(call)                                                       \
    do {                                                                \
        cudaError_t code_ = (call);                                     \
        if (code_ != cudaSuccess) return gpu_failed(code_, #call, err); \
    } while (0)

constexpr int PAD_ROWS = 128;  // rows of every activation array come in multiples of this
constexpr int PAD_OUT = 128;   // and outputs of every weight matrix
constexpr int PAD_IN = 64;     // and inputs

static inline int round_up(int n, int to) {
    return (n + to - 1) / to * to;
}

// One product's weights in host memory, a LayerNorm's scale and shift folded in: w (in, out).
typedef struct host_layer {
    int in, out;
    float *w, *bias;
} host_layer;

enum {
    LAYER_IN,
    LAYER_HEADS,
    LAYER_SPATIAL_UP,
    LAYER_SPATIAL_DOWN,
    LAYER_UP,
    LAYER_DOWN = LAYER_UP + PLAN_MAX_BLOCKS,
    LAYERS = LAYER_DOWN + PLAN_MAX_BLOCKS
};

// The same on the device for the layered way: float32 (in, out) or 16-bit (out, in), both padded
// with zeros. Stored weights times `scale`, a power of two, are the true ones.
typedef struct layer {
    int in, out;  // padded
    void* w;
    float* bias;
    float scale;
} layer;

// What a configuration costs, as data: task_cost_value on the device.
typedef struct cost_rule {
    int largest;  // TASK_COST_MAX
    int config, distances;
    uint32_t priced;  // task_priced()
    task_rule rule[TASK_MAX_DISTANCE];
    float tolerance[TASK_MAX_DISTANCE];
} cost_rule;

// One search, as it travels to the device and back: this head, then m0, mean and spread.
typedef struct search {
    uint64_t seed, solve;
    int iteration;  // next one to draw
    int nonfinite, elites;
    float elite_cost;
    float c0[FIRM_MAX_CONFIG], goal[FIRM_MAX_CONFIG];
} search;

// Sizes and pointers every kernel may need; passed by value.
typedef struct sizes {
    int config, pairs, fiber, action, hidden, inner, blocks;
    int candidates, elites, horizon, longest;
    int state;                // config + fiber
    int spatial, s_in, v_in;  // units of the spatial residual; padded widths of its two inputs
    int x_in, h_in, g_in;     // padded widths of x, h and g
    int fit;                  // longest * action: floats of a mean
    size_t search_stride, m0_at, mean_at, spread_at;  // bytes
} sizes;

typedef struct cluster_way cluster_way;
typedef struct fused_way fused_way;

// A layer for the batch way.
typedef struct batch_layer {
    void* w;      // (out, in), outputs permuted
    float* sums;  // (out) of the stored weights' columns
} batch_layer;

struct plan_gpu {
    plan_gpu_setup setup;
    sizes size;
    cost_rule cost;
    char device[256];
    int major, minor, processors;
    cudaStream_t stream;
    cudaEvent_t done;  // what was asked for last; waiting for it may sleep
    host_layer host[LAYERS];
    layer layers[LAYERS];
    size_t element;  // bytes of an operand
    int rows;        // padded rows that the arrays below are for

    char* memory;  // all of the device memory below
    size_t bytes;
    char* searches;   // (searches) search blocks
    void* x;          // (longest, rows, x_in) operands of the first product, per macro step
    float* state;     // (rows, state) c and m
    float* h;         // (rows, h_in) residual stream
    void* a;          // (rows, h_in) LN(h)
    void* g;          // (rows, g_in)
    void* gs;         // (rows, v_in) likewise of the spatial residual
    void* spatial;    // (rows, s_in) LN(h) and the spatial features
    float* velocity;  // (fiber + 1, 2), the last row is the bias
    float action_mean[2], action_std[2];  // of raw actions, for the spatial features
    nn_push push;                         // what they are computed of
    float* u;                             // (rows, longest * action) candidates
    float* c;                             // (rows, longest, config) predictions
    float* value;                         // (rows) costs
    float* path;                          // (searches, longest, config) of the means
    float *u_low, *u_high;                // (action)
    float* noise;                         // cluster: (iterations, candidates, quads of normals)

    char* pinned;  // host: searches and paths, then values and predictions
    size_t pinned_bytes;
    cudaGraphExec_t iteration_graph, mean_graph;  // of one search
    cluster_way* cluster;
    int timing;   // the next search counts cycles
    int batched;  // predictions by batch_step
    batch_layer batch[LAYERS];
    float2* stats;  // (rows, parts) partial sums of h
    char* batch_memory;
    fused_way* fused;  // predictions by fused_predict
};

// ---- gpu.cu ----
// Makes GPU `number` this thread's, if there is one and it is new enough.
firm_status gpu_choose(int number, cudaDeviceProp* prop, firm_error* err);
// The power of two that a layer's weights are divided by before they become 16-bit numbers: it
// brings the largest to 2^8 .. 2^9 in float16, so that what matters stays a normal number.
float gpu_weight_scale(const host_layer* l, plan_precision precision);
uint16_t gpu_operand(float x, plan_precision precision);
// Sum of the stored weights of output o.
float gpu_column_sum(const host_layer* l, float scale, int o, plan_precision precision);

// ---- search.cu ----
firm_status search_draw(plan_gpu* g, int count, int means, int given, int n, int horizon,
                        firm_error* err);
firm_status search_prepare(const plan_gpu* g, firm_error* err);
firm_status search_fit(plan_gpu* g, int count, firm_error* err);
firm_status search_noise(plan_gpu* g, int iterations, unsigned* barrier, firm_error* err);

// ---- product.cu ----
enum product_kind { PRODUCT_STORE, PRODUCT_GELU, PRODUCT_ADD, PRODUCT_HEADS };
typedef struct product {
    const void* a;  // (rows, in)
    layer l;
    int rows, outputs;  // true ones
    // STORE, ADD: float (rows, out_stride); HEADS: the state; GELU: operands (rows, out_stride)
    void* out;
    int out_stride;
    // HEADS
    int pairs, config;
    float* c;  // configurations after the step: c + row * c_stride
    int c_stride;
    void* x;  // next step's first operands (rows, x_stride); NULL after the last
    int x_stride;
} product;
firm_status product_run(const plan_gpu* g, product_kind kind, const product* p, firm_error* err);
firm_status normalise_run(const plan_gpu* g, int rows, firm_error* err);
firm_status product_prepare(firm_error* err);
// LN(h) and the spatial features of macro step t into g->spatial; u (rows, horizon, action).
firm_status spatial_run(const plan_gpu* g, int rows, int t, int horizon, firm_error* err);

// ---- layered.cu ----
firm_status layered_create(plan_gpu* g, firm_error* err);
void layered_free(plan_gpu* g);
firm_status layered_iteration(plan_gpu* g, int count, firm_error* err);
// The same with a mark after each phase: candidates drawn, predicted, fitted.
firm_status layered_marked(plan_gpu* g, int count, cudaEvent_t mark[4], firm_error* err);
firm_status layered_means(plan_gpu* g, int count, firm_error* err);
product layered_spatial_up(const plan_gpu* g, int rows);
firm_status layered_rollout(plan_gpu* g, int n, int horizon, firm_error* err);

// ---- batch.cu ----
typedef struct batch_product {
    const void *a, *w;  // (rows, in), (out, in)
    layer l;
    const float* sums;
    int rows, outputs;  // true ones
    // STORE, ADD: h, float (rows, out_stride), with `half` and `stats`; HEADS: the state; GELU: g
    void *out, *half;
    int out_stride;
    float2* stats;
    int parts, features;
    // HEADS, as in product
    int pairs, config;
    float* c;
    int c_stride;
    void* x;
    int x_stride;
} batch_product;
firm_status batch_create(plan_gpu* g, firm_error* err);
firm_status batch_step(plan_gpu* g, int rows, int t, int horizon, float* c_out, firm_error* err);

// ---- fused.cu ----
firm_status fused_create(plan_gpu* g, firm_error* err);  // leaves g->fused NULL if it cannot be
void fused_free(plan_gpu* g);
firm_status fused_predict(plan_gpu* g, int rows, int per_search, int horizon, float* c_out,
                          firm_error* err);
// Sums of both warpgroups since fused_create(), one after the other; variant 1 only.
firm_status fused_clocks(plan_gpu* g, int room, const char** name, double* cycles, int* count,
                         firm_error* err);
firm_status fused_failed(const plan_gpu* g, cudaError_t code, firm_error* err);  // or FIRM_OK

// ---- cluster.cu, cluster_kernel.cu ----
firm_status cluster_create(plan_gpu* g, firm_error* err);  // leaves g->cluster NULL if it cannot be
const char* cluster_why_not(const plan_gpu* g);  // a sentence, or NULL where the shape fits
void cluster_free(plan_gpu* g);
firm_status cluster_solve(plan_gpu* g, int iterations, firm_error* err);
firm_status cluster_clocks(plan_gpu* g, int room, const char** name, double* cycles, int* count,
                           firm_error* err);
firm_status cluster_rollout(plan_gpu* g, int n, int horizon, firm_error* err);

// ---- device helpers ----
static __device__ __forceinline__ search* search_at(char* searches, const sizes& s, int i) {
    return (search*)(searches + (size_t)i * s.search_stride);
}
static __device__ __forceinline__ float* search_m0(search* q, const sizes& s) {
    return (float*)((char*)q + s.m0_at);
}
static __device__ __forceinline__ float* search_mean(search* q, const sizes& s) {
    return (float*)((char*)q + s.mean_at);
}
static __device__ __forceinline__ float* search_spread(search* q, const sizes& s) {
    return (float*)((char*)q + s.spread_at);
}

template <typename T>
__device__ __forceinline__ T operand(float x);
template <>
__device__ __forceinline__ float operand<float>(float x) {
    return x;
}
template <>
__device__ __forceinline__ __half operand<__half>(float x) {
    return __float2half_rn(x);
}
template <>
__device__ __forceinline__ __nv_bfloat16 operand<__nv_bfloat16>(float x) {
    return __float2bfloat16_rn(x);
}

// x / (1 + 2^t), t = -2 log2(e) 0.7978845608 (x + 0.044715 x^3), as in plan/net_simd.c
static __device__ __forceinline__ float gelu_exact(float x) {
    float t = x * fmaf(-0.10294324f, x * x, -2.3022082f);
    return x / (1.0f + exp2f(t));
}
// the same through the special-function unit: 2^-21 relative, far below a 16-bit operand's rounding
static __device__ __forceinline__ float gelu_fast(float x) {
    float t = x * fmaf(-0.10294324f, x * x, -2.3022082f), e;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(t));
    return __fdividef(x, 1.0f + fminf(e, 1e30f));
}

// task_cost_value in the same order of operations
static __device__ __forceinline__ float cost_of(const cost_rule& k, const float* c,
                                                const float* goal) {
    if (!k.largest) {
        float sum = 0.0f;
        for (int i = 0; i < k.config; i++) {
            if (!(k.priced >> i & 1)) continue;
            float d = c[i] - goal[i];
            sum = __fadd_rn(sum, __fmul_rn(d, d));
        }
        return sum;
    }
    float worst = 0.0f;
    for (int i = 0; i < k.distances; i++) {
        const float *a = c + k.rule[i].first, *b = goal + k.rule[i].first;
        float distance;
        if (k.rule[i].angle) {
            distance = fabsf(atan2f(__fsub_rn(__fmul_rn(a[0], b[1]), __fmul_rn(a[1], b[0])),
                                    __fadd_rn(__fmul_rn(a[1], b[1]), __fmul_rn(a[0], b[0]))));
        } else {
            float sum = 0.0f;
            for (int j = 0; j < k.rule[i].count; j++) {
                float d = a[j] - b[j];
                sum = __fadd_rn(sum, __fmul_rn(d, d));
            }
            distance = k.rule[i].scale * sqrtf(sum);
        }
        float units = distance / k.tolerance[i];
        if (!(units >= 0.0f)) return __int_as_float(0x7f800000);
        worst = fmaxf(worst, units);
    }
    return __fmul_rn(worst, worst);
}

// Order of floats as unsigned numbers; +inf is the largest cost there is.
static __device__ __forceinline__ uint32_t order_key(float v) {
    uint32_t bits = __float_as_uint(v + 0.0f);  // -0 counts as 0
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

#endif
