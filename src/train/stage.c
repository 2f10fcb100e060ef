// stage.c - one stage: a part for each source, updates, gate. A stage's state is the parameters,
// the optimiser's moments, the update number and, where tokens are anchored, the tokenizer it began
// with: that is what a checkpoint holds.
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/mem.h"
#include "core/text.h"
#include "train/run.h"

// before the names of a part's terms in metrics.csv; the first part has none
static const char* const labels[SOURCES] = {"f_", "i_", "s_", "d_"};

static int is(const stage* s, const char* objective) {
    return strcmp(s->objective, objective) == 0;
}

void run_drop_caches(train_run_state* run) {
    for (int i = 0; i < PACK_SOURCES; i++) cache_free(&run->cache[i]);
}

static firm_status fill_cache(train_run_state* run, int source, firm_error* err) {
    static const char* const label[PACK_SOURCES] = {"encode factual", "encode anchors",
                                                    "encode structured", "encode imagined",
                                                    "encode held-out"};
    if (run->cache[source].count) return FIRM_OK;
    return cache_histories(&run->set, run->model, &run->set.data.set[source], run->p, label[source],
                           &run->cache[source], err);
}

static int shard_of(const train_run_state* run, const char* key) {
    return (int)config_int(run->settings, "train", key);
}

// F and I of stage n pick by 2n and 2n + 1, S and D far from both
static int pick_of(const stage* s, int source) {
    return source == PACK_D   ? 0xA000 + s->index
           : source == PACK_S ? 0x8000 + s->index
                              : 2 * s->index + source;
}

static nn_part* add_part(stage_work* w, const stage* s, int source, nn_part part) {
    part.label = w->parts ? labels[source] : "";
    part.batch = s->batch[source];
    part.weight = s->weight[source];
    w->part[w->parts] = part;
    return &w->part[w->parts++];
}

static firm_status balance(const stage* s, stage_work* w, int source, const uint8_t* rare, int n,
                           int* rows, firm_error* err) {
    *rows = n;
    if (!(s->balance >> source & 1)) return FIRM_OK;
    TRY(balanced_order(rare, n, &w->order[source], rows, err));
    if (!w->order[source])
        log_warn("stage %s: source %c has no rare moments", s->name, SOURCE_LETTERS[source]);
    return FIRM_OK;
}

// the records of a source that a stage uses: all, or the first ones with their histories
static const records* some_records(train_run_state* run, const stage* s, int source,
                                   stage_work* w) {
    records* few = &w->few[source];
    *few = run->set.data.set[source];
    if (source == PACK_D) *few = imagined_shown(few);
    if (s->records && s->records < few->count) {
        few->count = s->records;
        few->histories = few->history[few->count - 1] + 1;
    }
    return few;
}

// ---- recurrent stages ---------------------------------------------------------------------------

// The rows of a source: its records, the run's own sample of them, either balanced if asked.
static firm_status shown(train_run_state* run, const stage* s, int source, stage_work* w,
                         const records* from, int* rows, firm_error* err) {
    if (!s->bootstrap) return balance(s, w, source, from->rare, from->count, rows, err);
    history_sample own;
    TRY(sample_histories(from, run->set.seed, source, &own, err));
    firm_status st = balance(s, w, source, own.rare, own.count, rows, err);
    if (st == FIRM_OK) sample_take(&own, &w->order[source], *rows);
    sample_free(&own);
    return st;
}

static firm_status add_rollout(train_run_state* run, const stage* s, int source, stage_work* w,
                               firm_error* err) {
    const records* from = some_records(run, s, source, w);
    rollout_graph* g = &w->roll[source];
    loss_weights weights = {0};
    int rows;
    TRY(fill_cache(run, source, err));
    if (is(s, "rollout"))
        TRY(loss_read(run->settings, run->set.env, stage_loss(s, source), &weights, err));
    weights.imagined = source == PACK_D;
    weights.trusted = weights.imagined && s->doubt > 0;
    TRY(rollout_graph_build(run->model, &weights, s, g, err));
    if (stage_trains(s, "history."))
        TRY(cache_history_tokens(&run->set, run->model, from, run->p, "encode tokens",
                                 &w->tokens[source], err));
    TRY(shown(run, s, source, w, from, &rows, err));
    rollout_batch* b = &w->roll_batch[source];
    *b = (rollout_batch){.set = &run->set,
                         .model = run->model,
                         .graph = g,
                         .from = from,
                         .cache = &run->cache[source],
                         .tokens = &w->tokens[source],
                         .order = w->order[source],
                         .rows = rows,
                         .noise = s->noise,
                         .doubt = s->doubt,
                         .noise_key = train_pick_key(run->set.seed, 0x4000 + pick_of(s, source))};
    add_part(w, s, source,
             (nn_part){.graph = g->g,
                       .shard = shard_of(run, "rollout_shard"),
                       .fill = rollout_fill,
                       .ctx = b,
                       .rows = s->noise > 0 ? (int64_t)NOISE_DRAWS * rows : rows,
                       .pick = train_pick_key(run->set.seed, pick_of(s, source))});
    return FIRM_OK;
}

// ---- pixel stages -------------------------------------------------------------------------------

// The tokens that a stage keeps close to are those of the tokenizer it began with: after a resumed
// start that one is put in place for as long as it takes to encode.
static firm_status anchor_tokens(train_run_state* run, const pairs* from, token_cache* out,
                                 firm_error* err) {
    run_swap_anchor(run);
    firm_status st =
        cache_pair_tokens(&run->set, run->model, from, run->p, "encode tokens", out, err);
    run_swap_anchor(run);
    return st;
}

static firm_status add_pixels(train_run_state* run, const stage* s, int source, stage_work* w,
                              firm_error* err) {
    const pairs* from = train_pairs(&run->set, source, s->lag);
    frontend_graph* g = &w->front[source];
    int rows, table = run->set.frame_pool > 0;
    if (!from)
        return FAIL(err, FIRM_E_USAGE, "stage %s has no frames of source %c", s->name,
                    SOURCE_LETTERS[source]);
    if (s->terms.anchor > 0) TRY(anchor_tokens(run, from, &w->tokens[source], err));
    TRY(pixel_graph(run->model, s, 1, g, err));
    TRY(balance(s, w, source, from->rare, from->count, &rows, err));
    w->front_batch[source] = (frontend_batch){.set = &run->set,
                                              .model = run->model,
                                              .graph = g,
                                              .from = from,
                                              .order = w->order[source],
                                              .rows = rows,
                                              .pick = table ? -1 : pick_of(s, source),
                                              .anchor = &w->tokens[source]};
    add_part(w, s, source,
             (nn_part){.graph = g->g,
                       .shard = shard_of(run, "frontend_shard"),
                       .fill = pair_fill,
                       .ctx = &w->front_batch[source],
                       .rows = table ? rows : 0,
                       .pick = train_pick_key(run->set.seed, pick_of(s, source))});
    return FIRM_OK;
}

static firm_status add_dynamics(train_run_state* run, const stage* s, int source, stage_work* w,
                                firm_error* err) {
    const records* from = some_records(run, s, source, w);
    frontend_graph* g = &w->front[source];
    TRY(cache_record_tokens(&run->set, run->model, from, run->p, "encode tokens",
                            &w->tokens[source], err));
    TRY(dynamics_graph(run->model, s, 1, g, err));
    w->front_batch[source] = (frontend_batch){.set = &run->set,
                                              .model = run->model,
                                              .graph = g,
                                              .records = from,
                                              .tokens = &w->tokens[source]};
    add_part(w, s, source,
             (nn_part){.graph = g->g,
                       .shard = shard_of(run, "history_shard"),
                       .fill = dynamics_fill,
                       .ctx = &w->front_batch[source],
                       .rows = from->count,
                       .pick = train_pick_key(run->set.seed, pick_of(s, source))});
    return FIRM_OK;
}

// ---- the stage ----------------------------------------------------------------------------------

firm_status stage_begin(train_run_state* run, const stage* s, int from, stage_work* w,
                        firm_error* err) {
    int rollout = stage_recurrent(s);
    *w = (stage_work){0};
    run->model->spatial_off = rollout && !s->spatial;
    if (!rollout) run_drop_caches(run);  // the modules behind them are about to change
    if (s->terms.anchor > 0 && from == 0) TRY(run_note_anchor(run, err));
    for (int source = 0; source < SOURCES; source++) {
        // stage_check has refused what must not be missing
        if (!(s->sources >> source & 1) || run->set.data.set[source].count == 0) continue;
        TRY(rollout             ? add_rollout(run, s, source, w, err)
            : is(s, "dynamics") ? add_dynamics(run, s, source, w, err)
                                : add_pixels(run, s, source, w, err));
    }
    // several sources of one pixel or history objective share its weight
    for (int i = 0; i < w->parts && !rollout; i++) w->part[i].weight /= (float)w->parts;
    return FIRM_OK;
}

static firm_status make_trainer(train_run_state* run, const stage* s, stage_work* w,
                                firm_error* err) {
    nn_store* store = run->model->store;
    float* scale = mem_alloc((size_t)store->entries * sizeof *scale);
    if (!scale) return FAIL(err, FIRM_E_MEMORY, "no memory for the optimiser");
    for (int i = 0; i < store->entries; i++) scale[i] = stage_factor(s, store->entry[i].name);
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

void stage_end(train_run_state* run, stage_work* w) {
    run->model->spatial_off = 0;
    nn_trainer_free(w->trainer);
    for (int i = 0; i < SOURCES; i++) {
        nn_graph_free(w->front[i].g);
        nn_graph_free(w->roll[i].g);
        token_cache_free(&w->tokens[i]);
        mem_free(w->order[i]);
    }
    token_cache_free(&w->held_tokens);
}

// the loss of a graph over `count` held-out samples
static firm_status graph_loss(train_run_state* run, nn_graph* g, int count, int shard,
                              nn_fill_fn fill, void* ctx, double* loss, firm_error* err) {
    const nn_device* device = &run->set.device;
    nn_exec_options opt = {.batch = count, .shard = shard, .lanes = 1, .queue = device->queue};
    nn_exec* e;
    TRY(nn_exec_create(g, device->backend, &opt, run->p, &e, err));
    firm_status st = nn_exec_forward(e, count, fill, ctx);
    if (st == FIRM_OK)
        *loss = nn_exec_loss(e);
    else
        st = train_failed(e, st, "validation", err);
    nn_exec_free(e);
    return st;
}

// the stage's own loss on held-out samples, for objectives without a tolerance
static firm_status held_loss(train_run_state* run, const stage* s, stage_work* w, double* loss,
                             firm_error* err) {
    frontend_graph g = {0};
    int dynamics = is(s, "dynamics"), count = 128;
    const train_set* set = &run->set;
    const records* held = &set->data.set[PACK_HELD];
    frontend_batch b = {.set = set,
                        .model = run->model,
                        .graph = &g,
                        .from = train_pairs(set, PACK_HELD, 1),
                        .rows = held->count,
                        .pick = -1,
                        .records = held,
                        .tokens = &w->held_tokens};
    if (dynamics)
        TRY(cache_record_tokens(set, run->model, held, run->p, "encode held-out", &w->held_tokens,
                                err));
    firm_status st = dynamics ? dynamics_graph(run->model, s, 0, &g, err)
                              : pixel_graph(run->model, s, 0, &g, err);
    if (st == FIRM_OK)
        st = graph_loss(run, g.g, count, 4, dynamics ? dynamics_fill : pair_fill, &b, loss, err);
    nn_graph_free(g.g);
    return st;
}

// what is read of held-out moments: mean squared error in deviations
static firm_status read_loss(train_run_state* run, const stage* s, double* loss, firm_error* err) {
    const records* held = &run->set.data.set[PACK_HELD];
    rollout_graph g = {0};
    rollout_batch b = {.set = &run->set, .model = run->model, .graph = &g, .from = held};
    TRY(fill_cache(run, PACK_HELD, err));
    b.cache = &run->cache[PACK_HELD];
    firm_status st = rollout_graph_build(run->model, NULL, s, &g, err);
    if (st == FIRM_OK)
        st = graph_loss(run, g.g, held->count < 256 ? held->count : 256, 64, rollout_fill, &b, loss,
                        err);
    nn_graph_free(g.g);
    return st;
}

static firm_status rollout_figures(train_run_state* run, const stage* s, stage_result* r,
                                   firm_error* err) {
    rollout_error e;
    if (stage_trains(s, "history.")) run_drop_caches(run);  // the beliefs have changed
    TRY(fill_cache(run, PACK_HELD, err));
    TRY(gate_rollout(&run->set, run->model, &run->set.data.set[PACK_HELD], &run->cache[PACK_HELD],
                     run->p, &e, err));
    const int steps = run->set.env->task.horizon;
    r->gate = e.mean[steps - 1];
    memcpy(r->detail, e.mean, (size_t)steps * sizeof *e.mean);
    memcpy(r->detail + steps, e.p95, (size_t)steps * sizeof *e.p95);
    return FIRM_OK;
}

static firm_status ground_figures(train_run_state* run, stage_result* r, firm_error* err) {
    ground_error e;
    TRY(gate_ground(&run->set, run->model, run->p, &e, err));
    r->gate = e.mean_units;
    const int distances = run->set.env->task.distances;
    for (int d = 0; d < distances; d++) {
        r->detail[2 * d] = e.mean[d];
        r->detail[2 * d + 1] = e.max[d];
    }
    r->detail[2 * distances] = e.p95_units;
    return FIRM_OK;
}

static firm_status run_gate(train_run_state* run, const stage* s, stage_work* w, stage_result* r,
                            firm_error* err) {
    TRY(is(s, "rollout")  ? rollout_figures(run, s, r, err)
        : is(s, "read")   ? read_loss(run, s, &r->gate, err)
        : is(s, "ground") ? ground_figures(run, r, err)
                          : held_loss(run, s, w, &r->gate, err));
    r->limit = s->gate_limit;
    r->pass = isfinite(r->gate) && (s->gate_limit <= 0 || r->gate <= s->gate_limit);
    return FIRM_OK;
}

// A checkpoint every so many updates, after the last one (so that nothing but its gate is lost when
// the run ends there) and where a signal asks the run to stop.
static firm_status save_if_due(train_run_state* run, const stage* s, nn_trainer* t, int done,
                               double seconds, firm_error* err) {
    int every = (int)config_int(run->settings, "train", "checkpoint_every");
    int stop = interrupt_seen();
    if (done % every == 0 || done == s->updates || stop)
        TRY(run_checkpoint(run, s->index, done, t, seconds, err));
    return stop ? FAIL(err, FIRM_E_STOPPED, "stopped after update %d of stage %s", done, s->name)
                : FIRM_OK;
}

// The loss is looked at after every update where that costs nothing. A GPU works ahead of us and is
// only asked when a row of metrics.csv is due: a loss that is not finite is noticed there.
static firm_status make_updates(train_run_state* run, const stage* s, nn_trainer* t, int from,
                                double started, firm_error* err) {
    int log_every = (int)config_int(run->settings, "train", "log_every");
    char label[64], note[64] = "";
    snprintf(label, sizeof label, "%d %s", s->index + 1, s->name);
    progress bar;
    progress_run_part(stage_cost(s, from));
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
        if (average_due(s, u + 1)) {
            TRY(nn_trainer_pull(t, err));
            average_add(run, s, u + 1);
        }
        double seconds = run->seconds_before + clock_seconds() - started;
        if (row_due) TRY(metrics_row(run, s, u + 1, t, seconds, err));
        progress_step(&bar, u + 1, note);
        firm_status saved = save_if_due(run, s, t, u + 1, seconds, err);
        if (saved == FIRM_E_STOPPED) progress_end(&bar);
        TRY(saved);
    }
    progress_end(&bar);
    return nn_trainer_pull(t, err);
}

// From the first update to the last one's checkpoint a signal has to wait for the update at work.
static firm_status updates(train_run_state* run, const stage* s, nn_trainer* t, int from,
                           double started, firm_error* err) {
    interrupt_hold();
    firm_status st = make_updates(run, s, t, from, started, err);
    if (st != FIRM_E_STOPPED) interrupt_release();
    return st;
}

static void report(const train_run_state* run, const stage* s, const stage_result* r) {
    char more[128] = "";
    for (int d = 0; is(s, "ground") && d < run->set.env->task.distances; d++) {
        const task_distance* name = &run->set.env->task.distance[d];
        text_add(more, sizeof more, "%s%s %.4g %s", d ? ", " : " (", name->name, r->detail[2 * d],
                 name->unit);
    }
    if (r->limit > 0)
        log_info("stage %s: held-out %.4f%s%s, gate %.4f: %s", s->name, r->gate, more,
                 more[0] ? ")" : "", r->limit, r->pass ? "pass" : "FAIL");
    else
        log_info("stage %s: held-out %.4f%s%s", s->name, r->gate, more, more[0] ? ")" : "");
}

firm_status stage_run(train_run_state* run, const stage* s, int from, firm_error* err) {
    double started = clock_seconds();
    stage_work w;
    firm_status st = stage_begin(run, s, from, &w, err);
    if (st == FIRM_OK) st = make_trainer(run, s, &w, err);
    if (st == FIRM_OK && from > 0) {
        st = run_read_moments(run, w.trainer, err);
        if (st == FIRM_OK) st = nn_trainer_resume(w.trainer, from, err);
    }
    if (st == FIRM_OK) st = average_begin(run, s, from, err);
    if (st == FIRM_OK) st = updates(run, s, w.trainer, from, started, err);
    if (st == FIRM_OK) average_take(run);
    stage_result* r = &run->result[run->results];
    *r = (stage_result){.updates = s->updates};
    snprintf(r->name, sizeof r->name, "%s", s->name);
    if (st == FIRM_OK) st = run_gate(run, s, &w, r, err);
    stage_end(run, &w);
    if (st != FIRM_OK) return st;
    r->seconds = run->seconds_before + clock_seconds() - started;
    run->results++;
    report(run, s, r);
    return FIRM_OK;
}
