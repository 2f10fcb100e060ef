// lewm_bf16_test.c - LeWM's products in bfloat16: one against double sums of the same operands,
// whole rollouts beside float32, the same bits for any split, and what is refused. AMX runs on a
// machine that has it, and everywhere AVX512-BF16 is with its tile instructions in plain C.
#define _GNU_SOURCE
#include "plan/lewm_bf16.h"

#include "check.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/simd.h"
#include "lewm_toys.h"
#include "plan/bf16.h"
#include "plan/lewm_net.h"

#if defined(__x86_64__)
extern const lewm_products lewm_products_amx_emulated;
#endif

enum { TABLES = 3, N = 70, P = 5 };

static int tables(const lewm_products** out) {
    int n = 0;
#if defined(__x86_64__)
    simd_level level = simd_best_bf16();
    if (level >= SIMD_AVX512BF16) {
        out[n++] = &lewm_products_avx512bf16;
        out[n++] = &lewm_products_amx_emulated;
    }
    if (level == SIMD_AMX) out[n++] = &lewm_products_amx;
#else
    (void)out;
#endif
    if (n == 0) test_skip("the processor has no bfloat16 instructions");
    return n;
}

static float* normals(size_t n, uint64_t key) {
    float* p = mem_alloc(n * sizeof *p);
    rng_fill_normal(11, RNG_STREAM(RNG_TEST, key), 0, p, (int)n);
    return p;
}

static double value_of(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &wide, sizeof x);
    return x;
}

// One product; rows and columns beside those asked for are not touched.
static double product_error(const lewm_products* with, int m, int k, int n) {
    const int depth = lewm_padded(k, LEWM_DEPTH), strips = lewm_padded(n, LEWM_STRIP);
    const size_t step = (size_t)depth + 32, rows = (size_t)lewm_padded(m, LEWM_ROWS);
    float *x = normals((size_t)(m * k), 1), *w = normals((size_t)(k * n), 2),
          *bias = normals((size_t)n, 3), *c = mem_calloc((size_t)((m + 1) * (n + 3)), sizeof *c);
    uint16_t *a = mem_alloc(rows * step * sizeof *a),
             *b = mem_calloc((size_t)depth * (size_t)strips, sizeof *b);
    memset(a, 0xff, rows * step * sizeof *a);  // what is not written must not count
    for (int i = 0; i < k; i++)
        for (int j = 0; j < n; j++)
            b[(size_t)(j / 32 * 32) * (size_t)depth + (size_t)(i / 2 * 64 + j % 32 * 2 + i % 2)] =
                bf16_of(w[i * n + j]);
    if (with->begin) with->begin();
    with->round(m, k, x, (size_t)k, a, step);
    with->product(&(lewm_product){.m = m,
                                  .n = n,
                                  .k = depth,
                                  .a = a,
                                  .a_step = step,
                                  .b = b,
                                  .bias = bias,
                                  .c = c,
                                  .c_step = (size_t)n + 3});
    if (with->end) with->end();
    double worst = 0;
    for (int i = 0; i <= m; i++)
        for (int j = 0; j < n + 3; j++) {
            double want = 0;
            if (i < m && j < n) {
                want = (double)bias[j];
                for (int l = 0; l < k; l++)
                    want += value_of(bf16_of(x[i * k + l])) * value_of(bf16_of(w[l * n + j]));
            }
            worst = test_worse(worst, fabs((double)c[i * (n + 3) + j] - want));
        }
    mem_free(x), mem_free(w), mem_free(bias), mem_free(c), mem_free(a), mem_free(b);
    return worst;
}

TEST(plan, lewm_bf16_products) {
    const lewm_products* with[TABLES];
    // tiles of every height, one of them or several
    static const int m[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 33, 75},
                     k[] = {10, 64, 200}, n[] = {5, 32, 50};
    for (int t = tables(with) - 1; t >= 0; t--)
        for (int i = 0; i < 18; i++)
            for (int j = 0; j < 3; j++)
                for (int l = 0; l < 3; l++)
                    EXPECT_NEAR(product_error(with[t], m[i], k[j], n[l]), 0, 5e-5);
}

// Beside float32: a share of how far the candidates lie from each other, root mean square.
static double rollout_error(const lewm_model* m, const lewm_net* exact, const lewm_net* net,
                            float* got) {
    const int width = m->shape.width, action = lewm_action_dim(m), size = P * width;
    float *z0 = normals((size_t)width, 1), *u = normals((size_t)(N * P * action), 2),
          *want = mem_alloc((size_t)(N * size) * sizeof *want);
    void *one = mem_alloc(lewm_net_scratch_bytes(exact)),
         *two = mem_alloc(lewm_net_scratch_bytes(net));
    memset(two, 0xff, lewm_net_scratch_bytes(net));
    EXPECT_INT(lewm_net_rollout(exact, one, N, P, z0, u, want), 0);
    EXPECT_INT(lewm_net_rollout(net, two, N, P, z0, u, got), 0);
    double off = 0, apart = 0;
    for (int i = 0; i < N * size; i++) {
        const double d = (double)got[i] - (double)want[i],
                     e = (double)want[i] - (double)want[(i + size) % (N * size)];
        off += d * d;
        apart += e * e;
    }
    // in three pieces: the same bits
    float* part = mem_alloc((size_t)(N * size) * sizeof *part);
    static const int cuts[] = {0, 1, 39, N};
    int64_t before = mem_count();
    for (int i = 0; i < 3; i++)
        lewm_net_rollout(net, two, cuts[i + 1] - cuts[i], P, z0, u + cuts[i] * P * action,
                         part + cuts[i] * size);
    EXPECT_INT(mem_count() - before, 0);
    EXPECT_INT(memcmp(part, got, (size_t)(N * size) * sizeof *got), 0);
    u[3] = NAN;
    EXPECT_INT(lewm_net_rollout(net, two, N, P, z0, u, part), 1);
    mem_free(z0), mem_free(u), mem_free(want), mem_free(one), mem_free(two), mem_free(part);
    return sqrt(off / apart);
}

TEST(plan, lewm_bf16_rollouts) {
    const lewm_products* with[TABLES];
    firm_error err = {0};
    lewm_model* m = toy_lewm(3, 5);
    lewm_net *exact, *net;
    int count = m ? tables(with) : 0;
    if (!count) {
        lewm_free(m);
        return;
    }
    REQUIRE_OK(lewm_net_create(m, &exact, &err), err);
    float* got = mem_alloc((size_t)(N * P * m->shape.width) * sizeof *got);
    for (int t = 0; t < count; t++) {
        REQUIRE_OK(lewm_net_create_bf16(m, with[t], &net, &err), err);
        double error = rollout_error(m, exact, net, got);
        printf("  %s: off by %.4f of the candidates' distances\n", lewm_net_simd(net), error);
        EXPECT_NEAR(error, 0, 0.02);
        lewm_net_free(net);
    }
    for (int64_t n = 0; n < 8; n++) {
        mem_fail_after(n);
        firm_status status = lewm_net_create_bf16(m, with[0], &net, &err);
        mem_fail_after(-1);
        EXPECT_INT(status, FIRM_E_MEMORY);
    }
    mem_free(got);
    lewm_net_free(exact);
    lewm_free(m);
}
