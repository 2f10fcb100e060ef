// train_test.c - training data never touches validation episodes; the rollout loss is the paper's;
// updates learn; stages follow the settings. (Threads, kill and resume:
// tests/cli/whole_path_test.c.)
#include <float.h>

#include "check.h"
#include "core/mem.h"
#include "env/env.h"
#include "eval/settings.h"
#include "small.h"

static int open_tworoom(small* f, int mismatch) {
    return small_collect(f, &(small_options){.task = "tworoom",
                                             .settings = "smoke",
                                             .episodes = 120,
                                             .anchors = 24,
                                             .per_anchor = 4}) &&
           small_open(f, &(train_options){.seed = 5, .mismatch = mismatch}, 1) && small_model(f, 5);
}

TEST(train, anchors_of_validation_episodes_are_refused) {
    small f;
    if (!open_tworoom(&f, 0)) return;
    train_set other;
    firm_error err;
    train_inputs in = small_inputs(&f);
    f.inter->row[7] = f.data->offset[f.set.split.valid[0]] + 4;
    EXPECT_INT(train_set_open(f.settings, f.env, &in, &(train_options){0}, 1, &other, &err),
               FIRM_E_VALUE);
    EXPECT(strstr(err.message, "anchor 7") && strstr(err.message, "firm intervene"));
    train_set_close(&other);
    small_close(&f);
}

// stepping the true simulator through a record's actions leads to its configurations and chi
TEST(train, records_tell_what_happened) {
    small f;
    if (!open_tworoom(&f, 0)) return;
    env* e;
    firm_error err;
    REQUIRE_OK(env_create(f.env, &e, &err), err);
    for (int i = 0; i < 40; i++) {
        const records* r = &f.set.data.set[i % 2 ? PACK_I : PACK_F];
        const int64_t* seen = r->seen + r->history[i] * RECORD_FRAMES;
        double state[2], before[2];
        float c[2], chi[2];
        f.env->sim->state_set(e, pack_state(&f.set.data, seen[RECORD_FRAMES - 1]));
        for (int t = 0; t <= ENV_SPAN; t++) {
            memcpy(before, state, sizeof state);
            f.env->sim->state_get(e, state);
            if (t == 1)
                EXPECT(memcmp(state, pack_state(&f.set.data, r->after[i]), sizeof state) == 0);
            if (t % ENV_CONTROLS == 0) {
                int at = i * ENV_POINTS + t / ENV_CONTROLS;
                env_config(f.env, state, c);
                EXPECT(memcmp(c, r->config + 2 * at, sizeof c) == 0);
                env_chi(f.env, state, before, before, chi);
                if (t) EXPECT(memcmp(chi, r->chi + 2 * at, sizeof chi) == 0);
            }
            if (t < ENV_SPAN) f.env->sim->step(e, r->action + (i * ENV_SPAN + t) * 2);
        }
        // the history is the recording's, with the actions that led through it
        EXPECT_INT(seen[1], seen[0] + 1);
        EXPECT_INT(seen[2], seen[0] + 2);
        EXPECT(memcmp(r->past + r->history[i] * 4, f.data->action + seen[0] * 2,
                      4 * sizeof(float)) == 0);
    }
    env_free(e);
    small_close(&f);
}

TEST(train, mismatch_keeps_the_marginals) {
    small f, plain;
    if (!open_tworoom(&f, 1)) return;
    if (!open_tworoom(&plain, 0)) return;
    const records *r = &f.set.data.set[PACK_I], *o = &plain.set.data.set[PACK_I];
    int n = r->count, moved = 0, *seen = calloc((size_t)n, sizeof *seen);
    size_t future = 2 * (ENV_POINTS - 1) * sizeof(float);
    EXPECT(memcmp(r->action, o->action, (size_t)n * ENV_SPAN * 2 * sizeof(float)) == 0);
    for (int i = 0; i < n; i++) {
        const float* c = r->config + 2 * i * ENV_POINTS;
        EXPECT(memcmp(c, o->config + 2 * i * ENV_POINTS, 2 * sizeof(float)) == 0);
        int from = -1;
        for (int j = 0; j < n; j++)
            if (r->after[i] == o->after[j]) from = j;
        if (from < 0) continue;
        seen[from]++;
        moved += from != i;
        EXPECT(memcmp(c + 2, o->config + 2 * from * ENV_POINTS + 2, future) == 0);
    }
    for (int i = 0; i < n; i++) EXPECT_INT(seen[i], 1);
    EXPECT(moved > n * 9 / 10);
    free(seen);
    small_close(&plain);
    small_close(&f);
}

// what caches hold, made up
static void random_cache(const small* f, const records* of, history_cache* c) {
    int belief = f->model->shape.belief, dim = f->env->task.config_dim;
    rng r = rng_start(11, RNG_STREAM(RNG_TEST, 0));
    *c = (history_cache){of->histories, mem_alloc((size_t)(of->histories * belief) * sizeof(float)),
                         mem_alloc((size_t)(of->histories * HIST * dim) * sizeof(float))};
    for (int i = 0; i < of->histories * belief; i++) c->belief[i] = rng_gauss(&r);
    for (int i = 0; i < of->histories * HIST; i++) {
        env_config(f->env, pack_state(&f->set.data, of->seen[i]), c->config + i * dim);
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

// a rollout graph on made-up histories of recorded moments
typedef struct rollouts {
    rollout_graph g;
    history_cache cache;
    rollout_batch b;
    nn_exec* e;
} rollouts;

static int open_rollouts(rollouts* r, const small* f, const loss_weights* w, const stage* s,
                         const nn_backend* backend, const nn_exec_options* opt) {
    firm_error err;
    const records* from = &f->set.data.set[PACK_F];
    *r = (rollouts){.b = {.set = &f->set, .model = f->model, .from = from}};
    r->b.graph = &r->g;
    r->b.cache = &r->cache;
    random_cache(f, from, &r->cache);
    if (rollout_graph_build(f->model, w, s, &r->g, &err) == FIRM_OK &&
        nn_exec_create(r->g.g, backend, opt, NULL, &r->e, &err) == FIRM_OK)
        return 1;
    test_fail(__FILE__, __LINE__, "%s", err.message);
    return 0;
}

static void close_rollouts(rollouts* r) {
    nn_exec_free(r->e);
    nn_graph_free(r->g.g);
    cache_free(&r->cache);
}

// the terms of the paper's rollout loss, written out from the predicted paths
TEST(train, rollout_loss_is_the_papers) {
    enum { N = 24 };
    small f;
    if (!open_tworoom(&f, 0)) return;
    loss_weights w = {.config = 2, .displacement = 2, .tail = 0.5f, .chi = 0.5f, .chi0 = 0.5f};
    rollouts r;
    if (!open_rollouts(&r, &f, &w, NULL, nn_backend_ref(),
                       &(nn_exec_options){.batch = N, .shard = 7, .lanes = 1}))
        return;
    EXPECT_INT(nn_exec_forward(r.e, N, rollout_fill, &r.b), FIRM_OK);
    const float* path = nn_exec_output(r.e, r.g.path);
    int dim = f.env->task.config_dim;
    double config_sum = 0, step_sum = 0, terminal[N], tail = 0;
    for (int i = 0; i < N; i++) {
        const float* last = r.cache.config + (r.b.from->history[i] * HIST + HIST - 1) * dim;
        float before[8];
        memcpy(before, last,
               (size_t)dim * sizeof(float));  // anchored: the inferred c_0 on both sides
        terminal[i] = 0;
        for (int k = 0; k < ENV_HORIZON; k++) {
            const float* c = path + (i * ENV_HORIZON + k) * dim;
            const float* truth = r.b.from->config + (i * ENV_POINTS + k + 1) * dim;
            for (int d = 0; d < dim; d++) {
                double miss = (double)c[d] - truth[d],
                       slip = ((double)c[d] - last[d]) - ((double)truth[d] - before[d]);
                config_sum += miss * miss;
                step_sum += slip * slip;
                if (k == ENV_HORIZON - 1) terminal[i] += miss * miss / dim;
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
    EXPECT_TEXT(r.g.g->term[0].name, "config");
    EXPECT_NEAR(nn_exec_term(r.e, 0), config_sum / (N * ENV_HORIZON * dim), 1e-6);
    EXPECT_TEXT(r.g.g->term[1].name, "displacement");
    EXPECT_NEAR(nn_exec_term(r.e, 1), step_sum / (N * ENV_HORIZON * dim), 1e-6);
    EXPECT_TEXT(r.g.g->term[2].name, "tail");
    EXPECT_NEAR(nn_exec_term(r.e, 2), tail, 1e-6);
    double total = 0;
    for (int t = 0; t < r.g.g->terms; t++)
        total += (double)r.g.g->term[t].weight * nn_exec_term(r.e, t);
    EXPECT_INT(r.g.g->terms, 5);
    EXPECT_NEAR(nn_exec_loss(r.e), total, 1e-9);
    close_rollouts(&r);
    small_close(&f);
}

// derived reverse mode through five recurrent steps, TopMean and the fiber, in double
TEST(train, rollout_gradient) {
    enum { N = 8 };
    small f;
    if (!open_tworoom(&f, 0)) return;
    loss_weights w = {.config = 2, .displacement = 2, .tail = 1, .chi = 0.5f, .chi0 = 0.5f};
    rollouts r;
    stage s = recurrent();
    nn_exec_options train = {.batch = N, .shard = 3, .lanes = 2, .train = 1};
    if (!open_rollouts(&r, &f, &w, &s, nn_backend_ref(), &train)) return;
    EXPECT_INT(nn_exec_gradient(r.e, rollout_fill, &r.b), FIRM_OK);
    const nn_trained* list;
    int entries = nn_exec_trained(r.e, &list), checked = 0;
    double* grad = malloc(nn_exec_grad_count(r.e) * sizeof *grad);
    memcpy(grad, nn_exec_ref_grad(r.e), nn_exec_grad_count(r.e) * sizeof *grad);
    for (int i = 0; i < entries; i++) {
        size_t at = (size_t)train_pick(1, 1, i, 0, (int64_t)list[i].count);
        double* p = nn_exec_ref_params(r.e) + f.model->store->entry[list[i].entry].offset + at;
        double keep = *p, side[2], h = 1e-5;
        for (int s = 0; s < 2; s++) {
            *p = keep + (s ? -h : h);
            nn_exec_forward(r.e, N, rollout_fill, &r.b);
            side[s] = nn_exec_loss(r.e);
        }
        *p = keep;
        double numeric = (side[0] - side[1]) / (2 * h), exact = grad[list[i].offset + at];
        EXPECT_NEAR(exact, numeric, 1e-6 + 1e-5 * fabs(numeric));
        checked++;
    }
    EXPECT(checked >= 20);
    free(grad);
    close_rollouts(&r);
    small_close(&f);
}

TEST(train, overfits_one_batch) {
    small f;
    if (!open_tworoom(&f, 0)) return;
    loss_weights w = {.config = 2, .displacement = 2, .tail = 0.5f, .chi = 0.5f, .chi0 = 0.5f};
    rollouts r;
    nn_adamw* adamw;
    nn_adamw_options opt = nn_adamw_default();
    opt.rate = 3e-3f;
    opt.updates = 300;
    stage s = recurrent();
    nn_exec_options train = {.batch = 16, .shard = 8, .lanes = 2, .train = 1};
    firm_error err;
    if (!open_rollouts(&r, &f, &w, &s, nn_backend_cpu(), &train)) return;
    nn_gradient grad = {.count = nn_exec_grad_count(r.e), .value = nn_exec_grad(r.e)};
    grad.entries = nn_exec_trained(r.e, &grad.trained);
    REQUIRE_OK(nn_adamw_create(&grad, &opt, NULL, &adamw, &err), err);
    double first = 0;
    for (int u = 0; u < 300; u++) {
        EXPECT_INT(nn_exec_gradient(r.e, rollout_fill, &r.b), FIRM_OK);
        if (u == 0) first = nn_exec_loss(r.e);
        nn_adamw_step(adamw, f.model->store, NULL);
    }
    EXPECT(nn_exec_loss(r.e) < 0.02 * first);
    nn_adamw_free(adamw);
    close_rollouts(&r);
    small_close(&f);
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
    REQUIRE_OK(settings_load(&env_find("tworoom")->task, NULL, NULL, 0, &c, &err), err);
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

// what training frames look like: the stored statistics are those of the frames themselves
TEST(train, tokens_are_those_of_training_frames) {
    small f;
    if (!open_tworoom(&f, 0)) return;
    firm_error err;
    float one[64];
    const int width = model_token_width(f.model);
    REQUIRE_OK(tokens_fill(&f.set, f.model, 64, NULL, &err), err);
    EXPECT(f.model->token_stats != NULL && width <= 64);
    // the mean is at distance 0, and one deviation away in every channel is at most at 1
    EXPECT(model_token_distance(f.model, f.model->token_stats) == 0);
    for (int k = 0; k < width; k++)
        one[k] = f.model->token_stats[k] + f.model->token_stats[width + k];
    float d = model_token_distance(f.model, one);
    EXPECT(d <= 1 && d > 0);
    // the farthest of 64 frames is beyond the root mean square, and within what 64 allow
    EXPECT(f.model->token_radius > 1.25f * d && f.model->token_radius < 1.25f * 8);
    REQUIRE_OK(tokens_fill(&f.set, f.model, 0, NULL, &err), err);
    EXPECT(f.model->token_stats == NULL);
    small_close(&f);
}

// the stored configurations come from training episodes, lie apart, and cover what was seen
TEST(train, support_covers_the_training_data) {
    small f;
    if (!open_tworoom(&f, 0)) return;
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
    small_close(&f);
}
