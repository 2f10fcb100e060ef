// paired_test.c - bootstrap intervals: known cases, coverage on simulated data, pairs checked by
// hash.
#include "eval/paired.h"

#include "check.h"
#include "core/rng.h"
#include "eval/timing.h"

TEST(eval, rate_known_cases) {
    firm_error err;
    paired_interval ci;
    int8_t all[20], none[20], half[20];
    for (int i = 0; i < 20; i++) {
        all[i] = 1;
        none[i] = 0;
        half[i] = (int8_t)(i % 2);
    }
    REQUIRE_OK(paired_rate(all, 20, 1, BOOTSTRAP_RESAMPLES, &ci, &err), err);
    EXPECT(ci.mean == 100 && ci.lo == 100 && ci.hi == 100);
    REQUIRE_OK(paired_rate(none, 20, 1, BOOTSTRAP_RESAMPLES, &ci, &err), err);
    EXPECT(ci.mean == 0 && ci.lo == 0 && ci.hi == 0);
    // the resampled number of successes is Binomial(20, 1/2), whose 2.5 % and 97.5 % points are 6
    // and 14
    REQUIRE_OK(paired_rate(half, 20, 1, BOOTSTRAP_RESAMPLES, &ci, &err), err);
    EXPECT_NEAR(ci.mean, 50, 0);
    EXPECT_NEAR(ci.lo, 30, 0);
    EXPECT_NEAR(ci.hi, 70, 0);
    // the same seed gives the same interval
    paired_interval again;
    REQUIRE_OK(paired_rate(half, 20, 1, BOOTSTRAP_RESAMPLES, &again, &err), err);
    EXPECT(memcmp(&ci, &again, sizeof ci) == 0);
    EXPECT_INT(paired_rate(half, 0, 1, BOOTSTRAP_RESAMPLES, &ci, &err), FIRM_E_USAGE);
}

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
    REQUIRE_OK(paired_compare(a, b, hash, other, N, 3, BOOTSTRAP_RESAMPLES, &d, &err), err);
    EXPECT_NEAR(d.difference, 10, 1e-9);
    EXPECT_INT(d.rescue, 12);
    EXPECT_INT(d.harm, 2);
    // deviation of the mean of {+1 x 12, -1 x 2, 0 x 86}: sqrt(0.14 - 0.01) / 10 = 0.0361
    EXPECT_NEAR(d.lo, 10 - 1.96 * 3.61, 1.5);
    EXPECT_NEAR(d.hi, 10 + 1.96 * 3.61, 1.5);

    // an arm against itself: no difference and no doubt
    REQUIRE_OK(paired_compare(a, a, hash, hash, N, 3, BOOTSTRAP_RESAMPLES, &d, &err), err);
    EXPECT(d.difference == 0 && d.lo == 0 && d.hi == 0 && d.rescue == 0 && d.harm == 0);

    // one trial differs: refused
    other[41] ^= 1;
    EXPECT_INT(paired_compare(a, b, hash, other, N, 3, BOOTSTRAP_RESAMPLES, &d, &err),
               FIRM_E_USAGE);
    EXPECT(strstr(err.message, "trial 41") != NULL);
}

// Share of simulated experiments whose interval contains the truth.
TEST(eval, intervals_cover) {
    enum { EXPERIMENTS = 600, N = 200, RESAMPLES = 400 };
    firm_error err;
    uint64_t hash[N] = {0};
    int covered_rate = 0, covered_difference = 0;
    const double p = 0.7, both = 0.55,
                 only_a = 0.25;  // only_b 0.1, neither 0.1: true difference 15 points
    for (int e = 0; e < EXPERIMENTS; e++) {
        rng r = rng_start(5, RNG_STREAM(RNG_TEST, e));
        int8_t single[N], a[N], b[N];
        for (int i = 0; i < N; i++) {
            single[i] = rng_uniform(&r, 0, 1) < p;
            double u = rng_uniform(&r, 0, 1);
            a[i] = u < both + only_a;
            b[i] = u < both || (u >= both + only_a && u < both + only_a + 0.1);
        }
        paired_interval ci;
        paired_difference d;
        REQUIRE_OK(paired_rate(single, N, (uint64_t)e, RESAMPLES, &ci, &err), err);
        REQUIRE_OK(paired_compare(a, b, hash, hash, N, (uint64_t)e, RESAMPLES, &d, &err), err);
        covered_rate += ci.lo <= 100 * p + 1e-9 && ci.hi >= 100 * p - 1e-9;
        covered_difference += d.lo <= 15 + 1e-9 && d.hi >= 15 - 1e-9;
    }
    // 95 % with three standard errors of 600 experiments, sqrt(0.95 0.05 / 600) = 0.9 %
    EXPECT_NEAR(100.0 * covered_rate / EXPERIMENTS, 95, 2.7);
    EXPECT_NEAR(100.0 * covered_difference / EXPERIMENTS, 95, 2.7);
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
