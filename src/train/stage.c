// stage.c - one stage: graphs for its objective, updates, gate. A stage's state is the parameters,
// the optimiser's moments and the update number, nothing else: that is what a checkpoint holds.
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/mem.h"
#include "train/run.h"

// a stage at work: one or two sources, each with its graph, exec and batch description
typedef struct stage_work {
    nn_exec *main, *second;
    const nn_graph *main_graph, *second_graph;
    nn_fill_fn fill;
    void *main_ctx, *second_ctx;
    frontend_graph front;
    rollout_graph roll_f, roll_i;
    frontend_batch front_batch;
    rollout_batch batch_f, batch_i;
    token_cache tokens, held_tokens;
    const moments* from;
    nn_adamw* adamw;
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

static nn_exec_options exec_options(const train_run_state* run, int batch, const char* shard) {
    return (nn_exec_options){.batch = batch,
                             .shard = (int)config_int(run->settings, "train", shard),
                             .lanes = (int)config_int(run->settings, "train", "lanes"),
                             .train = 1};
}

static loss_weights weights_of(const config* c, const char* source) {
    char section[16];
    snprintf(section, sizeof section, "loss.%s", source);
    return (loss_weights){
        (float)config_real(c, section, "config"), (float)config_real(c, section, "displacement"),
        (float)config_real(c, section, "tail"), (float)config_real(c, section, "chi"),
        (float)config_real(c, section, "chi0")};
}

static firm_status prepare_rollout(train_run_state* run, const stage* s, stage_work* w,
                                   firm_error* err) {
    TRY(fill_caches(run, err));
    w->fill = rollout_fill;
    for (int side = 0; side < 2; side++) {
        if (!(s->sources & (side ? SOURCE_I : SOURCE_F))) continue;
        rollout_graph* g = side ? &w->roll_i : &w->roll_f;
        rollout_batch* b = side ? &w->batch_i : &w->batch_f;
        loss_weights weights = weights_of(run->settings, side ? "I" : "F");
        TRY(rollout_graph_build(run->model, &weights, 1, g, err));
        nn_exec_options opt = exec_options(run, side ? s->batch_i : s->batch, "rollout_shard");
        nn_exec** exec = w->main ? &w->second : &w->main;
        TRY(nn_exec_create(g->g, nn_backend_cpu(), &opt, run->p, exec, err));
        *(exec == &w->main ? &w->main_graph : &w->second_graph) = g->g;
        *(exec == &w->main ? &w->main_ctx : &w->second_ctx) = b;
        *b = (rollout_batch){.set = &run->set,
                             .model = run->model,
                             .graph = g,
                             .from = side ? &run->set.intervened : &run->set.factual,
                             .cache = side ? &run->cache_i : &run->cache_f,
                             .stage = 2 * s->index + side};
    }
    return FIRM_OK;
}

static firm_status prepare_frontend(train_run_state* run, const stage* s, stage_work* w,
                                    firm_error* err) {
    run_drop_caches(run);  // the modules behind them are about to change
    const char* shard = "frontend_shard";
    w->front_batch = (frontend_batch){.set = &run->set,
                                      .model = run->model,
                                      .graph = &w->front,
                                      .sources = s->sources,
                                      .stage = 2 * s->index,
                                      .lag = s->lag};
    w->fill = pair_fill;
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
        w->fill = dynamics_fill;
        shard = "history_shard";
    }
    nn_exec_options opt = exec_options(run, s->batch, shard);
    TRY(nn_exec_create(w->front.g, nn_backend_cpu(), &opt, run->p, &w->main, err));
    w->main_graph = w->front.g;
    w->main_ctx = &w->front_batch;
    return FIRM_OK;
}

static firm_status make_adamw(train_run_state* run, const stage* s, stage_work* w,
                              firm_error* err) {
    const nn_trained* list;
    int n = nn_exec_trained(w->main, &list);
    float* scale = mem_alloc((size_t)n * sizeof *scale);
    if (!scale) return FAIL(err, FIRM_E_MEMORY, "no memory for the optimiser");
    for (int i = 0; i < n; i++) {
        const char* name = run->model->store->entry[list[i].entry].name;
        int refined = strcmp(s->objective, "ground") == 0 && strncmp(name, "tokenizer.", 10) == 0;
        scale[i] = refined ? s->refine : 1.0f;
    }
    firm_status st = nn_adamw_create(w->main, &s->adamw, scale, &w->adamw, err);
    mem_free(scale);
    return st;
}

static void free_work(stage_work* w) {
    nn_adamw_free(w->adamw);
    nn_exec_free(w->main);
    nn_exec_free(w->second);
    nn_graph_free(w->front.g);
    nn_graph_free(w->roll_f.g);
    nn_graph_free(w->roll_i.g);
    mem_free(w->tokens.tokens);
    mem_free(w->held_tokens.tokens);
}

typedef struct add_job {
    float* to;
    const float* from;
    size_t count;
} add_job;

enum { ADD_CHUNK = 65536 };

static void add_chunk(void* arg, int chunk, int worker) {
    (void)worker;
    const add_job* j = arg;
    size_t from = (size_t)chunk * ADD_CHUNK,
           to = from + ADD_CHUNK < j->count ? from + ADD_CHUNK : j->count;
    for (size_t i = from; i < to; i++) j->to[i] += j->from[i];
}

// gradient of all sources into the main exec
static firm_status gradient(train_run_state* run, stage_work* w, int64_t update) {
    w->front_batch.update = w->batch_f.update = w->batch_i.update = update;
    TRY(nn_exec_gradient(w->main, w->fill, w->main_ctx));
    if (!w->second) return FIRM_OK;
    TRY(nn_exec_gradient(w->second, w->fill, w->second_ctx));
    add_job job = {nn_exec_grad(w->main), nn_exec_grad(w->second), nn_exec_grad_count(w->main)};
    pool_for(run->p, (int)((job.count + ADD_CHUNK - 1) / ADD_CHUNK), add_chunk, &job);
    return FIRM_OK;
}

// the stage's own loss on held-out samples, for objectives without a tolerance
static firm_status held_loss(train_run_state* run, const stage* s, stage_work* w, double* loss,
                             firm_error* err) {
    frontend_graph g = {0};
    nn_exec* e = NULL;
    int picture = strcmp(s->objective, "picture") == 0, count = 128;
    nn_exec_options opt = {.batch = count, .shard = 4, .lanes = 1};
    frontend_batch b = {.set = &run->set,
                        .model = run->model,
                        .graph = &g,
                        .lag = 1,
                        .held = 1,
                        .tokens = &w->held_tokens,
                        .from = &run->set.held};
    firm_status st =
        picture ? picture_graph(run->model, 0, &g, err) : dynamics_graph(run->model, 0, &g, err);
    if (st == FIRM_OK) st = nn_exec_create(g.g, nn_backend_cpu(), &opt, run->p, &e, err);
    if (st == FIRM_OK) st = nn_exec_forward(e, count, picture ? pair_fill : dynamics_fill, &b);
    if (st == FIRM_OK) *loss = nn_exec_loss(e);
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

static firm_status updates(train_run_state* run, const stage* s, stage_work* w, int from,
                           double started, firm_error* err) {
    int every = (int)config_int(run->settings, "train", "checkpoint_every");
    int log_every = (int)config_int(run->settings, "train", "log_every");
    char label[64], note[64];
    snprintf(label, sizeof label, "%d %s", s->index + 1, s->name);
    progress bar;
    progress_begin(&bar, label, s->updates);
    for (int u = from; u < s->updates; u++) {
        firm_status st = gradient(run, w, u);
        if (st != FIRM_OK)
            return FAIL(err, st, "stage %s, update %d: a training sample cannot be read", s->name,
                        u);
        double loss = nn_exec_loss(w->main) + (w->second ? nn_exec_loss(w->second) : 0);
        if (!isfinite(loss))
            return FAIL(err, FIRM_E_VALUE,
                        "stage %s: the loss is not finite at update %d; lower stage.%s.rate",
                        s->name, u, s->name);
        double rate = (double)nn_adamw_rate(w->adamw, u);
        double norm = nn_adamw_step(w->adamw, run->model->store, run->p);
        double seconds = run->seconds_before + clock_seconds() - started;
        if ((u + 1) % log_every == 0 || u + 1 == s->updates)
            TRY(metrics_row(run, s, u + 1, w->main, w->main_graph, w->second, w->second_graph, rate,
                            norm, seconds, err));
        snprintf(note, sizeof note, "loss %.5f", loss);
        progress_step(&bar, u + 1, note);
        if ((u + 1) % every == 0 && u + 1 < s->updates)
            TRY(run_checkpoint(run, s->index, u + 1, w->adamw, seconds, err));
    }
    progress_end(&bar);
    return FIRM_OK;
}

firm_status stage_run(train_run_state* run, const stage* s, int from, firm_error* err) {
    if ((s->sources & SOURCE_I) && !run->set.inter)
        return FAIL(err, FIRM_E_USAGE,
                    "stage %s needs interventions; give --branches or --sources F", s->name);
    double started = clock_seconds();
    stage_work w = {0};
    firm_status st = strcmp(s->objective, "rollout") == 0 ? prepare_rollout(run, s, &w, err)
                                                          : prepare_frontend(run, s, &w, err);
    if (st == FIRM_OK) st = make_adamw(run, s, &w, err);
    if (st == FIRM_OK && from > 0) st = run_read_moments(run, w.adamw, err);
    if (st == FIRM_OK) {
        *nn_adamw_steps(w.adamw) = from;
        st = updates(run, s, &w, from, started, err);
    }
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
