// rules_test.c - the tasks' distances as data say the same as their measure functions.
#include "check.h"
#include "core/rng.h"
#include "env/env.h"

TEST(env, rules_measure_alike) {
    for (int i = 0; env_at(i); i++) {
        const env_spec* spec = env_at(i);
        rng r = rng_start(3, RNG_STREAM(RNG_TEST, i));
        for (int k = 0; k < 200; k++) {
            float c[FIRM_MAX_CONFIG], goal[FIRM_MAX_CONFIG], want[ENV_MAX_DISTANCE],
                got[ENV_MAX_DISTANCE];
            for (int j = 0; j < spec->config_dim; j++) {
                c[j] = rng_gauss(&r);
                goal[j] = k % 10 ? rng_gauss(&r) : c[j];
            }
            spec->measure(c, goal, want);
            env_measure_by_rule(spec, c, goal, got);
            for (int j = 0; j < spec->distances; j++)
                EXPECT_NEAR(got[j], want[j], 1e-6 * fabs(want[j]));
        }
    }
}
