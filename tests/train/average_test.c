// average_test.c - what a stage may do to its weights and samples: the mean of weights along its
// end, a run's own sample of the histories, noise on the configurations of a history.
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/interrupt.h"
#include "core/mem.h"
#include "model/checkpoint.h"
#include "small.h"
#include "train/run.h"
#include "train/shape.h"

// ---- the mean of the weights --------------------------------------------------------------------

static const small_options few = {
    .task = "tworoom", .settings = "smoke", .episodes = 60, .anchors = 12, .per_anchor = 4};

// The weights that a run with these settings has after its first stage; to be freed.
static float* weights_after(small* s, const char* name, const char* const set[6], int resume,
                            size_t* count) {
    char folder[600], path[700];
    firm_error err = {0};
    firm_model* m;
    model_shape shape;
    small_options o = few;
    snprintf(folder, sizeof folder, "%s/%s", test_temp_dir(), name);
    snprintf(path, sizeof path, "%s/checkpoint.safetensors", folder);
    for (int i = 0; i < 6; i++) o.set[i] = set[i];
    if (!small_settings(s, &o)) return NULL;
    train_inputs in = small_inputs(s);
    train_options opt = {
        .seed = 5, .threads = 1, .folder = folder, .until = "tokenizer", .resume = resume};
    if (train_run(s->settings, s->env, &in, &opt, NULL, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        return NULL;
    }
    model_shape_read(s->settings, &shape);
    if (model_create(&s->env->task, &shape, 1, 1, &m, &err) != FIRM_OK ||
        checkpoint_read_weights(path, m, &err) != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s", err.message);
        return NULL;
    }
    *count = m->store->count;
    float* copy = malloc(*count * sizeof *copy);
    memcpy(copy, m->store->value, *count * sizeof *copy);
    firm_model_free(m);
    return copy;
}

// with a constant rate, fewer updates are the first ones of a longer stage
TEST(train, a_stage_leaves_the_mean_of_its_last_weights) {
    static const char* const updates[] = {"stage.tokenizer.updates=4", "stage.tokenizer.updates=6",
                                          "stage.tokenizer.updates=8"};
    const char* constant = "stage.tokenizer.schedule=constant";
    small s;
    float* w[3] = {0};
    size_t n = 0;
    if (!small_collect(&s, &few)) return;
    for (int i = 0; i < 3; i++) {
        char name[24];
        snprintf(name, sizeof name, "plain-%d", i);
        w[i] = weights_after(&s, name, (const char* const[6]){updates[i], constant}, 0, &n);
    }
    // the last five of eight updates, every other one: 4, 6 and 8
    float* mean =
        weights_after(&s, "mean",
                      (const char* const[6]){updates[2], constant, "stage.tokenizer.average=0.65",
                                             "stage.tokenizer.average_every=2"},
                      0, &n);
    double worst = 0, moved = 0;
    for (size_t i = 0; mean && w[0] && w[1] && w[2] && i < n; i++) {
        worst = test_worse(worst, fabs(mean[i] - ((double)w[0][i] + w[1][i] + w[2][i]) / 3));
        moved = test_worse(moved, fabs((double)mean[i] - w[2][i]));
    }
    EXPECT_NEAR(worst, 0, 1e-6);
    EXPECT(moved > 1e-4);
    for (int i = 0; i < 3; i++) free(w[i]);
    free(mean);
    small_close(&s);
}

// Makes one update of the run, or finishes its stage: a signal is there from the start.
static int one_update(small* s, const char* folder) {
    pid_t child = fork();
    if (child == 0) {
        firm_error err = {0};
        train_inputs in = small_inputs(s);
        train_options opt = {
            .seed = 5, .threads = 1, .folder = folder, .until = "tokenizer", .resume = 1};
        interrupt_catch("", "\n");
        interrupt_hold();
        raise(SIGTERM);
        firm_status st = train_run(s->settings, s->env, &in, &opt, NULL, &err);
        _exit(st == FIRM_E_STOPPED ? 10 : 20 + (int)st);
    }
    int code = 0;
    waitpid(child, &code, 0);
    return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

TEST(train, a_mean_resumed_after_every_update_is_the_same) {
    const char* const set[6] = {"stage.tokenizer.updates=6", "stage.tokenizer.average=0.9",
                                "stage.tokenizer.average_every=2"};
    small s;
    char folder[600];
    size_t n = 0;
    if (!small_collect(&s, &few)) return;
    float* whole = weights_after(&s, "whole", set, 0, &n);
    snprintf(folder, sizeof folder, "%s/pieces", test_temp_dir());
    for (int i = 0; i < 6; i++) EXPECT_INT(one_update(&s, folder), 10);
    float* pieces = weights_after(&s, "pieces", set, 1, &n);
    if (whole && pieces) EXPECT(memcmp(whole, pieces, n * sizeof *whole) == 0);
    free(whole);
    free(pieces);
    small_close(&s);
}

// ---- a run's own sample -------------------------------------------------------------------------

TEST(train, a_sample_holds_whole_histories) {
    enum { HISTORIES = 400, EACH = 3, COUNT = HISTORIES * EACH };
    static int history[COUNT];
    static uint8_t rare[COUNT];
    records r = {.count = COUNT, .histories = HISTORIES, .history = history, .rare = rare};
    firm_error err = {0};
    history_sample a, b, other;
    for (int i = 0; i < COUNT; i++) history[i] = i / EACH, rare[i] = i % 5 == 0;
    REQUIRE_OK(sample_histories(&r, 1, PACK_I, &a, &err), err);
    REQUIRE_OK(sample_histories(&r, 1, PACK_I, &b, &err), err);
    REQUIRE_OK(sample_histories(&r, 2, PACK_I, &other, &err), err);
    EXPECT_INT(a.count, COUNT);
    EXPECT(memcmp(a.record, b.record, COUNT * sizeof *a.record) == 0);
    EXPECT(memcmp(a.record, other.record, COUNT * sizeof *a.record) != 0);
    int seen[HISTORIES] = {0}, distinct = 0;
    for (int i = 0; i < COUNT; i += EACH) {
        seen[history[a.record[i]]]++;
        for (int k = 0; k < EACH; k++) {
            EXPECT_INT(a.record[i + k], a.record[i] + k);
            EXPECT_INT(a.rare[i + k], rare[a.record[i + k]]);
        }
    }
    for (int h = 0; h < HISTORIES; h++) distinct += seen[h] > 0;
    // 1 - 1/e of them, give or take four deviations
    EXPECT(distinct > 0.632 * HISTORIES - 40 && distinct < 0.632 * HISTORIES + 40);
    // an order of places becomes one of records
    int *all = NULL, *order = mem_calloc(2, sizeof *order);
    int last = a.record[COUNT - 1], first = a.record[0];
    order[0] = COUNT - 1;
    sample_take(&a, &order, 2);
    EXPECT(order[0] == last && order[1] == first);
    sample_take(&a, &all, COUNT);
    EXPECT(all[0] == first && all[COUNT - 1] == last && !a.record);
    mem_free(order);
    mem_free(all);
    sample_free(&a);
    sample_free(&b);
    sample_free(&other);
}

// ---- noise --------------------------------------------------------------------------------------

enum { ROWS = 32 };

typedef struct fed {
    rollout_batch b;
    float *config[HIST], *target;  // what rollout_fill() wrote
} fed;

static firm_status fill_and_keep(void* ctx, const nn_feed* feed) {
    fed* f = ctx;
    const size_t numbers = (size_t)(feed->count * f->b.set->env->task.config_dim);
    TRY(rollout_fill(&f->b, feed));
    for (int k = 0; k < HIST; k++)
        memcpy(f->config[k], nn_feed_real(feed, f->b.graph->config[k]), numbers * sizeof(float));
    memcpy(f->target, nn_feed_real(feed, f->b.graph->target), ENV_HORIZON * numbers * sizeof(float));
    return FIRM_OK;
}

// Fills ROWS rows from `first` on and keeps them in the place of that number.
static void fill_rows(fed* f, nn_exec* e, int first, int place, int dim) {
    fed at = *f;
    at.b.first = first;
    for (int k = 0; k < HIST; k++) at.config[k] += place * ROWS * dim;
    at.target += place * ROWS * ENV_HORIZON * dim;
    EXPECT_INT(nn_exec_forward(e, ROWS, fill_and_keep, &at), FIRM_OK);
}

// Reacher's angles: joints stay on their circles, and each of the table's eight rounds has noise of
// its own around the same records.
TEST(train, noise_moves_what_a_history_shows) {
    small s;
    small_options o = {.task = "reacher",
                       .settings = "smoke-reacher",
                       .episodes = 12,
                       .anchors = 4,
                       .per_anchor = 2};
    train_options opt = {.seed = 5};
    firm_error err = {0};
    rollout_graph g;
    nn_exec* e = NULL;
    const float noise = 0.03f;
    if (!small_collect(&s, &o) || !small_open(&s, &opt, 1) || !small_model(&s, 5)) return;
    const records* from = &s.set.data.set[PACK_F];
    const int dim = s.env->task.config_dim;
    const size_t shown = (size_t)from->histories * HIST * (size_t)dim;
    history_cache cache = {from->histories,
                           mem_calloc((size_t)from->histories * (size_t)s.model->shape.belief, 4),
                           mem_calloc(shown, sizeof(float))};
    for (size_t i = 0; i < shown; i += 2) cache.config[i] = 0.6f, cache.config[i + 1] = 0.8f;
    EXPECT(s.env->task.pairs * 2 == dim && from->count >= ROWS);
    fed f = {.b = {.set = &s.set, .model = s.model, .graph = &g, .from = from, .cache = &cache}};
    for (int k = 0; k < HIST; k++) f.config[k] = malloc((size_t)(3 * ROWS * dim) * sizeof(float));
    f.target = malloc((size_t)(3 * ROWS * ENV_HORIZON * dim) * sizeof(float));
    nn_exec_options one = {.batch = ROWS, .shard = ROWS, .lanes = 1};
    REQUIRE_OK(rollout_graph_build(s.model, NULL, NULL, &g, &err), err);
    REQUIRE_OK(nn_exec_create(g.g, nn_backend_cpu(), &one, NULL, &e, &err), err);
    fill_rows(&f, e, 0, 0, dim);
    f.b.noise = noise, f.b.rows = from->count, f.b.noise_key = train_pick_key(5, 3);
    fill_rows(&f, e, 0, 1, dim);
    fill_rows(&f, e, 5 * from->count, 2, dim);
    double square = 0;
    int apart = 0, n = 0;
    for (int k = 0; k < HIST; k++)
        for (int i = 0; i < ROWS * dim; i += 2) {
            const float *plain = f.config[k] + i, *a = plain + ROWS * dim, *b = a + ROWS * dim;
            EXPECT_NEAR(hypotf(a[0], a[1]), 1, 1e-6);
            // along the circle, where noise of both coordinates shows as that of one
            double angle = atan2(a[0] * (double)plain[1] - a[1] * (double)plain[0],
                                 a[0] * (double)plain[0] + a[1] * (double)plain[1]);
            square += angle * angle;
            apart += a[0] != b[0];
            n++;
        }
    EXPECT(n > 190 && apart > n - 3);
    // within five standard errors of a deviation estimated from n draws
    EXPECT_NEAR(sqrt(square / n), noise, 5 * noise / sqrt(2.0 * n));
    const size_t targets = (size_t)(ROWS * ENV_HORIZON * dim) * sizeof(float);
    EXPECT(memcmp(f.target, f.target + ROWS * ENV_HORIZON * dim, targets) == 0);
    EXPECT(memcmp(f.target, f.target + 2 * ROWS * ENV_HORIZON * dim, targets) == 0);
    for (int k = 0; k < HIST; k++) free(f.config[k]);
    free(f.target);
    nn_exec_free(e);
    nn_graph_free(g.g);
    cache_free(&cache);
    small_close(&s);
}

TEST(train, noise_and_samples_are_for_rollouts) {
    small s;
    train_options opt = {.seed = 5};
    small_options o = few;
    o.set[0] = "stage.grounder.noise=0.1";
    if (!small_collect(&s, &o) || !small_open(&s, &opt, 1) || !small_model(&s, 5)) return;
    for (int i = 0; i < 2; i++) {
        firm_error err = {0};
        stage st;
        int at = 1;
        o.set[0] = i ? "stage.grounder.bootstrap=true" : "stage.grounder.noise=0.1";
        if (!small_settings(&s, &o)) return;
        EXPECT(stage_read(s.settings, at, NULL, &st));
        EXPECT_INT(stage_check(&st, s.settings, &s.set, s.model, &err), FIRM_E_VALUE);
        EXPECT(strstr(err.message, "stage.grounder"));
    }
    small_close(&s);
}
