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
    int ok = settings_load(f->env, "smoke", NULL, 0, &f->settings, &err) == FIRM_OK &&
             episodes_collect(f->env, &(collect_options){.episodes = 120, .seed = 3}, NULL,
                              &f->data, &err) == FIRM_OK &&
             branches_collect(f->data, &(intervene_options){.anchors = 24, .per_anchor = 4}, NULL,
                              &f->inter, &err) == FIRM_OK &&
             train_set_open(f->settings, f->env,
                            &(train_inputs){.data = f->data, .interventions = f->inter}, &opt, 1,
                            &f->set, &err) == FIRM_OK;
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

TEST(train, anchors_of_validation_episodes_are_refused) {
    fixture f;
    if (!open_fixture(&f, 0)) return;
    train_set other;
    firm_error err;
    f.inter->row[7] = f.data->offset[f.set.split.valid[0]] + 4;
    EXPECT_INT(
        train_set_open(f.settings, f.env, &(train_inputs){.data = f.data, .interventions = f.inter},
                       &(train_options){0}, 1, &other, &err),
        FIRM_E_VALUE);
    EXPECT(strstr(err.message, "anchor 7") && strstr(err.message, "firm intervene"));
    train_set_close(&other);
    close_fixture(&f);
}

// stepping the true simulator through a record's actions leads to its configurations and chi
TEST(train, records_tell_what_happened) {
    fixture f;
    if (!open_fixture(&f, 0)) return;
    env* e;
    firm_error err;
    REQUIRE_OK(env_create(f.env, &e, &err), err);
    for (int i = 0; i < 40; i++) {
        const records* r = &f.set.data.set[i % 2 ? PACK_I : PACK_F];
        const int64_t* seen = r->seen + r->history[i] * RECORD_FRAMES;
        double state[2], before[2];
        float c[2], chi[2];
        f.env->state_set(e, pack_state(&f.set.data, seen[RECORD_FRAMES - 1]));
        for (int t = 0; t <= SPAN; t++) {
            memcpy(before, state, sizeof state);
            f.env->state_get(e, state);
            if (t == 1)
                EXPECT(memcmp(state, pack_state(&f.set.data, r->after[i]), sizeof state) == 0);
            if (t % MODEL_CONTROLS == 0) {
                int at = i * RECORD_POINTS + t / MODEL_CONTROLS;
                f.env->config(state, c);
                EXPECT(memcmp(c, r->config + 2 * at, sizeof c) == 0);
                f.env->chi(state, before, before, chi);
                if (t) EXPECT(memcmp(chi, r->chi + 2 * at, sizeof chi) == 0);
            }
            if (t < SPAN) f.env->step(e, r->action + (i * SPAN + t) * 2);
        }
        // the history is the recording's, with the actions that led through it
        EXPECT_INT(seen[1], seen[0] + 1);
        EXPECT_INT(seen[2], seen[0] + 2);
        EXPECT(memcmp(r->past + r->history[i] * 4, f.data->action + seen[0] * 2,
                      4 * sizeof(float)) == 0);
    }
    env_free(e);
    close_fixture(&f);
}

TEST(train, mismatch_keeps_the_marginals) {
    fixture f, plain;
    if (!open_fixture(&f, 1)) return;
    if (!open_fixture(&plain, 0)) return;
    const records *r = &f.set.data.set[PACK_I], *o = &plain.set.data.set[PACK_I];
    int n = r->count, moved = 0, *seen = calloc((size_t)n, sizeof *seen);
    size_t future = 2 * (RECORD_POINTS - 1) * sizeof(float);
    EXPECT(memcmp(r->action, o->action, (size_t)n * SPAN * 2 * sizeof(float)) == 0);
    for (int i = 0; i < n; i++) {
        const float* c = r->config + 2 * i * RECORD_POINTS;
        EXPECT(memcmp(c, o->config + 2 * i * RECORD_POINTS, 2 * sizeof(float)) == 0);
        int from = -1;
        for (int j = 0; j < n; j++)
            if (r->after[i] == o->after[j]) from = j;
        if (from < 0) continue;
        seen[from]++;
        moved += from != i;
        EXPECT(memcmp(c + 2, o->config + 2 * from * RECORD_POINTS + 2, future) == 0);
    }
    for (int i = 0; i < n; i++) EXPECT_INT(seen[i], 1);
    EXPECT(moved > n * 9 / 10);
    free(seen);
    close_fixture(&plain);
    close_fixture(&f);
}

// what caches hold, made up
static void random_cache(const fixture* f, const records* of, history_cache* c) {
    int belief = f->model->shape.belief, dim = f->env->config_dim;
    rng r = rng_start(11, RNG_STREAM(RNG_TEST, 0));
    *c = (history_cache){of->histories, mem_alloc((size_t)(of->histories * belief) * sizeof(float)),
                         mem_alloc((size_t)(of->histories * HIST * dim) * sizeof(float))};
    for (int i = 0; i < of->histories * belief; i++) c->belief[i] = rng_gauss(&r);
    for (int i = 0; i < of->histories * HIST; i++) {
        f->env->config(pack_state(&f->set.data, of->seen[i]), c->config + i * dim);
        for (int d = 0; d < dim; d++) c->config[i * dim + d] += 0.01f * rng_gauss(&r);
    }
}

// a stage that trains what recurrent stages train
static stage recurrent(void) {
    stage s = {.objective = "rollout", .modules = 3};
    static const char* const prefix[] = {"fiber.", "transition.", "aux.chi."};
    for (int i = 0; i < 3; i++) {
        snprintf(s.module[i].prefix, sizeof s.module->prefix, "%s", prefix[i]);
        s.module[i].factor = 1;
    }
    return s;
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
    random_cache(&f, &f.set.data.set[PACK_F], &cache);
    REQUIRE_OK(rollout_graph_build(f.model, &w, NULL, &g, &err), err);
    REQUIRE_OK(
        nn_exec_create(g.g, nn_backend_ref(),
                       &(nn_exec_options){.batch = N, .shard = 7, .lanes = 1}, NULL, &e, &err),
        err);
    rollout_batch b = {.set = &f.set,
                       .model = f.model,
                       .graph = &g,
                       .from = &f.set.data.set[PACK_F],
                       .cache = &cache};
    EXPECT_INT(nn_exec_forward(e, N, rollout_fill, &b), FIRM_OK);
    const float* path = nn_exec_output(e, g.path);
    int dim = f.env->config_dim;
    double config_sum = 0, step_sum = 0, terminal[N], tail = 0;
    for (int i = 0; i < N; i++) {
        const records* r = &f.set.data.set[PACK_F];
        const float* last = cache.config + (r->history[i] * HIST + HIST - 1) * dim;
        float before[8];
        memcpy(before, last,
               (size_t)dim * sizeof(float));  // anchored: the inferred c_0 on both sides
        terminal[i] = 0;
        for (int k = 0; k < STEPS; k++) {
            const float* c = path + (i * STEPS + k) * dim;
            const float* truth = r->config + (i * RECORD_POINTS + k + 1) * dim;
            for (int d = 0; d < dim; d++) {
                double miss = (double)c[d] - truth[d],
                       slip = ((double)c[d] - last[d]) - ((double)truth[d] - before[d]);
                config_sum += miss * miss;
                step_sum += slip * slip;
                if (k == STEPS - 1) terminal[i] += miss * miss / dim;
            }
            last = c;
            memcpy(before, truth, (size_t)dim * sizeof *before);
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
    random_cache(&f, &f.set.data.set[PACK_F], &cache);
    stage s = recurrent();
    REQUIRE_OK(rollout_graph_build(f.model, &w, &s, &g, &err), err);
    REQUIRE_OK(nn_exec_create(g.g, nn_backend_ref(),
                              &(nn_exec_options){.batch = N, .shard = 3, .lanes = 2, .train = 1},
                              NULL, &e, &err),
               err);
    rollout_batch b = {.set = &f.set,
                       .model = f.model,
                       .graph = &g,
                       .from = &f.set.data.set[PACK_F],
                       .cache = &cache};
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
    random_cache(&f, &f.set.data.set[PACK_F], &cache);
    stage s = recurrent();
    REQUIRE_OK(rollout_graph_build(f.model, &w, &s, &g, &err), err);
    REQUIRE_OK(nn_exec_create(g.g, nn_backend_cpu(),
                              &(nn_exec_options){.batch = 16, .shard = 8, .lanes = 2, .train = 1},
                              NULL, &e, &err),
               err);
    REQUIRE_OK(nn_adamw_create(e, &opt, NULL, &adamw, &err), err);
    rollout_batch b = {.set = &f.set,
                       .model = f.model,
                       .graph = &g,
                       .from = &f.set.data.set[PACK_F],
                       .cache = &cache};
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
    const pairs* p = train_pairs(&f.set, PACK_F, 1);
    for (int i = 0; i < p->count; i += 7, n++) {
        const float* c = p->config + 4 * i;
        float least = 1e9f;
        for (int k = 0; k < 256; k++) {
            const float* near = f.model->support + 2 * k;
            float d = hypotf(c[0] - near[0], c[1] - near[1]);
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
