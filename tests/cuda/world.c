// world.c - see world.h.
#include "world.h"

#include "check.h"
#include "core/mem.h"
#include "core/rng.h"
#include "train/shape.h"

// how much of each task is enough: as little as its stages can be tried on
typedef struct amount {
    const char *task, *smoke;
    int episodes, anchors, per_anchor, structured;
    int segments, held_out, pool;
} amount;
static const amount amounts[] = {
    {"tworoom", "smoke", 120, 24, 4, 0, 64, 16, 0},
    {"reacher", "smoke-reacher", 30, 10, 4, 0, 32, 16, 24},
    {"pusht", "smoke-pusht", 30, 10, 4, 6, 32, 16, 24},
    {"cube", "smoke-cube", 10, 6, 3, 0, 12, 4, 12},
};

static const amount* amount_of(const char* task) {
    size_t i = 0;
    while (strcmp(amounts[i].task, task) != 0) i++;
    return &amounts[i];
}

static void noise(int kind, float* x, size_t count) {
    rng_fill_normal(4, RNG_STREAM(RNG_TEST, kind), 0, x, (int64_t)count);
}

// ---- data ---------------------------------------------------------------------------------------

static int collect(world* w, const char* task, world_size size, int pool) {
    const amount* a = amount_of(task);
    char segments[40], held_out[40], frames[40];
    snprintf(segments, sizeof segments, "train.segments=%d", a->segments);
    snprintf(held_out, sizeof held_out, "train.held_out=%d", a->held_out);
    snprintf(frames, sizeof frames, "train.frame_pool=%d", pool ? pool : a->pool);
    small_options opt = {.task = task,
                         .settings = size == NARROW ? a->smoke : NULL,
                         .set = {segments, held_out, frames},
                         .episodes = a->episodes,
                         .anchors = a->anchors,
                         .per_anchor = a->per_anchor,
                         .structured = a->structured,
                         .p = w->p};
    if (strcmp(task, "tworoom") == 0) {  // frames of branches too, and some way apart
        opt.set[3] = "stage.grounder.sources=FI";
        opt.set[4] = "stage.grounder.lag=5";
    }
    return small_collect(&w->small, &opt);
}

// ---- model and caches ---------------------------------------------------------------------------

// Some weights begin at zero, and no gradient reaches what lies behind them.
static firm_status make_model(world* w, firm_error* err) {
    model_shape shape;
    model_shape_read(w->run.settings, &shape);
    TRY(model_create(&w->env->task, &shape, 1, w->opt.seed, &w->model, err));
    w->run.model = w->model;
    TRY(train_set_stats(&w->run.set, &w->model->stats, err));
    nn_store* store = w->model->store;
    w->start = mem_alloc(store->count * sizeof *w->start);
    if (!w->start) return FAIL(err, FIRM_E_MEMORY, "no memory for the weights");
    noise(0, w->start, store->count);
    for (size_t i = 0; i < store->count; i++)
        w->start[i] = store->value[i] != 0 ? store->value[i] : 0.02f * w->start[i];
    world_restart(w);
    return FIRM_OK;
}

// beliefs of noise; configurations near the true ones, so that angles stay angles
static firm_status fill_cache(world* w, int source, firm_error* err) {
    const records* of = &w->run.set.data.set[source];
    history_cache* c = &w->run.cache[source];
    size_t belief = (size_t)(of->histories * w->model->shape.belief);
    size_t dim = (size_t)w->env->task.config_dim, seen = (size_t)(of->histories * HIST);
    *c = (history_cache){of->histories, mem_alloc(belief * sizeof(float)),
                         mem_alloc(seen * dim * sizeof(float))};
    if (!c->belief || !c->config) return FAIL(err, FIRM_E_MEMORY, "no memory for a cache");
    noise(10 + source, c->belief, belief);
    noise(20 + source, c->config, seen * dim);
    for (size_t i = 0; i < seen; i++) {
        float truth[FIRM_MAX_CONFIG];
        env_config(w->env, pack_state(&w->run.set.data, of->seen[i]), truth);
        for (size_t d = 0; d < dim; d++)
            c->config[i * dim + d] = truth[d] + 0.05f * c->config[i * dim + d];
    }
    return FIRM_OK;
}

// those that are not there: pixel stages drop them
static firm_status fill_caches(world* w, firm_error* err) {
    for (int source = 0; source < PACK_SOURCES; source++)
        if (w->run.set.data.set[source].count && !w->run.cache[source].count)
            TRY(fill_cache(w, source, err));
    return FIRM_OK;
}

// ---- stages -------------------------------------------------------------------------------------

// rates, batches and updates do not shape a graph
static int same_graphs(const stage* a, const stage* b) {
    return strcmp(a->objective, b->objective) == 0 && a->sources == b->sources &&
           a->balance == b->balance && a->lag == b->lag && a->spatial == b->spatial &&
           strcmp(a->loss, b->loss) == 0 && memcmp(&a->terms, &b->terms, sizeof a->terms) == 0 &&
           memcmp(a->module, b->module, sizeof a->module) == 0;
}

static firm_status list_stages(world* w, firm_error* err) {
    for (int i = 0; i < MAX_STAGES; i++) {
        stage* s = &w->stage[w->stages];
        if (!stage_read(w->run.settings, i, NULL, s)) break;
        TRY(stage_check(s, w->run.settings, &w->run.set, w->model, err));
        int known = 0;
        while (known < w->stages && !same_graphs(&w->stage[known], s)) known++;
        w->stages += known == w->stages;
    }
    return FIRM_OK;
}

// ---- the world ----------------------------------------------------------------------------------

static firm_status fill_world(world* w, firm_error* err) {
    train_inputs in = small_inputs(&w->small);
    w->env = w->small.env;
    w->run = (train_run_state){.settings = w->small.settings, .opt = &w->opt, .p = w->p};
    TRY(train_set_open(w->run.settings, w->env, &in, &w->opt, pool_threads(w->p), &w->run.set,
                       err));
    TRY(make_model(w, err));
    TRY(fill_caches(w, err));
    return list_stages(w, err);
}

int world_open(world* w, const char* task, world_size size, int pool) {
    firm_error err = {0};
    *w = (world){.opt = {.seed = 5}};
    firm_status st = pool_create(0, &w->p, &err);
    if (st == FIRM_OK && !collect(w, task, size, pool)) {
        world_close(w);
        return 0;
    }
    if (st == FIRM_OK) st = fill_world(w, &err);
    if (st == FIRM_OK) return 1;
    test_fail(__FILE__, __LINE__, "no %s to train on: %s", task, err.message);
    world_close(w);
    return 0;
}

void world_close(world* w) {
    mem_free(w->start);
    run_drop_caches(&w->run);
    mem_free(w->run.anchor);
    firm_model_free(w->model);
    train_set_close(&w->run.set);
    small_close(&w->small);
    pool_free(w->p);
    *w = (world){0};
}

void world_restart(world* w) {
    memcpy(w->model->store->value, w->start, w->model->store->count * sizeof *w->start);
}

// ---- jobs ---------------------------------------------------------------------------------------

int job_open(job* j, world* w, int index, int batch) {
    firm_error err = {0};
    stage s = w->stage[index];
    *j = (job){.w = w};
    snprintf(j->name, sizeof j->name, "%.30s %.40s", w->env->task.name, s.name);
    for (int i = 0; i < SOURCES; i++) s.batch[i] = batch + (i == 0 ? 0 : batch > 3 ? 3 : 1);
    s.weight[PACK_I] = 0.5f;
    firm_status st = fill_caches(w, &err);
    if (st == FIRM_OK) st = stage_begin(&w->run, &s, 0, &j->work, &err);
    if (st != FIRM_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", j->name, err.message);
        job_close(j);
        return 0;
    }
    // those of a fresh tokenizer hardly differ from frame to frame, and anchors not at all from
    // what it says
    for (int i = 0; i < SOURCES; i++) {
        token_cache* c = &j->work.tokens[i];
        noise(30 + i, c->tokens, (size_t)c->count * (size_t)c->frames * (size_t)c->size);
    }
    return 1;
}

void job_close(job* j) {
    stage_end(&j->w->run, &j->work);
}
