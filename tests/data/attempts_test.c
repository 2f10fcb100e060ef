// attempts_test.c - attempts from training moments: whole, the same for any number of threads, and
// records of a pack with the histories they really had.
#include "data/attempts.h"

#include "check.h"
#include "core/mem.h"
#include "env/env.h"
#include "eval/proposers.h"
#include "eval/settings.h"
#include "moments.h"
#include "train/shape.h"
#include "train/train.h"

enum { MOMENTS = 5 };

typedef struct fixture {
    moments m;
    config* settings;
    firm_model* model;
} fixture;

static int fill(fixture* f, firm_error* err) {
    const env_spec* spec = env_find("tworoom");
    model_shape shape;
    if (!moments_make(MOMENTS, &f->m, err) ||
        settings_load(&spec->task, "smoke", NULL, 0, &f->settings, err) != FIRM_OK)
        return 0;
    model_shape_read(f->settings, &shape);
    if (model_create(&spec->task, &shape, 0, 5, &f->model, err) != FIRM_OK) return 0;
    mem_free(f->model->config);
    f->model->config = config_dump(f->settings);
    data_action_stats(f->m.e, &f->m.split, f->model->stats.action_mean, f->model->stats.action_std);
    return 1;
}

static void clear(fixture* f) {
    firm_model_free(f->model);
    config_free(f->settings);
    moments_free(&f->m);
}

static episodes* attempts(const fixture* f, int threads, int* reached) {
    firm_error err;
    pool* p = NULL;
    episodes* out = NULL;
    pilots by = {0};
    if (pool_create(threads, &p, &err) != FIRM_OK ||
        pilots_open(f->model, FIRM_DEVICE_CPU, FIRM_PRECISION_FP32, pool_threads(p), &by, &err) !=
            FIRM_OK ||
        attempts_make(by.pilot, f->m.set, 4, p, &out, reached, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    pilots_free(&by);
    pool_free(p);
    return out;
}

// Every row follows from the one before by its action, and the first ones are the recording's.
static void check_physics(const fixture* f, const episodes* made) {
    firm_error err;
    const env_spec* spec = made->spec;
    env* world;
    REQUIRE_OK(env_create(spec, &world, &err), err);
    for (int i = 0; i < made->count; i++) {
        const double* state = made->state + made->offset[i] * spec->state->dim;
        const float* action = made->action + made->offset[i] * spec->task.action_dim;
        const double* recorded = f->m.set->rows->state + i * TRIAL_ROWS * spec->state->dim;
        size_t bytes = (size_t)spec->state->dim * sizeof *state;
        EXPECT(memcmp(state, recorded, FIRM_HISTORY * bytes) == 0);
        spec->sim->state_set(world, state + (FIRM_HISTORY - 1) * spec->state->dim);
        for (int t = FIRM_HISTORY; t < attempt_rows(&spec->task); t++) {
            double now[ENV_MAX_STATE];
            spec->sim->step(world, action + (t - 1) * spec->task.action_dim);
            spec->sim->state_get(world, now);
            EXPECT(memcmp(now, state + t * spec->state->dim, bytes) == 0);
        }
    }
    env_free(world);
}

TEST(data, attempts_follow_their_plans) {
    firm_error err;
    fixture f = {0};
    int reached[2] = {-1, -2};
    if (!fill(&f, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        clear(&f);
        return;
    }
    episodes *one = attempts(&f, 1, &reached[0]), *two = attempts(&f, 2, &reached[1]);
    if (one && two) {
        EXPECT_INT(one->count, MOMENTS);
        EXPECT_INT(reached[0], reached[1]);
        size_t rows = (size_t)(MOMENTS * attempt_rows(&one->spec->task)) * 2;
        EXPECT(memcmp(one->state, two->state, rows * sizeof(double)) == 0);
        EXPECT(memcmp(one->action, two->action, rows * sizeof(float)) == 0);
        check_physics(&f, one);
    }
    episodes_free(one);
    episodes_free(two);
    clear(&f);
}

TEST(data, attempts_become_records_of_a_pack) {
    firm_error err;
    fixture f = {0};
    char path[600], longer[600];
    int reached;
    pack p = {0};
    pack_file made;
    if (!fill(&f, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        clear(&f);
        return;
    }
    snprintf(path, sizeof path, "%s/p.h5", test_temp_dir());
    snprintf(longer, sizeof longer, "%s/q.h5", test_temp_dir());
    const char* pool_size[] = {"train.frame_pool=20"};
    REQUIRE_OK(config_set(f.settings, pool_size[0], &err), err);
    train_inputs in = {.data = f.m.e};
    train_options opt = {.sources = "F", .threads = 1};
    REQUIRE_OK(train_pack(f.settings, f.m.e->spec, &in, &opt, 0, path, NULL, &err), err);
    REQUIRE_OK(pack_read(path, f.m.e->spec, &p, &err), err);
    episodes* tried = attempts(&f, 1, &reached);
    if (tried) {
        int64_t before = p.scenes;
        REQUIRE_OK(attempts_add(tried, 4, &p, &err), err);
        REQUIRE_OK(attempts_add(tried, 5, &p, &err), err);  // more behind what is there
        EXPECT_INT(p.set[PACK_S].count, 2 * MOMENTS * ATTEMPT_RECORDS);
        EXPECT(p.scenes == before + 2 * tried->rows);
        REQUIRE_OK(pack_write(&p, NULL, NULL, longer, &made, &err), err);
        pack_free(&p);
        REQUIRE_OK(pack_read(longer, f.m.e->spec, &p, &err), err);
        const records* r = &p.set[PACK_S];
        EXPECT_INT(r->count, 2 * MOMENTS * ATTEMPT_RECORDS);
        for (int i = 0; i < r->count; i++) {
            // TwoRoom's configuration is its state: the history's last frame is where the record
            // begins, and 25 controls are those of the attempt
            float c[FIRM_MAX_CONFIG];
            const int64_t* seen = r->seen + r->history[i] * RECORD_FRAMES;
            const double* state = pack_state(&p, seen[RECORD_FRAMES - 1]);
            int attempt = i / ATTEMPT_RECORDS % MOMENTS;
            env_config(f.m.e->spec, state, c);
            EXPECT(memcmp(c, r->config + i * ENV_POINTS * 2, 2 * sizeof *c) == 0);
            if (i % ATTEMPT_RECORDS == 1) continue;
            int64_t row =
                tried->offset[attempt] + FIRM_HISTORY - 1 + (i % ATTEMPT_RECORDS ? ENV_SPAN : 0);
            EXPECT(memcmp(state, tried->state + 2 * row, 2 * sizeof *state) == 0);
            EXPECT(memcmp(r->action + i * ENV_SPAN * 2, tried->action + 2 * row,
                          ENV_SPAN * 2 * sizeof(float)) == 0);
            EXPECT(memcmp(r->past + r->history[i] * 4, tried->action + 2 * (row - 2),
                          4 * sizeof(float)) == 0);
        }
    }
    episodes_free(tried);
    pack_free(&p);
    clear(&f);
}
