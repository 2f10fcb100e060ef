// fused.cuh - what the fused way's kernel (fused_kernel.cu) and its host side (fused.cu) agree on:
// sizes, the layout of shared memory, arguments, variants.
#ifndef PLAN_CUDA_FUSED_CUH
#define PLAN_CUDA_FUSED_CUH

#include "plan/cuda/internal.cuh"

namespace fused {

constexpr int HIDDEN = 384, MAX_X = 192, MAX_STATE = 136;
constexpr int ROWS = 128, THREADS = 256;  // of a block
constexpr int CHUNK = 24576, PLACES = 5;
constexpr int TILE = 64 * 128;            // 64 rows of 64 operands
constexpr int SIDE = HIDDEN / 64 * TILE;  // a warpgroup's LN(h); x uses its front
constexpr int AT_CHUNKS = 2 * SIDE, AT_FULL = AT_CHUNKS + PLACES * CHUNK;
constexpr int AT_GIVEN = AT_FULL + 64;    // how often warps were done with each place, see give()
constexpr int AT_CLOCKS = AT_GIVEN + 64;  // 16 sums of cycles of each warpgroup, see mark()
constexpr int SHARED = AT_CLOCKS + 256;
static_assert(SHARED <= 227 * 1024, "shared memory of a block");

// Variants of the kernel for bench/plan_cuda.c: with cycles counted, or with a part left out (its
// predictions are then wrong), to see what that part costs. 0 is the kernel itself.
enum {
    TIMED = 1,
    NO_GELU = 2,
    NO_WEIGHTS = 4,  // none is fetched or waited for
    NO_PRODUCTS = 8
};

// What was waited for in vain (fused_args.stuck).
enum { STUCK_PLACE, STUCK_TILE };

// What a warpgroup's first thread was doing since its last mark().
enum {
    PART_WEIGHTS,  // waiting for them
    PART_IN,
    PART_NORM,
    PART_UP,
    PART_GELU,
    PART_DOWN,
    PART_HEADS,
    PART_STATE,
    PARTS
};
static_assert(PARTS < 16, "the 16th sum is the last reading");

struct fused_args {
    sizes s;
    const char* chunks;  // a macro step's weights
    int count;           // of them
    int rows, per_search, horizon;
    int slots, lanes;  // macro steps a warpgroup makes, warpgroups; see task_at()
    uint32_t* handed;  // (tiles) whether a tile's state is there for another warpgroup
    uint32_t* stuck;   // host memory: who waited in vain, see note_stuck()
    char* searches;
    const float *u, *u_low, *u_high;
    float* state;  // (rows, MAX_STATE)
    float* c;      // (rows, horizon, config)
    const float *bias_in, *bias_heads, *bias_up[PLAN_MAX_BLOCKS], *bias_down[PLAN_MAX_BLOCKS];
    float scale_up[PLAN_MAX_BLOCKS], scale_heads;
    unsigned long long* clocks;  // (2, 16), TIMED
};

typedef void (*kernel_fn)(fused_args);
// NULL: this variant is not compiled for this precision.
kernel_fn kernel_of(plan_precision precision, int variant);

}  // namespace fused

#endif
