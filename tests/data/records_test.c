// records_test.c - records, pairs, splits and proposals by hand. The toy task counts: the state of
// a row is its number within the episode, so what a record holds can be said without a simulator.
#include "data/records.h"

#include "check.h"
#include "core/mem.h"
#include "data/anchors.h"
#include "data/mixed.h"
#include "env/env.h"

enum { EPISODES = 3, ROWS = 60, SPECIAL = 40 };

static void toy_config(const env_spec* spec, const double* state, float* c) {
    (void)spec;
    c[0] = (float)state[0];
}

static void toy_chi(const env_spec* spec, const double* state, const double* before,
                    const double* macro, float* out) {
    (void)spec;
    out[0] = (float)(state[0] - before[0]);
    out[1] = (float)(state[0] - macro[0]);
}

static int toy_rare(const env_spec* spec, const double* state, const double* before) {
    (void)spec;
    return state[0] == SPECIAL && before[0] == SPECIAL - 1;
}

static const env_state toy_states = {
    .dim = 1, .config = toy_config, .chi = toy_chi, .rare = toy_rare};
static const env_collection toy_collection = {.episodes = 10, .validation = 1};
static const env_spec toy = {.task = {.name = "toy",
                                      .controls = ENV_CONTROLS,
                                      .horizon = ENV_HORIZON,
                                      .action_dim = 1,
                                      .config_dim = 1,
                                      .chi_dim = 2},
                             .state = &toy_states,
                             .collection = &toy_collection};

static int64_t offset[EPISODES];
static int length[EPISODES];
static double state[EPISODES * ROWS];
static float action[EPISODES * ROWS];

static episodes count_rows(void) {
    for (int i = 0; i < EPISODES; i++) {
        offset[i] = i * ROWS;
        length[i] = ROWS;
        for (int t = 0; t < ROWS; t++) {
            state[i * ROWS + t] = t;
            action[i * ROWS + t] = 0.01f * (float)t;
        }
    }
    return (episodes){.spec = &toy,
                      .count = EPISODES,
                      .rows = EPISODES * ROWS,
                      .offset = offset,
                      .length = length,
                      .state = state,
                      .action = action};
}

// The record of row t: configurations t, t + 5 .. t + 25; a change of 1 since the last control and
// of 5 since the last macro action; rare if 40 is among t + 1 .. t + 25.
TEST(data, records_by_hand) {
    episodes e = count_rows();
    scenes s = {&e, {NULL, NULL}};
    firm_error err;
    records r;
    const int64_t rows[4] = {ROWS + 14, ROWS + 15, 2 * ROWS + 33, ROWS + 2};
    static const int rare[4] = {0, 1, 1, 0};
    REQUIRE_OK(records_of_rows(&s, rows, 4, &r, &err), err);
    for (int i = 0; i < 4; i++) {
        float t = (float)(rows[i] % ROWS);
        EXPECT_INT(r.rare[i], rare[i]);
        EXPECT_INT(r.after[i], rows[i] + 1);
        EXPECT_INT(r.seen[3 * i], rows[i] - 2);
        EXPECT_NEAR(r.past[2 * i + 1], 0.01 * (t - 1), 1e-6);
        EXPECT_NEAR(r.action[25 * i + 24], 0.01 * (t + 24), 1e-6);
        for (int k = 0; k < ENV_POINTS; k++) {
            int at = i * ENV_POINTS + k;
            EXPECT_NEAR(r.config[at], t + 5 * (float)k, 0);
            EXPECT_NEAR(r.chi[2 * at], 1, 0);
            // an episode's first row has nothing before it
            EXPECT_NEAR(r.chi[2 * at + 1], k == 0 && t < 5 ? t : 5, 0);
        }
    }
    records_free(&r);
}

// Shuffled outcomes stay together: where a record ends still tells whether it is rare.
TEST(data, mismatched_records_keep_outcome_and_rareness_together) {
    enum { N = 30 };
    episodes e = count_rows();
    scenes s = {&e, {NULL, NULL}};
    firm_error err;
    records r;
    int64_t rows[N];
    int moved = 0, rare = 0;
    for (int i = 0; i < N; i++) rows[i] = 3 + i;
    REQUIRE_OK(records_of_rows(&s, rows, N, &r, &err), err);
    REQUIRE_OK(records_mismatch(&r, &toy, 4, &err), err);
    for (int i = 0; i < N; i++) {
        int end = (int)r.config[i * ENV_POINTS + ENV_POINTS - 1];
        EXPECT_INT(r.rare[i], end >= SPECIAL && end - 25 < SPECIAL);
        EXPECT_NEAR(r.config[i * ENV_POINTS], 3 + i, 0);  // the start stays
        EXPECT_INT(r.after[i], end - 24);
        moved += end != 3 + i + 25;
        rare += r.rare[i];
    }
    EXPECT(moved > 20);
    EXPECT_INT(rare, 18);
    records_free(&r);
}

TEST(data, pairs_are_as_far_apart_as_the_lag) {
    episodes e = count_rows();
    scenes s = {&e, {NULL, NULL}};
    int train[2] = {0, 2};
    data_split split = {.train_count = 2, .train = train};
    firm_error err;
    pairs p;
    REQUIRE_OK(pairs_of_rows(&s, &split, 0, 4, &p, &err), err);
    EXPECT_INT(p.count, 2 * (ROWS - 1));
    for (int i = 0; i < p.count; i++) {
        int64_t row = p.scene[2 * i], start = row / ROWS * ROWS, t = row - start;
        EXPECT_INT(row, train[i / (ROWS - 1)] * ROWS + 1 + i % (ROWS - 1));
        EXPECT_INT(p.scene[2 * i + 1], t > 4 ? row - 4 : start);
        EXPECT_NEAR(p.config[2 * i] - p.config[2 * i + 1], t > 4 ? 4 : t, 0);
        EXPECT_INT(p.rare[i], t == SPECIAL);
        EXPECT_NEAR(p.chi[2 * i], 1, 0);
        EXPECT_NEAR(p.chi[2 * i + 1], t < 5 ? t : 5, 0);  // nothing lies before the first row
    }
    pairs_free(&p);
}

// The chi of a branch's moment is a record's: of its own states, and of the recording before them.
TEST(data, pairs_of_branches_have_the_chi_of_their_first_moment) {
    enum { BRANCHES = 2, STATES = 26 };
    static double made[BRANCHES * STATES];
    int64_t rows[BRANCHES] = {ROWS + 2, 2 * ROWS + 30};
    episodes e = count_rows();
    for (int i = 0; i < BRANCHES; i++)  // three a control, from the anchor on
        for (int c = 0; c < STATES; c++) made[i * STATES + c] = (double)(rows[i] % ROWS) + 3 * c;
    branches b = {.spec = &toy, .anchors = BRANCHES, .per_anchor = 1, .row = rows, .state = made};
    scenes s = {&e, {&b, NULL}};
    firm_error err;
    pairs p;
    REQUIRE_OK(pairs_of_branches(&s, 0, 0, 2, &p, &err), err);
    EXPECT_INT(p.count, BRANCHES * (STATES - 1));
    for (int i = 0; i < p.count; i++) {
        int control = i % (STATES - 1) + 1, t = (int)(rows[i / (STATES - 1)] % ROWS);
        EXPECT_NEAR(p.config[2 * i], t + 3 * control, 0);
        EXPECT_NEAR(p.config[2 * i + 1], t + 3 * (control > 2 ? control - 2 : 0), 0);
        EXPECT_NEAR(p.chi[2 * i], 3, 0);
        // a macro action is five controls; the episode may begin within them
        int before = 5 - control > t ? t : 5 - control;
        EXPECT_NEAR(p.chi[2 * i + 1], control >= 5 ? 15 : 3 * control + before, 0);
    }
    pairs_free(&p);
}

TEST(data, pairs_of_records_have_the_chi_of_the_latest_frame) {
    episodes e = count_rows();
    scenes s = {&e, {NULL, NULL}};
    const int64_t rows[3] = {ROWS + 2, ROWS + 4, 2 * ROWS + 20};
    firm_error err;
    records r;
    pairs p;
    REQUIRE_OK(records_of_rows(&s, rows, 3, &r, &err), err);
    REQUIRE_OK(pairs_of_records(&s, &r, &p, &err), err);
    EXPECT_INT(p.count, 3);
    for (int i = 0; i < p.count; i++) {
        EXPECT(p.scene[2 * i] == rows[i] && p.scene[2 * i + 1] == rows[i] - 1);
        for (int k = 0; k < 2; k++) EXPECT_NEAR(p.chi[2 * i + k], r.chi[2 * i * ENV_POINTS + k], 0);
    }
    pairs_free(&p);
    records_free(&r);
}

// Frames that do not show the configuration leave, and each that stays keeps its own chi.
TEST(data, pairs_that_stay_keep_their_chi) {
    env_spec half = toy;
    half.task.ranges = 1;
    half.task.visible[0] = (task_range){.coordinate = 0, .low = 20, .high = 50};
    episodes e = count_rows();
    e.spec = &half;
    for (int i = 0; i < e.rows; i++) state[i] = 0.5 * (i % ROWS) * (i % ROWS) / ROWS + 18;
    scenes s = {&e, {NULL, NULL}};
    int train[1] = {1};
    data_split split = {.train_count = 1, .train = train};
    firm_error err;
    pairs p;
    REQUIRE_OK(pairs_of_rows(&s, &split, 0, 1, &p, &err), err);
    EXPECT(p.count > 20 && p.count < ROWS - 10);
    for (int i = 0; i < p.count; i++) {
        int64_t row = p.scene[2 * i];
        int64_t macro = row - 5 > ROWS ? row - 5 : ROWS;
        EXPECT_NEAR(p.chi[2 * i], (float)(state[row] - state[row - 1]), 0);
        EXPECT_NEAR(p.chi[2 * i + 1], (float)(state[row] - state[macro]), 0);
    }
    pairs_free(&p);
}

// One in ten, to the nearest whole number, and at least one on either side.
TEST(data, split_rounds_to_the_nearest_episode) {
    static const int want[][2] = {{2, 1}, {14, 1}, {16, 2}, {25, 3}, {34, 3}, {36, 4}, {50, 5}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        episodes e = {.spec = &toy, .count = want[i][0]};
        data_split split;
        firm_error err;
        REQUIRE_OK(data_split_make(&e, 1, &split, &err), err);
        EXPECT_INT(split.valid_count, want[i][1]);
        EXPECT_INT(split.train_count, want[i][0] - want[i][1]);
        data_split_free(&split);
    }
}

// Every row with two before it and 25 after it in its episode can be an anchor, and no other.
TEST(data, anchors_have_their_history_and_future) {
    episodes e = count_rows();
    int train[3] = {0, 1, 2}, least = ROWS, most = 0;
    data_split split = {.train_count = 3, .train = train};
    for (uint64_t seed = 0; seed < 200; seed++) {
        int count = 3;
        int64_t* rows;
        firm_error err;
        REQUIRE_OK(anchors_draw(&e, &split, seed, &count, &rows, &err), err);
        for (int i = 0; i < count; i++) {
            int t = (int)(rows[i] % ROWS);
            least = t < least ? t : least;
            most = t > most ? t : most;
        }
        mem_free(rows);
    }
    EXPECT_INT(least, 2);
    EXPECT_INT(most, ROWS - 1 - 25);
}

TEST(data, segments_reach_the_last_row_that_fits) {
    episodes e = count_rows();
    int train[1] = {1};
    int64_t* rows;
    firm_error err;
    // rows 2 .. 34 of 60 have 2 before and 25 after them; all are drawn once
    REQUIRE_OK(data_segments(&e, train, 1, 2, 25, 33, 0, 1, &rows, &err), err);
    int seen[ROWS] = {0};
    for (int i = 0; i < 33; i++) {
        EXPECT(rows[i] >= ROWS && rows[i] < 2 * ROWS);
        seen[rows[i] % ROWS]++;
    }
    for (int t = 0; t < ROWS; t++) EXPECT_INT(seen[t], t >= 2 && t <= 34);
    mem_free(rows);
}

// ---- proposals ----------------------------------------------------------------------------------

// A branch draws mean + deviation times normal, cut at the bounds: the same normals by hand.
TEST(data, branches_draw_around_the_mean_action) {
    const env_spec* spec = env_find("tworoom");
    collect_options few = {.episodes = 40, .seed = 8};
    intervene_options opt = {.anchors = 4, .per_anchor = 3, .seed = 5};
    episodes* e;
    branches* b;
    data_split split;
    float mean[2], std[2];
    firm_error err;
    REQUIRE_OK(episodes_collect(spec, &few, NULL, &e, &err), err);
    REQUIRE_OK(branches_collect(e, &opt, NULL, &b, &err), err);
    REQUIRE_OK(data_split_make(e, 0, &split, &err), err);
    data_action_stats(e, &split, mean, std);
    EXPECT(fabsf(mean[0]) > 1e-4f || fabsf(mean[1]) > 1e-4f);
    for (int item = 0; item < 12; item++) {
        if (item % 3 == 0) continue;  // a replay
        rng g = rng_start(5, RNG_STREAM(RNG_BRANCH, item));
        for (int i = 0; i < 50; i++) {
            float want = mean[i % 2] + std[i % 2] * rng_gauss(&g);
            EXPECT_NEAR(b->action[item * 50 + i], fminf(fmaxf(want, -1), 1), 1e-6);
        }
    }
    data_split_free(&split);
    branches_free(b);
    episodes_free(e);
}

// A smooth sequence begins at its first point and ends at its last.
TEST(data, smooth_actions_end_at_their_last_point) {
    env_spec free_task = {.task = {.name = "free", .action_dim = 1}};
    const float mean = 0.5f, std = 2;
    for (uint64_t seed = 0; seed < 20; seed++) {
        float u[25], recorded[25] = {0};
        rng g = rng_start(seed, RNG_STREAM(RNG_TEST, 7)), same = g;
        mixed_actions(&free_task, 2, &mean, &std, recorded, 25, &g, u);
        float spread = (float)rng_uniform(&same, 0.5, 2), point[8];
        int knots = 3 + (int)rng_below(&same, 6);
        for (int i = 0; i < knots; i++) point[i] = rng_gauss(&same);
        EXPECT_NEAR(u[0], mean + spread * std * point[0], 1e-5);
        EXPECT_NEAR(u[24], mean + spread * std * point[knots - 1], 1e-5);
    }
}
