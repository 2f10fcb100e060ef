// world.c - see world.h.
#include "world.h"

#include "check.h"
#include "core/mem.h"
#include "core/rng.h"
#include "plan/settings.h"

static float* noise(int kind, size_t count) {
    float* x = mem_alloc(count * sizeof *x);
    if (x) rng_fill_normal(4, RNG_STREAM(RNG_TEST, kind), 0, x, (int64_t)count);
    return x;
}

static int fill_caches(world* w) {
    int belief = w->model->shape.belief, dim = w->env->config_dim;
    const moments* of[2] = {&w->set.factual, &w->set.intervened};
    for (int i = 0; i < 2; i++) {
        history_cache* c = i ? &w->cache_i : &w->cache_f;
        size_t n = (size_t)of[i]->histories;
        *c = (history_cache){of[i]->histories, noise(10 + i, n * (size_t)belief),
                             noise(20 + i, n * (size_t)(HIST * dim))};
        if (!c->belief || !c->config) return 0;
    }
    w->tokens.count = w->set.factual.count;
    w->tokens.size = model_token_count(w->model) * model_token_width(w->model);
    w->tokens.tokens = noise(30, (size_t)w->tokens.count * (HIST + 1) * (size_t)w->tokens.size);
    return w->tokens.tokens != NULL;
}

int world_open(world* w, int narrow) {
    firm_error err = {0};
    static const char* const few[] = {"train.segments=64", "train.held_out=16"};
    *w = (world){.env = env_find("tworoom")};
    train_options opt = {.seed = 5};
    model_shape shape;
    int ok =
        settings_load(w->env, narrow ? "smoke" : NULL, few, 2, &w->settings, &err) == FIRM_OK &&
        pool_create(0, &w->p, &err) == FIRM_OK &&
        episodes_collect(w->env, &(collect_options){.episodes = 120, .seed = 3}, NULL, &w->data,
                         &err) == FIRM_OK &&
        branches_collect(w->data, &(intervene_options){.anchors = 24, .per_anchor = 4}, NULL,
                         &w->inter, &err) == FIRM_OK &&
        train_set_open(w->settings, w->env, w->data, w->inter, &opt, pool_threads(w->p), &w->set,
                       &err) == FIRM_OK;
    if (ok) {
        model_shape_read(w->settings, &shape);
        ok = model_create(w->env, &shape, 1, 5, &w->model, &err) == FIRM_OK &&
             train_set_stats(&w->set, &w->model->stats, &err) == FIRM_OK && fill_caches(w);
    }
    if (ok) {
        w->start = mem_alloc(w->model->store->count * sizeof *w->start);
        ok = w->start != NULL;
    }
    if (ok) memcpy(w->start, w->model->store->value, w->model->store->count * sizeof *w->start);
    if (!ok) {
        test_fail(__FILE__, __LINE__, "no data to train on: %s", err.message);
        world_close(w);
    }
    return ok;
}

void world_close(world* w) {
    mem_free(w->start);
    cache_free(&w->cache_f);
    cache_free(&w->cache_i);
    mem_free(w->tokens.tokens);
    firm_model_free(w->model);
    train_set_close(&w->set);
    branches_free(w->inter);
    episodes_free(w->data);
    config_free(w->settings);
    pool_free(w->p);
    *w = (world){0};
}

void world_restart(world* w) {
    memcpy(w->model->store->value, w->start, w->model->store->count * sizeof *w->start);
}

static firm_status open_rollout(job* j, world* w, int batch, firm_error* err) {
    for (int i = 0; i < 2; i++) {
        loss_weights weights;
        TRY(loss_read(w->settings, w->env, i ? "I" : "F", &weights, err));
        TRY(rollout_graph_build(w->model, &weights, 1, &j->roll[i], err));
        j->roll_batch[i] = (rollout_batch){.set = &w->set,
                                           .model = w->model,
                                           .graph = &j->roll[i],
                                           .from = i ? &w->set.intervened : &w->set.factual,
                                           .cache = i ? &w->cache_i : &w->cache_f};
        j->part[i] = (nn_part){.label = i ? "i_" : "",
                               .graph = j->roll[i].g,
                               .batch = i ? batch + 3 : batch,  // parts may differ in size
                               .shard = 8,
                               .weight = i ? 0.5f : 1,
                               .fill = rollout_fill,
                               .ctx = &j->roll_batch[i],
                               .rows = j->roll_batch[i].from->count,
                               .pick = train_pick_key(w->set.seed, 6 + i)};
    }
    j->parts = 2;
    return FIRM_OK;
}

int job_open(job* j, world* w, int kind, int batch) {
    static const char* const names[JOBS] = {"picture", "ground", "dynamics", "rollout", "pool"};
    firm_error err = {0};
    firm_status st = FIRM_OK;
    *j = (job){.name = names[kind], .parts = 1};
    j->front_batch = (frontend_batch){.set = &w->set,
                                      .model = w->model,
                                      .graph = &j->front,
                                      .sources = kind == 1 ? SOURCE_F | SOURCE_I : SOURCE_F,
                                      .stage = 2,
                                      .lag = 5,
                                      .tokens = &w->tokens,
                                      .from = &w->set.factual};
    nn_part part = {.label = "",
                    .batch = batch,
                    .shard = 4,
                    .weight = 1,
                    .fill = kind == 2 ? dynamics_fill : pair_fill,
                    .ctx = &j->front_batch};
    if (kind == 1) {
        st = ground_graph(w->model, 1, 1, &j->front, &err);
    } else if (kind == 2) {
        st = dynamics_graph(w->model, 1, &j->front, &err);
        part.rows = w->set.factual.count;
        part.pick = train_pick_key(w->set.seed, 4);
    } else if (kind == 3) {
        st = open_rollout(j, w, batch, &err);
    } else {
        st = picture_graph(w->model, 1, &j->front, &err);
        part.rows = kind == 4 ? 24 : 0;
        part.pick = train_pick_key(w->set.seed, 3);
    }
    part.graph = j->front.g;
    if (kind != 3) j->part[0] = part;
    if (st == FIRM_OK) return 1;
    test_fail(__FILE__, __LINE__, "%s: %s", j->name, err.message);
    job_close(j);
    return 0;
}

void job_close(job* j) {
    nn_graph_free(j->front.g);
    nn_graph_free(j->roll[0].g);
    nn_graph_free(j->roll[1].g);
}

int device_open(nn_device* d, nn_precision precision) {
    firm_error err = {0};
    firm_status st = nn_device_open("cuda", precision, d, &err);
    if (st == FIRM_OK) return 1;
    if (st == FIRM_E_UNAVAILABLE)
        test_skip(err.message);
    else
        test_fail(__FILE__, __LINE__, "%s", err.message);
    return 0;
}
