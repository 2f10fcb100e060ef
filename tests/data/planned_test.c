// planned_test.c - interventions that follow a search: the plans, whatever the threads; recorded
// as such; towards goals of their own episodes.
#include "data/planned.h"

#include "check.h"
#include "core/mem.h"
#include "env/env.h"
#include "eval/proposers.h"
#include "eval/settings.h"
#include "train/shape.h"

enum { ANCHORS = 3, BRANCHES = 5, SIZE = ANCHORS * BRANCHES * ENV_SPAN * 2 };

// A pilot that notes the goals it is given, and flies on.
typedef struct noted {
    data_pilot by;
    float goal[2];
} noted;

static void note_goal(void* ctx, const float* history, const float* goal) {
    noted* n = ctx;
    memcpy(n->goal, goal, sizeof n->goal);
    n->by.truth(n->by.ctx, history, goal);
}
static void pass_reset(void* ctx, uint64_t seed) {
    noted* n = ctx;
    n->by.reset(n->by.ctx, seed);
}
static firm_status pass_push(void* ctx, const uint8_t* rgb, const float* action) {
    noted* n = ctx;
    return n->by.push(n->by.ctx, rgb, action);
}
static firm_status pass_goal(void* ctx, const uint8_t* rgb) {
    noted* n = ctx;
    return n->by.goal(n->by.ctx, rgb);
}
static firm_status pass_act(void* ctx, firm_step* step) {
    noted* n = ctx;
    return n->by.act(n->by.ctx, step);
}

// Every other goal is where the recording is a plan later; the others are of the same episode.
static void check_goals(const episodes* e, const firm_model* m) {
    const int64_t row = e->offset[3] + 2;
    float action[50], c[2];
    firm_error err;
    pilots by;
    planned* p;
    noted note[PLANNED_DEPTHS];
    data_pilot pilot[PLANNED_DEPTHS];
    REQUIRE_OK(pilots_open_depths(m, 16, 1, &by, &err), err);
    for (int i = 0; i < PLANNED_DEPTHS; i++) {
        note[i] = (noted){.by = by.pilot[i]};
        pilot[i] = (data_pilot){&note[i], pass_reset, pass_push, pass_goal, note_goal, pass_act};
    }
    REQUIRE_OK(planned_open(pilot, e, 4, &p, &err), err);
    for (int number = 0; number < 2 * PLANNED_DEPTHS; number++) {
        REQUIRE_OK(planned_make(p, row, number, action, &err), err);
        const float* goal = note[number / 2].goal;
        int found = 0;
        for (int64_t at = e->offset[3]; at < e->offset[3] + e->length[3]; at++) {
            if (number % 2 == 0 && at != row + ENV_SPAN) continue;
            env_config(e->spec, e->state + at * e->spec->state->dim, c);
            found |= memcmp(c, goal, sizeof c) == 0;
        }
        EXPECT(found);
    }
    planned_free(p);
    pilots_free(&by);
}

// Interventions through a random model's searches; NULL after a failure, which is reported.
static branches* planned_branches(const episodes* e, const firm_model* m, int threads) {
    firm_error err;
    planned* p = NULL;
    pilots by;
    branches* b = NULL;
    intervene_options opt = {.anchors = ANCHORS, .per_anchor = BRANCHES, .seed = 4};
    firm_status st = pilots_open_depths(m, 16, threads, &by, &err);
    if (st == FIRM_OK) st = planned_open(by.pilot, e, 4, &p, &err);
    opt.propose = planned_make;
    opt.ctx = p;
    if (st == FIRM_OK) st = branches_collect(e, &opt, NULL, &b, &err);
    if (st != FIRM_OK) test_fail(__FILE__, __LINE__, "%s", err.message);
    planned_free(p);
    pilots_free(&by);
    return b;
}

TEST(data, planned_interventions_follow_a_search) {
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
    branches *one = planned_branches(e, m, 1), *two = planned_branches(e, m, 2);
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
    check_goals(e, m);
    branches_free(one);
    branches_free(two);
    firm_model_free(m);
    config_free(settings);
    episodes_free(e);
}
