// stage.c - one stage: graphs for its objective, updates, gate. A stage's state is the parameters,
// the optimiser's moments and the update number, nothing else: that is what a checkpoint holds.
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/mem.h"
#include "train/run.h"

// a stage at work: a part for each source, with the graphs and batch descriptions behind them
typedef struct stage_work {
    nn_part part[NN_MAX_PARTS];
    int parts;
    nn_trainer* trainer;
    frontend_graph front;
    rollout_graph roll_f, roll_i;
    frontend_batch front_batch;
    rollout_batch batch_f, batch_i;
    token_cache tokens, held_tokens;
    const moments* from;
} stage_work;

void run_drop_caches(train_run_state* run) {
    cache_free(&run->cache_f);
    cache_free(&run->cache_i);
    cache_free(&run->cache_held);
    run->cached = 0;
}

static firm_status fill_caches(train_run_state* run, firm_error* err) {
    if (run->cached) return FIRM_OK;
    TRY(cache_histories(&run->set, run->model, &run->set.factual, run->p, "encode factual",
                        &run->cache_f, err));
    if (run->set.inter)
        TRY(cache_histories(&run->set, run->model, &run->set.intervened, run->p, "encode anchors",
                            &run->cache_i, err));
    TRY(cache_histories(&run->set, run->model, &run->set.held, run->p, "encode held-out",
                        &run->cache_held, err));
    run->cached = 1;
    return FIRM_OK;
}

static int shard_of(const train_run_state* run, const char* key) {
    return (int)config_int(run->settings, "train", key);
}

static firm_status prepare_rollout(train_run_state* run, const stage* s, stage_work* w,
                                   firm_error* err) {
    TRY(fill_caches(run, err));
    for (int side = 0; side < 2; side++) {
        if (!(s->sources & (side ? SOURCE_I : SOURCE_F))) continue;
        rollout_graph* g = side ? &w->roll_i : &w->roll_f;
        rollout_batch* b = side ? &w->batch_i : &w->batch_f;
        loss_weights weights;
        TRY(loss_read(run->settings, run->set.env, side ? "I" : "F", &weights, err));
        TRY(rollout_graph_build(run->model, &weights, 1, g, err));
        *b = (rollout_batch){.set = &run->set,
                             .model = run->model,
                             .graph = g,
                             .from = side ? &run->set.intervened : &run->set.factual,
                             .cache = side ? &run->cache_i : &run->cache_f};
        w->part[w->parts] = (nn_part){.label = w->parts ? "i_" : "",
                                      .graph = g->g,
                                      .batch = side ? s->batch_i : s->batch,
                                      .shard = shard_of(run, "rollout_shard"),
                                      .weight = 1,
                                      .fill = rollout_fill,
                                      .ctx = b,
                                      .rows = b->from->count,
                                      .pick = train_pick_key(run->set.seed, 2 * s->index + side)};
        w->parts++;
    }
    return FIRM_OK;
}

static firm_status prepare_frontend(train_run_state* run, const stage* s, stage_work* w,
                                    firm_error* err) {
    run_drop_caches(run);  // the modules behind them are about to change
    nn_part part = {.label = "",
                    .batch = s->batch,
                    .shard = shard_of(run, "frontend_shard"),
                    .weight = 1,
                    .fill = pair_fill,
                    .ctx = &w->front_batch};
    w->front_batch = (frontend_batch){.set = &run->set,
                                      .model = run->model,
                                      .graph = &w->front,
                                      .sources = s->sources,
                                      .stage = 2 * s->index,
                                      .lag = s->lag};
    if (strcmp(s->objective, "picture") == 0) {
        TRY(picture_graph(run->model, 1, &w->front, err));
    } else if (strcmp(s->objective, "ground") == 0) {
        TRY(ground_graph(run->model, 1, s->refine > 0, &w->front, err));
    } else {
        w->from = s->sources & SOURCE_F ? &run->set.factual : &run->set.intervened;
        TRY(cache_tokens(&run->set, run->model, w->from, run->p, "encode tokens", &w->tokens, err));
        TRY(cache_tokens(&run->set, run->model, &run->set.held, run->p, "encode held-out",
                         &w->held_tokens, err));
        TRY(dynamics_graph(run->model, 1, &w->front, err));
        w->front_batch.tokens = &w->tokens;
        w->front_batch.from = w->from;
        part.fill = dynamics_fill;
        part.shard = shard_of(run, "history_shard");
        part.rows = w->from->count;
        part.pick = train_pick_key(run->set.seed, 2 * s->index);
    }
    if (part.fill == pair_fill) {
        // pairs themselves are drawn under 2 * index: the picks among them need another key
        part.rows = config_int(run->settings, "train", "frame_pool");
        part.pick = train_pick_key(run->set.seed, 2 * s->index + 1);
    }
    part.graph = w->front.g;
    w->part[w->parts++] = part;
    return FIRM_OK;
}

static firm_status make_trainer(train_run_state* run, const stage* s, stage_work* w,
                                firm_error* err) {
    nn_store* store = run->model->store;
    float* scale = mem_alloc((size_t)store->entries * sizeof *scale);
    if (!scale) return FAIL(err, FIRM_E_MEMORY, "no memory for the optimiser");
    for (int i = 0; i < store->entries; i++) {
        int refined = strcmp(s->objective, "ground") == 0 &&
                      strncmp(store->entry[i].name, "tokenizer.", 10) == 0;
        scale[i] = refined ? s->refine : 1.0f;
    }
    nn_trainer_options opt = {.device = &run->set.device,
                              .store = store,
                              .p = run->p,
                              .lanes = (int)config_int(run->settings, "train", "lanes"),
                              .adamw = s->adamw,
                              .scale = scale};
    firm_status st = nn_trainer_create(&opt, w->part, w->parts, &w->trainer, err);
    mem_free(scale);
    return st;
}

static void free_work(stage_work* w) {
    nn_trainer_free(w->trainer);
    nn_graph_free(w->front.g);
    nn_graph_free(w->roll_f.g);
    nn_graph_free(w->roll_i.g);
    mem_free(w->tokens.tokens);
    mem_free(w->held_tokens.tokens);
}

// the stage's own loss on held-out samples, for objectives without a tolerance
static firm_status held_loss(train_run_state* run, const stage* s, stage_work* w, double* loss,
                             firm_error* err) {
    frontend_graph g = {0};
    nn_exec* e = NULL;
    int picture = strcmp(s->objective, "picture") == 0, count = 128;
    nn_exec_options opt = {.batch = count, .shard = 4, .lanes = 1, .queue = run->set.device.queue};
    frontend_batch b = {.set = &run->set,
                        .model = run->model,
                        .graph = &g,
                        .lag = 1,
                        .held = 1,
                        .tokens = &w->held_tokens,
                        .from = &run->set.held};
    firm_status st =
        picture ? picture_graph(run->model, 0, &g, err) : dynamics_graph(run->model, 0, &g, err);
    if (st == FIRM_OK) st = nn_exec_create(g.g, run->set.device.backend, &opt, run->p, &e, err);
    if (st == FIRM_OK) {
        st = nn_exec_forward(e, count, picture ? pair_fill : dynamics_fill, &b);
        if (st != FIRM_OK)
            st = FAIL(err, st, "%s",
                      nn_exec_fault(e) ? nn_exec_fault(e) : "a validation frame cannot be read");
        *loss = nn_exec_loss(e);
    }
    nn_exec_free(e);
    nn_graph_free(g.g);
    return st;
}

static firm_status run_gate(train_run_state* run, const stage* s, stage_work* w, stage_result* r,
                            firm_error* err) {
    if (strcmp(s->objective, "rollout") == 0) {
        rollout_error e;
        TRY(gate_rollout(&run->set, run->model, &run->set.held, &run->cache_held, run->p, &e, err));
        r->gate = e.mean[STEPS - 1];
        for (int k = 0; k < STEPS; k++) {
            r->detail[k] = e.mean[k];
            r->detail[STEPS + k] = e.p95[k];
        }
    } else if (strcmp(s->objective, "ground") == 0) {
        ground_error e;
        TRY(gate_ground(&run->set, run->model, run->set.held.count, run->p, &e, err));
        r->gate = e.mean_units;
        r->detail[0] = e.mean;
        r->detail[1] = e.max;
    } else {
        TRY(held_loss(run, s, w, &r->gate, err));
    }
    r->limit = s->gate_limit;
    r->pass = isfinite(r->gate) && (s->gate_limit <= 0 || r->gate <= s->gate_limit);
    return FIRM_OK;
}

// The loss is looked at after every update where that costs nothing. A GPU works ahead of us and is
// only asked when a row of metrics.csv is due: a loss that is not finite is noticed there.
static firm_status updates(train_run_state* run, const stage* s, nn_trainer* t, int from,
                           double started, firm_error* err) {
    int every = (int)config_int(run->settings, "train", "checkpoint_every");
    int log_every = (int)config_int(run->settings, "train", "log_every");
    char label[64], note[64] = "";
    snprintf(label, sizeof label, "%d %s", s->index + 1, s->name);
    progress bar;
    progress_begin(&bar, label, s->updates);
    for (int u = from; u < s->updates; u++) {
        firm_error why;
        firm_status st = nn_trainer_step(t, u, &why);
        if (st != FIRM_OK) return FAIL(err, st, "stage %s, update %d: %s", s->name, u, why.message);
        int row_due = (u + 1) % log_every == 0 || u + 1 == s->updates;
        if (row_due || nn_trainer_prompt(t)) {
            TRY(nn_trainer_read(t, err));
            if (!isfinite(nn_trainer_loss(t)))
                return FAIL(err, FIRM_E_VALUE,
                            "stage %s: the loss is not finite at update %d; lower stage.%s.rate",
                            s->name, u, s->name);
            snprintf(note, sizeof note, "loss %.5f", nn_trainer_loss(t));
        }
        double seconds = run->seconds_before + clock_seconds() - started;
        if (row_due) TRY(metrics_row(run, s, u + 1, t, seconds, err));
        progress_step(&bar, u + 1, note);
        if ((u + 1) % every == 0 && u + 1 < s->updates)
            TRY(run_checkpoint(run, s->index, u + 1, t, seconds, err));
    }
    progress_end(&bar);
    return nn_trainer_pull(t, err);
}

firm_status stage_run(train_run_state* run, const stage* s, int from, firm_error* err) {
    if ((s->sources & SOURCE_I) && !run->set.inter)
        return FAIL(err, FIRM_E_USAGE,
                    "stage %s needs interventions; give --branches or --sources F", s->name);
    double started = clock_seconds();
    stage_work w = {0};
    firm_status st = strcmp(s->objective, "rollout") == 0 ? prepare_rollout(run, s, &w, err)
                                                          : prepare_frontend(run, s, &w, err);
    if (st == FIRM_OK) st = make_trainer(run, s, &w, err);
    if (st == FIRM_OK && from > 0) {
        st = run_read_moments(run, w.trainer, err);
        if (st == FIRM_OK) st = nn_trainer_resume(w.trainer, from, err);
    }
    if (st == FIRM_OK) st = updates(run, s, w.trainer, from, started, err);
    stage_result* r = &run->result[run->results];
    *r = (stage_result){.updates = s->updates};
    snprintf(r->name, sizeof r->name, "%s", s->name);
    if (st == FIRM_OK) st = run_gate(run, s, &w, r, err);
    free_work(&w);
    if (st != FIRM_OK) return st;
    r->seconds = run->seconds_before + clock_seconds() - started;
    run->results++;
    if (r->limit > 0)
        log_info("stage %s: held-out %.4f, gate %.4f: %s", s->name, r->gate, r->limit,
                 r->pass ? "pass" : "FAIL");
    else
        log_info("stage %s: held-out %.4f", s->name, r->gate);
    return FIRM_OK;
}
