// moments.c - see moments.h.
#include "moments.h"

#include "check.h"
#include "env/env.h"
#include "eval/trials.h"

int moments_make(int count, moments* m, firm_error* err) {
    eval_trials* t = NULL;
    collect_options few = {.episodes = 60, .seed = 11};
    trial_options draw = {
        .count = count, .offset = 25, .seed = 3, .unsolved = 1, .split = &m->split, .training = 1};
    *m = (moments){0};
    int ok = episodes_collect(env_find("tworoom"), &few, NULL, &m->e, err) == FIRM_OK &&
             data_split_make(m->e, 0, &m->split, err) == FIRM_OK &&
             eval_trials_draw(m->e, &draw, &t, err) == FIRM_OK &&
             eval_trials_pack(t, &draw, 0, &m->set, err) == FIRM_OK;
    for (int i = 0; ok && i < t->count; i++)
        EXPECT(!m->split.is_valid[episodes_of_row(m->e, t->trial[i].start)]);
    eval_trials_free(t);
    return ok;
}

void moments_free(moments* m) {
    trial_set_free(m->set);
    data_split_free(&m->split);
    episodes_free(m->e);
}
