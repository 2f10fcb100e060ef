// paired_test.c - differences of two arms: known cases, coverage on simulated data, pairs checked
// by hash; and solve times.
#include "eval/paired.h"

#include "check.h"
#include "core/rng.h"
#include "eval/timing.h"

TEST(eval, difference_known_cases) {
    firm_error err;
    paired_difference d;
    enum { N = 100 };
    int8_t a[N], b[N];
    uint64_t hash[N], other[N];
    for (int i = 0; i < N; i++) {
        hash[i] = other[i] = (uint64_t)i * 77;
        a[i] = i < 90;  // rescues 12 of b's failures, harms 2 of its successes
        b[i] = i < 78 || i == 95 || i == 99;
    }
    const paired_arm one = {a, hash}, two = {b, other};
    REQUIRE_OK(paired_compare(&one, &two, N, &d, &err), err);
    EXPECT_NEAR(d.difference, 10, 1e-9);
    EXPECT_INT(d.rescue, 12);
    EXPECT_INT(d.harm, 2);
    // deviation of the mean of {+1 x 12, -1 x 2, 0 x 86}: sqrt(0.14 - 0.01) / 10 = 0.0361
    EXPECT_NEAR(d.lo, 10 - 1.96 * 3.61, 1.5);
    EXPECT_NEAR(d.hi, 10 + 1.96 * 3.61, 1.5);

    // an arm against itself: no difference, and the doubt of a hundred trials
    REQUIRE_OK(paired_compare(&one, &one, N, &d, &err), err);
    EXPECT(d.difference == 0 && d.rescue == 0 && d.harm == 0);
    EXPECT(d.lo == -d.hi && d.hi > 1 && d.hi < 4);
    EXPECT_INT(paired_compare(&one, &one, 0, &d, &err), FIRM_E_USAGE);

    // one trial differs: refused
    other[41] ^= 1;
    EXPECT_INT(paired_compare(&one, &two, N, &d, &err), FIRM_E_USAGE);
    EXPECT(strstr(err.message, "trial 41") != NULL);
}

// a wins 8 of 16 trials, b none: Wilson's intervals 28.00 to 72.00 % and 0 to 19.36 %, put together
// as 50 - sqrt(22.00^2 + 19.36^2) to 50 + 22.00, since b never varies.
TEST(eval, difference_interval_by_hand) {
    firm_error err;
    paired_difference d;
    enum { N = 16 };
    int8_t a[N], b[N] = {0};
    uint64_t hash[N] = {0};
    for (int i = 0; i < N; i++) a[i] = i % 2;
    const paired_arm one = {a, hash}, two = {b, hash};
    REQUIRE_OK(paired_compare(&one, &two, N, &d, &err), err);
    EXPECT(d.difference == 50 && d.rescue == 8 && d.harm == 0);
    EXPECT_NEAR(d.lo, 20.6937, 1e-3);
    EXPECT_NEAR(d.hi, 72.0004, 1e-3);
    REQUIRE_OK(paired_compare(&two, &one, N, &d, &err), err);
    EXPECT(d.difference == -50 && d.rescue == 0 && d.harm == 8);
    EXPECT_NEAR(d.lo, -72.0004, 1e-3);
    EXPECT_NEAR(d.hi, -20.6937, 1e-3);
}

// Share of simulated experiments whose interval contains the truth.
TEST(eval, intervals_cover) {
    enum { EXPERIMENTS = 200, N = 40 };
    firm_error err;
    uint64_t hash[N] = {0};
    int covered = 0;
    const double both = 0.55, only_a = 0.25;  // only_b 0.1, neither 0.1: true difference 15 points
    for (int e = 0; e < EXPERIMENTS; e++) {
        rng r = rng_start(5, RNG_STREAM(RNG_TEST, e));
        int8_t a[N], b[N];
        for (int i = 0; i < N; i++) {
            double u = rng_uniform(&r, 0, 1);
            a[i] = u < both + only_a;
            b[i] = u < both || (u >= both + only_a && u < both + only_a + 0.1);
        }
        const paired_arm one = {a, hash}, two = {b, hash};
        paired_difference d;
        REQUIRE_OK(paired_compare(&one, &two, N, &d, &err), err);
        covered += d.lo <= 15 + 1e-9 && d.hi >= 15 - 1e-9;
    }
    // 95 % with three standard errors of 200 experiments, sqrt(0.95 0.05 / 200) = 1.5 %
    EXPECT_NEAR(100.0 * covered / EXPERIMENTS, 95, 4.6);
}

TEST(eval, quantiles) {
    firm_error err;
    eval_times t = {0};
    EXPECT(eval_times_quantile(&t, 0.5) == 0 && eval_times_mean(&t) == 0);
    for (int i = 1000; i >= 0; i--) REQUIRE_OK(eval_times_add(&t, i, &err), err);
    EXPECT_NEAR(eval_times_mean(&t), 500, 1e-9);
    EXPECT_NEAR(eval_times_quantile(&t, 0.5), 500, 1e-9);
    EXPECT_NEAR(eval_times_quantile(&t, 0.99), 990, 1e-9);
    EXPECT_NEAR(eval_times_quantile(&t, 0.9995), 999.5, 1e-9);
    EXPECT_NEAR(eval_times_quantile(&t, 1), 1000, 1e-9);
    eval_times_free(&t);
}
