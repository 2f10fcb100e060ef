// proposals_test.c - interventions that follow a search: the plans, whatever the threads; recorded
// as such; and never a goal from another episode.
#include "eval/proposals.h"

#include "check.h"
#include "core/mem.h"
#include "env/env.h"
#include "eval/settings.h"
#include "train/shape.h"

enum { ANCHORS = 3, BRANCHES = 5, SIZE = ANCHORS * BRANCHES * ENV_SPAN * 2 };

// Interventions through a random model's searches; NULL after a failure, which is reported.
static branches* planned(const episodes* e, const firm_model* m, int threads) {
    firm_error err;
    proposals* p = NULL;
    branches* b = NULL;
    intervene_options opt = {.anchors = ANCHORS, .per_anchor = BRANCHES, .seed = 4};
    firm_status st = proposals_open(m, e, 4, 16, threads, &p, &err);
    opt.propose = proposals_make;
    opt.ctx = p;
    if (st == FIRM_OK) st = branches_collect(e, &opt, NULL, &b, &err);
    if (st != FIRM_OK) test_fail(__FILE__, __LINE__, "%s", err.message);
    proposals_free(p);
    return b;
}

TEST(eval, planned_interventions_follow_a_search) {
    firm_error err;
    const env_spec* spec = env_find("tworoom");
    episodes* e;
    config* settings;
    model_shape shape;
    firm_model* m;
    REQUIRE_OK(
        episodes_collect(spec, &(collect_options){.episodes = 30, .seed = 11}, NULL, &e, &err),
        err);
    REQUIRE_OK(settings_load(&spec->task, "smoke", NULL, 0, &settings, &err), err);
    model_shape_read(settings, &shape);
    REQUIRE_OK(model_create(&spec->task, &shape, 0, 5, &m, &err), err);
    mem_free(m->config);
    m->config = config_dump(settings);
    branches *one = planned(e, m, 1), *two = planned(e, m, 2);
    if (one && two) {
        EXPECT(strcmp(branches_proposal(one), "planned") == 0);
        EXPECT(memcmp(one->action, two->action, SIZE * sizeof(float)) == 0);
        for (int a = 0; a < ANCHORS; a++) {
            const float* first = one->action + a * BRANCHES * 50;
            EXPECT(memcmp(first, e->action + 2 * one->row[a], 50 * sizeof(float)) == 0);
            for (int k = 1; k < BRANCHES; k++)
                for (int j = 0; j < k; j++)
                    EXPECT(memcmp(first + k * 50, first + j * 50, 50 * sizeof(float)) != 0);
        }
    }
    branches_free(one);
    branches_free(two);
    firm_model_free(m);
    config_free(settings);
    episodes_free(e);
}
