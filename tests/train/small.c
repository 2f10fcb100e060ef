// small.c - see small.h.
#include "small.h"

#include "check.h"
#include "env/env.h"
#include "eval/settings.h"
#include "train/shape.h"

static firm_status load(small* s, const small_options* o, firm_error* err) {
    int sets = 0;
    while (sets < 7 && o->set[sets]) sets++;
    config_free(s->settings);
    s->settings = NULL;
    return settings_load(&s->env->task, o->settings, o->set, sets, &s->settings, err);
}

static firm_status collect(small* s, const small_options* o, firm_error* err) {
    collect_options episodes = {.episodes = o->episodes, .seed = 3};
    intervene_options anchors = {.anchors = o->anchors, .per_anchor = o->per_anchor};
    TRY(env_find_or_fail(o->task, &s->env, err));
    TRY(load(s, o, err));
    TRY(env_create(s->env, &s->kept, err));
    if (strcmp(o->task, "pusht") == 0) episodes.policy = "weak";  // the default one takes long
    TRY(episodes_collect(s->env, &episodes, o->p, &s->data, err));
    TRY(branches_collect(s->data, &anchors, o->p, &s->inter, err));
    if (!o->structured) return FIRM_OK;
    anchors.anchors = o->structured;
    anchors.structured = 1;
    return branches_collect(s->data, &anchors, o->p, &s->structured, err);
}

static int done(small* s, firm_status st, const firm_error* err) {
    if (st == FIRM_OK) return 1;
    if (st == FIRM_E_UNAVAILABLE)
        test_skip(err->message);
    else
        test_fail(__FILE__, __LINE__, "%s", err->message);
    small_close(s);
    return 0;
}

int small_collect(small* s, const small_options* opt) {
    firm_error err = {0};
    *s = (small){0};
    return done(s, collect(s, opt, &err), &err);
}

int small_settings(small* s, const small_options* opt) {
    firm_error err = {0};
    return done(s, load(s, opt, &err), &err);
}

int small_open(small* s, const train_options* opt, int workers) {
    firm_error err = {0};
    train_inputs in = small_inputs(s);
    return done(s, train_set_open(s->settings, s->env, &in, opt, workers, &s->set, &err), &err);
}

int small_model(small* s, uint64_t seed) {
    firm_error err = {0};
    model_shape shape;
    model_shape_read(s->settings, &shape);
    firm_status st =
        model_create(&s->env->task, &shape, stages_auxiliary(s->settings), seed, &s->model, &err);
    if (st == FIRM_OK) st = train_set_stats(&s->set, &s->model->stats, &err);
    return done(s, st, &err);
}

void small_close(small* s) {
    firm_model_free(s->model);
    train_set_close(&s->set);
    branches_free(s->structured);
    branches_free(s->inter);
    episodes_free(s->data);
    env_free(s->kept);
    config_free(s->settings);
    *s = (small){0};
}

train_inputs small_inputs(const small* s) {
    return (train_inputs){.data = s->data, .interventions = s->inter, .structured = s->structured};
}
