// losses_test.c - the loss contract of tasks with joint angles, written out from angles: changes
// composed since the start, and the worst joint at every step in the tail. (The terms for plain
// coordinates, and gradients: train_test.c.)
#include "check.h"
#include "core/rng.h"
#include "plan/settings.h"
#include "train/internal.h"

enum { N = 20, JOINTS = 2, DIM = 2 * JOINTS };

// what the graph is fed: angles of the start and of the five targets
typedef struct angles {
    const rollout_graph* g;
    double start[N][JOINTS], target[N][STEPS][JOINTS];
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
        for (int k = 0; k < STEPS; k++)
            put_pairs(a->target[n][k], nn_feed_real(feed, a->g->target) + (i * STEPS + k) * DIM);
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
            for (int k = 0; k < STEPS; k++)
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
    REQUIRE_OK(settings_load(env, "smoke", set, 3, &settings, &err), err);
    model_shape shape;
    firm_model* m;
    rollout_graph g;
    nn_exec* e;
    model_shape_read(settings, &shape);
    REQUIRE_OK(loss_read(settings, env, "F", &w, &err), err);
    REQUIRE_OK(model_create(env, &shape, 1, 5, &m, &err), err);
    REQUIRE_OK(rollout_graph_build(m, &w, NULL, &g, &err), err);
    nn_exec_options opt = {.batch = N, .shard = 7, .lanes = 1};
    REQUIRE_OK(nn_exec_create(g.g, nn_backend_ref(), &opt, NULL, &e, &err), err);
    a.g = &g;
    EXPECT_INT(nn_exec_forward(e, N, fill, &a), FIRM_OK);

    double config = 0, change = 0, error[N * STEPS];
    for (int i = 0; i < N; i++) {
        double last[JOINTS], before[JOINTS];
        memcpy(last, a.start[i], sizeof last);
        memcpy(before, a.start[i], sizeof before);
        for (int k = 0; k < STEPS; k++) {
            const float* c = nn_exec_output(e, g.path) + (i * STEPS + k) * DIM;
            double worst = 0;
            for (int j = 0; j < JOINTS; j++) {
                double now = atan2(c[2 * j], c[2 * j + 1]), truth = a.target[i][k][j];
                config += square_chord(now, truth);
                change += square_chord(now - last[j], truth - before[j]);
                worst = fmax(worst, square_chord(now, truth));
                if (from_start) continue;
                last[j] = now;
                before[j] = truth;
            }
            error[i * STEPS + k] = w.tail_kind == TAIL_CHORD ? sqrt(worst + 1e-6) - 1e-3 : worst;
        }
    }
    EXPECT_NEAR(nn_exec_term(e, 0), config / (N * STEPS * DIM), 1e-6);
    EXPECT_NEAR(nn_exec_term(e, 1), change / (N * STEPS * DIM), 1e-6);
    EXPECT_NEAR(nn_exec_term(e, 2), top_mean(error, N * STEPS), 1e-6);
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
    REQUIRE_OK(settings_load(env, "smoke", set, 1, &settings, &err), err);
    EXPECT_INT(loss_read(settings, env, "F", &w, &err), FIRM_OK);
    EXPECT_INT(loss_read(settings, env, "I", &w, &err), FIRM_E_VALUE);
    EXPECT(strstr(err.message, "loss.I.tail_kind") && strstr(err.message, "terminal"));
    config_free(settings);
}
