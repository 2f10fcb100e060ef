// lewm_rows_test.c - what a head makes of its window (lewm_rows.h) against double arithmetic, in
// every instruction set of this processor.
#include "plan/lewm_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/rng.h"
#include "core/simd.h"

extern const lewm_rows lewm_rows_plain;
#if defined(__x86_64__)
extern const lewm_rows lewm_rows_avx2, lewm_rows_avx512;
#elif defined(__aarch64__)
extern const lewm_rows lewm_rows_neon;
#endif

enum { TABLES = 3, ROWS = 37, HEAD = 9, WIDEST = 64, TOKENS = 16 };

static int tables(const lewm_rows** out) {
    int n = 0;
    out[n++] = &lewm_rows_plain;
#if defined(__x86_64__)
    if (simd_best() >= SIMD_AVX2) out[n++] = &lewm_rows_avx2;
    if (simd_best() >= SIMD_AVX512) out[n++] = &lewm_rows_avx512;
#elif defined(__aarch64__)
    out[n++] = &lewm_rows_neon;
#endif
    return n;
}

typedef struct window {
    int width, tokens;
    float x[ROWS * WIDEST], u[TOKENS * ROWS * WIDEST];
    float mixed[ROWS * WIDEST + 1];
} window;

static void fill(window* w, int width, int tokens) {
    w->width = width;
    w->tokens = tokens;
    rng_fill_normal(11, RNG_STREAM(RNG_TEST, 1), 0, w->x, ROWS * width);
    rng_fill_normal(11, RNG_STREAM(RNG_TEST, 2), 0, w->u, tokens * ROWS * width);
}

// Rows from .. to - 1 at `mixed`, where `from` comes first.
static void mix(const lewm_rows* with, window* w, int from, int to) {
    const size_t at = (size_t)(from * w->width);
    memcpy(w->mixed, w->x + at, (size_t)((to - from) * w->width) * sizeof *w->mixed);
    w->mixed[(to - from) * w->width] = 7;
    with->mix(&(lewm_mix){.rows = to - from,
                          .width = w->width,
                          .head = HEAD,
                          .tokens = w->tokens,
                          .u = w->u + at,
                          .token_step = (size_t)(ROWS * w->width),
                          .x = w->mixed});
    EXPECT_NEAR(w->mixed[(to - from) * w->width], 7, 0);
}

static double mixed_error(const window* w, int row) {
    double weight[TOKENS], sum = 0, worst = 0;
    for (int t = 0; t < w->tokens; t++) {
        double score = 0;
        for (int j = 0; j < w->width; j++)
            score +=
                (double)w->x[row * w->width + j] * (double)w->u[(t * ROWS + row) * w->width + j];
        weight[t] = exp(score / 3);  // the root of HEAD
        sum += weight[t];
    }
    for (int j = 0; j < w->width; j++) {
        double want = 0;
        for (int t = 0; t < w->tokens; t++)
            want += weight[t] / sum * (double)w->u[(t * ROWS + row) * w->width + j];
        worst = test_worse(worst, fabs((double)w->mixed[row * w->width + j] - want));
    }
    return worst;
}

static void check(const lewm_rows* with, window* w) {
    float whole[ROWS * WIDEST];
    double worst = 0;
    mix(with, w, 0, ROWS);
    for (int i = 0; i < ROWS; i++) worst = test_worse(worst, mixed_error(w, i));
    EXPECT_NEAR(worst, 0, 1e-5);
    memcpy(whole, w->mixed, (size_t)(ROWS * w->width) * sizeof *whole);
    static const int cuts[] = {0, 1, 2, 17, ROWS};
    for (int i = 0; i < 4; i++) {
        mix(with, w, cuts[i], cuts[i + 1]);
        EXPECT_INT(memcmp(whole + cuts[i] * w->width, w->mixed,
                          (size_t)((cuts[i + 1] - cuts[i]) * w->width) * sizeof *whole),
                   0);
    }
    // what is not finite stays so, in its own row
    w->u[(w->tokens - 1) * ROWS * w->width + 5 * w->width + 1] = INFINITY;
    mix(with, w, 0, ROWS);
    for (int j = 0; j < w->width; j++) EXPECT(!isfinite(w->mixed[5 * w->width + j]));
    EXPECT_INT(memcmp(whole, w->mixed, (size_t)(5 * w->width) * sizeof *whole), 0);
    EXPECT_INT(memcmp(whole + 6 * w->width, w->mixed + 6 * w->width,
                      (size_t)((ROWS - 6) * w->width) * sizeof *whole),
               0);
}

TEST(plan, lewm_rows_mix_windows) {
    const lewm_rows* with[TABLES];
    static const int widths[] = {5, 16, 42, WIDEST}, tokens[] = {2, 3, 4, TOKENS};
    window* w = malloc(sizeof *w);
    for (int t = tables(with) - 1; t >= 0; t--)
        for (int i = 0; i < 16; i++) {
            fill(w, widths[i % 4], tokens[i / 4]);
            check(with[t], w);
        }
    free(w);
}
