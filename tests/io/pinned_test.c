// pinned_test.c - settings by hand: the limits of numbers, the names nearest to a misspelt one.
#include "check.h"
#include "io/config.h"

static const config_key keys[] = {
    {"plan", "xyte", CONFIG_REAL, 0.5, 2, "1", NULL, "a number"},
    {"plan", "rats", CONFIG_INT, -3, 7, "1", NULL, "a whole number"},
};

TEST(io, config_limits_are_part_of_what_is_allowed) {
    static const struct {
        const char* set;
        firm_status status;
    } tried[] = {{"plan.xyte=2", FIRM_OK},         {"plan.xyte=2.0001", FIRM_E_VALUE},
                 {"plan.xyte=0.5", FIRM_OK},       {"plan.xyte=0.4999", FIRM_E_VALUE},
                 {"plan.rats=7", FIRM_OK},         {"plan.rats=8", FIRM_E_VALUE},
                 {"plan.rats=-3", FIRM_OK},        {"plan.rats=-4", FIRM_E_VALUE},
                 {"plan.xyte=1e999", FIRM_E_VALUE}};
    config* c;
    firm_error err;
    REQUIRE_OK(config_create(keys, 2, &c, &err), err);
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++)
        if (config_set(c, tried[i].set, &err) != tried[i].status)
            test_fail(__FILE__, __LINE__, "%s is not %s", tried[i].set,
                      tried[i].status == FIRM_OK ? "taken" : "refused");
    EXPECT_NEAR(config_real(c, "plan", "xyte"), 0.5, 0);
    EXPECT_INT(config_int(c, "plan", "rats"), -3);
    config_free(c);
}

// One letter is nearer than two, wherever the letters stand.
TEST(io, config_names_the_nearest_key_first) {
    config* c;
    firm_error err = {0};
    REQUIRE_OK(config_create(keys, 2, &c, &err), err);
    EXPECT_INT(config_set(c, "plan.rate=1", &err), FIRM_E_VALUE);
    EXPECT(strstr(err.message, "nearest: rats, xyte") != NULL);
    config_free(c);
}
