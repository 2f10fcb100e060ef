// golden_test.c - the reader of the reference package's numbers sees when one is no number.
#define _GNU_SOURCE
#include "env/golden.h"

// Numbers of the line `text` (two doubles and a float) that are missing or damaged.
static int damage(char* text) {
    char line[256];
    double x[2];
    float y;
    golden g = {.in = fmemopen(text, strlen(text), "r"), .line = line, .size = sizeof line};
    if (!g.in || !golden_next(&g)) return -1;
    golden_doubles(&g, x, 2);
    golden_floats(&g, &y, 1);
    fclose(g.in);
    return g.damaged;
}

TEST(env, golden_numbers_are_finite_and_whole) {
    char whole[] = "run 3ff0000000000000 bff8000000000000 3f800000\n";
    EXPECT_INT(damage(whole), 0);
    static const char* const bad[] = {
        "run 7ff8000000000000 bff8000000000000 3f800000\n",  // not a number
        "run 3ff0000000000000 7ff0000000000000 3f800000\n",  // infinite
        "run 3ff0000000000000 bff8000000000000 7fc00000\n", "run nan bff8000000000000 3f800000\n",
        "run 3ff0000000000000 bff8000000000000 3f8\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[256];
        snprintf(text, sizeof text, "%s", bad[i]);
        EXPECT(damage(text) >= 1);
    }
}

TEST(env, golden_worst_sees_not_a_number_anywhere) {
    const double want[] = {1, 2, 3, 4};
    double got[] = {1, 2.5, 3, 4.25};
    EXPECT_NEAR(golden_worst(got, want, 4), 0.5, 0);
    for (int at = 0; at < 4; at++) {
        double broken[4];
        memcpy(broken, got, sizeof got);
        broken[at] = NAN;
        EXPECT(golden_worst(broken, want, 4) == INFINITY);
        EXPECT(golden_worst(want, broken, 4) == INFINITY);
    }
}
