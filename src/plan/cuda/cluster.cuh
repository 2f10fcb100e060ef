// cluster.cuh - what the cluster way's kernel (cluster_kernel.cu) and its host side (cluster.cu)
// agree on: how a block's shared memory and the packed weights are laid out, and the kernel's
// arguments.
#ifndef PLAN_CUDA_CLUSTER_CUH
#define PLAN_CUDA_CLUSTER_CUH

#include "plan/cuda/internal.cuh"

#pragma nv_diag_suppress 177  // compiled for older GPUs the kernel is empty, its constants unused

namespace cluster_layout {

constexpr int RANKS = 16, ROWS = 48, WARPS = 8, THREADS = 256, BLOCKS = 2;
constexpr int HIDDEN = 384, INNER = 768, FIBER = 128, X_IN = 160;
constexpr int MAX_FIT = 256, MAX_ELITES = 128;

// ---- shared memory ------------------------------------------------------------------------------

constexpr int K8 = 768;                             // 8 features of 48 rows, 16-bit
constexpr int H_CHUNK = 3 * K8 + ROWS * 8;          // 24 features, and (sum, squares) per row
constexpr int G_CHUNK = 6 * K8, X_CHUNK = K8;       // 48 features; 8 of the fiber
constexpr int VECTORS = 24 + 4 * 48 + 2 * 24 + 32;  // biases and column sums of a block

constexpr int AT_BAR = 0;  // barriers of h, g and x
constexpr int AT_H = 128;
constexpr int AT_G = AT_H + RANKS * H_CHUNK;  // x uses its front: never alive at the same time
constexpr int AT_PARTIAL = AT_G + RANKS * G_CHUNK;
constexpr int AT_W_DOWN = AT_PARTIAL + WARPS * 9 * 512;  // of the last block
constexpr int AT_CU = AT_W_DOWN + WARPS * 18 * 256;
constexpr int AT_W_IN = AT_CU + 4 * K8;
constexpr int AT_W_HEADS = AT_W_IN + 30 * 256;
constexpr int AT_VECTORS = AT_W_HEADS + 48 * 256;
constexpr int AT_ROW = AT_VECTORS + VECTORS * 4;
constexpr int AT_C = AT_ROW + ROWS * 8;
constexpr int AT_BAD = AT_C + ROWS * 8 * 4;
constexpr int AT_MEAN = AT_BAD + ROWS * 4;
constexpr int AT_SPREAD = AT_MEAN + MAX_FIT * 4;
constexpr int AT_ELITE = AT_SPREAD + MAX_FIT * 4;
constexpr int AT_BOUND = AT_ELITE + MAX_ELITES * 4;
constexpr int AT_COUNT = AT_BOUND + 2 * 32 * 4;
constexpr int AT_CLOCK = AT_COUNT + 16;
constexpr int SHARED = AT_CLOCK + 17 * 8;
constexpr int SCRATCH = WARPS * 9 * 512;  // partial sums; between iterations, keys and elites
static_assert(SHARED <= 227 * 1024, "shared memory of a block");
static_assert(BLOCKS == 2 && AT_CLOCK % 8 == 0 && AT_W_IN % 16 == 0 && AT_VECTORS % 16 == 0 &&
                  AT_ROW % 8 == 0,
              "alignment");

constexpr int V_IN = 0, V_UP = 24, V_UP_SUM = V_UP + 96, V_DOWN = V_UP_SUM + 96,
              V_HEADS = V_DOWN + 48, V_HEADS_SUM = V_HEADS + 16;

// Parts of a search that are timed apart on request.
enum clock_part {
    CLOCK_START,
    CLOCK_IN,
    CLOCK_IN_END,
    CLOCK_IN_WAIT,
    CLOCK_UP,
    CLOCK_UP_END,
    CLOCK_UP_WAIT,
    CLOCK_DOWN,
    CLOCK_DOWN_END,
    CLOCK_DOWN_WAIT,
    CLOCK_HEADS,
    CLOCK_HEADS_END,
    CLOCK_HEADS_WAIT,
    CLOCK_COST,
    CLOCK_MEET,
    CLOCK_REFIT,
    CLOCKS
};
struct cluster_args {
    sizes s;
    cost_rule cost;
    char* searches;
    const uint2 *w_up, *w_down;   // (BLOCKS, RANKS, WARPS, 18, 32)
    const uint2 *w_in, *w_heads;  // (RANKS, 30, 32), (RANKS, 48, 32)
    const float* vectors;         // (RANKS, VECTORS)
    float scale_in, scale_up[BLOCKS], scale_down[BLOCKS], scale_heads;
    const float *u_low, *u_high;
    const float* noise;  // (iterations, n, 4 quads)
    const float* u;      // a rollout's candidates (n, horizon, action); NULL: a search
    float *c, *path;     // (n, horizon, config), (horizon, config)
    float* value[2];     // (n) costs, of this iteration and of the one before
    unsigned* barrier;
    char* stage;                 // (blocks, 2, G_CHUNK) slices on their way
    unsigned long long* clocks;  // (CLOCKS) cycles of the first block's first thread; timed only
    int n, horizon, iterations, quads;
};

}  // namespace cluster_layout

typedef void (*cluster_fn)(cluster_layout::cluster_args);
cluster_fn cluster_kernel_of(plan_precision precision, bool timed);

#endif
