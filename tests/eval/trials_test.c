// trials_test.c - start and goal pairs: held out, distinct, inside their episode, the same for a
// seed.
#include "eval/trials.h"

#include <inttypes.h>

#include "check.h"
#include "core/mem.h"
#include "env/env.h"

static episodes* collect(int count, uint64_t seed) {
    firm_error err;
    collect_options opt = {.episodes = count, .seed = seed};
    episodes* e = NULL;
    if (episodes_collect(env_find("tworoom"), &opt, NULL, &e, &err) != FIRM_OK)
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return e;
}

TEST(eval, trials_are_held_out_and_whole) {
    firm_error err;
    data_split split;
    eval_trials *t, *again, *other;
    episodes* e = collect(120, 3);
    if (!e) return;
    REQUIRE_OK(data_split_make(e, 0, &split, &err), err);
    trial_options opt = {.count = 60, .offset = 25, .seed = 9, .split = &split};
    REQUIRE_OK(eval_trials_draw(e, &opt, &t, &err), err);
    EXPECT_INT(t->count, 60);
    int solved = 0;
    for (int i = 0; i < t->count; i++) {
        const eval_trial* p = &t->trial[i];
        int episode = episodes_of_row(e, p->start);
        EXPECT(split.is_valid[episode]);
        EXPECT_INT(episodes_of_row(e, p->goal), episode);
        EXPECT_INT(p->goal - p->start, 25);
        EXPECT(p->start - e->offset[episode] >= 2);
        if (i) EXPECT(t->trial[i - 1].start < p->start);  // sorted and distinct
        EXPECT_INT(p->solved,
                   env_success(e->spec, e->state + 2 * p->start, e->state + 2 * p->goal));
        solved += p->solved;
    }
    EXPECT(solved < 30);

    REQUIRE_OK(eval_trials_draw(e, &opt, &again, &err), err);
    EXPECT(eval_trials_hash(t) == eval_trials_hash(again));
    opt.seed = 10;
    REQUIRE_OK(eval_trials_draw(e, &opt, &other, &err), err);
    EXPECT(eval_trials_hash(t) != eval_trials_hash(other));
    eval_trials_free(t);
    eval_trials_free(again);
    eval_trials_free(other);
    data_split_free(&split);
    episodes_free(e);
}

TEST(eval, trials_hash_sees_start_and_goal) {
    firm_error err;
    eval_trials *before, *after;
    episodes* e = collect(10, 4);
    if (!e) return;
    trial_options opt = {.count = 1, .offset = 25, .seed = 1};
    REQUIRE_OK(eval_trials_draw(e, &opt, &before, &err), err);
    for (int which = 0; which < 2; which++) {
        double* x = &e->state[2 * (which ? before->trial[0].goal : before->trial[0].start)];
        double kept = *x;
        *x += 0.25;
        REQUIRE_OK(eval_trials_draw(e, &opt, &after, &err), err);
        EXPECT_INT(after->trial[0].start, before->trial[0].start);
        EXPECT(after->trial[0].hash != before->trial[0].hash);
        eval_trials_free(after);
        *x = kept;
    }
    eval_trials_free(before);
    episodes_free(e);
}

TEST(eval, trials_unsolved_and_too_many) {
    firm_error err;
    eval_trials* t;
    episodes* e = collect(30, 5);
    if (!e) return;
    trial_options opt = {.count = 200, .offset = 25, .seed = 9, .unsolved = 1};
    REQUIRE_OK(eval_trials_draw(e, &opt, &t, &err), err);
    for (int i = 0; i < t->count; i++) EXPECT_INT(t->trial[i].solved, 0);
    eval_trials_free(t);

    // every eligible pair can be drawn, one more cannot
    int pairs = 0;
    for (int i = 0; i < e->count; i++) pairs += e->length[i] > 92 ? e->length[i] - 92 : 0;
    opt = (trial_options){.count = pairs, .offset = 90, .seed = 9};
    REQUIRE_OK(eval_trials_draw(e, &opt, &t, &err), err);
    eval_trials_free(t);
    opt.count++;
    EXPECT_INT(eval_trials_draw(e, &opt, &t, &err), FIRM_E_VALUE);
    EXPECT(t == NULL && strstr(err.message, "fewer trials") != NULL);
    opt.offset = 0;
    EXPECT_INT(eval_trials_draw(e, &opt, &t, &err), FIRM_E_USAGE);
    episodes_free(e);
}

TEST(eval, training_moments_are_no_validation_ones) {
    firm_error err;
    data_split split;
    eval_trials* t;
    episodes* e = collect(120, 3);
    if (!e) return;
    REQUIRE_OK(data_split_make(e, 0, &split, &err), err);
    trial_options opt = {.count = 60, .offset = 25, .seed = 9, .split = &split, .training = 1};
    REQUIRE_OK(eval_trials_draw(e, &opt, &t, &err), err);
    for (int i = 0; i < t->count; i++)
        EXPECT(!split.is_valid[episodes_of_row(e, t->trial[i].start)]);
    eval_trials_free(t);
    data_split_free(&split);
    episodes_free(e);
}

#ifdef FIRM_CHIPMUNK
// A goal with the agent outside the picture is passed over; what was drawn before it stays.
TEST(eval, trials_have_goals_that_can_be_seen) {
    firm_error err;
    eval_trials *before, *after;
    const env_spec* spec = env_find("pusht");
    collect_options weak = {.episodes = 12, .seed = 4, .policy = "weak"};
    episodes* e;
    REQUIRE_OK(episodes_collect(spec, &weak, NULL, &e, &err), err);
    trial_options opt = {.count = 20, .offset = 25, .seed = 9};
    REQUIRE_OK(eval_trials_draw(e, &opt, &before, &err), err);
    int64_t goal = -1, hidden = -1;
    for (int i = 0; i < before->count; i++)
        if (before->trial[i].draw == 7)
            goal = before->trial[i].goal, hidden = before->trial[i].start;
    e->state[goal * spec->state->dim] = 640;  // the agent's x
    REQUIRE_OK(eval_trials_draw(e, &opt, &after, &err), err);
    int kept = 0;
    for (int i = 0; i < after->count; i++) {
        float c[FIRM_MAX_CONFIG];
        env_config(spec, e->state + after->trial[i].goal * spec->state->dim, c);
        EXPECT(task_is_visible(&spec->task, c));
        EXPECT(after->trial[i].start != hidden);
        for (int j = 0; j < before->count; j++) kept += before->trial[j].row == after->trial[i].row;
    }
    EXPECT_INT(kept, 19);
    eval_trials_free(before);
    eval_trials_free(after);
    episodes_free(e);
}
#endif

TEST(eval, training_data_are_refused) {
    firm_error err;
    episodes* e = collect(4, 7);
    if (!e) return;
    char same[128], other[128];
    snprintf(same, sizeof same, "version=100 seed=1 sources=FI data_seed=7 data_hash=%016" PRIx64,
             e->hash);
    snprintf(other, sizeof other, "version=100 seed=1 sources=FI data_seed=7 data_hash=%016" PRIx64,
             e->hash ^ 1);
    // fresh episodes of the training seed are the training episodes
    EXPECT_INT(eval_check_held_out(same, e, 1, &err), FIRM_E_USAGE);
    EXPECT(strstr(err.message, "another --seed") != NULL);
    // the training file itself has its validation part; a sibling of it has not
    EXPECT_INT(eval_check_held_out(same, e, 0, &err), FIRM_OK);
    EXPECT_INT(eval_check_held_out(other, e, 0, &err), FIRM_E_USAGE);
    EXPECT_INT(eval_check_held_out("version=100 seed=7 data_seed=8 data_hash=1", e, 1, &err),
               FIRM_OK);
    EXPECT_INT(eval_check_held_out("", e, 1, &err), FIRM_OK);
    // the same of episodes that a model carries
    snprintf(same, sizeof same, "data_seed=8 data_hash=1 episodes_seed=7 episodes_hash=%016" PRIx64,
             e->hash);
    EXPECT_INT(eval_check_held_out(same, e, 1, &err), FIRM_E_USAGE);
    EXPECT_INT(eval_check_held_out(same, e, 0, &err), FIRM_OK);
    EXPECT_INT(eval_check_held_out("episodes_seed=7 episodes_hash=1", e, 0, &err), FIRM_E_USAGE);
    episodes_free(e);
}
