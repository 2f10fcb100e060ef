// losses.c - the rollout loss of the paper (its appendix "Complete supervision"): future
// configuration, displacement with the anchored first step, TopMean tail and fiber dynamics, with
// the weights of a source.
#include <stdio.h>
#include <string.h>

#include "train/internal.h"

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
    nn_id path[STEPS], step[STEPS], wanted_step[STEPS], chi[STEPS];
    nn_id last =
        c;  // predecessor of the prediction, and of the target: both start at the inferred c_0
    nn_id last_target = c;
    for (int k = 0; k < STEPS; k++) {
        model_transition(g, m, r->u[k], &c, &fiber);
        nn_id target = nn_slice(g, r->target, 0, k * dim, dim);
        path[k] = c;
        step[k] = nn_sub(g, c, last);
        wanted_step[k] = nn_sub(g, target, last_target);
        if (!m->shape.no_fiber) chi[k] = model_chi(g, m, fiber);
        last = c;
        last_target = target;
    }
    r->path = nn_concat(g, 0, STEPS, path);
    nn_output(g, r->path);
    if (!w) return FIRM_OK;

    nn_loss(g, "config", nn_mse(g, r->path, r->target), w->config);
    nn_loss(g, "displacement",
            nn_mse(g, nn_concat(g, 0, STEPS, step), nn_concat(g, 0, STEPS, wanted_step)),
            w->displacement);
    nn_id terminal = nn_mse(g, path[STEPS - 1], nn_slice(g, r->target, 0, (STEPS - 1) * dim, dim));
    nn_loss_topmean(g, "tail", terminal, w->tail, 0.25f);
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
