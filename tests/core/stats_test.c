// stats_test.c - the statistics of the whole program, each against values computed by hand.
#include "core/stats.h"

#include "check.h"
#include "core/mem.h"

TEST(core, not_a_number_sorts_last) {
    EXPECT_INT(stats_order(1, 2), -1);
    EXPECT_INT(stats_order(2, 1), 1);
    EXPECT_INT(stats_order(2, 2), 0);
    EXPECT_INT(stats_order(NAN, INFINITY), 1);
    EXPECT_INT(stats_order(INFINITY, NAN), -1);
    EXPECT_INT(stats_order(NAN, NAN), 0);
    double x[] = {3, NAN, -INFINITY, 1, NAN, INFINITY, 2};
    float y[] = {3, NAN, -INFINITY, 1, NAN, INFINITY, 2};
    const double want[] = {-INFINITY, 1, 2, 3, INFINITY};
    stats_sort(x, 7);
    stats_sort_floats(y, 7);
    for (int i = 0; i < 5; i++) EXPECT(x[i] == want[i] && (double)y[i] == want[i]);
    for (int i = 5; i < 7; i++) EXPECT(isnan(x[i]) && isnan(y[i]));
}

TEST(core, quantiles_interpolate_between_neighbours) {
    double x[] = {40, 10, 30, 20};  // places 0, 1, 2, 3
    EXPECT_NEAR(stats_quantile(x, 4, 0.5), 25, 1e-12);
    EXPECT_NEAR(stats_quantile_sorted(x, 4, 0.25), 17.5, 1e-12);
    EXPECT_NEAR(stats_quantile_sorted(x, 4, 0.95), 38.5, 1e-12);  // 30 + 0.85 * 10
    EXPECT_NEAR(stats_quantile_sorted(x, 4, 0.99), 39.7, 1e-12);
    EXPECT(stats_quantile_sorted(x, 4, 0) == 10 && stats_quantile_sorted(x, 4, 1) == 40);
    double odd[] = {7, 1, 4};
    EXPECT(stats_quantile(odd, 3, 0.5) == 4);
    double one[] = {5};
    for (int i = 0; i <= 4; i++) EXPECT(stats_quantile(one, 1, 0.25 * i) == 5);
    // an infinite neighbour counts where it is reached, and only there
    double far[] = {1, 2, INFINITY, INFINITY};
    EXPECT_NEAR(stats_quantile(far, 4, 0.25), 1.75, 1e-12);
    EXPECT(stats_quantile(far, 4, 0.4) == INFINITY && stats_quantile(far, 4, 0.9) == INFINITY);
}

// A NaN is a value that nobody knows: no quantile may look as if it were not there.
TEST(core, no_quantile_or_mean_hides_not_a_number) {
    for (int at = 0; at < 4; at++) {
        double x[] = {1, 2, 3, 4};
        x[at] = NAN;
        EXPECT(isnan(stats_mean(x, 4)));
        EXPECT(isnan(stats_quantile(x, 4, 0.5)) && isnan(stats_quantile(x, 4, 0)));
    }
    EXPECT(isnan(stats_mean(NULL, 0)) && isnan(stats_quantile(NULL, 0, 0.5)));
}

TEST(core, mean_and_deviation) {
    const double x[] = {2, 4, 4, 4, 5, 5, 7, 9};
    stats_tally t = {0};
    EXPECT(isnan(stats_tally_mean(&t)));
    for (int i = 0; i < 8; i++) {
        stats_tally_add(&t, x[i]);
        if (i == 0) EXPECT(stats_tally_mean(&t) == 2 && isnan(stats_tally_deviation(&t)));
    }
    EXPECT_NEAR(stats_mean(x, 8), 5, 0);
    EXPECT_NEAR(stats_tally_mean(&t), 5, 1e-12);
    EXPECT_NEAR(stats_tally_deviation(&t), sqrt(32.0 / 7), 1e-12);  // squares sum to 32
    // far from zero nothing is lost
    stats_tally far = {0};
    for (int i = 0; i < 8; i++) stats_tally_add(&far, 1e9 + x[i]);
    EXPECT_NEAR(stats_tally_deviation(&far), sqrt(32.0 / 7), 1e-6);
}

// ---- intervals ----------------------------------------------------------------------------------

// The fourth row is the published example of the method; the others were computed apart.
TEST(core, newcombe_intervals_by_hand) {
    static const struct {
        int both, first, second, neither;
        double lo, hi;
    } row[] = {{0, 10, 0, 0, 0.6075094, 1},           {10, 0, 0, 0, -0.2775328, 0.2775328},
               {5, 5, 0, 0, 0.1173675, 0.7634069},    {36, 12, 2, 0, 0.0569296, 0.3404276},
               {40, 7, 2, 51, -0.0107157, 0.1096798}, {3, 2, 4, 1, -0.5583626, 0.2429279}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        stats_interval ci =
            stats_newcombe(row[i].both, row[i].first, row[i].second, row[i].neither);
        EXPECT_NEAR(ci.lo, row[i].lo, 1e-6);
        EXPECT_NEAR(ci.hi, row[i].hi, 1e-6);
    }
    EXPECT(isnan(stats_newcombe(0, 0, 0, 0).lo));
}

// Of ten trials, every way they can go with its probability: the interval covers the truth.
TEST(core, newcombe_intervals_cover_ten_trials) {
    static const double truth[][4] = {{0.4, 0.4, 0.1, 0.1},
                                      {0.1, 0.85, 0.02, 0.03},
                                      {0.25, 0.25, 0.25, 0.25},
                                      {0.05, 0.9, 0, 0.05}};
    enum { N = 10 };
    for (size_t t = 0; t < sizeof truth / sizeof *truth; t++) {
        double covered = 0, all = 0;
        for (int a = 0; a <= N; a++)
            for (int b = 0; a + b <= N; b++)
                for (int c = 0; a + b + c <= N; c++) {
                    int of[4] = {a, b, c, N - a - b - c};
                    double p = tgamma(N + 1);
                    for (int k = 0; k < 4; k++) p *= pow(truth[t][k], of[k]) / tgamma(of[k] + 1);
                    stats_interval ci = stats_newcombe(of[0], of[1], of[2], of[3]);
                    double d = truth[t][1] - truth[t][2];
                    all += p;
                    covered += ci.lo <= d && d <= ci.hi ? p : 0;
                }
        EXPECT_NEAR(all, 1, 1e-9);
        EXPECT(covered > 0.925 && covered < 0.985);
    }
}

// z = 1.959964, z^2 = 3.841459. All of n: n / (n + z^2) to 1; none: 0 to z^2 / (n + z^2).
TEST(core, wilson_intervals_by_hand) {
    static const struct {
        int won, n;
        double lo, hi;
    } row[] = {{10, 10, 0.7224672, 1},
               {0, 10, 0, 0.2775328},
               {1, 1, 0.2065493, 1},
               {0, 1, 0, 0.7934507},
               {95, 100, 0.8882495, 0.9784563},
               {50, 100, 0.4038315, 0.5961685},
               {1, 3, 0.0614919, 0.7923404}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        stats_interval ci = stats_wilson((double)row[i].won / row[i].n, row[i].n);
        EXPECT_NEAR(ci.lo, row[i].lo, 1e-7);
        EXPECT_NEAR(ci.hi, row[i].hi, 1e-7);
    }
    EXPECT(stats_wilson(1, 10).hi == 1 && stats_wilson(0, 10).lo == 0);  // to the bit
    EXPECT(isnan(stats_wilson(0, 0).lo) && isnan(stats_wilson(NAN, 5).hi));
}

// Chance that the interval of n trials holds the true rate, summed over all possible outcomes.
static double coverage(int n, double p) {
    double chance = pow(1 - p, n), sum = 0;  // of k successes
    for (int k = 0; k <= n; k++) {
        stats_interval ci = stats_wilson((double)k / n, n);
        if (ci.lo <= p && p <= ci.hi) sum += chance;
        chance *= (double)(n - k) / (k + 1) * p / (1 - p);
    }
    return sum;
}

TEST(core, wilson_intervals_cover) {
    static const int n[] = {10, 30, 100};
    for (int i = 0; i < 3; i++) {
        double mean = 0;
        for (int k = 1; k < 100; k++) mean += coverage(n[i], k / 100.0) / 99;
        EXPECT_NEAR(mean, 0.95, 0.006);
    }
}

// With half of 16 values 1, a resample holds Binomial(16, 1/2) ones. P(<= 3) = 0.011,
// P(<= 4) = 0.038, P(<= 5) = 0.105: the 2.5 % point is 4, that of 1 % 3 and that of 5 % 5.
TEST(core, bootstrap_ends_are_the_outer_fortieths) {
    double x[16];
    firm_error err;
    stats_interval ci, again, other;
    for (int i = 0; i < 16; i++) x[i] = i % 2;
    REQUIRE_OK(stats_bootstrap(x, 16, 1, &ci, &err), err);
    EXPECT(ci.lo == 4.0 / 16 && ci.hi == 12.0 / 16);
    // the same seed gives the same interval; another sees other resamples
    for (int i = 0; i < 16; i++) x[i] = i * i;
    REQUIRE_OK(stats_bootstrap(x, 16, 1, &ci, &err), err);
    REQUIRE_OK(stats_bootstrap(x, 16, 1, &again, &err), err);
    REQUIRE_OK(stats_bootstrap(x, 16, 2, &other, &err), err);
    EXPECT(ci.lo == again.lo && ci.hi == again.hi);
    EXPECT(ci.lo != other.lo && fabs(ci.lo - other.lo) < 2);
    // one value leaves no doubt, none no answer
    REQUIRE_OK(stats_bootstrap(x + 3, 1, 1, &ci, &err), err);
    EXPECT(ci.lo == 9 && ci.hi == 9);
    EXPECT_INT(stats_bootstrap(x, 0, 1, &ci, &err), FIRM_E_USAGE);
    EXPECT(isnan(ci.lo) && isnan(ci.hi));
    mem_fail_after(0);
    EXPECT_INT(stats_bootstrap(x, 16, 1, &ci, &err), FIRM_E_MEMORY);
    mem_fail_after(-1);
}

// ---- hash ---------------------------------------------------------------------------------------

TEST(core, hash_is_fnv_1a) {
    EXPECT(stats_hash(STATS_HASH_START, "", 0) == 0xcbf29ce484222325ull);
    EXPECT(stats_hash(STATS_HASH_START, "foobar", 6) == 0x85944171f73967e8ull);  // published
    uint64_t parts = stats_hash(STATS_HASH_START, "foo", 3);
    EXPECT(stats_hash(parts, "bar", 3) == 0x85944171f73967e8ull);
}
