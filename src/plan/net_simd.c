// net_simd.c - the planner's kernels for one instruction set. CMake compiles this file once per set
// (FIRM_SIMD = plain, avx2, avx512, neon); net.c picks a table at run time. The kernels themselves
// are in net_tile.h, a template included once per panel width.
//
// Shapes of the product's tile, in registers: AVX-512 12 features x 2 vectors of 16 (24 of 32
// registers accumulate), NEON 8 x 2 vectors of 4 (16 of 32: the weights take 8),
// AVX2 and plain 6 features x 2 vectors (12 of 16).
// 12, 8 and 6 divide 384 and 768.
#include <string.h>

#include "plan/net_kernels.h"

#if defined(FIRM_SIMD_avx512) || defined(FIRM_SIMD_avx2)
#include <immintrin.h>
#elif defined(FIRM_SIMD_neon)
#include <arm_neon.h>
#endif

#define NET_JOIN2(a, b) a##b
#define NET_JOIN(a, b) NET_JOIN2(a, b)

// 2^f on [-0.5, 0.5], degree 6, relative error 5e-9
#define EXP2_C0 1.0f
#define EXP2_C1 0.693147188f
#define EXP2_C2 0.240226508f
#define EXP2_C3 0.0555035711f
#define EXP2_C4 0.00961808256f
#define EXP2_C5 0.00133908634f
#define EXP2_C6 0.000154531629f
// gelu(x) = x / (1 + 2^t), t = -2 log2(e) 0.7978845608 (x + 0.044715 x^3)
#define GELU_K1 -2.3022082f
#define GELU_K3 -0.10294324f
#define LN_EPS 1e-5f

#if defined(FIRM_SIMD_avx512)
enum { ROWS = 12, UNIT = 8 };
#define NET_LANES 16
#define NET_VECTORS 2
#define NET_SUFFIX 4
#include "plan/net_tile.h"
#define NET_LANES 16
#define NET_VECTORS 1
#define NET_SUFFIX 2
#include "plan/net_tile.h"
#define NET_LANES 8
#define NET_VECTORS 1
#define NET_SUFFIX 1
#include "plan/net_tile.h"
#else
#if defined(FIRM_SIMD_avx2)
enum { ROWS = 6, UNIT = 8 };
#define UNIT_LANES 8
#elif defined(FIRM_SIMD_neon)
enum { ROWS = 8, UNIT = 4 };
#define UNIT_LANES 4
#else
enum { ROWS = 6, UNIT = 4 };
#define UNIT_LANES 4
#endif
#define NET_LANES UNIT_LANES
#define NET_VECTORS 2
#define NET_SUFFIX 2
#include "plan/net_tile.h"
#define NET_LANES UNIT_LANES
#define NET_VECTORS 1
#define NET_SUFFIX 1
#include "plan/net_tile.h"
#endif

#define PANEL(n) \
    { n, product_##n, normalise_##n, unit_pairs_##n }
#define NET_TEXT2(x) #x
#define NET_TEXT(x) NET_TEXT2(x)

const net_kernels NET_JOIN(net_kernels_, FIRM_SIMD) = {
    .name = NET_TEXT(FIRM_SIMD),
    .rows = ROWS,
    .unit = UNIT,
#if defined(FIRM_SIMD_avx512)
    .panels = 3,
    .panel = {PANEL(4), PANEL(2), PANEL(1)},
#else
    .panels = 2,
    .panel = {PANEL(2), PANEL(1)},
#endif
};
