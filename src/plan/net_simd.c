// net_simd.c - the planner's kernels for one instruction set. CMake compiles this file once per set
// (FIRM_SIMD = plain, avx2, avx512, neon); net.c picks a table at run time. The kernels themselves
// are in net_tile.h, a template included once per panel width.
//
// Shapes of the product's tile, in registers: AVX-512 12 features x 2 vectors of 16 (24 of 32
// registers accumulate), NEON 8 x 2 vectors of 4 (16 of 32: the weights take 8), AVX2 and
// plain 6 features x 2 vectors (12 of 16). 12, 8 and 6 divide 384 and 768.
#include <string.h>

#include "plan/net_kernels.h"
#include "plan/net_math.h"

#if defined(FIRM_SIMD_avx512) || defined(FIRM_SIMD_avx2)
#include <immintrin.h>
#elif defined(FIRM_SIMD_neon)
#include <arm_neon.h>
#endif

enum { CHAINS = 4 };  // of a sum over the features

#define NET_JOIN2(a, b) a##b
#define NET_JOIN(a, b) NET_JOIN2(a, b)

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

#define PANEL(n, cost, groups) \
    { n, cost, groups, product_##n, NULL, normalise_##n, round_##n, unit_pairs_##n }
#define NET_TEXT2(x) #x
#define NET_TEXT(x) NET_TEXT2(x)

const net_kernels NET_JOIN(net_kernels_, FIRM_SIMD) = {
    .name = NET_TEXT(FIRM_SIMD),
    .rows = ROWS,
    .unit = UNIT,
    .depth = 1,
    .bytes = 4,
    .block = 96,
#if defined(FIRM_SIMD_avx512)
    .ahead = 1,
    .speed = 4000,
    .panels = 3,
    .panel = {PANEL(4, 200, 1), PANEL(2, 105, 2), PANEL(1, 80, 2)},
#elif defined(FIRM_SIMD_avx2)
    .speed = 2000,
    .panels = 2,
    .panel = {PANEL(2, 100, 1), PANEL(1, 55, 2)},
#else
    .speed = 1000,
    .panels = 2,
    .panel = {PANEL(2, 50, 1), PANEL(1, 28, 2)},
#endif
};
