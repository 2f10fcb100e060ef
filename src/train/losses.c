// losses.c - the rollout loss of the paper (its appendix "Complete supervision"): future
// configuration, displacement with the anchored first step, TopMean tail and fiber dynamics, with
// the weights of a source.
#include <stdio.h>
#include <string.h>

#include "train/internal.h"

firm_status loss_read(const config* c, const env_spec* env, const char* source, loss_weights* w,
                      firm_error* err) {
    char section[24];
    snprintf(section, sizeof section, "loss.%s", source);
    const char* tail = config_text(c, section, "tail_kind");
    *w = (loss_weights){
        .config = (float)config_real(c, section, "config"),
        .displacement = (float)config_real(c, section, "displacement"),
        .tail = (float)config_real(c, section, "tail"),
        .chi = (float)config_real(c, section, "chi"),
        .chi0 = (float)config_real(c, section, "chi0"),
        .relative = strcmp(config_text(c, section, "displacement_kind"), "rel") == 0,
        .from_start = strcmp(config_text(c, section, "displacement_from"), "start") == 0,
        .tail_kind = strcmp(tail, "terminal") == 0 ? TAIL_TERMINAL
                     : strcmp(tail, "chord") == 0  ? TAIL_CHORD
                                                   : TAIL_CHORD_SQUARED};
    if (w->tail_kind != TAIL_TERMINAL && env->pairs == 0)
        return FAIL(err, FIRM_E_VALUE,
                    "%s.tail_kind = %s needs joint angles, and %s has none; use terminal", section,
                    tail, env->name);
    return FIRM_OK;
}

// Changes of five configurations, each since the one before it or all since the start. Predictions
// and targets both begin at the inferred c_0, so that its error is not counted again as motion.
static nn_id changes(nn_graph* g, const firm_model* m, const loss_weights* w, const nn_id at[STEPS],
                     nn_id start) {
    nn_id change[STEPS];
    for (int k = 0; k < STEPS; k++) {
        nn_id from = k == 0 || w->from_start ? start : at[k - 1];
        change[k] =
            w->relative ? nn_relative(g, at[k], from, m->env->pairs) : nn_sub(g, at[k], from);
    }
    return nn_concat(g, 0, STEPS, change);
}

// the errors of which TopMean takes the worst quarter
static nn_id tail_errors(nn_graph* g, const firm_model* m, const loss_weights* w,
                         const rollout_graph* r, const nn_id path[STEPS],
                         const nn_id target[STEPS]) {
    if (w->tail_kind == TAIL_TERMINAL) return nn_mse(g, path[STEPS - 1], target[STEPS - 1]);
    int steps[2] = {STEPS, m->env->config_dim};
    // the length of a chord has no slope at 0; a thousandth rounds that corner off
    float rounded = w->tail_kind == TAIL_CHORD ? 1e-3f : 0.0f;
    return nn_chord(g, nn_reshape(g, r->path, 2, steps), nn_reshape(g, r->target, 2, steps),
                    m->env->pairs, rounded);
}

firm_status rollout_graph_build(const firm_model* m, const loss_weights* w, int train,
                                rollout_graph* r, firm_error* err) {
    memset(r, 0, sizeof *r);
    TRY(nn_graph_create(m->store, &r->g, err));
    nn_graph* g = r->g;
    int dim = m->env->config_dim, chi_dim = m->env->chi_dim;
    if (train) {
        nn_train(g, "fiber.");
        nn_train(g, "transition.");
        nn_train(g, "aux.chi.");
    }
    r->belief = nn_input1(g, "belief", m->shape.belief);
    for (int f = 0; f < HIST; f++) r->config[f] = nn_input1(g, "config", dim);
    for (int k = 0; k < STEPS; k++)
        r->u[k] = nn_input1(g, "u", MODEL_CONTROLS * m->env->action_dim);
    r->target = nn_input1(g, "target", STEPS * dim);
    r->chi0 = nn_input1(g, "chi0", chi_dim);
    r->chi = nn_input1(g, "chi", STEPS * chi_dim);
    r->zero_fiber = nn_input1(g, "zero", m->shape.fiber);

    nn_id c = r->config[HIST - 1];
    nn_id fiber = m->shape.no_fiber ? r->zero_fiber : model_fiber(g, m, r->belief, r->config);
    nn_id chi0 = m->shape.no_fiber ? NN_NONE : model_chi(g, m, fiber);
    nn_id path[STEPS], target[STEPS], chi[STEPS], start = c;
    for (int k = 0; k < STEPS; k++) {
        model_transition(g, m, r->u[k], &c, &fiber);
        target[k] = nn_slice(g, r->target, 0, k * dim, dim);
        path[k] = c;
        if (!m->shape.no_fiber) chi[k] = model_chi(g, m, fiber);
    }
    r->path = nn_concat(g, 0, STEPS, path);
    nn_output(g, r->path);
    if (!w) return FIRM_OK;

    nn_loss(g, "config", nn_mse(g, r->path, r->target), w->config);
    nn_loss(g, "displacement",
            nn_mse(g, changes(g, m, w, path, start), changes(g, m, w, target, start)),
            w->displacement);
    nn_loss_topmean(g, "tail", tail_errors(g, m, w, r, path, target), w->tail, 0.25f);
    if (m->shape.no_fiber) return FIRM_OK;
    nn_loss(g, "chi", nn_mse(g, nn_concat(g, 0, STEPS, chi), r->chi), w->chi);
    if (w->chi0 > 0) nn_loss(g, "chi0", nn_mse(g, chi0, r->chi0), w->chi0);
    return FIRM_OK;
}

firm_status rollout_fill(void* ctx, const nn_feed* feed) {
    const rollout_batch* b = ctx;
    const rollout_graph* r = b->graph;
    const env_spec* env = b->set->env;
    int dim = env->config_dim, chi_dim = env->chi_dim, macro = MODEL_CONTROLS * env->action_dim;
    int belief = b->model->shape.belief;
    const model_stats* stats = &b->model->stats;
    for (int i = 0; i < feed->count; i++) {
        const moment* m = &b->from->item[b->first + nn_feed_row(feed, i)];
        memcpy(nn_feed_real(feed, r->belief) + i * belief,
               b->cache->belief + (size_t)m->history * (size_t)belief,
               (size_t)belief * sizeof(float));
        for (int f = 0; f < HIST; f++)
            memcpy(nn_feed_real(feed, r->config[f]) + i * dim,
                   b->cache->config + ((size_t)m->history * HIST + (size_t)f) * (size_t)dim,
                   (size_t)dim * sizeof(float));
        memset(nn_feed_real(feed, r->zero_fiber) + i * b->model->shape.fiber, 0,
               (size_t)b->model->shape.fiber * sizeof(float));
        for (int k = 0; k < STEPS; k++) {
            float raw[MODEL_CONTROLS * FIRM_MAX_ACTION];
            moment_actions(b->set, m, k * MODEL_CONTROLS, MODEL_CONTROLS, raw);
            model_standardise(b->model, raw, MODEL_CONTROLS,
                              nn_feed_real(feed, r->u[k]) + i * macro);
            moment_config(b->set, m, (k + 1) * MODEL_CONTROLS,
                          nn_feed_real(feed, r->target) + (i * STEPS + k) * dim);
        }
        for (int k = 0; k <= STEPS; k++) {
            float* chi = k ? nn_feed_real(feed, r->chi) + (i * STEPS + k - 1) * chi_dim
                           : nn_feed_real(feed, r->chi0) + i * chi_dim;
            moment_chi(b->set, m, k * MODEL_CONTROLS, chi);
            for (int j = 0; j < chi_dim; j++)
                chi[j] = (chi[j] - stats->chi_mean[j]) / stats->chi_std[j];
        }
    }
    return FIRM_OK;
}
