// net_tile.h - the kernels of one panel width: NET_VECTORS vectors of NET_LANES candidates. A
// template for net_simd.c, which defines the two and NET_SUFFIX before each inclusion.
//
// Every operation is lane by lane and in the same order at every width, so that a candidate's bits
// do not depend on the panel it falls into. The accumulators start from the bias and take the
// inputs in order; a product continued from a partial sum (net.c shares one between all candidates
// at the first step) is therefore equal to the whole product.

#define NAME(x) NET_JOIN(NET_JOIN(x, _), NET_SUFFIX)
#define vec NAME(vec)
#define veci NAME(veci)
#define WIDTH (NET_LANES * NET_VECTORS)

typedef float vec __attribute__((vector_size(4 * NET_LANES)));
typedef int veci __attribute__((vector_size(4 * NET_LANES)));

static inline vec NAME(load)(const float* p) {
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void NAME(store)(float* p, vec v) {
    memcpy(p, &v, sizeof v);
}

static inline vec NAME(splat)(float x) {
    return x - (vec){0};
}

static inline vec NAME(fma)(vec a, vec b, vec c) {
#if NET_LANES == 16
    return _mm512_fmadd_ps(a, b, c);
#elif NET_LANES == 8
    return _mm256_fmadd_ps(a, b, c);
#elif defined(FIRM_SIMD_neon)
    return vfmaq_f32(c, a, b);
#else
    return a * b + c;
#endif
}

static inline vec NAME(root)(vec a) {
#if NET_LANES == 16
    return _mm512_sqrt_ps(a);
#elif NET_LANES == 8
    return _mm256_sqrt_ps(a);
#elif defined(FIRM_SIMD_neon)
    return vsqrtq_f32(a);
#else
    for (int i = 0; i < NET_LANES; i++) a[i] = __builtin_sqrtf(a[i]);
    return a;
#endif
}

// x / (1 + 2^t), see net_math.h
#if defined(FIRM_SIMD_avx512)
#if NET_LANES == 16
#define MM(op) _mm512_##op
#else
#define MM(op) _mm256_##op
#endif
// The instruction set takes t apart by itself, and a reciprocal with a Newton step is as good as a
// division to a unit in the last place. Half of the units that multiply can divide, slowly.
static inline vec NAME(gelu)(vec x) {
    vec t = x * NAME(fma)(NAME(splat)(GELU_K3), x * x, NAME(splat)(GELU_K1));
    t = MM(min_ps)(t, NAME(splat)(126.0f));  // of infinity the Newton step would make NaN
    vec f = MM(reduce_ps)(t, 1);             // t - floor(t)
    vec p = NAME(fma)(NAME(splat)(EXP2_FLOOR_C5), f, NAME(splat)(EXP2_FLOOR_C4));
    p = NAME(fma)(p, f, NAME(splat)(EXP2_FLOOR_C3));
    p = NAME(fma)(p, f, NAME(splat)(EXP2_FLOOR_C2));
    p = NAME(fma)(p, f, NAME(splat)(EXP2_FLOOR_C1));
    p = NAME(fma)(p, f, NAME(splat)(1.0f));
    vec d = MM(scalef_ps)(p, t) + 1.0f;  // p 2^floor(t) + 1
    vec q = MM(rcp14_ps)(d);
    return x * (q * MM(fnmadd_ps)(d, q, NAME(splat)(2.0f)));
}
#undef MM
#else
// to [-126, 126]; what becomes of a NaN does not matter, the caller multiplies by it again
static inline vec NAME(clamp)(vec a) {
    vec lo = NAME(splat)(-126.0f), hi = NAME(splat)(126.0f);
#if NET_LANES == 8
    return _mm256_min_ps(_mm256_max_ps(a, lo), hi);
#elif defined(FIRM_SIMD_neon)
    return vminq_f32(vmaxq_f32(a, lo), hi);
#else
    veci below = a<lo, above = a> hi;
    a = (vec)((below & (veci)lo) | (~below & (veci)a));
    return (vec)((above & (veci)hi) | (~above & (veci)a));
#endif
}

static inline vec NAME(gelu)(vec x) {
    vec x2 = x * x;
    vec t = NAME(clamp)(x * NAME(fma)(NAME(splat)(GELU_K3), x2, NAME(splat)(GELU_K1)));
    // 2^t: the integer part through the rounding of a large sum, the rest by a polynomial
    vec magic = NAME(splat)(12582912.0f);  // 1.5 * 2^23
    vec rounded = t + magic;
    vec f = t - (rounded - magic);
    vec p = NAME(fma)(NAME(splat)(EXP2_C6), f, NAME(splat)(EXP2_C5));
    p = NAME(fma)(p, f, NAME(splat)(EXP2_C4));
    p = NAME(fma)(p, f, NAME(splat)(EXP2_C3));
    p = NAME(fma)(p, f, NAME(splat)(EXP2_C2));
    p = NAME(fma)(p, f, NAME(splat)(EXP2_C1));
    p = NAME(fma)(p, f, NAME(splat)(EXP2_C0));
    vec e = (vec)((veci)p + ((veci)rounded << 23));
    return x / (e + 1.0f);
}
#endif

// The sums of ROWS features of each of so many groups, 1 or 2: one vector of candidates needs two
// groups to keep the multiply-add units busy. ahead: weights to ask for meanwhile, four inputs' at
// a time; NULL: none.
static inline __attribute__((always_inline)) void NAME(panel)(const net_products* p,
                                                              const void* operands, void* out,
                                                              const char* ahead, int groups) {
    const float *bias = p->bias, *in = operands, *w[2] = {p->w};
    w[1] = (const float*)((const char*)p->w + (groups > 1 ? p->w_step : 0));
    net_epilogue epilogue = p->epilogue;
    vec acc[2 * ROWS][NET_VECTORS];
#pragma GCC unroll 24
    for (int r = 0; r < groups * ROWS; r++)
#pragma GCC unroll 2
        for (int v = 0; v < NET_VECTORS; v++) acc[r][v] = NAME(splat)(bias[r]);
    for (int k = 0; k < p->inputs; k++) {
        vec a[NET_VECTORS];
        if (ahead && k % 4 == 0) {
            for (int l = 0; l < 16 * ROWS * groups; l += 64) __builtin_prefetch(ahead + l, 0, 2);
            ahead += 16 * ROWS * groups;
        }
#pragma GCC unroll 2
        for (int v = 0; v < NET_VECTORS; v++) a[v] = NAME(load)(in + v * NET_LANES);
#pragma GCC unroll 24
        for (int r = 0; r < groups * ROWS; r++) {
            vec b = NAME(splat)(w[r / ROWS][r % ROWS]);
#pragma GCC unroll 2
            for (int v = 0; v < NET_VECTORS; v++) acc[r][v] = NAME(fma)(b, a[v], acc[r][v]);
        }
        in += WIDTH;
        w[0] += ROWS;
        w[1] += ROWS;
    }
#pragma GCC unroll 24
    for (int r = 0; r < groups * ROWS; r++)
#pragma GCC unroll 2
        for (int v = 0; v < NET_VECTORS; v++) {
            float* to = (float*)out + r * WIDTH + v * NET_LANES;
            vec x = acc[r][v];
            if (epilogue == NET_GELU) x = NAME(gelu)(x);
            if (epilogue == NET_ADD) x = NAME(load)(to) + x;
            NAME(store)(to, x);
        }
}

static void NAME(product)(const net_products* p) {
    for (int i = 0; i < p->count; i++) {
        const char *in = p->in + (size_t)i * p->in_step, *ahead = i == 0 ? p->ahead : NULL;
        char* out = p->out + (size_t)i * p->out_step;
#if NET_VECTORS == 1
        if (p->groups == 2) {
            NAME(panel)(p, in, out, ahead, 2);
            continue;
        }
#endif
        NAME(panel)(p, in, out, ahead, 1);
    }
}

// The sum over the features of x, or of (x - mean)^2, by vector. Each in four chains, features 4 i,
// 4 i + 1, ..., so that an addition does not wait for the one before.
static inline void NAME(sums)(const float* x, int features, const vec* mean, vec* sum) {
    vec chain[CHAINS][NET_VECTORS] = {{{0}}};
    int f = 0;
#define TAKE(c)                                                              \
    for (int v = 0; v < NET_VECTORS; v++) {                                  \
        vec d = NAME(load)(x + (f + (c)) * WIDTH + v * NET_LANES);           \
        if (mean) d = d - mean[v];                                           \
        chain[c][v] = mean ? NAME(fma)(d, d, chain[c][v]) : chain[c][v] + d; \
    }
    for (; f + CHAINS <= features; f += CHAINS)
#pragma GCC unroll 4
        for (int c = 0; c < CHAINS; c++) TAKE(c)
    for (; f < features; f++) TAKE(0)
#undef TAKE
    for (int v = 0; v < NET_VECTORS; v++)
        sum[v] = (chain[0][v] + chain[1][v]) + (chain[2][v] + chain[3][v]);
}

static void NAME(normalise)(const float* x, int features, void* out) {
    float share = 1.0f / (float)features, *y = out;
    vec sum[NET_VECTORS], squares[NET_VECTORS], mean[NET_VECTORS];
    NAME(sums)(x, features, NULL, sum);
    for (int v = 0; v < NET_VECTORS; v++) mean[v] = sum[v] * share;
    NAME(sums)(x, features, mean, squares);
    for (int v = 0; v < NET_VECTORS; v++)
        squares[v] =
            1.0f / NAME(root)(NAME(fma)(squares[v], NAME(splat)(share), NAME(splat)(LN_EPS)));
    for (int f = 0; f < features; f++)
        for (int v = 0; v < NET_VECTORS; v++) {
            int at = f * WIDTH + v * NET_LANES;
            NAME(store)(y + at, (NAME(load)(x + at) - mean[v]) * squares[v]);
        }
}

static void NAME(round)(const float* in, int features, void* out) {
    memcpy(out, in, (size_t)(features * WIDTH) * sizeof(float));
}

static void NAME(unit_pairs)(float* c, int pairs) {
    for (int p = 0; p < pairs; p++)
        for (int v = 0; v < NET_VECTORS; v++) {
            float* s = c + 2 * p * WIDTH + v * NET_LANES;
            vec a = NAME(load)(s), b = NAME(load)(s + WIDTH);
            // the tiny number only keeps a pair of exact zeros from becoming 0 / 0
            vec length = NAME(root)(NAME(fma)(a, a, NAME(fma)(b, b, NAME(splat)(1e-12f))));
            NAME(store)(s, a / length);
            NAME(store)(s + WIDTH, b / length);
        }
}

#undef NAME
#undef vec
#undef veci
#undef WIDTH
#undef NET_LANES
#undef NET_VECTORS
#undef NET_SUFFIX
