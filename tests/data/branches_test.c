// branches_test.c - split, segments, statistics, interventions and the reset-replay audit.
#include "data/branches.h"

#include <math.h>
#include <unistd.h>

#include "core/mem.h"
#include "data/anchors.h"
#include "data/hdf5.h"
#include "data/mixed.h"
#include "env/env.h"
#include "support.h"

enum { STATES = ENV_SPAN + 1 };

TEST(data, split_is_disjoint_and_complete) {
    firm_error err;
    episodes* e = small_set(1000, 2, NULL);
    data_split s, again, other;
    REQUIRE_OK(data_split_make(e, 1, &s, &err), err);
    REQUIRE_OK(data_split_make(e, 1, &again, &err), err);
    REQUIRE_OK(data_split_make(e, 2, &other, &err), err);
    EXPECT_INT(s.valid_count, 100);
    EXPECT_INT(s.train_count, 900);
    EXPECT(memcmp(s.is_valid, again.is_valid, 1000) == 0);
    EXPECT(memcmp(s.is_valid, other.is_valid, 1000) != 0);
    uint8_t seen[1000] = {0};
    for (int i = 0; i < s.train_count; i++) seen[s.train[i]]++;
    for (int i = 0; i < s.valid_count; i++) seen[s.valid[i]]++;
    for (int i = 0; i < 1000; i++) EXPECT_INT(seen[i], 1);
    for (int i = 0; i < s.train_count; i++)
        EXPECT(!s.is_valid[s.train[i]] && (i == 0 || s.train[i] > s.train[i - 1]));
    for (int i = 0; i < s.valid_count; i++)
        EXPECT(s.is_valid[s.valid[i]] && (i == 0 || s.valid[i] > s.valid[i - 1]));
    data_split_free(&s);
    data_split_free(&again);
    data_split_free(&other);
    episodes_free(e);

    e = small_set(2, 2, NULL);
    REQUIRE_OK(data_split_make(e, 1, &s, &err), err);
    EXPECT(s.valid_count == 1 && s.train_count == 1);
    data_split_free(&s);
    episodes_free(e);
    e = small_set(1, 2, NULL);
    expect_failure(data_split_make(e, 1, &s, &err), FIRM_E_VALUE, &err, "at least 2");
    episodes_free(e);
}

TEST(data, segments_fit_their_episodes) {
    firm_error err;
    episodes* e = small_set(60, 2, NULL);
    data_split s;
    int64_t *rows, *again;
    REQUIRE_OK(data_split_make(e, 1, &s, &err), err);
    REQUIRE_OK(data_segments(e, s.train, s.train_count, 2, 25, 2000, 1, 0, &rows, &err), err);
    REQUIRE_OK(data_segments(e, s.train, s.train_count, 2, 25, 2000, 1, 0, &again, &err), err);
    EXPECT(memcmp(rows, again, 2000 * sizeof *rows) == 0);
    uint8_t* seen = calloc((size_t)e->rows, 1);
    for (int i = 0; i < 2000; i++) {
        int ep = episodes_of_row(e, rows[i]);
        int64_t t = rows[i] - e->offset[ep];
        EXPECT(!s.is_valid[ep] && t >= 2 && t + 25 <= e->length[ep] - 1);
        EXPECT_INT(seen[rows[i]]++, 0);
    }
    mem_free(rows);
    mem_free(again);
    // every eligible row can be drawn, and not one more without repetition
    int total = 0;
    for (int i = 0; i < s.train_count; i++)
        total += e->length[s.train[i]] > 27 ? e->length[s.train[i]] - 27 : 0;
    REQUIRE_OK(data_segments(e, s.train, s.train_count, 2, 25, total, 1, 7, &rows, &err), err);
    memset(seen, 0, (size_t)e->rows);
    for (int i = 0; i < total; i++) EXPECT_INT(seen[rows[i]]++, 0);
    mem_free(rows);
    REQUIRE_OK(data_segments(e, s.train, s.train_count, 2, 25, total + 1, 1, 7, &rows, &err), err);
    for (int i = 0; i <= total; i++) EXPECT(!s.is_valid[episodes_of_row(e, rows[i])]);
    mem_free(rows);
    expect_failure(data_segments(e, s.train, s.train_count, 2, 500, 5, 1, 0, &rows, &err),
                   FIRM_E_VALUE, &err, "503 rows");
    expect_failure(data_segments(e, s.train, s.train_count, 2, 25, -5, 1, 0, &rows, &err),
                   FIRM_E_USAGE, &err, "-5");
    free(seen);
    data_split_free(&s);
    episodes_free(e);
}

TEST(data, action_statistics) {
    firm_error err;
    episodes* e = small_set(100, 2, NULL);
    data_split s;
    REQUIRE_OK(data_split_make(e, 1, &s, &err), err);
    double sum = 0, squares = 0;
    int64_t n = 0;
    for (int i = 0; i < s.train_count; i++)
        for (int t = 0; t < e->length[s.train[i]] - 1; t++, n++) {
            double a = e->action[2 * (e->offset[s.train[i]] + t) + 1];
            sum += a;
            squares += a * a;
        }
    float mean[2], std[2];
    data_action_stats(e, &s, mean, std);
    EXPECT_NEAR(mean[1], sum / (double)n, 1e-6);
    EXPECT_NEAR(std[1], sqrt(squares / (double)n - sum / (double)n * (sum / (double)n)), 1e-6);
    for (int64_t i = 0; i < 2 * e->rows; i++) e->action[i] = 0.5f;
    data_action_stats(e, &s, mean, std);
    EXPECT(mean[0] == 0.5f && std[0] == 1.0f);
    data_split_free(&s);
    episodes_free(e);
}

TEST(data, branches_from_distinct_training_episodes) {
    firm_error err;
    episodes* e = small_set(400, 2, NULL);
    data_split s;
    branches* b;
    REQUIRE_OK(data_split_make(e, 1, &s, &err), err);
    REQUIRE_OK(
        branches_collect(e, &(intervene_options){.seed = 9, .split_seed = 1}, NULL, &b, &err), err);
    EXPECT_INT(b->anchors, 128);
    EXPECT_INT(b->per_anchor, 32);
    uint8_t used[400] = {0};
    float mean[2], std[2];
    double sum = 0, outside = 0;
    data_action_stats(e, &s, mean, std);
    for (int a = 0; a < b->anchors; a++) {
        int ep = episodes_of_row(e, b->row[a]);
        int64_t t = b->row[a] - e->offset[ep];
        EXPECT(!s.is_valid[ep] && t >= 2 && t + 25 <= e->length[ep] - 1);
        EXPECT_INT(used[ep]++, 0);
        for (int k = 0; k < b->per_anchor; k++) {
            const double* state = b->state + ((int64_t)a * 32 + k) * STATES * 2;
            const float* action = b->action + ((int64_t)a * 32 + k) * ENV_SPAN * 2;
            EXPECT(memcmp(state, e->state + 2 * b->row[a], 2 * sizeof *state) == 0);
            if (k == 0) {  // the recording itself
                EXPECT(memcmp(action, e->action + 2 * b->row[a], ENV_SPAN * 2 * sizeof *action) ==
                       0);
                EXPECT(memcmp(state, e->state + 2 * b->row[a], STATES * 2 * sizeof *state) == 0);
            }
            for (int i = 0; i < 2 * ENV_SPAN && k > 0; i++) {
                outside += action[i] < -1 || action[i] > 1;
                sum += action[i];
            }
        }
    }
    EXPECT(outside == 0);
    EXPECT_NEAR(sum / (128.0 * 31 * 50), (mean[0] + mean[1]) / 2, 0.05);
    branches_free(b);
    data_split_free(&s);
    episodes_free(e);
}

TEST(data, branches_same_bits_for_any_thread_count) {
    firm_error err;
    episodes* e = small_set(60, 2, NULL);
    branches* b[3];
    for (int threads = 1; threads <= 3; threads++) {
        pool* p;
        REQUIRE_OK(pool_create(threads, &p, &err), err);
        REQUIRE_OK(
            branches_collect(e, &(intervene_options){.anchors = 20, .per_anchor = 8, .seed = 3}, p,
                             &b[threads - 1], &err),
            err);
        pool_free(p);
    }
    for (int i = 1; i < 3; i++) {
        EXPECT(memcmp(b[0]->row, b[i]->row, 20 * sizeof *b[0]->row) == 0);
        EXPECT(memcmp(b[0]->state, b[i]->state, 20 * 8 * STATES * 2 * sizeof *b[0]->state) == 0);
        EXPECT(memcmp(b[0]->action, b[i]->action, 20 * 8 * ENV_SPAN * 2 * sizeof *b[0]->action) ==
               0);
    }
    for (int i = 0; i < 3; i++) branches_free(b[i]);
    // more than the data hold is refused when asked for, and cut down when it is only the default
    expect_failure(
        branches_collect(e, &(intervene_options){.anchors = 200, .per_anchor = 2, .seed = 1}, NULL,
                         &b[0], &err),
        FIRM_E_VALUE, &err, "200 anchors");
    expect_failure(
        branches_collect(e, &(intervene_options){.anchors = -1, .per_anchor = 2, .seed = 1}, NULL,
                         &b[0], &err),
        FIRM_E_USAGE, &err, "-1");
    expect_failure(
        branches_collect(e, &(intervene_options){.anchors = 2, .per_anchor = -2, .seed = 1}, NULL,
                         &b[0], &err),
        FIRM_E_USAGE, &err, "-2");
    REQUIRE_OK(branches_collect(e, &(intervene_options){.anchors = 0, .per_anchor = 2, .seed = 1},
                                NULL, &b[0], &err),
               err);
    EXPECT_INT(b[0]->anchors, 54);
    branches_free(b[0]);
    episodes_free(e);
}

// Standard deviation of n numbers, and of their steps.
static void spreads(const float* a, int n, int stride, double* all, double* steps) {
    double sum = 0, square = 0, step = 0;
    for (int i = 0; i < n; i++) {
        double x = a[i * stride], d = i ? x - a[(i - 1) * stride] : 0;
        sum += x;
        square += x * x;
        step += d * d;
    }
    *all = sqrt(square / n - sum / n * (sum / n));
    *steps = sqrt(step / (n - 1));
}

TEST(data, mixed_actions_are_of_four_kinds) {
    enum { N = 25, MANY = 400 };
    env_spec free_spec = *env_find("tworoom"), clamped = free_spec;
    free_spec.task.action_clamped = 0;
    clamped.task.action_clamped = 1;
    const float mean[2] = {0.1f, -0.2f}, std[2] = {0.5f, 0.8f};
    float recorded[2 * N], action[2 * N];
    double all[MIXED_KINDS] = {0}, steps[MIXED_KINDS] = {0}, outside = 0, away = 0;
    for (int i = 0; i < 2 * N; i++) recorded[i] = 3;  // far from the mean
    for (int i = 0; i < MANY * MIXED_KINDS; i++) {
        double one, step;
        rng g = rng_start(7, (uint64_t)i);
        const int kind = i % MIXED_KINDS;
        mixed_actions(&free_spec, kind, mean, std, recorded, N, &g, action);
        spreads(action, N, 2, &one, &step);
        all[kind] += one / MANY;
        steps[kind] += step / MANY;
        away += kind == 3 ? fabs((double)action[2 * (i % N)] - 3) / MANY : 0;
        for (int j = 0; j < 2 * N; j++) outside += fabsf(action[j]) > 1;
        mixed_actions(&clamped, kind, mean, std, recorded, N, &g, action);
        for (int j = 0; j < 2 * N; j++)
            EXPECT(action[j] >= clamped.task.action_low && action[j] <= clamped.task.action_high);
    }
    EXPECT_NEAR(all[0], 0.5, 0.02);                                // the recorded spread
    EXPECT_NEAR(all[1], 0.5 * 1.25, 0.05);                         // 0.5 to 2 times as much
    EXPECT(steps[0] > 1.3 * all[0]);                               // independent
    EXPECT(steps[2] < 0.4 * all[2]);                               // smooth
    EXPECT(steps[3] < 0.4 * all[3] && away > 0.05 && away < 0.5);  // around the recording
    EXPECT(outside > 0);
}

TEST(data, mixed_branches_say_so) {
    firm_error err;
    episodes* e = small_set(60, 2, NULL);
    branches *b, *back;
    const char* path = temp_path("M.h5");
    intervene_options opt = {.anchors = 10, .per_anchor = 9, .mixed = 1, .seed = 3};
    REQUIRE_OK(branches_collect(e, &opt, NULL, &b, &err), err);
    EXPECT(memcmp(b->action, e->action + 2 * b->row[0], 50 * sizeof(float)) == 0);  // a replay
    REQUIRE_OK(branches_write(b, path, &err), err);
    REQUIRE_OK(branches_read(path, e, &back, &err), err);
    EXPECT(back->mixed && strcmp(branches_proposal(back), "mixed") == 0);
    EXPECT(memcmp(back->action, b->action, 10 * 9 * 50 * sizeof(float)) == 0);
    branches_free(back);
    branches_free(b);
    episodes_free(e);
}

TEST(data, branches_round_trip) {
    firm_error err;
    episodes *e = small_set(60, 2, NULL), *other = small_set(60, 3, NULL);
    branches *b, *back;
    const char *path = temp_path("I.h5"), *data = temp_path("F.h5");
    REQUIRE_OK(branches_collect(e, &(intervene_options){.anchors = 20, .per_anchor = 8, .seed = 3},
                                NULL, &b, &err),
               err);
    REQUIRE_OK(branches_write(b, path, &err), err);
    REQUIRE_OK(branches_read(path, e, &back, &err), err);
    EXPECT(back->anchors == 20 && back->per_anchor == 8 && back->seed == 3);
    EXPECT(memcmp(back->row, b->row, 20 * sizeof *b->row) == 0);
    EXPECT(memcmp(back->state, b->state, 20 * 8 * STATES * 2 * sizeof *b->state) == 0);
    EXPECT(memcmp(back->action, b->action, 20 * 8 * ENV_SPAN * 2 * sizeof *b->action) == 0);
    branches_free(back);
    // made from other episodes; not interventions; episodes asked of an interventions file; changed
    expect_failure(branches_read(path, other, &back, &err), FIRM_E_VALUE, &err, "other episodes");
    REQUIRE_OK(episodes_write(e, NULL, NULL, data, &err), err);
    expect_failure(branches_read(data, e, &back, &err), FIRM_E_FORMAT, &err, "firm intervene");
    episodes* none;
    expect_failure(episodes_read(path, e->spec, &none, &err), FIRM_E_FORMAT, &err, "interventions");
    expect_failure(branches_read(temp_path("none.h5"), e, &back, &err), FIRM_E_MISSING, &err,
                   "none.h5");
    expect_failure(branches_write(b, temp_path("no/folder/I.h5"), &err), FIRM_E_MISSING, &err,
                   "I.h5");
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT),
          column = H5Dopen2(file, "action", H5P_DEFAULT);
    b->action[5] += 0.125f;
    H5Dwrite(column, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, b->action);
    H5Dclose(column);
    H5Fclose(file);
    expect_failure(branches_read(path, e, &back, &err), FIRM_E_FORMAT, &err, "checksum");
    branches_free(b);
    episodes_free(e);
    episodes_free(other);
}

// 21 anchors: the 95th percentile is the 20th of the sorted errors, whatever the largest is.
TEST(data, audit_limits_are_the_papers) {
    enum { N = 21 };
    static const struct {
        int horizon;            // 0 .. 4, of the errors below
        double most, p95, max;  // 19 anchors at or below `most`, one at p95, one at max
        int pass;
    } row[] = {
        {0, 0.1, 0.25, 1.0, 1},   // both limits are met exactly
        {0, 0.1, 0.251, 0.5, 0},  // P95 just missed, at the first horizon
        {2, 0.1, 0.26, 0.5, 0},   // or at one in the middle
        {4, 0.1, 0.26, 0.5, 0},   // or at the last
        {4, 0.1, 0.49, 0.5, 0},  {1, 0.1, 0.2, 1.001, 0}, {4, 0.2, 0.25, 0.25, 1},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        double error[ENV_HORIZON * N] = {0};
        double* here = error + row[i].horizon * N;
        audit_result a = {.anchors = N, .horizons = ENV_HORIZON};
        for (int k = 0; k < N - 2; k++) here[k + 2] = row[i].most * k / (N - 3);
        here[0] = row[i].max;
        here[1] = row[i].p95;
        double mean = (row[i].max + row[i].p95 + row[i].most * (N - 2) / 2) / N;
        audit_judge(error, &a);
        EXPECT_INT(a.pass, row[i].pass);
        EXPECT_NEAR(a.p95[row[i].horizon], row[i].p95, 1e-12);
        EXPECT_NEAR(a.max, row[i].max, 0);
        int last = row[i].horizon == ENV_HORIZON - 1;
        EXPECT_NEAR(a.h5_p95, last ? row[i].p95 : 0, 1e-12);
        EXPECT_NEAR(a.h5_mean, last ? mean : 0, 1e-12);
    }
    // an error that is not a number fails the audit, at any place
    for (int at = 0; at < ENV_HORIZON * N; at += 13) {
        double error[ENV_HORIZON * N] = {0};
        audit_result a = {.anchors = N, .horizons = ENV_HORIZON};
        error[at] = NAN;
        audit_judge(error, &a);
        EXPECT_INT(a.pass, 0);
    }
}

TEST(data, audit_of_tworoom_is_exact) {
    firm_error err;
    pool* p;
    REQUIRE_OK(pool_create(2, &p, &err), err);
    episodes* e = small_set(400, 2, p);
    audit_result a;
    REQUIRE_OK(branches_audit(e, 0, 1, 0, p, &a, &err), err);
    EXPECT(a.anchors == 128 && a.pass == 1);
    EXPECT(a.h5_mean == 0 && a.h5_p95 == 0 && a.max == 0);
    // a recording that was tampered with does not pass: 32 px are two tolerances
    for (int64_t i = 0; i < e->rows; i++)
        if (i - e->offset[episodes_of_row(e, i)] > 27) e->state[2 * i] += 32;
    REQUIRE_OK(branches_audit(e, 0, 1, 0, p, &a, &err), err);
    EXPECT(a.pass == 0);
    EXPECT(a.max > 1.9 && a.h5_p95 > 1.9 && a.h5_mean > 0.5);
    episodes_free(e);
    pool_free(p);
}
