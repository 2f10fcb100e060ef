// expression_test.c - the arithmetic of task files: values by hand, and what is refused.
#include "env/expression.h"

#include "check.h"

// References get numbers in the order of their first use.
typedef struct table {
    int count;
    expression_ref ref[8];
} table;

static int find(void* user, const expression_ref* ref, char* why, size_t room) {
    table* t = user;
    for (int i = 0; i < t->count; i++)
        if (strcmp(t->ref[i].name, ref->name) == 0 && strcmp(t->ref[i].of, ref->of) == 0 &&
            t->ref[i].index == ref->index)
            return i;
    if (strcmp(ref->name, "unknown") == 0 || t->count == 8) {
        snprintf(why, room, "there is no %s", ref->name);
        return -1;
    }
    t->ref[t->count] = *ref;
    return t->count++;
}

static double value_of(const char* text, const double* value) {
    table t = {0};
    expression e;
    char why[160] = "";
    if (expression_parse(text, find, &t, &e, why, sizeof why))
        return expression_value(&e, value, NULL);
    test_fail(__FILE__, __LINE__, "'%s': %s", text, why);
    return NAN;
}

TEST(env, expression_values_by_hand) {
    const double v[] = {2, 3, 5, 7};
    EXPECT_NEAR(value_of("1 + 2 * 3", v), 7, 0);
    EXPECT_NEAR(value_of("(1 + 2) * 3", v), 9, 0);
    EXPECT_NEAR(value_of("8 / 4 / 2", v), 1, 0);
    EXPECT_NEAR(value_of("8 - 4 - 2", v), 2, 0);
    EXPECT_NEAR(value_of("--3 - -2", v), 5, 0);
    EXPECT_NEAR(value_of("-x * -y", v), 6, 0);
    EXPECT_NEAR(value_of("(xpos[0] - 0.2) / 0.4", v), 4.5, 1e-15);
    EXPECT_NEAR(value_of("a[1] + 10*a[2] + 100*a[1]", v), 2 + 30 + 200, 0);
    EXPECT_NEAR(value_of("sqrt(abs(-16))", v), 4, 0);
    EXPECT_NEAR(value_of("sin(pi/2) + cos(0)", v), 2, 1e-15);
    EXPECT_NEAR(value_of("atan2(y, x) - atan2(2, 3)", v), 0, 0);
    EXPECT_NEAR(value_of("atan2(1, 0)", v), 1.5707963267948966, 1e-15);  // y first
    EXPECT_NEAR(value_of(" 1.5e1 +\t.5 ", v), 15.5, 0);
    EXPECT_NEAR(value_of("xpos(ball/red-1)[2] * q(w)", v), 6, 0);
    EXPECT_NEAR(value_of("observation.state[6]", v), 2, 0);
}

TEST(env, expression_reads_where_it_is_told) {
    table t = {0};
    expression e;
    char why[160];
    EXPECT(expression_parse("x - y", find, &t, &e, why, sizeof why));
    EXPECT_NEAR(expression_value(&e, (double[]){1, 10, 100}, (int[]){2, 0}), 99, 0);
    EXPECT_TEXT(t.ref[1].name, "y");
}

TEST(env, expression_refusals) {
    static const char* const bad[][2] = {
        {"", "no number, name or ( at character 1"},
        {"1 +", "no number, name or ( at character 4"},
        {"(1", "no ) at character 3"},
        {"1 2", "no operator at character 3"},
        {"1.2.3", "no number at character 1"},
        {"sin 1", "no ( at character 5"},
        {"atan2(1)", "no second argument at character 8"},
        {"a[", "no index like [3] at character 3"},
        {"a[-1]", "no index like [3]"},
        {"a[99999]", "no index like [3]"},
        {"a[1.5]", "no index like [3]"},
        {"a()", "no name at character 3"},
        {"unknown * 2", "there is no unknown"},
        {"1e999", "no number"},
        {"((((((((((((((((((1))))))))))))))))))", "nested too deeply"},
        {"1+(1+(1+(1+(1+(1+(1+(1+(1+(1+(1+(1+(1+(1+(1+(1+(1+1))))))))))))))))",
         "nested too deeply"},
        {"------------------1", "nested too deeply"},
        {"1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1", "too long"},
        {"averyveryveryveryveryveryveryveryverylongnameindeed", "the name is too long"},
        {"1 % 2", "no operator"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        table t = {0};
        expression e;
        char why[160] = "";
        if (expression_parse(bad[i][0], find, &t, &e, why, sizeof why))
            test_fail(__FILE__, __LINE__, "'%s' was accepted", bad[i][0]);
        else if (!strstr(why, bad[i][1]))
            test_fail(__FILE__, __LINE__, "'%s': '%s' instead of '%s'", bad[i][0], why, bad[i][1]);
    }
}
