// searched_test.c - searches through the true simulator from training moments: they get closer,
// what is kept is what happened, second ones begin where a failure ended, the bits are the same for
// any number of threads, and a pack shares their histories.
#include "data/searched.h"

#include "check.h"
#include "core/mem.h"
#include "env/env.h"
#include "eval/proposers.h"
#include "eval/settings.h"
#include "moments.h"
#include "train/train.h"

enum { MOMENTS = 5, CANDIDATES = 48, ITERATIONS = 4, KEEP = 6, PER = ITERATIONS * KEEP };

static searched searches(const moments* m, int threads) {
    firm_error err;
    pool* p = NULL;
    searched out = {0};
    searched_options opt = {
        .candidates = CANDIDATES, .iterations = ITERATIONS, .keep = KEEP, .seed = 4};
    if (pool_create(threads, &p, &err) != FIRM_OK ||
        searched_make(m->set, &opt, &proposers_search, p, &out, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    pool_free(p);
    return out;
}

static const double* state_of(const branches* b, int branch, int control) {
    return b->state + (branch * (ENV_SPAN + 1) + control) * b->spec->state->dim;
}

// Every branch begins where its search does, and every state follows from the one before.
static void check_physics(const searched* s) {
    firm_error err;
    const branches* b = s->from;
    const env_spec* spec = b->spec;
    size_t bytes = (size_t)spec->state->dim * sizeof(double);
    env* world;
    REQUIRE_OK(env_create(spec, &world, &err), err);
    for (int i = 0; i < b->anchors * PER; i++) {
        const double* start = s->starts->state + b->row[i / PER] * spec->state->dim;
        EXPECT(memcmp(state_of(b, i, 0), start, bytes) == 0);
        spec->sim->state_set(world, start);
        for (int t = 1; t <= ENV_SPAN; t++) {
            double now[ENV_MAX_STATE];
            spec->sim->step(world, b->action + (i * ENV_SPAN + t - 1) * spec->task.action_dim);
            spec->sim->state_get(world, now);
            EXPECT(memcmp(now, state_of(b, i, t), bytes) == 0);
        }
    }
    env_free(world);
}

// First searches begin at the moments; a second one where a branch of the first ended, which was
// not at the goal, and seeks the same goal. Returns how many second ones there are.
static int check_starts(const moments* m, const searched* s) {
    const env_spec* spec = m->e->spec;
    const branches* b = s->from;
    size_t row = (size_t)spec->state->dim * sizeof(double);
    int second = 0;
    for (int i = 0; i < b->anchors; i++) {
        int number = (int)(b->row[i] / TRIAL_ROWS);
        const double* start = s->starts->state + number * TRIAL_ROWS * spec->state->dim;
        const double* goal = start + FIRM_HISTORY * spec->state->dim;
        const double* moment = m->set->rows->state + number / 2 * TRIAL_ROWS * spec->state->dim;
        EXPECT(memcmp(goal, moment + FIRM_HISTORY * spec->state->dim, row) == 0);
        if (number % 2 == 0) {
            EXPECT(memcmp(start, moment, TRIAL_ROWS * row) == 0);
            continue;
        }
        int found = 0;
        for (int k = (i - 1) * PER; k < i * PER; k++)
            found +=
                memcmp(state_of(b, k, ENV_SPAN - FIRM_HISTORY + 1), start, FIRM_HISTORY * row) == 0;
        EXPECT_INT(found, 1);
        EXPECT(!env_success(spec, start + (FIRM_HISTORY - 1) * spec->state->dim, goal));
        second++;
    }
    return second;
}

// Mean distance to the goal, in tolerances, of what was kept of an iteration from ranks first ..
static double distance(const searched* s, int iteration, int first, int count) {
    const branches* b = s->from;
    double sum = 0;
    for (int i = 0; i < b->anchors; i++) {
        float goal[FIRM_MAX_CONFIG], end[FIRM_MAX_CONFIG];
        env_config(b->spec, s->starts->state + (b->row[i] + 1) * b->spec->state->dim, goal);
        for (int j = first; j < first + count; j++) {
            int branch = i * PER + iteration * KEEP + j;
            env_config(b->spec, state_of(b, branch, ENV_SPAN), end);
            sum += task_tolerance_units(&b->spec->task, end, goal);
        }
    }
    return sum / (b->anchors * count);
}

TEST(data, searches_get_closer) {
    firm_error err;
    moments m;
    if (!moments_make(MOMENTS, &m, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        moments_free(&m);
        return;
    }
    searched one = searches(&m, 1), two = searches(&m, 3);
    if (one.from && two.from) {
        EXPECT(one.from->anchors > MOMENTS && one.from->anchors <= 2 * MOMENTS);
        EXPECT_INT(one.from->per_anchor, PER);
        EXPECT_INT(one.from->anchors, two.from->anchors);
        EXPECT_INT(one.reached, two.reached);
        EXPECT(one.reached > 0);
        size_t n = (size_t)one.from->anchors * PER, dim = (size_t)m.e->spec->state->dim;
        EXPECT(memcmp(one.from->state, two.from->state, n * 26 * dim * sizeof(double)) == 0);
        EXPECT(memcmp(one.from->action, two.from->action, n * 25 * 2 * sizeof(float)) == 0);
        check_physics(&one);
        EXPECT(check_starts(&m, &one) > 0);
        // elites are better than the rest, and the last ones better than the first
        double first = distance(&one, 0, 0, KEEP / 2);
        double rest = distance(&one, 0, KEEP / 2, KEEP / 2);
        double last = distance(&one, ITERATIONS - 1, 0, KEEP / 2);
        if (!(last < 0.7 * first && first < 0.9 * rest))
            test_fail(__FILE__, __LINE__, "first elites %.2f, rest %.2f, last elites %.2f", first,
                      rest, last);
    }
    searched_free(&one);
    searched_free(&two);
    moments_free(&m);
}

// Keeping all candidates keeps each of them once.
TEST(data, searches_keep_all_of_them) {
    firm_error err;
    moments m;
    searched all;
    searched_options opt = {.candidates = 24, .iterations = 1, .keep = 24, .seed = 4};
    if (!moments_make(1, &m, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        moments_free(&m);
        return;
    }
    REQUIRE_OK(searched_make(m.set, &opt, &proposers_search, NULL, &all, &err), err);
    const size_t bytes = ENV_SPAN * 2 * sizeof(float);
    for (int i = 0; i < 24; i++)
        for (int k = 0; k < i; k++)
            EXPECT(memcmp(all.from->action + i * ENV_SPAN * 2, all.from->action + k * ENV_SPAN * 2,
                          bytes) != 0);
    searched_free(&all);
    moments_free(&m);
}

static void check_records(const searched* s, const pack* p) {
    const branches* b = s->from;
    const records* r = &p->set[PACK_S];
    EXPECT_INT(r->count, b->anchors * PER);
    EXPECT_INT(r->histories, b->anchors);
    for (int i = 0; i < r->count; i++) {
        // TwoRoom's configuration is its state
        int anchor = i / PER;
        float c[FIRM_MAX_CONFIG];
        EXPECT_INT(r->history[i], anchor);
        EXPECT(r->after[i] == -1);
        const double* seen = pack_state(p, r->seen[anchor * RECORD_FRAMES + RECORD_FRAMES - 1]);
        EXPECT(memcmp(seen, state_of(b, i, 0), 2 * sizeof *seen) == 0);
        for (int k = 0; k < ENV_POINTS; k++) {
            env_config(b->spec, state_of(b, i, k * ENV_CONTROLS), c);
            EXPECT(memcmp(c, r->config + (i * ENV_POINTS + k) * 2, 2 * sizeof *c) == 0);
        }
        EXPECT(memcmp(r->action + i * ENV_SPAN * 2, b->action + i * ENV_SPAN * 2,
                      ENV_SPAN * 2 * sizeof(float)) == 0);
        EXPECT(memcmp(r->past + anchor * 4, s->starts->action + (b->row[anchor] - 2) * 2,
                      4 * sizeof(float)) == 0);
    }
}

TEST(data, searches_become_records_of_a_pack) {
    firm_error err;
    moments m;
    char path[600], longer[600];
    pack p = {0};
    pack_file made;
    config* settings = NULL;
    if (!moments_make(MOMENTS, &m, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        moments_free(&m);
        return;
    }
    snprintf(path, sizeof path, "%s/p.h5", test_temp_dir());
    snprintf(longer, sizeof longer, "%s/q.h5", test_temp_dir());
    const char* set[] = {"train.frame_pool=20"};
    train_inputs in = {.data = m.e};
    train_options opt = {.sources = "F", .threads = 1};
    REQUIRE_OK(settings_load(&m.e->spec->task, "smoke", set, 1, &settings, &err), err);
    REQUIRE_OK(train_pack(settings, m.e->spec, &in, &opt, 0, path, NULL, &err), err);
    REQUIRE_OK(pack_read(path, m.e->spec, &p, &err), err);
    searched tried = searches(&m, 1);
    if (tried.from) {
        REQUIRE_OK(searched_add(&tried, &p, &err), err);
        REQUIRE_OK(pack_write(&p, NULL, NULL, longer, &made, &err), err);
        pack_free(&p);
        REQUIRE_OK(pack_read(longer, m.e->spec, &p, &err), err);
        check_records(&tried, &p);
    }
    searched_free(&tried);
    pack_free(&p);
    config_free(settings);
    moments_free(&m);
}

TEST(data, searches_refuse_what_cannot_be) {
    firm_error err;
    moments m;
    searched out;
    if (!moments_make(MOMENTS, &m, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        moments_free(&m);
        return;
    }
    const searched_options bad[] = {{.candidates = 7, .iterations = 2, .keep = 2},
                                    {.candidates = 8, .iterations = 0, .keep = 2},
                                    {.candidates = 8, .iterations = 2, .keep = 1},
                                    {.candidates = 8, .iterations = 2, .keep = 9}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        EXPECT_INT(searched_make(m.set, &bad[i], &proposers_search, NULL, &out, &err),
                   FIRM_E_VALUE);
    moments_free(&m);
}
