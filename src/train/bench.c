// bench.c - speed of the two kinds of update, on a few episodes collected for it: the joint
// tokenizer and grounder update on rendered frames, and the factual + intervention rollout update.
#include <string.h>

#include "core/clock.h"
#include "core/mem.h"
#include "train/frontend.h"
#include "train/pace.h"
#include "train/shape.h"

typedef struct bench {
    const config* settings;
    pool* p;
    train_set set;
    firm_model* model;
    double seconds;
    double fma_sum;  // of the rates measured so far
    int fma_count;
} bench;

static int stage_of(const bench* b, const char* objective, int sources, stage* s) {
    int found = 0;
    stage each;
    for (int i = 0; stage_read(b->settings, i, NULL, &each); i++)
        if (strcmp(each.objective, objective) == 0 && (each.sources & sources) == sources &&
            (stage_sees_frames(&each) || !stage_trains(&each, "history."))) {
            *s = each;
            found = 1;
        }
    return found;
}

static int setting(const bench* b, const char* key) {
    return (int)config_int(b->settings, "train", key);
}

static firm_status time_updates(bench* b, const nn_part* part, int parts, const stage* s,
                                train_pace* out, firm_error* err) {
    nn_trainer_options opt = {.device = &b->set.device,
                              .store = b->model->store,
                              .p = b->p,
                              .lanes = setting(b, "lanes"),
                              .adamw = s->adamw};
    opt.adamw.updates = 1 << 30;  // no end in sight, so batches are prepared as in a long stage
    TRY(train_pace_measure(&opt, part, parts, b->seconds, out, err));
    b->fma_sum += out->fma_sum;
    b->fma_count += out->fma_count;
    return FIRM_OK;
}

static firm_status bench_frontend(bench* b, train_speed* out, firm_error* err) {
    stage s;
    if (!stage_of(b, "ground", 0, &s)) return FIRM_OK;
    s.terms.anchor = 0;
    frontend_graph g = {0};
    const pairs* from = &b->set.data.list[b->set.data.lists - 1].p;
    firm_status st = pixel_graph(b->model, &s, 1, &g, err);
    frontend_batch batch = {
        .set = &b->set, .model = b->model, .graph = &g, .from = from, .rows = from->count};
    nn_part part = {.label = "",
                    .graph = g.g,
                    .batch = s.batch[0],
                    .shard = setting(b, "frontend_shard"),
                    .weight = 1,
                    .fill = pair_fill,
                    .ctx = &batch};
    train_pace found = {0};
    if (st == FIRM_OK) st = time_updates(b, &part, 1, &s, &found, err);
    out->frontend_batch = 2 * s.batch[0];  // a sample is a pair of frames
    out->frontend_frames_per_s = found.updates_per_s * out->frontend_batch;
    out->fraction_of_fma_frontend = found.fraction;
    nn_graph_free(g.g);
    return st;
}

static firm_status blank_cache(const bench* b, const records* of, history_cache* c,
                               firm_error* err) {
    c->count = of->histories;
    c->belief = mem_calloc((size_t)of->histories * (size_t)b->model->shape.belief, sizeof(float));
    c->config = mem_calloc((size_t)of->histories * HIST * (size_t)b->set.env->task.config_dim,
                           sizeof(float));
    return c->belief && c->config ? FIRM_OK
                                  : FAIL(err, FIRM_E_MEMORY, "no memory for the benchmark");
}

static firm_status bench_rollout(bench* b, train_speed* out, firm_error* err) {
    stage s;
    if (!stage_of(b, "rollout", SOURCE_F | SOURCE_I, &s)) return FIRM_OK;
    loss_weights w = {.config = 2, .displacement = 2, .tail = 0.5f, .chi = 0.5f, .chi0 = 0.5f};
    rollout_graph g[2] = {0};
    rollout_batch batch[2];
    history_cache cache[2] = {0};
    nn_part part[2];
    firm_status st = FIRM_OK;
    for (int i = 0; i < 2 && st == FIRM_OK; i++) {
        const records* from = &b->set.data.set[i];
        st = rollout_graph_build(b->model, &w, &s, &g[i], err);
        if (st == FIRM_OK) st = blank_cache(b, from, &cache[i], err);
        batch[i] = (rollout_batch){
            .set = &b->set, .model = b->model, .graph = &g[i], .from = from, .cache = &cache[i]};
        part[i] = (nn_part){.label = "",
                            .graph = g[i].g,
                            .batch = s.batch[i],
                            .shard = setting(b, "rollout_shard"),
                            .weight = 1,
                            .fill = rollout_fill,
                            .ctx = &batch[i],
                            .rows = from->count,
                            .pick = train_pick_key(b->set.seed, i)};
    }
    train_pace found = {0};
    if (st == FIRM_OK) st = time_updates(b, part, 2, &s, &found, err);
    out->recurrent_batch = s.batch[0] + s.batch[1];
    out->recurrent_updates_per_s = found.updates_per_s;
    out->fraction_of_fma_recurrent = found.fraction;
    for (int i = 0; i < 2; i++) {
        nn_graph_free(g[i].g);
        cache_free(&cache[i]);
    }
    return st;
}

firm_status train_bench(const config* settings, const env_spec* env, const char* device,
                        int threads, double seconds, train_speed* out, firm_error* err) {
    bench b = {.settings = settings, .seconds = seconds};
    collect_options collect = {.episodes = 16, .seed = 1};  // enough where simulation is slow
    intervene_options intervene = {.anchors = 8, .per_anchor = 4};
    train_options opt = {.seed = 1};
    episodes* data = NULL;
    branches* inter = NULL;
    model_shape shape;
    model_shape_read(settings, &shape);
    memset(out, 0, sizeof *out);
    nn_device where;
    TRY(train_device_open(settings, device, &where, err));
    firm_status st = pool_create(threads, &b.p, err);
    for (int again = 0; again < 2 && st == FIRM_OK; again++) {
        double begun = clock_seconds();
        st = episodes_collect(env, &collect, b.p, &data, err);
        double took = clock_seconds() - begun;
        out->episodes_per_s = collect.episodes / took;
        if (again || st != FIRM_OK || took > 0.5) break;
        episodes_free(data);  // too quick to tell
        data = NULL;
        collect.episodes = 64;
    }
    if (st == FIRM_OK) st = branches_collect(data, &intervene, b.p, &inter, err);
    if (st == FIRM_OK)
        st = train_set_open(settings, env, &(train_inputs){.data = data, .interventions = inter},
                            &opt, pool_threads(b.p), &b.set, err);
    if (st == FIRM_OK)
        st = model_create(&env->task, &shape, stages_auxiliary(settings), 1, &b.model, err);
    if (st == FIRM_OK) st = train_set_stats(&b.set, &b.model->stats, err);
    b.set.device = where;
    if (st == FIRM_OK) st = bench_frontend(&b, out, err);
    if (st == FIRM_OK) st = bench_rollout(&b, out, err);
    if (b.fma_count) out->fma_gflops = b.fma_sum / b.fma_count;
    firm_model_free(b.model);
    train_set_close(&b.set);
    branches_free(inter);
    episodes_free(data);
    pool_free(b.p);
    nn_device_close(&where);
    return st;
}
