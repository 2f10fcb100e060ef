// net_test.c - the planner's transition: every instruction set against plain double loops, any
// split the same bits, unit pairs, non-finite rows, failing allocations.
#define _GNU_SOURCE
#include "plan/net.h"

#include "check.h"
#include "core/mem.h"
#include "core/rng.h"
#include "toys.h"

#if defined(__aarch64__)
static const char* const variants[] = {"plain", "neon"};
#else
static const char* const variants[] = {"plain", "avx2", "avx512"};
#endif
enum { VARIANTS = sizeof variants / sizeof *variants };
static const plan_net_shape shapes[] = {
    {2, 0, 128, 10, 384, 768, 2, 0},  // TwoRoom
    {6, 1, 128, 10, 96, 200, 2, 0},   // pairs
    {8, 3, 5, 25, 37, 53, 2, 0},      // nothing divides anything
    {3, 0, 0, 1, 1, 1, 1, 0},         {4, 2, 7, 3, 13, 6, 0, 0},
    {6, 1, 19, 10, 41, 50, 1, 71},  // a spatial residual, wider than the blocks
    {6, 1, 128, 10, 96, 200, 2, 100},
};

static float* normals(int n, uint64_t key) {
    float* p = malloc((size_t)n * sizeof(float));
    rng_fill_normal(11, RNG_STREAM(RNG_TEST, key), 0, p, n);
    return p;
}

// A net for the wanted instruction set, or NULL where the processor lacks it.
static plan_net* make(const toy_net* t, const char* variant) {
    plan_net* net = NULL;
    firm_error err = {0};
    setenv("FIRM_SIMD", variant, 1);
    if (plan_net_create(&t->shape, &t->weights, PLAN_FP32, &net, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", variant, err.message);
    unsetenv("FIRM_SIMD");
    if (net && strcmp(plan_net_simd(net), variant) != 0) {
        plan_net_free(net);
        net = NULL;
    }
    return net;
}

static void compare(const toy_net* t, const char* variant, int n, int horizon) {
    plan_net* net = make(t, variant);
    if (!net) {
        test_skip("an instruction set is missing");
        return;
    }
    const plan_net_shape* s = &t->shape;
    float *c0 = normals(s->config, 1), *m0 = normals(s->fiber + 1, 2),
          *u = normals(n * horizon * s->action, 3);
    for (int p = 0; p < s->pairs; p++) {
        c0[2 * p] = 0.6f;
        c0[2 * p + 1] = -0.8f;
    }
    int size = n * horizon * s->config;
    float* got = malloc((size_t)size * sizeof(float));
    double* want = malloc((size_t)size * sizeof(double));
    void* scratch = mem_alloc(plan_net_scratch_bytes(net));
    EXPECT_INT(plan_net_rollout(net, scratch, n, horizon, c0, m0, u, got), 0);
    toy_net_rollout(t, n, horizon, c0, m0, u, want);
    double worst = 0;
    for (int i = 0; i < size; i++)
        worst = test_worse(worst, fabs(got[i] - want[i]) / fmax(1.0, fabs(want[i])));
    if (!(worst <= 1e-5 * test_tolerance_scale()))
        test_fail(__FILE__, __LINE__, "%s, hidden %d, n %d: relative error %.3g", variant,
                  s->hidden, n, worst);
    mem_free(scratch);
    free(want), free(got), free(u), free(m0), free(c0);
    plan_net_free(net);
}

TEST(plan, net_matches_double) {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        toy_net t = toy_net_make(shapes[i], 100 + i);
        for (size_t v = 0; v < VARIANTS; v++) {
            compare(&t, variants[v], i == 0 ? 29 : 131, i == 0 ? 5 : 3);
            compare(&t, variants[v], 1, 1);
        }
        toy_net_free(&t);
    }
}

TEST(plan, net_split_same_bits) {
    enum { N = 203, P = 3 };
    static const int of[] = {1, 2, 5};
    for (size_t k = 0; k < 3; k++) {
        toy_net t = toy_net_make(shapes[of[k]], 7);
        const plan_net_shape* s = &t.shape;
        float *c0 = normals(s->config, 1), *m0 = normals(s->fiber, 2),
              *u = normals(N * P * s->action, 3);
        size_t row = (size_t)(P * s->config) * sizeof(float);
        char *whole = malloc(N * row), *parts = malloc(N * row);
        for (size_t v = 0; v < VARIANTS; v++) {
            plan_net* net = make(&t, variants[v]);
            if (!net) continue;
            void* scratch = mem_alloc(plan_net_scratch_bytes(net));
            plan_net_rollout(net, scratch, N, P, c0, m0, u, (float*)whole);
            static const int widths[] = {1, 7, 8, 16, 24, 31, 64, 100};
            for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
                for (int from = 0; from < N; from += widths[w]) {
                    int n = from + widths[w] < N ? widths[w] : N - from;
                    plan_net_rollout(net, scratch, n, P, c0, m0, u + from * P * s->action,
                                     (float*)(parts + (size_t)from * row));
                }
                if (memcmp(whole, parts, N * row) != 0)
                    test_fail(__FILE__, __LINE__, "%s: pieces of %d give other bits", variants[v],
                              widths[w]);
            }
            mem_free(scratch);
            plan_net_free(net);
        }
        free(parts), free(whole), free(u), free(m0), free(c0);
        toy_net_free(&t);
    }
}

TEST(plan, net_unit_pairs) {
    toy_net t = toy_net_make(shapes[2], 9);
    plan_net* net = make(&t, "plain");
    if (!net) return;
    enum { N = 20, P = 4 };
    float *c0 = normals(8, 1), *m0 = normals(5, 2), *u = normals(N * P * 25, 3), c[N * P * 8];
    void* scratch = mem_alloc(plan_net_scratch_bytes(net));
    plan_net_rollout(net, scratch, N, P, c0, m0, u, c);
    for (int i = 0; i < N * P; i++)
        for (int p = 0; p < 3; p++)
            EXPECT_NEAR(hypot(c[i * 8 + 2 * p], c[i * 8 + 2 * p + 1]), 1.0, 1e-6);
    mem_free(scratch);
    free(u), free(m0), free(c0);
    plan_net_free(net);
    toy_net_free(&t);
}

TEST(plan, net_nonfinite_rows) {
    toy_net t = toy_net_make(shapes[1], 9);
    enum { N = 50, P = 3 };
    const plan_net_shape* s = &t.shape;
    float *c0 = normals(s->config, 1), *m0 = normals(s->fiber, 2),
          *u = normals(N * P * s->action, 3);
    float good[N * P * 6], got[N * P * 6];
    for (size_t v = 0; v < VARIANTS; v++) {
        plan_net* net = make(&t, variants[v]);
        if (!net) continue;
        void* scratch = mem_alloc(plan_net_scratch_bytes(net));
        EXPECT_INT(plan_net_rollout(net, scratch, N, P, c0, m0, u, good), 0);
        float keep[2] = {u[7 * P * s->action], u[(49 * P + 2) * s->action + 1]};
        u[7 * P * s->action] = NAN;
        u[(49 * P + 2) * s->action + 1] = INFINITY;
        EXPECT_INT(plan_net_rollout(net, scratch, N, P, c0, m0, u, got), 2);
        for (int i = 0; i < N; i++)
            if (i != 7 && i != 49)
                EXPECT_INT(memcmp(good + i * P * 6, got + i * P * 6, P * 6 * sizeof(float)), 0);
        u[7 * P * s->action] = keep[0];
        u[(49 * P + 2) * s->action + 1] = keep[1];
        mem_free(scratch);
        plan_net_free(net);
    }
    free(u), free(m0), free(c0);
    toy_net_free(&t);
}

TEST(plan, net_create_fails_cleanly) {
    toy_net t = toy_net_make(shapes[2], 9);
    plan_net* net;
    firm_error err;
    plan_net_shape bad = t.shape;
    bad.pairs = 5;  // 10 numbers of 8
    EXPECT_INT(plan_net_create(&bad, &t.weights, PLAN_FP32, &net, &err), FIRM_E_VALUE);
    EXPECT(net == NULL && err.message[0]);
    for (int64_t n = 0;; n++) {
        mem_fail_after(n);
        firm_status s = plan_net_create(&t.shape, &t.weights, PLAN_FP32, &net, &err);
        mem_fail_after(-1);
        if (s == FIRM_OK) {
            EXPECT(n == 2);  // the net and its weights
            break;
        }
        EXPECT_INT(s, FIRM_E_MEMORY);
        EXPECT(net == NULL);
    }
    plan_net_free(net);
    toy_net_free(&t);
}

// 140 x 384 + 4 x 384 x 768 + 384 x 130: the transition's 1,288,450 parameters less biases and
// LayerNorms
TEST(plan, net_macs_of_tworoom) {
    EXPECT_INT(plan_net_macs(&shapes[0], NULL), 1283328);
}
