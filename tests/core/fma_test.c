// fma_test.c - the yardstick of the benches: a rate that threads and instruction sets move the way
// they must, whatever the machine.
#include "core/fma.h"

#include <stdlib.h>

#include "check.h"
#include "core/fma_kernels.h"

TEST(core, fma_counts_the_operations_of_every_variant) {
    // lanes x chains x 2, per round
    EXPECT_NEAR(fma_run_plain(10), 2.0 * 4 * 12 * 10, 0);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        EXPECT_NEAR(fma_run_avx2(10), 2.0 * 8 * 12 * 10, 0);
    if (__builtin_cpu_supports("avx512f")) EXPECT_NEAR(fma_run_avx512(10), 2.0 * 16 * 24 * 10, 0);
#elif defined(__aarch64__)
    EXPECT_NEAR(fma_run_neon(10), 2.0 * 4 * 24 * 10, 0);
#endif
}

TEST(core, fma_rate_is_a_rate) {
    pool* p;
    firm_error err;
    REQUIRE_OK(pool_create(2, &p, &err), err);
    double rate = fma_measure(p, 2);
    EXPECT(rate > 0.01 && rate < 1e6);
    pool_free(p);
}
