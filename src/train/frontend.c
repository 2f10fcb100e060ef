// frontend.c - graphs and batches of the pixel stages and of the history stage.
#include "train/frontend.h"

#include <string.h>

static firm_status open_graph(const firm_model* m, const stage* s, int train, frontend_graph* out,
                              firm_error* err) {
    memset(out, 0, sizeof *out);
    TRY(nn_graph_create(m->store, &out->g, err));
    if (train) stage_train(s, out->g);
    out->config_now = out->config_before = out->turned = out->ends = out->anchor = out->chi =
        NN_NONE;
    return FIRM_OK;
}

// ---- pixel stages -------------------------------------------------------------------------------

static void picture_terms(const firm_model* m, float weight, frontend_graph* f) {
    nn_graph* g = f->g;
    nn_id rgb, change;
    model_picture(g, m, model_tokens(g, m, f->image, f->before), &rgb, &change);
    nn_id seen = nn_patches(g, f->image, 8, m->stats.image_mean, m->stats.image_std);
    nn_loss(g, "rgb", nn_mse(g, rgb, seen), weight);
    // changed pixels are few: weighted so that they are not drowned
    nn_id changed = nn_patchmask(g, f->image, f->before, 8);
    nn_loss(g, "change", nn_bce(g, change, changed, 10.0f), weight);
}

static nn_id change_of(nn_graph* g, const firm_model* m, nn_id now, nn_id then) {
    return m->task.pairs ? nn_relative(g, now, then, m->task.pairs) : nn_sub(g, now, then);
}

static void config_terms(const firm_model* m, const pixel_terms* w, nn_id plain,
                         frontend_graph* f) {
    nn_graph* g = f->g;
    int dim = m->task.config_dim;
    f->config_now = nn_input1(g, "now", dim);
    f->config_before = nn_input1(g, "then", dim);
    nn_id now = model_ground(g, m, plain);
    nn_id then = model_ground(g, m, model_tokens(g, m, f->before, NN_NONE));
    nn_loss(g, "config", nn_mse(g, now, f->config_now), w->config);
    nn_loss(g, "config_before", nn_mse(g, then, f->config_before), w->config);
    nn_loss(g, "difference",
            nn_mse(g, change_of(g, m, now, then), change_of(g, m, f->config_now, f->config_before)),
            w->difference);
    if (w->tail > 0) nn_loss_topmean(g, "tail", nn_mse(g, now, f->config_now), w->tail, 0.25f);
    f->grounded = now;
    nn_output(g, now);
}

// keypoints of the turned picture against the turned keypoints: x' = xx x + xy y + shift
static void equivariance_term(const firm_model* m, float weight, nn_id plain, frontend_graph* f) {
    nn_graph* g = f->g;
    int n = m->shape.keypoints;
    f->turned = nn_image(g, "turned", m->task.image);
    nn_id here = model_keypoints(g, m, plain);
    nn_id there = model_keypoints(g, m, model_tokens(g, m, f->turned, NN_NONE));
    nn_id axis[2] = {nn_slice(g, here, 1, 0, 1), nn_slice(g, here, 1, 1, 1)}, wanted[2];
    for (int i = 0; i < 6; i++) f->turn[i] = nn_input(g, "turn", 2, (int[]){n, 1});
    for (int a = 0; a < 2; a++)
        wanted[a] = nn_add(
            g,
            nn_add(g, nn_mul(g, axis[0], f->turn[3 * a]), nn_mul(g, axis[1], f->turn[3 * a + 1])),
            f->turn[3 * a + 2]);
    nn_loss(g, "equivariance", nn_mse(g, there, nn_concat(g, 1, 2, wanted)), weight);
}

firm_status pixel_graph(const firm_model* m, const stage* s, int train, frontend_graph* f,
                        firm_error* err) {
    const pixel_terms* w = &s->terms;
    TRY(open_graph(m, s, train, f, err));
    nn_graph* g = f->g;
    int configs = w->config > 0 || w->difference > 0 || w->tail > 0;
    int anchored = train && w->anchor > 0;
    f->image = nn_image(g, "image", m->task.image);
    f->before = w->picture > 0 || configs ? nn_image(g, "before", m->task.image) : NN_NONE;
    if (w->picture > 0) picture_terms(m, w->picture, f);
    if (!configs && !anchored && w->equivariance <= 0 && w->physical <= 0 && w->posture <= 0)
        return FIRM_OK;

    nn_id plain = model_tokens(g, m, f->image, NN_NONE);
    if (configs) config_terms(m, w, plain, f);
    if (w->physical > 0) {
        f->ends = nn_input1(g, "ends", 2 * m->task.pairs);
        nn_loss(g, "physical", nn_mse(g, model_physical(g, m, plain), f->ends), w->physical);
    }
    if (w->posture > 0) {
        f->chi = nn_input1(g, "chi", m->task.chi_dim);
        nn_loss(g, "posture", nn_mse(g, model_posture(g, m, plain), f->chi), w->posture);
    }
    if (anchored) {
        f->anchor = nn_input(g, "anchor", 2, (int[]){model_token_count(m), model_token_width(m)});
        nn_loss(g, "anchor", nn_mse(g, plain, f->anchor), w->anchor);
    }
    if (w->equivariance > 0) equivariance_term(m, w->equivariance, plain, f);
    return FIRM_OK;
}

static void fill_turn(const frontend_batch* b, const nn_feed* feed, int i, int64_t at,
                      const uint8_t* image) {
    const frontend_graph* g = b->graph;
    turning t = turning_of(at);
    const task_typed* task = &b->set->env->task;
    const float half = 0.5f * (float)task->image;
    turn_frame(&t, task->image, image,
               nn_feed_bytes(feed, g->turned) + (size_t)i * task_frame_bytes(task));
    const float number[6] = {(float)t.xx, (float)t.xy, (float)t.dx / half,
                             (float)t.yx, (float)t.yy, (float)t.dy / half};
    int n = b->model->shape.keypoints;
    for (int k = 0; k < 6; k++)
        for (int j = 0; j < n; j++) nn_feed_real(feed, g->turn[k])[i * n + j] = number[k];
}

static firm_status fill_pair(const frontend_batch* b, const nn_feed* feed, int i, int64_t at) {
    const frontend_graph* g = b->graph;
    const env_spec* env = b->set->env;
    size_t dim = (size_t)env->task.config_dim, bytes = task_frame_bytes(&env->task);
    uint8_t* image = nn_feed_bytes(feed, g->image) + (size_t)i * bytes;
    const float* config = b->from->config + (size_t)(2 * at) * dim;
    TRY(train_frame(b->set, feed->worker, b->from->scene[2 * at], image));
    if (g->before != NN_NONE)
        TRY(train_frame(b->set, feed->worker, b->from->scene[2 * at + 1],
                        nn_feed_bytes(feed, g->before) + (size_t)i * bytes));
    if (g->config_now != NN_NONE) {
        memcpy(nn_feed_real(feed, g->config_now) + (size_t)i * dim, config, dim * sizeof *config);
        memcpy(nn_feed_real(feed, g->config_before) + (size_t)i * dim, config + dim,
               dim * sizeof *config);
    }
    if (g->ends != NN_NONE)
        model_physical_target(b->model, config,
                              nn_feed_real(feed, g->ends) + (size_t)(i * 2 * env->task.pairs));
    if (g->chi != NN_NONE) {
        size_t n = (size_t)env->task.chi_dim;
        chi_target(b->model, b->from->chi + (size_t)at * n, 1,
                   nn_feed_real(feed, g->chi) + (size_t)i * n);
    }
    if (g->anchor != NN_NONE) {
        size_t n = (size_t)b->anchor->size;
        memcpy(nn_feed_real(feed, g->anchor) + (size_t)i * n, b->anchor->tokens + (size_t)at * n,
               n * sizeof(float));
    }
    if (g->turned != NN_NONE) fill_turn(b, feed, i, at, image);
    return FIRM_OK;
}

firm_status pair_fill(void* ctx, const nn_feed* feed) {
    const frontend_batch* b = ctx;
    for (int i = 0; i < feed->count; i++) {
        int64_t row = nn_feed_row(feed, i);
        if (b->pick >= 0)
            row = train_pick(b->set->seed, b->pick, feed->update, (int)row, b->rows);
        else
            row %= b->rows;
        TRY(fill_pair(b, feed, i, b->order ? b->order[row] : row));
    }
    return FIRM_OK;
}

// ---- token dynamics -----------------------------------------------------------------------------

firm_status dynamics_graph(const firm_model* m, const stage* s, int train, frontend_graph* out,
                           firm_error* err) {
    TRY(open_graph(m, s, train, out, err));
    nn_graph* g = out->g;
    int shape[2] = {model_token_count(m), model_token_width(m)};
    for (int f = 0; f < HIST; f++) {
        out->tokens[f] = nn_input(g, "tokens", 2, shape);
        out->action[f] = nn_input1(g, "action", m->task.action_dim);
    }
    out->next = nn_input(g, "next", 2, shape);
    nn_id belief = model_belief(g, m, out->tokens, out->action);
    nn_id mean, logvar;
    model_next_tokens(g, m, out->tokens[HIST - 1], belief, out->action[HIST - 1], &mean, &logvar);
    nn_loss(g, "nll", nn_nll(g, mean, logvar, out->next), 1.0f);
    return FIRM_OK;
}

firm_status dynamics_fill(void* ctx, const nn_feed* feed) {
    const frontend_batch* b = ctx;
    const frontend_graph* g = b->graph;
    const records* r = b->records;
    size_t size = (size_t)b->tokens->size;
    int dim = b->set->env->task.action_dim;
    for (int i = 0; i < feed->count; i++) {
        int64_t at = nn_feed_row(feed, i) % r->count;
        const float* tokens = b->tokens->tokens + (size_t)at * (HIST + 1) * size;
        for (int f = 0; f < HIST; f++) {
            const float* raw = f + 1 < HIST ? r->past + (r->history[at] * (HIST - 1) + f) * dim
                                            : r->action + at * task_span(&b->model->task) * dim;
            memcpy(nn_feed_real(feed, g->tokens[f]) + (size_t)i * size, tokens + (size_t)f * size,
                   size * sizeof(float));
            model_standardise(b->model, raw, 1, nn_feed_real(feed, g->action[f]) + i * dim);
        }
        memcpy(nn_feed_real(feed, g->next) + (size_t)i * size, tokens + HIST * size,
               size * sizeof(float));
    }
    return FIRM_OK;
}
