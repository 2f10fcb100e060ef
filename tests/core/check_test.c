// check_test.c - the tests' own measure: an error that is not a number must not be forgotten.
#include "check.h"

TEST(core, not_a_number_is_the_worst_error) {
    EXPECT(test_worse(1, 2) == 2 && test_worse(2, 1) == 2);
    EXPECT(test_worse(1, NAN) == INFINITY && test_worse(NAN, 1) == INFINITY);
    EXPECT(test_worse(INFINITY, NAN) == INFINITY && test_worse(NAN, NAN) == INFINITY);
    // wherever it stands
    for (int at = 0; at < 5; at++) {
        double worst = 0;
        for (int i = 0; i < 5; i++) worst = test_worse(worst, i == at ? NAN : 0.1 * i);
        EXPECT(worst == INFINITY);
    }
}
