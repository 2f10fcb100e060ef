// check.h - a small test harness: TEST(folder, name) { ... CHECK_NEAR(a, b, tol); }
// One runner holds all tests: `firm_tests --list`, `firm_tests nn/conv2d`, `firm_tests nn/`;
// --times shows what each one costs.
// A failed check prints file, line and values, and the test goes on; the exit status is the
// verdict. FIRM_TOL_SCALE multiplies every tolerance (0 shows the true residuals).
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*test_fn)(void);
void test_register(const char* name, test_fn fn);
void test_fail(const char* file, int line, const char* fmt, ...)
    __attribute__((format(printf, 3, 4)));
void test_skip(const char* why);  // counted and shown; only for what a machine cannot do
// A sanitizer is built in, or FIRM_TEST_SHORT is set. Both are slow, and the release build has
// judged the numbers: tests that have a short form go through the same code with fewer rows,
// iterations or updates.
int test_short(void);
double test_tolerance_scale(void);
const char* test_temp_dir(void);    // a fresh folder of this run, removed at its end
const char* test_source_dir(void);  // the repository root

// The larger of two errors, to find the largest of many: worst = test_worse(worst, error). What is
// not a number is infinitely bad, wherever it stands; fmax() and `>` would forget it.
static inline double test_worse(double worst, double error) {
    return isnan(worst) || isnan(error) ? INFINITY : error > worst ? error : worst;
}

#define TEST(folder, name)                                                 \
    static void test_##folder##_##name(void);                              \
    __attribute__((constructor)) static void add_##folder##_##name(void) { \
        test_register(#folder "/" #name, test_##folder##_##name);          \
    }                                                                      \
    static void test_##folder##_##name(void)

#define EXPECT(cond)                                                      \
    do {                                                                  \
        if (!(cond)) test_fail(__FILE__, __LINE__, "expected %s", #cond); \
    } while (0)
#define EXPECT_INT(got, want)                                                                   \
    do {                                                                                        \
        long long g_ = (long long)(got), w_ = (long long)(want);                                \
        if (g_ != w_) test_fail(__FILE__, __LINE__, "%s is %lld, expected %lld", #got, g_, w_); \
    } while (0)
#define EXPECT_NEAR(got, want, tol)                                                               \
    do {                                                                                          \
        double g_ = (got), w_ = (want), t_ = (tol)*test_tolerance_scale();                        \
        if (!(fabs(g_ - w_) <= t_))                                                               \
            test_fail(__FILE__, __LINE__, "%s is %.9g, expected %.9g +- %.3g", #got, g_, w_, t_); \
    } while (0)
#define EXPECT_TEXT(got, want)                                                        \
    do {                                                                              \
        const char *g_ = (got), *w_ = (want);                                         \
        if (strcmp(g_, w_) != 0)                                                      \
            test_fail(__FILE__, __LINE__, "%s is '%s', expected '%s'", #got, g_, w_); \
    } while (0)
// the call must succeed; prints the error's sentence when it does not and leaves the test
#define REQUIRE_OK(call, err)                                                     \
    do {                                                                          \
        if ((call) != FIRM_OK) {                                                  \
            test_fail(__FILE__, __LINE__, "%s failed: %s", #call, (err).message); \
            return;                                                               \
        }                                                                         \
    } while (0)

#endif
