// pixels_test.c - the terms of the pixel stages can be learned: on a handful of frames each of them
// falls well below where it began. (The short form takes three updates.)
#include "check.h"
#include "small.h"
#include "train/frontend.h"

typedef struct lesson {
    const char *task, *settings;
    int stage;          // index of the stage whose terms are learned
    const char* extra;  // an override, or NULL
    int updates;
    double factor;  // every term ends below this part of its beginning
} lesson;

static void learn(const lesson* l) {
    firm_error err;
    small s;
    stage what;
    small_options few = {
        .task = l->task,
        .settings = l->settings,
        .set = {"train.frame_pool=8", "train.held_out=4", "train.segments=4", l->extra},
        .episodes = 12,
        .anchors = 4,
        .per_anchor = 2};
    if (!small_collect(&s, &few) || !small_open(&s, &(train_options){.seed = 1}, 2) ||
        !small_model(&s, 1))
        return;
    EXPECT(stage_read(s.settings, l->stage, NULL, &what));
    what.terms.anchor = 0;

    frontend_graph g;
    pool* p;
    nn_trainer* t;
    const pairs* from = train_pairs(&s.set, PACK_F, what.lag);
    REQUIRE_OK(pool_create(2, &p, &err), err);
    REQUIRE_OK(pixel_graph(s.model, &what, 1, &g, &err), err);
    frontend_batch b = {.set = &s.set,
                        .model = s.model,
                        .graph = &g,
                        .from = from,
                        .rows = from->count,
                        .pick = -1};
    nn_part part = {.label = "",
                    .graph = g.g,
                    .batch = 8,
                    .shard = 4,
                    .weight = 1,
                    .fill = pair_fill,
                    .ctx = &b};
    nn_device device = nn_device_cpu();
    nn_trainer_options opt = {.device = &device,
                              .store = s.model->store,
                              .p = p,
                              .lanes = 2,
                              .adamw = nn_adamw_default()};
    opt.adamw.rate = 2e-3f;
    opt.adamw.updates = l->updates;
    REQUIRE_OK(nn_trainer_create(&opt, &part, 1, &t, &err), err);
    double first[8] = {0};
    int updates = test_short() ? 3 : l->updates;  // too few to learn from: the numbers stay numbers
    for (int u = 0; u < updates; u++) {
        REQUIRE_OK(nn_trainer_step(t, u, &err), err);
        REQUIRE_OK(nn_trainer_read(t, &err), err);
        for (int k = 0; k < g.g->terms && u == 0; k++) first[k] = nn_trainer_term(t, 0, k);
    }
    for (int k = 0; k < g.g->terms; k++)
        if (!(nn_trainer_term(t, 0, k) < (test_short() ? INFINITY : l->factor * first[k])))
            test_fail(__FILE__, __LINE__, "%s, %s: from %g to %g", l->task, g.g->term[k].name,
                      first[k], nn_trainer_term(t, 0, k));
    nn_trainer_free(t);
    nn_graph_free(g.g);
    pool_free(p);
    small_close(&s);
}

TEST(train, pixel_terms_are_learned) {
    learn(&(lesson){"tworoom", "smoke", 0, NULL, 80, 0.8});
    learn(&(lesson){"tworoom", "smoke", 1, "stage.grounder.tail=1", 60, 0.3});
    learn(&(lesson){"tworoom", "smoke", 0, "stage.tokenizer.posture=1", 80, 0.8});
#ifdef FIRM_CHIPMUNK
    learn(&(lesson){"pusht", "smoke-pusht", 5, NULL, 60, 0.8});
#endif
}

TEST(train, pixel_terms_of_mujoco_tasks_are_learned) {
#ifdef FIRM_MUJOCO
    learn(&(lesson){"reacher", "smoke-reacher", 0, "stage.encoder.equivariance=10", 60, 0.9});
    learn(&(lesson){"reacher", "smoke-reacher", 3, NULL, 60, 0.5});
#else
    test_skip("built without MuJoCo; run `make mujoco`");
#endif
}
