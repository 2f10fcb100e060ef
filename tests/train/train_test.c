// train_test.c - training data never touches validation episodes; the rollout loss is the paper's;
// updates learn; stages follow the settings. (Threads, kill and resume:
// tests/cli/whole_path_test.c.)
#include <float.h>

#include "check.h"
#include "core/mem.h"
#include "plan/settings.h"
#include "train/run.h"

typedef struct fixture {
    const env_spec* env;
    config* settings;
    episodes* data;
    branches* inter;
    train_set set;
    firm_model* model;
} fixture;

static int open_fixture(fixture* f, int mismatch) {
    firm_error err;
    *f = (fixture){.env = env_find("tworoom")};
    train_options opt = {.seed = 5, .mismatch = mismatch};
    model_shape shape;
    int ok =
        settings_load(f->env, "smoke", NULL, 0, &f->settings, &err) == FIRM_OK &&
        episodes_collect(f->env, &(collect_options){.episodes = 120, .seed = 3}, NULL, &f->data,
                         &err) == FIRM_OK &&
        branches_collect(f->data, &(intervene_options){.anchors = 24, .per_anchor = 4}, NULL,
                         &f->inter, &err) == FIRM_OK &&
        train_set_open(f->settings, f->env, f->data, f->inter, &opt, 1, &f->set, &err) == FIRM_OK;
    if (ok) {
        model_shape_read(f->settings, &shape);
        ok = model_create(f->env, &shape, 1, 5, &f->model, &err) == FIRM_OK &&
             train_set_stats(&f->set, &f->model->stats, &err) == FIRM_OK;
    }
    if (!ok) test_fail(__FILE__, __LINE__, "%s", err.message);
    return ok;
}

static void close_fixture(fixture* f) {
    firm_model_free(f->model);
    train_set_close(&f->set);
    branches_free(f->inter);
    episodes_free(f->data);
    config_free(f->settings);
}

static int is_valid_row(const fixture* f, int64_t row) {
    return f->set.split.is_valid[episodes_of_row(f->data, row)];
}

TEST(train, no_validation_episode_is_trained_on) {
    fixture f;
    if (!open_fixture(&f, 0)) return;
    EXPECT(f.set.split.valid_count >= 10);
    for (int i = 0; i < f.set.factual.count; i++)
        EXPECT(!is_valid_row(&f, f.set.factual.item[i].row));
    for (int i = 0; i < f.set.intervened.count; i++)
        EXPECT(!is_valid_row(&f, f.set.intervened.item[i].row));
    int64_t bad = 0;
    for (int64_t i = 0; i < f.set.pair_rows; i++) bad += is_valid_row(&f, f.set.pair_row[i]);
    EXPECT_INT(bad, 0);
    for (int i = 0; i < f.set.held.count; i++) EXPECT(is_valid_row(&f, f.set.held.item[i].row));
    close_fixture(&f);
}

TEST(train, anchors_of_validation_episodes_are_refused) {
    fixture f;
    if (!open_fixture(&f, 0)) return;
    train_set other;
    firm_error err;
    f.inter->row[7] = f.data->offset[f.set.split.valid[0]] + 4;
    EXPECT_INT(
        train_set_open(f.settings, f.env, f.data, f.inter, &(train_options){0}, 1, &other, &err),
        FIRM_E_VALUE);
    EXPECT(strstr(err.message, "anchor 7") && strstr(err.message, "firm intervene"));
    train_set_close(&other);
    close_fixture(&f);
}

TEST(train, moments_tell_what_happened) {
    fixture f;
    if (!open_fixture(&f, 0)) return;
    env* e;
    firm_error err;
    REQUIRE_OK(env_create(f.env, &e, &err), err);
    // stepping the true simulator through a moment's actions leads to its states, recorded or
    // branched
    for (int i = 0; i < 40; i++) {
        const moment* m = i % 2 ? &f.set.intervened.item[i] : &f.set.factual.item[i];
        f.env->state_set(e, moment_state(&f.set, m, 0));
        for (int t = 0; t < SPAN; t++) {
            float raw[FIRM_MAX_ACTION];
            double state[ENV_MAX_STATE];
            moment_actions(&f.set, m, t, 1, raw);
            f.env->step(e, raw);
            f.env->state_get(e, state);
            EXPECT(memcmp(state, moment_state(&f.set, m, t + 1), 2 * sizeof *state) == 0);
        }
    }
    env_free(e);
    close_fixture(&f);
}

TEST(train, mismatch_keeps_the_marginals) {
    fixture f;
    if (!open_fixture(&f, 1)) return;
    int n = f.set.intervened.count, moved = 0, *seen = calloc((size_t)n, sizeof *seen);
    for (int i = 0; i < n; i++) {
        EXPECT_INT(f.set.intervened.item[i].branch, i);
        seen[f.set.intervened.item[i].outcome]++;
        moved += f.set.intervened.item[i].outcome != i;
    }
    for (int i = 0; i < n; i++) EXPECT_INT(seen[i], 1);
    EXPECT(moved > n * 9 / 10);
    free(seen);
    close_fixture(&f);
}

static void random_cache(const fixture* f, const moments* of, history_cache* c) {
    rng r = rng_start(1, RNG_STREAM(RNG_TEST, 77));
    int belief = f->model->shape.belief, dim = f->env->config_dim;
    *c = (history_cache){of->histories, mem_alloc((size_t)(of->histories * belief) * sizeof(float)),
                         mem_alloc((size_t)(of->histories * HIST * dim) * sizeof(float))};
    for (int i = 0; i < of->histories * belief; i++) c->belief[i] = rng_gauss(&r);
    for (int i = 0; i < of->histories; i++)
        for (int k = 0; k < HIST; k++) {
            moment m = {.row = of->row[i], .branch = -1, .outcome = -1};
            moment_config(&f->set, &m, k - (HIST - 1), c->config + (i * HIST + k) * dim);
            for (int d = 0; d < dim; d++)
                c->config[(i * HIST + k) * dim + d] += 0.01f * rng_gauss(&r);
        }
}

// the terms of the paper's rollout loss, written out from the predicted paths
TEST(train, rollout_loss_is_the_papers) {
    enum { N = 24 };
    fixture f;
    if (!open_fixture(&f, 0)) return;
    firm_error err;
    loss_weights w = {.config = 2, .displacement = 2, .tail = 0.5f, .chi = 0.5f, .chi0 = 0.5f};
    rollout_graph g;
    history_cache cache;
    nn_exec* e;
    random_cache(&f, &f.set.factual, &cache);
    REQUIRE_OK(rollout_graph_build(f.model, &w, 0, &g, &err), err);
    REQUIRE_OK(
        nn_exec_create(g.g, nn_backend_ref(),
                       &(nn_exec_options){.batch = N, .shard = 7, .lanes = 1}, NULL, &e, &err),
        err);
    rollout_batch b = {
        .set = &f.set, .model = f.model, .graph = &g, .from = &f.set.factual, .cache = &cache};
    EXPECT_INT(nn_exec_forward(e, N, rollout_fill, &b), FIRM_OK);
    const float* path = nn_exec_output(e, g.path);
    int dim = f.env->config_dim;
    double config_sum = 0, step_sum = 0, terminal[N], tail = 0;
    for (int i = 0; i < N; i++) {
        const moment* m = &f.set.factual.item[i];
        const float* last = cache.config + (m->history * HIST + HIST - 1) * dim;
        float truth[8], before[8];
        memcpy(before, last,
               (size_t)dim * sizeof(float));  // anchored: the inferred c_0 on both sides
        terminal[i] = 0;
        for (int k = 0; k < STEPS; k++) {
            const float* c = path + (i * STEPS + k) * dim;
            moment_config(&f.set, m, (k + 1) * MODEL_CONTROLS, truth);
            for (int d = 0; d < dim; d++) {
                double miss = (double)c[d] - truth[d],
                       slip = ((double)c[d] - last[d]) - ((double)truth[d] - before[d]);
                config_sum += miss * miss;
                step_sum += slip * slip;
                if (k == STEPS - 1) terminal[i] += miss * miss / dim;
            }
            last = c;
            memcpy(before, truth, sizeof before);
        }
    }
    // mean of the ceil(0.25 * 24) = 6 largest
    for (int r = 0; r < 6; r++) {
        int top = 0;
        for (int i = 1; i < N; i++)
            if (terminal[i] > terminal[top]) top = i;
        tail += terminal[top] / 6;
        terminal[top] = -DBL_MAX;
    }
    EXPECT_TEXT(g.g->term[0].name, "config");
    EXPECT_NEAR(nn_exec_term(e, 0), config_sum / (N * STEPS * dim), 1e-6);
    EXPECT_TEXT(g.g->term[1].name, "displacement");
    EXPECT_NEAR(nn_exec_term(e, 1), step_sum / (N * STEPS * dim), 1e-6);
    EXPECT_TEXT(g.g->term[2].name, "tail");
    EXPECT_NEAR(nn_exec_term(e, 2), tail, 1e-6);
    double total = 0;
    for (int t = 0; t < g.g->terms; t++) total += (double)g.g->term[t].weight * nn_exec_term(e, t);
    EXPECT_INT(g.g->terms, 5);
    EXPECT_NEAR(nn_exec_loss(e), total, 1e-9);
    nn_exec_free(e);
    nn_graph_free(g.g);
    cache_free(&cache);
    close_fixture(&f);
}

// derived reverse mode through five recurrent steps, TopMean and the fiber, in double
TEST(train, rollout_gradient) {
    enum { N = 8 };
    fixture f;
    if (!open_fixture(&f, 0)) return;
    firm_error err;
    loss_weights w = {.config = 2, .displacement = 2, .tail = 1, .chi = 0.5f, .chi0 = 0.5f};
    rollout_graph g;
    history_cache cache;
    nn_exec* e;
    random_cache(&f, &f.set.factual, &cache);
    REQUIRE_OK(rollout_graph_build(f.model, &w, 1, &g, &err), err);
    REQUIRE_OK(nn_exec_create(g.g, nn_backend_ref(),
                              &(nn_exec_options){.batch = N, .shard = 3, .lanes = 2, .train = 1},
                              NULL, &e, &err),
               err);
    rollout_batch b = {
        .set = &f.set, .model = f.model, .graph = &g, .from = &f.set.factual, .cache = &cache};
    EXPECT_INT(nn_exec_gradient(e, rollout_fill, &b), FIRM_OK);
    const nn_trained* list;
    int entries = nn_exec_trained(e, &list), checked = 0;
    double* grad = malloc(nn_exec_grad_count(e) * sizeof *grad);
    memcpy(grad, nn_exec_ref_grad(e), nn_exec_grad_count(e) * sizeof *grad);
    for (int i = 0; i < entries; i++) {
        size_t at = (size_t)train_pick(1, 1, i, 0, (int64_t)list[i].count);
        double* p = nn_exec_ref_params(e) + f.model->store->entry[list[i].entry].offset + at;
        double keep = *p, side[2], h = 1e-5;
        for (int s = 0; s < 2; s++) {
            *p = keep + (s ? -h : h);
            nn_exec_forward(e, N, rollout_fill, &b);
            side[s] = nn_exec_loss(e);
        }
        *p = keep;
        double numeric = (side[0] - side[1]) / (2 * h), exact = grad[list[i].offset + at];
        EXPECT_NEAR(exact, numeric, 1e-6 + 1e-5 * fabs(numeric));
        checked++;
    }
    EXPECT(checked >= 20);
    free(grad);
    nn_exec_free(e);
    nn_graph_free(g.g);
    cache_free(&cache);
    close_fixture(&f);
}

TEST(train, overfits_one_batch) {
    fixture f;
    if (!open_fixture(&f, 0)) return;
    firm_error err;
    loss_weights w = {.config = 2, .displacement = 2, .tail = 0.5f, .chi = 0.5f, .chi0 = 0.5f};
    rollout_graph g;
    history_cache cache;
    nn_exec* e;
    nn_adamw* adamw;
    nn_adamw_options opt = nn_adamw_default();
    opt.rate = 3e-3f;
    opt.updates = 300;
    random_cache(&f, &f.set.factual, &cache);
    REQUIRE_OK(rollout_graph_build(f.model, &w, 1, &g, &err), err);
    REQUIRE_OK(nn_exec_create(g.g, nn_backend_cpu(),
                              &(nn_exec_options){.batch = 16, .shard = 8, .lanes = 2, .train = 1},
                              NULL, &e, &err),
               err);
    REQUIRE_OK(nn_adamw_create(e, &opt, NULL, &adamw, &err), err);
    rollout_batch b = {
        .set = &f.set, .model = f.model, .graph = &g, .from = &f.set.factual, .cache = &cache};
    double first = 0;
    for (int u = 0; u < 300; u++) {
        EXPECT_INT(nn_exec_gradient(e, rollout_fill, &b), FIRM_OK);
        if (u == 0) first = nn_exec_loss(e);
        nn_adamw_step(adamw, f.model->store, NULL);
    }
    EXPECT(nn_exec_loss(e) < 0.02 * first);
    nn_adamw_free(adamw);
    nn_exec_free(e);
    nn_graph_free(g.g);
    cache_free(&cache);
    close_fixture(&f);
}

// every number of the paper's TwoRoom rows stands in the task's settings
TEST(train, tworoom_schedule_is_the_papers) {
    static const struct {
        const char *name, *objective;
        int sources, updates;
        double rate;
    } paper[] = {
        {"tokenizer", "picture", SOURCE_F, 100, 2e-4},
        {"grounder", "ground", SOURCE_F, 1000, 3e-4},
        {"history", "dynamics", SOURCE_F, 500, 3e-4},
        {"rollout-f", "rollout", SOURCE_F, 3000, 3e-4},
        {"rollout-fi", "rollout", SOURCE_F | SOURCE_I, 3000, 1e-4},
    };
    firm_error err;
    config* c;
    stage s;
    REQUIRE_OK(settings_load(env_find("tworoom"), NULL, NULL, 0, &c, &err), err);
    for (int i = 0; i < 5; i++) {
        EXPECT(stage_read(c, i, NULL, &s));
        EXPECT_TEXT(s.name, paper[i].name);
        EXPECT_TEXT(s.objective, paper[i].objective);
        EXPECT_INT(s.sources, paper[i].sources);
        EXPECT_INT(s.updates, paper[i].updates);
        EXPECT_NEAR(s.adamw.rate, paper[i].rate, 1e-9);
        stage_read(c, i, "I", &s);
        EXPECT_INT(s.sources, SOURCE_I);
    }
    EXPECT(!stage_read(c, 5, NULL, &s));
    EXPECT_INT(config_int(c, "train", "segments"), 16384);
    static const char* const key[] = {"config", "displacement", "tail", "chi", "chi0"};
    static const double want[2][5] = {{2, 2, 0.5, 0.5, 0.5}, {2, 2, 1.0, 0.5, 0}};
    for (int k = 0; k < 5; k++) {
        EXPECT_NEAR(config_real(c, "loss.F", key[k]), want[0][k], 1e-9);
        EXPECT_NEAR(config_real(c, "loss.I", key[k]), want[1][k], 1e-9);
    }
    config_free(c);
}

// the stored configurations come from training episodes, lie apart, and cover what was seen
TEST(train, support_covers_the_training_data) {
    fixture f;
    if (!open_fixture(&f, 0)) return;
    firm_error err;
    REQUIRE_OK(support_fill(&f.set, f.model, 256, &err), err);
    EXPECT_INT(f.model->support_count, 256);
    EXPECT(f.model->support_radius > 0 && f.model->support_radius < 0.2f);
    int far = 0, n = 0;
    for (int64_t i = 0; i < f.set.pair_rows; i += 7, n++) {
        float c[2], least = 1e9f;
        f.env->config(f.data->state + f.set.pair_row[i] * 2, c);
        for (int k = 0; k < 256; k++) {
            const float* p = f.model->support + 2 * k;
            float d = hypotf(c[0] - p[0], c[1] - p[1]);
            if (d < least) least = d;
        }
        far += least > f.model->support_radius;
    }
    EXPECT(far * 200 < n);  // one in a thousand by construction, here on other rows
    // nobody was ever inside the wall, away from the door
    for (int k = 0; k < 256; k++) {
        float x = (f.model->support[2 * k] + 1) * 112, y = (f.model->support[2 * k + 1] + 1) * 112;
        EXPECT(!(x > 101 && x < 123 && (y < 32 || y > 66)));
    }
    REQUIRE_OK(support_fill(&f.set, f.model, 0, &err), err);
    EXPECT(f.model->support == NULL && f.model->support_count == 0);
    close_fixture(&f);
}
