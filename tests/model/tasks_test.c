// tasks_test.c - the model of every task as a whole: the paper's parameter counts, tokens, files,
// pictures to configurations, and a controller that plans with it.
#include "check.h"
#include "core/mem.h"
#include "env/env.h"
#include "eval/settings.h"
#include "files.h"
#include "nn/exec.h"
#include "report/paper.h"
#include "train/shape.h"

static firm_model* task_model(const env_spec* env, int auxiliary) {
    config* settings;
    model_shape shape;
    firm_model* m = NULL;
    firm_error err = {0};
    firm_status status = settings_load(&env->task, NULL, NULL, 0, &settings, &err);
    if (status == FIRM_OK) {
        model_shape_read(settings, &shape);
        config_free(settings);
        status = model_create(&env->task, &shape, auxiliary, 4, &m, &err);
    }
    if (status != FIRM_OK) {
        fprintf(stderr, "%s: %s\n", env->task.name, err.message);
        abort();
    }
    for (int i = 0; i < 3; i++) {
        m->stats.image_mean[i] = 0.5f;
        m->stats.image_std[i] = 0.3f;
    }
    return m;
}

static float* param(const firm_model* m, const char* name) {
    int entry = nn_store_find(m->store, name);
    if (entry < 0) {
        test_fail(__FILE__, __LINE__, "%s has no %s", m->task.name, name);
        abort();
    }
    return m->store->value + m->store->entry[entry].offset;
}

static void clear(const firm_model* m, const char* name) {
    int entry = nn_store_find(m->store, name);
    memset(param(m, name), 0, m->store->entry[entry].count * sizeof(float));
}

TEST(model, tasks_parameter_counts) {
    for (int i = 0; env_at(i); i++) {
        firm_model* m = task_model(env_at(i), 1);
        const paper_params* paper = paper_find_params(env_at(i)->task.name);
        model_params p = model_count(m);
        firm_model_info info;
        firm_model_info_get(m, &info);
        EXPECT_INT(info.parameters, p.total);
        EXPECT_TEXT(info.task, m->task.name);
        if (!paper) {  // the paper does not have the task
            firm_model_free(m);
            continue;
        }
        const double ours[] = {(double)p.frontend, (double)p.grounder, (double)p.transition,
                               (double)p.total};
        const double theirs[] = {paper->frontend, paper->grounder, paper->transition, paper->total};
        static const char* const name[] = {"frontend", "grounder", "transition", "total"};
        for (int k = 0; k < 4; k++)
            if (!(fabs(ours[k] / (1e6 * theirs[k]) - 1) <= 0.01))
                test_fail(__FILE__, __LINE__, "%s: %s has %.0f parameters, the paper %.3fM",
                          m->task.name, name[k], ours[k], theirs[k]);
        if (strcmp(m->task.name, "tworoom") == 0) EXPECT_INT(p.grounder, 1613442);
        firm_model_free(m);
    }
}

TEST(model, tasks_tokens) {
    static const struct {
        const char* task;
        int count, width;
    } want[] = {{"tworoom", 49, 64}, {"pusht", 196, 64}, {"reacher", 32, 32}, {"cube", 49, 64}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        if (!env_find(want[i].task)) continue;
        firm_model* m = task_model(env_find(want[i].task), 0);
        EXPECT_INT(model_token_count(m), want[i].count);
        EXPECT_INT(model_token_width(m), want[i].width);
        firm_model_free(m);
    }
}

// ---- files --------------------------------------------------------------------------------------

static void same_model(const firm_model* got, const firm_model* want, double tolerance) {
    EXPECT(memcmp(&got->task, &want->task, sizeof got->task) == 0);
    EXPECT(memcmp(&got->shape, &want->shape, sizeof got->shape) == 0);
    EXPECT_INT(model_count(got).total, model_count(want).total);
    for (int i = 0; i < got->store->entries; i++) {
        const nn_entry* e = &got->store->entry[i];
        const float *a = got->store->value + e->offset, *b = param(want, e->name);
        double worst = 0;
        for (size_t j = 0; j < e->count; j++) worst = test_worse(worst, fabs((double)a[j] - b[j]));
        if (!(worst <= tolerance))
            test_fail(__FILE__, __LINE__, "%s: %s differs by %g", want->task.name, e->name, worst);
    }
}

TEST(model, tasks_file_round_trip) {
    for (int i = 0; env_at(i); i++) {
        firm_error err = {0};
        firm_model *m = task_model(env_at(i), 1), *back = NULL;
        const char* path = temp_path("task.safetensors");
        REQUIRE_OK(checkpoint_write(path, m, CHECKPOINT_MODEL, NULL, 0, NULL, 0, &err), err);
        REQUIRE_OK(firm_model_load(path, &back, &err), err);
        same_model(back, m, 0);
        firm_model_free(back);
        REQUIRE_OK(checkpoint_write(path, m, CHECKPOINT_MODEL_HALF, NULL, 0, NULL, 0, &err), err);
        REQUIRE_OK(firm_model_load(path, &back, &err), err);
        same_model(back, m, 2e-3);
        firm_model_free(back);
        firm_model_free(m);
    }
}

TEST(model, tasks_forms_that_do_not_fit) {
    static const struct {
        const char *task, *set, *word;
    } bad[] = {
        {"tworoom", "model.spatial=64", "model.spatial"},
        {"tworoom", "model.grid=9", "allow 7, 14 or 28"},
        {"tworoom", "model.history_pool=2", "history_pool"},
        {"cube", "model.grounder=votes", "votes"},
        {"reacher", "model.grounder=votes", "votes"},
        {"tworoom", "model.grounder=staged", "joints"},
        {"reacher", "model.history_pool=2", "keypoints are not pooled"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const env_spec* env = env_find(bad[i].task);
        config* settings;
        model_shape shape;
        firm_model* m = NULL;
        firm_error err = {0};
        REQUIRE_OK(settings_load(&env->task, NULL, &bad[i].set, 1, &settings, &err), err);
        model_shape_read(settings, &shape);
        config_free(settings);
        firm_status got = model_create(&env->task, &shape, 0, 1, &m, &err);
        if (got != FIRM_E_VALUE || !strstr(err.message, bad[i].word))
            test_fail(__FILE__, __LINE__, "%s %s: status %d: %s", bad[i].task, bad[i].set, got,
                      err.message);
        firm_model_free(m);
    }
}

// ---- pictures -----------------------------------------------------------------------------------

typedef struct seeing {
    nn_graph* g;
    nn_exec* e;
    nn_id image, same, tokens, again, config, places;
} seeing;

static firm_status noise(void* ctx, const nn_feed* feed) {
    const seeing* s = ctx;
    for (int i = 0; i < feed->count * feed->graph->tensor[s->image].size; i++) {
        rng r = rng_start(8, RNG_STREAM(RNG_TEST, i / 3));
        uint8_t level = (uint8_t)rng_u32(&r);
        nn_feed_bytes(feed, s->image)[i] = level;
        nn_feed_bytes(feed, s->same)[i] = level;
    }
    return FIRM_OK;
}

static seeing look_at_noise(const firm_model* m) {
    seeing s = {0};
    firm_error err = {0};
    if (nn_graph_create(m->store, &s.g, &err) != FIRM_OK) abort();
    s.image = nn_image(s.g, "image", m->task.image);
    s.same = nn_image(s.g, "same", m->task.image);
    s.tokens = model_tokens(s.g, m, s.image, NN_NONE);
    s.again = model_tokens(s.g, m, s.image, s.same);
    s.config = model_ground(s.g, m, s.tokens);
    nn_output(s.g, s.tokens);
    nn_output(s.g, s.again);
    nn_output(s.g, s.config);
    if (m->shape.keypoints) nn_output(s.g, s.places = model_keypoints(s.g, m, s.tokens));
    nn_exec_options opt = {.batch = 1, .shard = 1, .lanes = 1};
    if (nn_exec_create(s.g, nn_backend_cpu(), &opt, NULL, &s.e, &err) != FIRM_OK ||
        nn_exec_forward(s.e, 1, noise, &s) != FIRM_OK)
        abort();
    return s;
}

static void seeing_free(seeing* s) {
    nn_exec_free(s->e);
    nn_graph_free(s->g);
}

// no change is the same as none given; angles come out on the unit circle; points inside the
// picture
TEST(model, tasks_see) {
    for (int i = 0; env_at(i); i++) {
        firm_model* m = task_model(env_at(i), 0);
        seeing s = look_at_noise(m);
        const float *still = nn_exec_output(s.e, s.tokens), *again = nn_exec_output(s.e, s.again);
        const float* c = nn_exec_output(s.e, s.config);
        double worst = 0, size = 0;
        for (int k = 0; k < nn_size(s.g, s.tokens); k++) {
            worst = test_worse(worst, fabs((double)still[k] - again[k]));
            size = test_worse(size, fabs((double)still[k]));
        }
        EXPECT(size > 0.1 && isfinite(size) && worst <= 1e-5 * size);
        for (int p = 0; p < m->task.pairs; p++) EXPECT_NEAR(hypot(c[2 * p], c[2 * p + 1]), 1, 1e-6);
        for (int k = 2 * m->task.pairs; k < m->task.config_dim; k++) EXPECT(fabsf(c[k]) < 1);
        seeing_free(&s);
        firm_model_free(m);
    }
}

// A keypoint that looks everywhere alike is in the middle; one that looks at a single cell is
// there.
TEST(model, tasks_keypoints_are_places) {
    firm_model* m = task_model(env_find("reacher"), 0);
    int grid = m->shape.grid, channels = m->shape.channels[3], cell = 3 * grid + 9;
    clear(m, "tokenizer.keypoint.where.weight");
    // the last stage silent but for the positions, which mark one cell in one channel
    clear(m, "tokenizer.stage4.norm.gamma");
    clear(m, "tokenizer.stage4.norm.beta");
    clear(m, "tokenizer.position");
    param(m, "tokenizer.position")[cell * channels + 2] = 50;
    param(m, "tokenizer.keypoint.where.weight")[2 * m->shape.keypoints + 1] = 1;
    seeing s = look_at_noise(m);
    const float* place = nn_exec_output(s.e, s.places);
    EXPECT_NEAR(place[0], 0, 1e-5);
    EXPECT_NEAR(place[1], 0, 1e-5);
    EXPECT_NEAR(place[2], (2.0 * 9 + 1) / grid - 1, 1e-5);
    EXPECT_NEAR(place[3], (2.0 * 3 + 1) / grid - 1, 1e-5);
    seeing_free(&s);
    firm_model_free(m);
}

TEST(model, tasks_physical_target) {
    firm_model* m = task_model(env_find("reacher"), 0);
    const double q[] = {0.3, -1.1};
    float c[4], xy[4];
    for (int j = 0; j < 2; j++) {
        c[2 * j] = (float)sin(q[j]);
        c[2 * j + 1] = (float)cos(q[j]);
    }
    model_physical_target(m, c, xy);
    EXPECT_NEAR(xy[0], cos(0.3), 1e-6);
    EXPECT_NEAR(xy[1], sin(0.3), 1e-6);
    EXPECT_NEAR(xy[2], cos(0.3) + cos(0.3 - 1.1), 1e-6);
    EXPECT_NEAR(xy[3], sin(0.3) + sin(0.3 - 1.1), 1e-6);
    firm_model_free(m);
}

// ---- planning -----------------------------------------------------------------------------------

static void draw_noise(const task_typed* t, uint8_t* rgb, uint64_t seed) {
    rng r = rng_start(seed, RNG_STREAM(RNG_TEST, 0));
    for (size_t i = 0; i < task_frame_bytes(t); i++) rgb[i] = (uint8_t)rng_u32(&r);
}

TEST(model, tasks_plan) {
    for (int i = 0; env_at(i); i++) {
        const env_spec* env = env_at(i);
        uint8_t* rgb = malloc(task_frame_bytes(&env->task));
        firm_model* m = task_model(env, 0);
        firm_controller* ctl = NULL;
        firm_error err = {0};
        firm_controller_params p = firm_controller_params_default();
        p.candidates = 24, p.iterations = 2, p.elites = 6, p.threads = 1;
        REQUIRE_OK(firm_controller_create(m, &p, &ctl, &err), err);
        float action[FIRM_MAX_ACTION] = {0};
        draw_noise(&env->task, rgb, 1);
        EXPECT_INT(firm_controller_goal(ctl, rgb), FIRM_OK);
        for (uint64_t k = 0; k < 3; k++) {
            draw_noise(&env->task, rgb, 2 + k);
            EXPECT_INT(firm_controller_push(ctl, rgb, k ? action : NULL), FIRM_OK);
        }
        firm_step step;
        EXPECT_INT(firm_controller_act(ctl, 0, &step), FIRM_OK);
        EXPECT(step.solved && step.nonfinite == 0 && isfinite(step.cost));
        for (int k = 0; k < env->task.action_dim; k++) EXPECT(isfinite(step.action[k]));
        firm_controller_free(ctl);
        firm_model_free(m);
        free(rgb);
    }
}
