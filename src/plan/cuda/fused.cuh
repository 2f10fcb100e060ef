// fused.cuh - what the fused way's kernel (fused_kernel.cu) and its host side (fused.cu) agree on:
// sizes, the layout of shared memory, arguments, variants.
#ifndef PLAN_CUDA_FUSED_CUH
#define PLAN_CUDA_FUSED_CUH

#include "plan/cuda/internal.cuh"

namespace fused {

constexpr int HIDDEN = 384, MAX_X = 192, MAX_STATE = 136;
constexpr int ROWS = 128, THREADS = 256, PAIR = 2;  // blocks of a cluster
constexpr int CHUNK = 24576, PLACES = 5;
constexpr int TILE = 64 * 128;            // 64 rows of 64 operands
constexpr int SIDE = HIDDEN / 64 * TILE;  // a warpgroup's LN(h); x uses its front
constexpr int AT_CHUNKS = 2 * SIDE, AT_FULL = AT_CHUNKS + PLACES * CHUNK, AT_EMPTY = AT_FULL + 64;
constexpr int AT_AHEAD = AT_EMPTY + 64;         // where the fetching is, see supply()
constexpr int AT_CLOCKS = AT_AHEAD + 64;        // 16 sums of cycles of each warpgroup, see mark()
constexpr int SHARED = AT_CLOCKS + 256 + 1024;  // operands start at a multiple of 1024
static_assert(SHARED <= 227 * 1024, "shared memory of a block");

// Variants of the kernel for bench/plan_cuda.c: with cycles counted, or with a part left out (its
// predictions are then wrong), to see what that part costs. 0 is the kernel itself.
enum {
    TIMED = 1,
    NO_GELU = 2,
    NO_WEIGHTS = 4,  // none is fetched or waited for
    NO_PRODUCTS = 8
};

// What a warpgroup's first thread was doing since its last mark().
enum {
    PART_FETCH,    // supply(), the first warpgroup only
    PART_WEIGHTS,  // waiting for them
    PART_IN,
    PART_NORM,
    PART_UP,
    PART_GELU,
    PART_DOWN,
    PART_GIVE,
    PART_HEADS,
    PART_STATE,
    PARTS
};
static_assert(PARTS < 16, "the 16th sum is the last reading");

struct fused_args {
    sizes s;
    const char* chunks;  // a macro step's weights
    int count;           // of them
    int rows, per_search, horizon, ahead;
    uint32_t* stuck;  // host memory: who waited in vain, see wait_for()
    char* searches;
    const float *u, *u_low, *u_high;
    float* state;  // (rows, MAX_STATE)
    float* c;      // (rows, horizon, config)
    const float *bias_in, *bias_heads, *bias_up[PLAN_MAX_BLOCKS], *bias_down[PLAN_MAX_BLOCKS];
    float scale_up[PLAN_MAX_BLOCKS], scale_heads;
    unsigned long long* clocks;  // (2, 16), TIMED
};

// Chunks that are on their way or there when one is taken (fused_args.ahead). The places left over
// give the other warpgroup, and the other block, time to be done with theirs. Four would wait for
// themselves: two chunks are taken before the first of them is given back.
constexpr int AHEAD = 3, MOST_AHEAD = 3;

typedef void (*kernel_fn)(fused_args);
// NULL-free: a variant that is not compiled for this precision is the kernel itself (only 0 is for
// float16).
kernel_fn kernel_of(plan_precision precision, int variant);

}  // namespace fused

#endif
