// losses.c - the rollout loss of the paper (its appendix "Complete supervision"): future
// configuration, displacement with the anchored first step, TopMean tail and fiber dynamics, with
// the weights of a source.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "train/internal.h"

firm_status loss_read(const config* c, const env_spec* env, const char* source, loss_weights* w,
                      firm_error* err) {
    char section[80];
    const char* name;
    int i = 0;
    while ((name = config_member(c, "loss.*", i)) && strcmp(name, source) != 0) i++;
    if (!name)
        return FAIL(err, FIRM_E_VALUE, "the settings lack a section [loss.%s]; add one", source);
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
    if (w->tail_kind != TAIL_TERMINAL && env->task.pairs == 0)
        return FAIL(err, FIRM_E_VALUE,
                    "%s.tail_kind = %s needs joint angles, and %s has none; use terminal", section,
                    tail, env->task.name);
    return FIRM_OK;
}

// Changes of the configurations of a path, each since the one before it or all since the start.
// Predictions and targets both begin at the inferred c_0, so that its error is not counted again as
// motion.
static nn_id changes(nn_graph* g, const firm_model* m, const loss_weights* w, const nn_id* at,
                     nn_id start) {
    nn_id change[MOST_STEPS];
    for (int k = 0; k < m->task.horizon; k++) {
        nn_id from = k == 0 || w->from_start ? start : at[k - 1];
        change[k] =
            w->relative ? nn_relative(g, at[k], from, m->task.pairs) : nn_sub(g, at[k], from);
    }
    return nn_concat(g, 0, m->task.horizon, change);
}

// Numbers of `steps` macro steps from `first` on, counted by the trust in these if there is one:
// what will be squared is scaled by the root.
static nn_id trusted(const firm_model* m, const rollout_graph* r, int first, int steps, nn_id x) {
    const int dim = m->task.config_dim;
    return r->trust == NN_NONE
               ? x
               : nn_mul(r->g, x, nn_slice(r->g, r->trust, 0, first * dim, steps * dim));
}

// One number for each macro step, which is not squared any more.
static nn_id trusted_rows(const firm_model* m, const rollout_graph* r, nn_id x) {
    nn_id root[MOST_STEPS];
    if (r->trust == NN_NONE) return x;
    for (int k = 0; k < m->task.horizon; k++)
        root[k] = nn_slice(r->g, r->trust, 0, k * m->task.config_dim, 1);
    nn_id roots = nn_concat(r->g, 0, m->task.horizon, root);
    return nn_mul(r->g, nn_mul(r->g, x, roots), roots);
}

// the errors of which TopMean takes the worst quarter
static nn_id tail_errors(nn_graph* g, const firm_model* m, const loss_weights* w,
                         const rollout_graph* r, const nn_id* path, const nn_id* target) {
    const int last = m->task.horizon - 1;
    if (w->tail_kind == TAIL_TERMINAL)
        return nn_mse(g, trusted(m, r, last, 1, path[last]), trusted(m, r, last, 1, target[last]));
    int steps[2] = {m->task.horizon, m->task.config_dim};
    // the length of a chord has no slope at 0; a thousandth rounds that corner off
    float rounded = w->tail_kind == TAIL_CHORD ? 1e-3f : 0.0f;
    return trusted_rows(m, r,
                        nn_chord(g, nn_reshape(g, r->path, 2, steps),
                                 nn_reshape(g, r->target, 2, steps), m->task.pairs, rounded));
}

// the belief: remembered, or computed where the history module is trained along
static nn_id belief_of(const firm_model* m, const stage* s, rollout_graph* r) {
    nn_graph* g = r->g;
    if (!s || !stage_trains(s, "history."))
        return r->belief = nn_input1(g, "belief", m->shape.belief);
    r->belief = NN_NONE;
    int shape[2] = {model_token_count(m), model_token_width(m)};
    for (int f = 0; f < HIST; f++) r->tokens[f] = nn_input(g, "tokens", 2, shape);
    for (int f = 0; f + 1 < HIST; f++) r->past[f] = nn_input1(g, "past", m->task.action_dim);
    return model_belief(g, m, r->tokens, r->past);
}

firm_status rollout_graph_build(const firm_model* m, const loss_weights* w, const stage* s,
                                rollout_graph* r, firm_error* err) {
    memset(r, 0, sizeof *r);
    TRY(nn_graph_create(m->store, &r->g, err));
    nn_graph* g = r->g;
    int dim = m->task.config_dim, chi_dim = m->task.chi_dim, steps = m->task.horizon;
    stage_train(s, g);
    nn_id belief = belief_of(m, s, r);
    for (int f = 0; f < HIST; f++) r->config[f] = nn_input1(g, "config", dim);
    for (int k = 0; k < steps; k++)
        r->u[k] = nn_input1(g, "u", m->task.controls * m->task.action_dim);
    r->target = nn_input1(g, "target", steps * dim);
    r->chi0 = r->chi = r->trust = NN_NONE;
    if (!w || !w->imagined) {
        r->chi0 = nn_input1(g, "chi0", chi_dim);
        r->chi = nn_input1(g, "chi", steps * chi_dim);
    }
    if (w && w->trusted) r->trust = nn_input1(g, "trust", steps * dim);
    r->zero_fiber = nn_input1(g, "zero", m->shape.fiber);

    nn_id c = r->config[HIST - 1];
    nn_id fiber = m->shape.no_fiber ? r->zero_fiber : model_fiber(g, m, belief, r->config);
    if (s && strcmp(s->objective, "read") == 0) {
        nn_loss(g, "chi0", nn_mse(g, model_reading(g, m, c, fiber), r->chi0), 1);
        return FIRM_OK;
    }
    // deployed models have no such head, and predictions need none
    int heads = w && !w->imagined && !m->shape.no_fiber;
    nn_id chi0 = heads ? model_chi(g, m, fiber) : NN_NONE;
    nn_id path[MOST_STEPS], target[MOST_STEPS], chi[MOST_STEPS], start = c;
    for (int k = 0; k < steps; k++) {
        model_transition(g, m, r->u[k], &c, &fiber);
        target[k] = nn_slice(g, r->target, 0, k * dim, dim);
        path[k] = c;
        if (heads) chi[k] = model_chi(g, m, fiber);
    }
    r->path = nn_concat(g, 0, steps, path);
    nn_output(g, r->path);
    if (!w) return FIRM_OK;

    nn_loss(g, "config",
            nn_mse(g, trusted(m, r, 0, steps, r->path), trusted(m, r, 0, steps, r->target)),
            w->config);
    nn_loss(g, "displacement",
            nn_mse(g, trusted(m, r, 0, steps, changes(g, m, w, path, start)),
                   trusted(m, r, 0, steps, changes(g, m, w, target, start))),
            w->displacement);
    nn_loss_topmean(g, "tail", tail_errors(g, m, w, r, path, target), w->tail, 0.25f);
    if (!heads) return FIRM_OK;
    nn_loss(g, "chi", nn_mse(g, nn_concat(g, 0, steps, chi), r->chi), w->chi);
    if (w->chi0 > 0) nn_loss(g, "chi0", nn_mse(g, chi0, r->chi0), w->chi0);
    return FIRM_OK;
}

static void put(const nn_feed* feed, nn_id input, int i, const float* from, size_t n) {
    memcpy(nn_feed_real(feed, input) + (size_t)i * n, from, n * sizeof *from);
}

// what the history says: a remembered belief, or tokens and actions for the module itself
static void fill_history(const rollout_batch* b, const nn_feed* feed, int i, int history) {
    const rollout_graph* r = b->graph;
    size_t dim = (size_t)b->set->env->task.config_dim,
           actions = (size_t)b->set->env->task.action_dim;
    if (r->belief != NN_NONE) {
        size_t n = (size_t)b->model->shape.belief;
        put(feed, r->belief, i, b->cache->belief + (size_t)history * n, n);
    } else {
        size_t n = (size_t)b->tokens->size;
        for (int f = 0; f < HIST; f++)
            put(feed, r->tokens[f], i, b->tokens->tokens + (size_t)(history * HIST + f) * n, n);
        for (int f = 0; f + 1 < HIST; f++)
            model_standardise(b->model,
                              b->from->past + (size_t)(history * (HIST - 1) + f) * actions, 1,
                              nn_feed_real(feed, r->past[f]) + (size_t)i * actions);
    }
    for (int f = 0; f < HIST; f++)
        put(feed, r->config[f], i, b->cache->config + (size_t)(history * HIST + f) * dim, dim);
}

// Noise on the history's configurations, a function of the table's row alone; pairs stay on their
// circle.
static void add_noise(const rollout_batch* b, const nn_feed* feed, int i, int64_t row) {
    const task_typed* task = &b->set->env->task;
    const int dim = task->config_dim;
    float noise[HIST * FIRM_MAX_CONFIG];
    rng_fill_normal(b->noise_key.seed, b->noise_key.stream, (uint64_t)(row * HIST * dim), noise,
                    (size_t)(HIST * dim));
    for (int f = 0; f < HIST; f++) {
        float* c = nn_feed_real(feed, b->graph->config[f]) + (size_t)(i * dim);
        for (int k = 0; k < dim; k++) c[k] += b->noise * noise[f * dim + k];
        for (int k = 0; k < 2 * task->pairs; k += 2) {
            float length = sqrtf(c[k] * c[k] + c[k + 1] * c[k + 1] + 1e-12f);
            c[k] /= length;
            c[k + 1] /= length;
        }
    }
}

// Cut where one wild target would drown the rest.
void chi_target(const firm_model* m, const float* chi, int count, float* out) {
    const float farthest = 8.0f;
    const model_stats* stats = &m->stats;
    int dim = m->task.chi_dim;
    for (int j = 0; j < count * dim; j++) {
        float x = (chi[j] - stats->chi_mean[j % dim]) / stats->chi_std[j % dim];
        out[j] = x > farthest ? farthest : x < -farthest ? -farthest : x;
    }
}

// The root of what each macro step counts, for every coordinate of it: the half where the members
// are `doubt` tolerances apart.
static void fill_trust(const rollout_batch* b, size_t at, float* out) {
    const int dim = b->set->env->task.config_dim, steps = b->set->env->task.horizon;
    const float* spread = b->from->spread + at * (size_t)steps;
    for (int k = 0; k < steps; k++)
        for (int i = 0; i < dim; i++) out[k * dim + i] = sqrtf(b->doubt / (b->doubt + spread[k]));
}

firm_status rollout_fill(void* ctx, const nn_feed* feed) {
    const rollout_batch* b = ctx;
    const rollout_graph* r = b->graph;
    const env_spec* env = b->set->env;
    const records* from = b->from;
    size_t dim = (size_t)env->task.config_dim, chi_dim = (size_t)env->task.chi_dim;
    const int controls = env->task.controls, steps = env->task.horizon;
    size_t macro = (size_t)(controls * env->task.action_dim);
    size_t points = (size_t)steps + 1;
    size_t fiber = (size_t)b->model->shape.fiber;
    for (int i = 0; i < feed->count; i++) {
        int64_t drawn = b->first + nn_feed_row(feed, i),
                row = b->noise > 0 ? drawn % b->rows : drawn;
        size_t at = (size_t)(b->order ? b->order[row] : row);
        const float* config = from->config + at * points * dim;
        fill_history(b, feed, i, from->history[at]);
        if (b->noise > 0) add_noise(b, feed, i, drawn);
        memset(nn_feed_real(feed, r->zero_fiber) + (size_t)i * fiber, 0, fiber * sizeof(float));
        for (int k = 0; k < steps; k++)
            model_standardise(b->model, from->action + (at * (points - 1) + (size_t)k) * macro,
                              controls, nn_feed_real(feed, r->u[k]) + (size_t)i * macro);
        put(feed, r->target, i, config + dim, (points - 1) * dim);
        if (r->trust != NN_NONE)
            fill_trust(b, at, nn_feed_real(feed, r->trust) + (size_t)i * (points - 1) * dim);
        if (r->chi0 == NN_NONE) continue;
        float *now = nn_feed_real(feed, r->chi0) + (size_t)i * chi_dim,
              *later = nn_feed_real(feed, r->chi) + (size_t)i * (points - 1) * chi_dim;
        if (from->chi) {
            const float* chi = from->chi + at * points * chi_dim;
            chi_target(b->model, chi, 1, now);
            chi_target(b->model, chi + chi_dim, steps, later);
        } else {  // imagined, and only its path is looked at
            memset(now, 0, chi_dim * sizeof *now);
            memset(later, 0, (points - 1) * chi_dim * sizeof *later);
        }
    }
    return FIRM_OK;
}

firm_status balanced_order(const uint8_t* rare, int n, int** order, int* rows, firm_error* err) {
    int count = 0;
    for (int i = 0; i < n; i++) count += rare[i];
    int more = count > n - count ? count : n - count;
    *order = NULL;
    *rows = n;
    if (count == 0 || count == n) return FIRM_OK;
    *order = mem_alloc((size_t)(2 * more) * sizeof **order);
    if (!*order) return FAIL(err, FIRM_E_MEMORY, "no memory to balance %d samples", n);
    *rows = 2 * more;
    // even rows go through the rare ones again and again, odd rows through the others
    for (int kind = 0; kind < 2; kind++)
        for (int i = 0, at = 0; at < more; i = (i + 1) % n)
            if (rare[i] == !kind) (*order)[2 * at++ + kind] = i;
    return FIRM_OK;
}
