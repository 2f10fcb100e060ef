// stats_test.c - the figures of `firm describe`, on a file whose numbers are known
// (scripts/reference/blosc_file.py).
#include "data/stats.h"

#include "env/env.h"
#include "support.h"

TEST(data, stats_of_known_numbers) {
    char path[1024];
    firm_error err;
    episodes* e;
    data_stats s;
    snprintf(path, sizeof path, "%s/tests/golden/blosc-tworoom.h5", test_source_dir());
    REQUIRE_OK(episodes_read(path, env_find("tworoom"), &e, &err), err);
    stats_of(e, 10, &s);
    EXPECT_NEAR(s.mean_rows, 30, 0);
    EXPECT_INT(s.min_rows, 30);
    EXPECT_INT(s.max_rows, 30);
    // x = 50 + row, y = 60 + row / 2 over 60 rows
    EXPECT_NEAR(s.state_mean[0], 79.5, 1e-9);
    EXPECT_NEAR(s.state_std[0], sqrt((60.0 * 60.0 - 1.0) / 12.0), 1e-9);
    EXPECT_NEAR(s.state_std[1], 0.5 * s.state_std[0], 1e-9);
    EXPECT_NEAR(s.state_min[1], 60, 0);
    EXPECT_NEAR(s.state_max[0], 109, 0);
    // row / 100 and its negative, without rows 29 and 59
    EXPECT_NEAR(s.action_mean[0], 0.29, 1e-8);
    EXPECT_NEAR(s.action_mean[1], -0.29, 1e-8);
    EXPECT_NEAR(s.action_largest, 0.58, 1e-7);
    double square = 0;
    for (int r = 0; r < 60; r++)
        if (r % 30 != 29) square += (r / 100.0 - 0.29) * (r / 100.0 - 0.29) / 58;
    EXPECT_NEAR(s.action_std[0], sqrt(square), 1e-7);
    // ten rows are 11.2 px, 0.7 of the tolerance; twenty-five are 28 px
    EXPECT_NEAR(s.near[0], 100, 0);
    EXPECT_NEAR(s.near[1], 0, 0);
    stats_of(e, 25, &s);
    EXPECT_NEAR(s.near[0], 0, 0);
    stats_of(e, 30, &s);  // no such pairs
    EXPECT(isnan(s.near[0]));
    // HDF5 1.10 cannot read the flags that newer ones write in the format "latest"
    double ended = stats_ended(path, e);
    EXPECT(isnan(ended) || ended == 100);
    episodes_free(e);

    // without pixels the file is opened for it
    e = small_set(30, 11, NULL);
    REQUIRE_OK(episodes_write(e, NULL, NULL, temp_path("stats.h5"), &err), err);
    ended = 0;
    for (int i = 0; i < e->count; i++) ended += 100.0 * e->ended[i] / e->count;
    EXPECT(ended > 0 && ended < 100);
    EXPECT_NEAR(stats_ended(temp_path("stats.h5"), e), ended, 1e-9);
    EXPECT(isnan(stats_ended("/nowhere.h5", e)));
    episodes_free(e);
}
