// losses_test.c - the loss contract of tasks with joint angles, written out from angles: changes
// composed since the start, and the worst joint at every step in the tail; weights and targets of
// what the fiber must tell. (The terms for plain coordinates, and gradients: train_test.c.)
#include "check.h"
#include "core/mem.h"
#include "core/rng.h"
#include "env/env.h"
#include "eval/settings.h"
#include "small.h"
#include "train/shape.h"

enum { N = 20, JOINTS = 2, DIM = 2 * JOINTS };

// what the graph is fed: angles of the start and of the five targets
typedef struct angles {
    const rollout_graph* g;
    double start[N][JOINTS], target[N][ENV_HORIZON][JOINTS];
} angles;

static void put_pairs(const double* angle, float* c) {
    for (int j = 0; j < JOINTS; j++) {
        c[2 * j] = (float)sin(angle[j]);
        c[2 * j + 1] = (float)cos(angle[j]);
    }
}

static firm_status fill(void* ctx, const nn_feed* feed) {
    const angles* a = ctx;
    for (int t = 0; t < feed->graph->tensors; t++) {
        const nn_tensor* x = &feed->graph->tensor[t];
        if (x->kind != NN_INPUT) continue;
        for (int i = 0; i < feed->count; i++) {
            rng r = rng_start(3, RNG_STREAM(RNG_TEST, 100 * (feed->first + i) + t));
            for (int j = 0; j < x->size; j++)
                nn_feed_real(feed, t)[i * x->size + j] = rng_gauss(&r);
        }
    }
    for (int i = 0; i < feed->count; i++) {
        int n = feed->first + i;
        put_pairs(a->start[n], nn_feed_real(feed, a->g->config[HIST - 1]) + i * DIM);
        for (int k = 0; k < ENV_HORIZON; k++)
            put_pairs(a->target[n][k],
                      nn_feed_real(feed, a->g->target) + (i * ENV_HORIZON + k) * DIM);
    }
    return FIRM_OK;
}

static double square_chord(double a, double b) {
    return 4 * sin((a - b) / 2) * sin((a - b) / 2);
}

// mean of the worst quarter
static double top_mean(double* error, int n) {
    int take = (n + 3) / 4;
    double sum = 0;
    for (int r = 0; r < take; r++) {
        int top = 0;
        for (int i = 1; i < n; i++)
            if (error[i] > error[top]) top = i;
        sum += error[top];
        error[top] = -1;
    }
    return sum / take;
}

static void check_kind(const char* tail, int from_start) {
    static angles a;
    rng r = rng_start(1, RNG_STREAM(RNG_TEST, 7));
    for (int i = 0; i < N; i++)
        for (int j = 0; j < JOINTS; j++) {
            // all round the circle, so that differences wrap
            a.start[i][j] = rng_uniform(&r, -3.2, 3.2);
            for (int k = 0; k < ENV_HORIZON; k++)
                a.target[i][k][j] = a.start[i][j] + rng_uniform(&r, -2, 2);
        }
    const env_spec* env = env_find("reacher");
    config* settings;
    firm_error err;
    loss_weights w;
    char kind[64];
    snprintf(kind, sizeof kind, "loss.F.tail_kind=%s", tail);
    const char* set[] = {
        "loss.F.displacement_kind=rel", kind,
        from_start ? "loss.F.displacement_from=start" : "loss.F.displacement_from=previous"};
    REQUIRE_OK(settings_load(&env->task, "smoke", set, 3, &settings, &err), err);
    model_shape shape;
    firm_model* m;
    rollout_graph g;
    nn_exec* e;
    model_shape_read(settings, &shape);
    REQUIRE_OK(loss_read(settings, env, "F", &w, &err), err);
    REQUIRE_OK(model_create(&env->task, &shape, 1, 5, &m, &err), err);
    REQUIRE_OK(rollout_graph_build(m, &w, NULL, &g, &err), err);
    nn_exec_options opt = {.batch = N, .shard = 7, .lanes = 1};
    REQUIRE_OK(nn_exec_create(g.g, nn_backend_ref(), &opt, NULL, &e, &err), err);
    a.g = &g;
    EXPECT_INT(nn_exec_forward(e, N, fill, &a), FIRM_OK);

    double config = 0, change = 0, error[N * ENV_HORIZON];
    for (int i = 0; i < N; i++) {
        double last[JOINTS], before[JOINTS];
        memcpy(last, a.start[i], sizeof last);
        memcpy(before, a.start[i], sizeof before);
        for (int k = 0; k < ENV_HORIZON; k++) {
            const float* c = nn_exec_output(e, g.path) + (i * ENV_HORIZON + k) * DIM;
            double worst = 0;
            for (int j = 0; j < JOINTS; j++) {
                double now = atan2(c[2 * j], c[2 * j + 1]), truth = a.target[i][k][j];
                config += square_chord(now, truth);
                change += square_chord(now - last[j], truth - before[j]);
                worst = test_worse(worst, square_chord(now, truth));
                if (from_start) continue;
                last[j] = now;
                before[j] = truth;
            }
            error[i * ENV_HORIZON + k] =
                w.tail_kind == TAIL_CHORD ? sqrt(worst + 1e-6) - 1e-3 : worst;
        }
    }
    EXPECT_NEAR(nn_exec_term(e, 0), config / (N * ENV_HORIZON * DIM), 1e-6);
    EXPECT_NEAR(nn_exec_term(e, 1), change / (N * ENV_HORIZON * DIM), 1e-6);
    EXPECT_NEAR(nn_exec_term(e, 2), top_mean(error, N * ENV_HORIZON), 1e-6);
    nn_exec_free(e);
    nn_graph_free(g.g);
    firm_model_free(m);
    config_free(settings);
}

TEST(train, joint_loss_is_the_papers) {
    check_kind("chord", 1);
    check_kind("chord-squared", 1);
    check_kind("chord-squared", 0);
}

TEST(train, chords_need_joints) {
    const env_spec* env = env_find("tworoom");
    config* settings;
    firm_error err;
    loss_weights w;
    const char* set[] = {"loss.I.tail_kind=chord"};
    REQUIRE_OK(settings_load(&env->task, "smoke", set, 1, &settings, &err), err);
    EXPECT_INT(loss_read(settings, env, "F", &w, &err), FIRM_OK);
    EXPECT_INT(loss_read(settings, env, "I", &w, &err), FIRM_E_VALUE);
    EXPECT(strstr(err.message, "loss.I.tail_kind") && strstr(err.message, "terminal"));
    config_free(settings);
}

// ---- chi ----------------------------------------------------------------------------------------

static int open_tworoom(small* f) {
    return small_collect(f, &(small_options){.task = "tworoom",
                                             .settings = "smoke",
                                             .episodes = 40,
                                             .anchors = 4,
                                             .per_anchor = 2}) &&
           small_open(f, &(train_options){.seed = 5}, 1) && small_model(f, 5);
}

// every setting of a source has its own place and its own weight in the loss
TEST(train, each_term_has_its_own_weight) {
    static const char* const name[] = {"config", "displacement", "tail", "chi", "chi0"};
    static const float want[] = {0.5f, 1.5f, 0.25f, 0.375f, 0.125f};
    const env_spec* env = env_find("tworoom");
    const char* set[] = {"loss.I.config=0.5", "loss.I.displacement=1.5", "loss.I.tail=0.25",
                         "loss.I.chi=0.375", "loss.I.chi0=0.125"};
    config* settings;
    firm_error err;
    model_shape shape;
    firm_model* m;
    rollout_graph g;
    loss_weights w;
    REQUIRE_OK(settings_load(&env->task, "smoke", set, 5, &settings, &err), err);
    REQUIRE_OK(loss_read(settings, env, "I", &w, &err), err);
    model_shape_read(settings, &shape);
    REQUIRE_OK(model_create(&env->task, &shape, 1, 5, &m, &err), err);
    REQUIRE_OK(rollout_graph_build(m, &w, NULL, &g, &err), err);
    EXPECT_INT(g.g->terms, 5);
    for (int t = 0; t < g.g->terms; t++) {
        EXPECT_TEXT(g.g->term[t].name, name[t]);
        EXPECT_NEAR(g.g->term[t].weight, want[t], 0);
    }
    nn_graph_free(g.g);
    // a weight of 0 leaves the first moment's chi out
    w.chi0 = 0;
    REQUIRE_OK(rollout_graph_build(m, &w, NULL, &g, &err), err);
    EXPECT_INT(g.g->terms, 4);
    nn_graph_free(g.g);
    firm_model_free(m);
    config_free(settings);
}

typedef struct fed {  // what rollout_fill() gave the graph, or constants in its place
    rollout_batch b;
    float chi0[8], chi[8 * ENV_HORIZON];
    int constant;
    float now, later;  // the constants: of the first moment and of those after it
} fed;

static firm_status fill_and_keep(void* ctx, const nn_feed* feed) {
    fed* f = ctx;
    int dim = f->b.set->env->task.chi_dim;
    TRY(rollout_fill(&f->b, feed));
    float *now = nn_feed_real(feed, f->b.graph->chi0), *later = nn_feed_real(feed, f->b.graph->chi);
    for (int i = 0; i < dim * ENV_HORIZON; i++) {
        if (f->constant) later[i] = f->later;
        if (f->constant && i < dim) now[i] = f->now;
        f->chi[i] = later[i];
        if (i < dim) f->chi0[i] = now[i];
    }
    return FIRM_OK;
}

// One record of TwoRoom on a graph with the terms chi (3) and chi0 (4).
typedef struct one_record {
    small f;
    rollout_graph g;
    history_cache cache;
    fed fed;
    nn_exec* e;
} one_record;

static int open_record(one_record* r) {
    loss_weights w = {.config = 1, .displacement = 1, .tail = 1, .chi = 0.5f, .chi0 = 0.25f};
    firm_error err;
    if (!open_tworoom(&r->f)) return 0;
    const records* from = &r->f.set.data.set[PACK_F];
    size_t n = (size_t)from->histories, dim = (size_t)r->f.env->task.config_dim;
    r->cache = (history_cache){from->histories,
                               mem_calloc(n * (size_t)r->f.model->shape.belief, sizeof(float)),
                               mem_calloc(n * HIST * dim, sizeof(float))};
    r->fed = (fed){.b = {.set = &r->f.set,
                         .model = r->f.model,
                         .graph = &r->g,
                         .from = from,
                         .cache = &r->cache}};
    nn_exec_options opt = {.batch = 1, .shard = 1, .lanes = 1};
    if (rollout_graph_build(r->f.model, &w, NULL, &r->g, &err) == FIRM_OK &&
        nn_exec_create(r->g.g, nn_backend_ref(), &opt, NULL, &r->e, &err) == FIRM_OK)
        return 1;
    test_fail(__FILE__, __LINE__, "%s", err.message);
    return 0;
}

static void close_record(one_record* r) {
    nn_exec_free(r->e);
    nn_graph_free(r->g.g);
    cache_free(&r->cache);
    small_close(&r->f);
}

// Targets are standardised and cut at eight deviations.
TEST(train, chi_is_cut_at_eight_deviations) {
    static const double given[] = {0, 1, -1, 7.9, -7.9, 8.1, -8.1, 20, -20, 1e6, -1e6, 3};
    one_record r;
    if (!open_record(&r)) return;
    const model_stats* stats = &r.f.model->stats;
    int dim = r.f.env->task.chi_dim;  // 2, so that 12 numbers are one record's six moments
    float* chi = r.f.set.data.set[PACK_F].chi;
    EXPECT_INT(dim * ENV_POINTS, 12);
    for (int i = 0; i < dim * ENV_POINTS; i++)
        chi[i] = (float)(stats->chi_mean[i % dim] + given[i] * stats->chi_std[i % dim]);
    EXPECT_INT(nn_exec_forward(r.e, 1, fill_and_keep, &r.fed), FIRM_OK);
    for (int i = 0; i < dim * ENV_POINTS; i++) {
        double want = given[i] > 8 ? 8 : given[i] < -8 ? -8 : given[i];
        EXPECT_NEAR(i < dim ? r.fed.chi0[i] : r.fed.chi[i - dim], want, 1e-4);
    }
    close_record(&r);
}

// Mean squares of (prediction - target): as functions of a constant target t they are parabolas,
// f(1) - 2 f(0) + f(-1) = 2, each of its own target alone.
TEST(train, chi_terms_measure_their_own_moments) {
    one_record r;
    if (!open_record(&r)) return;
    double term[2][3][3];  // chi and chi0, for targets -1, 0, 1 of the first and of later moments
    r.fed.constant = 1;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            r.fed.now = (float)(i - 1);
            r.fed.later = (float)(k - 1);
            EXPECT_INT(nn_exec_forward(r.e, 1, fill_and_keep, &r.fed), FIRM_OK);
            for (int t = 0; t < 2; t++) term[t][i][k] = nn_exec_term(r.e, 3 + t);
        }
    for (int i = 0; i < 3; i++) {
        EXPECT_NEAR(term[0][i][0] - 2 * term[0][i][1] + term[0][i][2], 2, 1e-6);
        EXPECT_NEAR(term[1][0][i] - 2 * term[1][1][i] + term[1][2][i], 2, 1e-6);
        EXPECT_NEAR(term[0][i][1], term[0][0][1], 0);
        EXPECT_NEAR(term[1][1][i], term[1][1][0], 0);
    }
    EXPECT(fabs(term[0][1][1] - term[1][1][1]) > 1e-9);
    close_record(&r);
}
