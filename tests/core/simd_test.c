// simd_test.c - the choice of an instruction set: what FIRM_SIMD asks for where there is it, else
// the best.
#define _GNU_SOURCE
#include "core/simd.h"

#include <stdlib.h>

#include "check.h"

static simd_level asked(const char* name) {
    setenv("FIRM_SIMD", name, 1);
    simd_level level = simd_best();
    unsetenv("FIRM_SIMD");
    return level;
}

TEST(core, simd_is_what_is_asked_for_or_the_best) {
    unsetenv("FIRM_SIMD");
    const simd_level best = simd_best();
    EXPECT_INT(asked("plain"), SIMD_PLAIN);
    EXPECT_INT(asked("abacus"), best);
#if defined(__aarch64__)
    EXPECT_INT(best, SIMD_NEON);
    EXPECT_INT(asked("neon"), SIMD_NEON);
    EXPECT_INT(asked("avx2"), SIMD_NEON);
#elif defined(__x86_64__)
    EXPECT(best != SIMD_NEON);
    EXPECT_INT(asked("neon"), best);
    EXPECT_INT(asked("avx2"), best < SIMD_AVX2 ? best : SIMD_AVX2);
    EXPECT_INT(asked("amx"), best);
#endif
}
