// net_team_test.c - teams of threads that split features: the same bits as one thread for any
// members and any candidates, with more threads than cores, and the choice of a split.
#define _GNU_SOURCE
#include "check.h"
#include "core/meet.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "core/simd.h"
#include "plan/dynamics.h"
#include "plan/net.h"
#include "plan/net_claims.h"
#include "toys.h"

enum { P = 2 };

static float* normals(int n, uint64_t key) {
    float* p = malloc((size_t)n * sizeof(float));
    rng_fill_normal(11, RNG_STREAM(RNG_TEST, key), 0, p, n);
    return p;
}

typedef struct run {
    const plan_net* net;
    plan_net_job job;
    plan_net_team team;
    int nonfinite[PLAN_TEAM_MOST];
} run;

static void take_part(void* arg, int item, int worker) {
    run* r = arg;
    r->nonfinite[worker] = plan_net_rollout_share(r->net, &r->job, &r->team, item);
}

// n candidates by teams of every size, one of them not finite; n of more than a block, too
static void compare(const plan_net* net, int n) {
    static const int sizes[] = {2, 3, 5, 8, PLAN_TEAM_MOST};
    plan_net_shape s;
    plan_net_shape_get(net, &s);
    int size = n * P * s.config;
    float *c0 = normals(s.config, 1), *m0 = normals(s.fiber + 1, 2),
          *u = normals(n * P * s.action, 3);
    float *alone = malloc((size_t)size * sizeof(float)),
          *got = malloc((size_t)size * sizeof(float));
    u[(n / 2) * P * s.action] = NAN;
    void* scratch = mem_alloc(plan_net_scratch_bytes(net));
    EXPECT_INT(plan_net_rollout(net, scratch, n, P, c0, m0, u, alone), 1);
    mem_free(scratch);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int members = sizes[i], bad = 0;
        pool* p;
        meet at;
        plan_net_claims claims[PLAN_TEAM_MOST];
        firm_error err;
        REQUIRE_OK(pool_create(members, &p, &err), err);
        meet_init(&at);
        meet_expect(&at, members);
        memset(claims, 0xff, sizeof claims);
        run r = {.net = net,
                 .job = {n, P, c0, m0, u, got},
                 .team = {.members = members,
                          .scratch = mem_alloc((size_t)members * plan_net_scratch_bytes(net)),
                          .at = &at,
                          .claims = claims}};
        memset(r.team.scratch, 0xff, (size_t)members * plan_net_scratch_bytes(net));
        memset(got, 0, (size_t)size * sizeof(float));
        int64_t before = mem_count();
        pool_each(p, take_part, &r);
        EXPECT_INT(mem_count() - before, 0);
        for (int k = 0; k < members; k++) bad += r.nonfinite[k];
        EXPECT_INT(bad, 1);
        if (memcmp(alone, got, (size_t)size * sizeof(float)) != 0)
            test_fail(__FILE__, __LINE__, "%s: %d members, %d candidates: other bits",
                      plan_net_simd(net), members, n);
        mem_free(r.team.scratch);
        pool_free(p);
    }
    free(got), free(alone), free(u), free(m0), free(c0);
}

typedef struct apart {
    plan_net_rest* rest;
    char* scratch;
    size_t stride;
    int nonfinite[PLAN_TEAM_MOST];
} apart;

static void work_apart(void* arg, int item, int worker) {
    apart* a = arg;
    a->nonfinite[worker] =
        plan_net_rest_share(a->rest, a->scratch + (size_t)item * a->stride, NULL);
}

// n candidates by threads that have their own and share the rest; one that is not finite among the
// first, one among the last.
static void compare_apart(const plan_net* net, int n, int* with_rest) {
    static const int threads[] = {1, 2, 3, 5, 8, PLAN_TEAM_MOST};
    plan_net_shape s;
    plan_net_shape_get(net, &s);
    int size = n * P * s.config, bad = n > 1 ? 2 : 1;
    float *c0 = normals(s.config, 1), *m0 = normals(s.fiber + 1, 2),
          *u = normals(n * P * s.action, 3);
    float *alone = malloc((size_t)size * sizeof(float)),
          *got = malloc((size_t)size * sizeof(float));
    u[0] = u[(n - 1) * P * s.action] = NAN;
    apart a = {.stride = plan_net_scratch_bytes(net)};
    a.scratch = mem_alloc(PLAN_TEAM_MOST * a.stride);
    EXPECT_INT(plan_net_rollout(net, a.scratch, n, P, c0, m0, u, alone), bad);
    firm_error err;
    REQUIRE_OK(plan_net_rest_create(net, &a.rest, &err), err);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        pool* p;
        REQUIRE_OK(pool_create(threads[i], &p, &err), err);
        const plan_net_job job = {n, P, c0, m0, u, got};
        const plan_net_pieces pieces = plan_net_cut(net, threads[i], n);
        *with_rest += pieces.rest > 0;
        memset(a.scratch, 0xff, PLAN_TEAM_MOST * a.stride);
        for (int again = 0; again < 3; again++) {
            memset(got, 0, (size_t)size * sizeof(float));
            int64_t before = mem_count();
            plan_net_rest_begin(a.rest, &job, &pieces);
            pool_each(p, work_apart, &a);
            EXPECT_INT(mem_count() - before, 0);
            int found = plan_net_rest_nonfinite(a.rest);
            for (int k = 0; k < threads[i]; k++) found += a.nonfinite[k];
            EXPECT_INT(found, bad);
            if (memcmp(alone, got, (size_t)size * sizeof(float)) != 0)
                test_fail(__FILE__, __LINE__, "%s: %d threads, %d candidates: other bits",
                          plan_net_simd(net), threads[i], n);
        }
        pool_free(p);
    }
    plan_net_rest_free(a.rest);
    mem_free(a.scratch);
    free(got), free(alone), free(u), free(m0), free(c0);
}

static void compare_all(plan_net_shape shape, plan_precision precision) {
    static const int candidates[] = {1, 37, 75, 500};
    toy_net t = toy_net_make(shape, 7);
    plan_net* net;
    firm_error err;
    REQUIRE_OK(plan_net_create(&shape, &t.weights, precision, &net, &err), err);
    int with_rest = 0;
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
        compare(net, candidates[i]);
        compare_apart(net, candidates[i], &with_rest);
    }
    EXPECT(with_rest >= 4);
    plan_net_free(net);
    toy_net_free(&t);
}

TEST(plan, teams_give_the_same_bits) {
    plan_net_shape plain = {6, 1, 28, 10, 96, 200, 1, 0}, spatial = {6, 1, 19, 10, 41, 50, 1, 71};
    for (int precision = 0; precision <= PLAN_BF16; precision += PLAN_BF16) {
        if (precision && simd_best_bf16() == SIMD_PLAIN) {
            test_skip("the processor has no bfloat16 instructions");
            return;
        }
        compare_all(plain, (plan_precision)precision);
        compare_all(spatial, (plan_precision)precision);
    }
}

// Pieces cover all candidates once, in order, for any number of threads.
TEST(plan, pieces_cover_all_candidates) {
    plan_net_shape shape = {2, 0, 12, 10, 40, 64, 2, 0};
    toy_net t = toy_net_make(shape, 3);
    plan_net* net;
    firm_error err;
    REQUIRE_OK(plan_net_create(&shape, &t.weights, PLAN_FP32, &net, &err), err);
    for (int threads = 1; threads <= 20; threads++)
        for (int n = 1; n <= 400; n += n < 50 ? 1 : 37) {
            plan_net_pieces p = plan_net_cut(net, threads, n);
            int at = 0;
            for (int i = 0; i < p.count; i++) {
                int from, to;
                plan_net_piece(net, &p, i, &from, &to);
                EXPECT(from == at && to > from);
                at = to;
            }
            // the rest is behind them
            EXPECT(p.rest == 0 ? at == n : n - at > (p.rest - 1) * plan_net_lanes(net));
            EXPECT(n - at <= p.rest * plan_net_lanes(net));
            EXPECT(p.rest * plan_net_lanes(net) <= plan_net_rest_lanes(net));
        }
    plan_net_free(net);
    toy_net_free(&t);
}

// The learned transition forms its teams itself.
TEST(plan, learned_same_bits_for_any_threads) {
    enum { N = 101 };
    static const int threads[] = {1, 2, 3, 8, 16};
    plan_net_shape shape = {2, 0, 12, 10, 40, 64, 2, 0};
    toy_net t = toy_net_make(shape, 3);
    float *c0 = normals(2, 1), *m0 = normals(12, 2), *u = normals(N * P * 10, 3);
    for (int precision = 0; precision <= PLAN_BF16; precision += PLAN_BF16) {
        plan_net* net;
        firm_error err;
        float want[N * P * 2], got[N * P * 2];
        if (precision && simd_best_bf16() == SIMD_PLAIN) break;
        REQUIRE_OK(plan_net_create(&shape, &t.weights, (plan_precision)precision, &net, &err), err);
        for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
            pool* p;
            plan_learned* l;
            REQUIRE_OK(pool_create(threads[i], &p, &err), err);
            REQUIRE_OK(plan_learned_create(net, p, &l, &err), err);
            plan_learned_start(l, c0, m0);
            plan_model m = plan_learned_model(l);
            for (int n = 1; n <= N; n += 20) {
                EXPECT_INT(m.rollout(m.context, 0, n, P, u, got), 0);
                if (i > 0) EXPECT_INT(memcmp(want, got, (size_t)(n * P * 2) * sizeof *got), 0);
            }
            if (i == 0) memcpy(want, got, sizeof want);
            plan_learned_free(l);
            pool_free(p);
        }
        plan_net_free(net);
    }
    free(u), free(m0), free(c0);
    toy_net_free(&t);
}

// TwoRoom's transition with AVX-512: threads keep to themselves where each has vectors' worth of
// candidates, also sixteen with 300, which share the rest; they form teams for a single vector.
TEST(plan, teams_are_formed_where_vectors_would_be_empty) {
    plan_net_shape shape = {2, 0, 128, 10, 384, 768, 2, 0};
    toy_net t = toy_net_make(shape, 3);
    plan_net* net;
    firm_error err;
    REQUIRE_OK(plan_net_create(&shape, &t.weights, PLAN_FP32, &net, &err), err);
    EXPECT_INT(plan_net_members(net, NULL, 1, 300), 1);
    if (simd_best() == SIMD_AVX512) {
        EXPECT_INT(plan_net_members(net, NULL, 2, 300), 1);
        EXPECT_INT(plan_net_members(net, NULL, 4, 1200), 1);
        EXPECT_INT(plan_net_members(net, NULL, 16, 300), 1);
        EXPECT(plan_net_members(net, NULL, 16, 8) >= 8);
    }
    plan_net_free(net);
    toy_net_free(&t);
}

// The clock decides, here among several splits whose guess is near, because each thread has half a
// vector of candidates: every one is tried twice, then the fastest is taken, a single stall moves
// nothing, and what became slow for good is left.
TEST(plan, splits_are_chosen_by_the_clock) {
    enum { THREADS = 16, CANDIDATES = 128, ROLLOUTS = 1100 };
    plan_net_shape shape = {2, 0, 128, 10, 384, 768, 2, 0};
    toy_net t = toy_net_make(shape, 3);
    plan_net* net;
    firm_error err;
    plan_net_paces paces = {0};
    int count[PLAN_TEAM_MOST + 1] = {0}, slow = 0, fast = 0;
    const plan_net_job job = {.n = CANDIDATES, .horizon = 5};
    REQUIRE_OK(plan_net_create(&shape, &t.weights, PLAN_FP32, &net, &err), err);
    for (int i = 0; i < ROLLOUTS; i++) {
        int m = plan_net_members(net, &paces, THREADS, CANDIDATES);
        if (m < 1 || m > PLAN_TEAM_MOST || 10 * (THREADS % m) > THREADS) {
            test_fail(__FILE__, __LINE__, "teams of %d in rollout %d", m, i);
            break;
        }
        count[m]++;
        if (i == 0) slow = m;
        if (m > 1 && m != slow) fast = fast ? fast : m;
        // one split is twice as fast as all others, but for a stall; later it is not any more
        int64_t ns = m == fast ? 1000000 : 2000000;
        if (i == 100) ns = 50000000;
        plan_net_paced(&paces, net, THREADS, m, &job, ns);
    }
    if (simd_best() == SIMD_AVX512) {
        EXPECT(fast > 1);
        for (int m = 1; m <= PLAN_TEAM_MOST; m++)
            if (m != fast && count[m]) EXPECT(count[m] >= 2 && count[m] <= 8);
        EXPECT(count[fast] >= ROLLOUTS - 40);
        for (int i = 0; i < 40; i++) {
            int m = plan_net_members(net, &paces, THREADS, CANDIDATES);
            plan_net_paced(&paces, net, THREADS, m, &job, m == fast ? 9000000 : 2000000);
        }
        EXPECT(plan_net_members(net, &paces, THREADS, CANDIDATES) != fast);
    }
    plan_net_free(net);
    toy_net_free(&t);
}
