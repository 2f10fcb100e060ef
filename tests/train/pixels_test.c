// pixels_test.c - the terms of the pixel stages can be learned: on a handful of frames each of them
// falls well below where it began.
#include "check.h"
#include "plan/settings.h"
#include "train/run.h"

typedef struct lesson {
    const char *task, *settings;
    int stage;             // index of the stage whose terms are learned
    const char* extra[2];  // overrides
    int updates;
    double factor;  // every term ends below this part of its beginning
} lesson;

static void learn(const lesson* l) {
    firm_error err;
    const env_spec* env = env_find(l->task);
    const char* set[] = {"train.frame_pool=8", l->extra[0] ? l->extra[0] : "train.held_out=4",
                         l->extra[1] ? l->extra[1] : "train.segments=4"};
    config* settings = NULL;
    episodes* data = NULL;
    branches* inter = NULL;
    collect_options collect = {.episodes = 12, .seed = 3};
    if (strcmp(l->task, "pusht") == 0) collect.policy = "weak";
    REQUIRE_OK(settings_load(env, l->settings, set, 3, &settings, &err), err);
    REQUIRE_OK(episodes_collect(env, &collect, NULL, &data, &err), err);
    REQUIRE_OK(branches_collect(data, &(intervene_options){.anchors = 4, .per_anchor = 2}, NULL,
                                &inter, &err),
               err);
    static train_set s;
    firm_model* m;
    model_shape shape;
    stage what;
    model_shape_read(settings, &shape);
    REQUIRE_OK(train_set_open(settings, env, &(train_inputs){.data = data, .interventions = inter},
                              &(train_options){.seed = 1}, 2, &s, &err),
               err);
    REQUIRE_OK(model_create(env, &shape, 1, 1, &m, &err), err);
    REQUIRE_OK(train_set_stats(&s, &m->stats, &err), err);
    EXPECT(stage_read(settings, l->stage, NULL, &what));
    what.terms.anchor = 0;

    frontend_graph g;
    pool* p;
    nn_trainer* t;
    const pairs* from = train_pairs(&s, PACK_F, what.lag);
    REQUIRE_OK(pool_create(2, &p, &err), err);
    REQUIRE_OK(pixel_graph(m, &what, 1, &g, &err), err);
    frontend_batch b = {
        .set = &s, .model = m, .graph = &g, .from = from, .rows = from->count, .pick = -1};
    nn_part part = {.label = "",
                    .graph = g.g,
                    .batch = 8,
                    .shard = 4,
                    .weight = 1,
                    .fill = pair_fill,
                    .ctx = &b};
    nn_device device = nn_device_cpu();
    nn_trainer_options opt = {
        .device = &device, .store = m->store, .p = p, .lanes = 2, .adamw = nn_adamw_default()};
    opt.adamw.rate = 2e-3f;
    opt.adamw.updates = l->updates;
    REQUIRE_OK(nn_trainer_create(&opt, &part, 1, &t, &err), err);
    double first[8] = {0};
    for (int u = 0; u < l->updates; u++) {
        REQUIRE_OK(nn_trainer_step(t, u, &err), err);
        REQUIRE_OK(nn_trainer_read(t, &err), err);
        for (int k = 0; k < g.g->terms && u == 0; k++) first[k] = nn_trainer_term(t, 0, k);
    }
    for (int k = 0; k < g.g->terms; k++)
        if (!(nn_trainer_term(t, 0, k) < l->factor * first[k]))
            test_fail(__FILE__, __LINE__, "%s, %s: from %g to %g", l->task, g.g->term[k].name,
                      first[k], nn_trainer_term(t, 0, k));
    nn_trainer_free(t);
    nn_graph_free(g.g);
    pool_free(p);
    firm_model_free(m);
    train_set_close(&s);
    branches_free(inter);
    episodes_free(data);
    config_free(settings);
}

TEST(train, pixel_terms_are_learned) {
    learn(&(lesson){"tworoom", "smoke", 0, {NULL}, 80, 0.8});
    learn(&(lesson){"tworoom", "smoke", 1, {"stage.grounder.tail=1", NULL}, 60, 0.3});
#ifdef FIRM_CHIPMUNK
    learn(&(lesson){"pusht", "smoke-pusht", 5, {NULL}, 60, 0.8});
#endif
}

TEST(train, pixel_terms_of_mujoco_tasks_are_learned) {
#ifdef FIRM_MUJOCO
    learn(
        &(lesson){"reacher", "smoke-reacher", 0, {"stage.encoder.equivariance=10", NULL}, 60, 0.9});
    learn(&(lesson){"reacher", "smoke-reacher", 3, {NULL}, 60, 0.5});
#else
    test_skip("built without MuJoCo; run `make mujoco`");
#endif
}
