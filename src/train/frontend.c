// frontend.c - graphs and batches of the pixel stages.
#include "train/frontend.h"

#include <string.h>

firm_status picture_graph(const firm_model* m, int train, frontend_graph* out, firm_error* err) {
    memset(out, 0, sizeof *out);
    TRY(nn_graph_create(m->store, &out->g, err));
    nn_graph* g = out->g;
    if (train) {
        nn_train(g, "tokenizer.");
        nn_train(g, "aux.picture.");
    }
    out->image = nn_image(g, "image", ENV_IMAGE);
    out->before = nn_image(g, "before", ENV_IMAGE);
    nn_id rgb, change;
    model_picture(g, m, model_tokens(g, m, out->image, out->before), &rgb, &change);
    nn_id seen = nn_patches(g, out->image, 8, m->stats.image_mean, m->stats.image_std);
    nn_loss(g, "rgb", nn_mse(g, rgb, seen), 1.0f);
    // changed pixels are few: weighted so that they are not drowned
    nn_id changed = nn_patchmask(g, out->image, out->before, 8);
    nn_loss(g, "change", nn_bce(g, change, changed, 10.0f), 1.0f);
    return FIRM_OK;
}

firm_status ground_graph(const firm_model* m, int train, int refine, frontend_graph* out,
                         firm_error* err) {
    memset(out, 0, sizeof *out);
    TRY(nn_graph_create(m->store, &out->g, err));
    nn_graph* g = out->g;
    if (train) nn_train(g, "grounder.");
    if (train && refine) nn_train(g, "tokenizer.");
    int dim = m->env->config_dim;
    out->image = nn_image(g, "image", ENV_IMAGE);
    out->before = nn_image(g, "before", ENV_IMAGE);
    out->config_now = nn_input1(g, "now", dim);
    out->config_before = nn_input1(g, "then", dim);
    nn_id now = model_ground(g, m, model_tokens(g, m, out->image, NN_NONE));
    nn_id then = model_ground(g, m, model_tokens(g, m, out->before, NN_NONE));
    nn_loss(g, "config", nn_mse(g, now, out->config_now), 1.0f);
    nn_loss(g, "config_before", nn_mse(g, then, out->config_before), 1.0f);
    nn_loss(g, "difference",
            nn_mse(g, nn_sub(g, now, then), nn_sub(g, out->config_now, out->config_before)), 1.0f);
    out->grounded = now;
    nn_output(g, now);
    return FIRM_OK;
}

firm_status dynamics_graph(const firm_model* m, int train, frontend_graph* out, firm_error* err) {
    memset(out, 0, sizeof *out);
    TRY(nn_graph_create(m->store, &out->g, err));
    nn_graph* g = out->g;
    if (train) {
        nn_train(g, "history.");
        nn_train(g, "aux.next.");
    }
    int shape[2] = {model_token_count(m), model_token_width(m)};
    for (int f = 0; f < HIST; f++) {
        out->tokens[f] = nn_input(g, "tokens", 2, shape);
        out->action[f] = nn_input1(g, "action", m->env->action_dim);
    }
    out->next = nn_input(g, "next", 2, shape);
    nn_id belief = model_belief(g, m, out->tokens, out->action);
    nn_id mean, logvar;
    model_next_tokens(g, m, out->tokens[HIST - 1], belief, out->action[HIST - 1], &mean, &logvar);
    nn_loss(g, "nll", nn_nll(g, mean, logvar, out->next), 1.0f);
    return FIRM_OK;
}

// two moments at most `lag` rows apart: of the recording, of a branch, or of a validation episode
static firm_status pair_sample(const frontend_batch* b, int64_t update, int sample, int worker,
                               uint8_t* image, uint8_t* before, float* now, float* then) {
    const train_set* s = b->set;
    const env_spec* env = s->env;
    int from_branch = b->sources == SOURCE_I || (b->sources == (SOURCE_F | SOURCE_I) && sample % 2);
    const double *state, *earlier;
    if (!b->held && from_branch) {
        int64_t pick = train_pick(s->seed, b->stage, update, sample,
                                  (int64_t)s->intervened.count * BRANCH_CONTROLS);
        moment m = s->intervened.item[pick / BRANCH_CONTROLS];
        int control = (int)(pick % BRANCH_CONTROLS) + 1;
        int then_control = control > b->lag ? control - b->lag : 0;
        TRY(moment_frame(s, &m, control, worker, image));
        TRY(moment_frame(s, &m, then_control, worker, before));
        state = moment_state(s, &m, control);
        earlier = moment_state(s, &m, then_control);
    } else {
        int64_t row =
            b->held ? s->held.item[sample % s->held.count].row
                    : s->pair_row[train_pick(s->seed, b->stage, update, sample, s->pair_rows)];
        int64_t start = s->data->offset[episodes_of_row(s->data, row)];
        int64_t then_row = row - start > b->lag ? row - b->lag : start;
        TRY(frames_get(s->frames, worker, row, image));
        TRY(frames_get(s->frames, worker, then_row, before));
        state = s->data->state + row * env->state_dim;
        earlier = s->data->state + then_row * env->state_dim;
    }
    if (now) env->config(state, now);
    if (then) env->config(earlier, then);
    return FIRM_OK;
}

firm_status pair_fill(void* ctx, const nn_feed* feed) {
    const frontend_batch* b = ctx;
    const frontend_graph* g = b->graph;
    size_t bytes = ENV_IMAGE * ENV_IMAGE * 3;
    int dim = b->set->env->config_dim, grounding = g->config_now != g->image;
    for (int i = 0; i < feed->count; i++)
        TRY(pair_sample(b, feed->update, (int)nn_feed_row(feed, i), feed->worker,
                        nn_feed_bytes(feed, g->image) + (size_t)i * bytes,
                        nn_feed_bytes(feed, g->before) + (size_t)i * bytes,
                        grounding ? nn_feed_real(feed, g->config_now) + i * dim : NULL,
                        grounding ? nn_feed_real(feed, g->config_before) + i * dim : NULL));
    return FIRM_OK;
}

firm_status dynamics_fill(void* ctx, const nn_feed* feed) {
    const frontend_batch* b = ctx;
    const frontend_graph* g = b->graph;
    size_t size = (size_t)b->tokens->size;
    int dim = b->set->env->action_dim;
    for (int i = 0; i < feed->count; i++) {
        int64_t at = nn_feed_row(feed, i) % b->from->count;
        const float* tokens = b->tokens->tokens + (size_t)at * (HIST + 1) * size;
        for (int f = 0; f < HIST; f++) {
            float raw[FIRM_MAX_ACTION];
            memcpy(nn_feed_real(feed, g->tokens[f]) + (size_t)i * size, tokens + (size_t)f * size,
                   size * sizeof(float));
            moment_actions(b->set, &b->from->item[at], f - (HIST - 1), 1, raw);
            model_standardise(b->model, raw, 1, nn_feed_real(feed, g->action[f]) + i * dim);
        }
        memcpy(nn_feed_real(feed, g->next) + (size_t)i * size, tokens + HIST * size,
               size * sizeof(float));
    }
    return FIRM_OK;
}
