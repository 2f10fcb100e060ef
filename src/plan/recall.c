// recall.c - nearest recorded moments by exhaustive search: some ten thousand moments of ten
// numbers are little beside the predictions of a single plan. Most are passed over by what they
// are alone, before any place is looked at that they led to.
#include "plan/recall.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"

struct plan_recall {
    const task_typed* task;
    int moments, starts, most, length, ahead;
    int config, action, chi, dim;  // numbers of a moment's parts
    uint32_t aims;                 // terms of the situation that read the goal
    float* c;                      // (moments, config)
    float* u;                      // (moments, action) of one macro action, standardised
    int* left;                     // (moments) macro actions to the recording's end
    int* start;                    // (starts) moments that sequences may begin with
    float* start_chi;              // (starts, chi)
    float* key;                    // (starts, dim) situation; terms that read the goal are unused
    float* plan;                   // (most, length * action) those found
    float* distance;               // (most) ascending
    plan_trail* trail;             // (most)
};

// ---- memory -------------------------------------------------------------------------------------

static uint32_t aims_of(const task_typed* t) {
    uint32_t bits = 0;
    for (int i = 0; i < t->situation_dim; i++)
        if (t->situation[i].plus.of == TASK_GOAL || t->situation[i].minus.of == TASK_GOAL)
            bits |= 1u << i;
    return bits;
}

static size_t layout(plan_recall* r, int take) {
    const size_t n = (size_t)r->moments, s = (size_t)r->starts, most = (size_t)r->most;
    struct {
        void* slot;
        size_t bytes;
    } part[] = {{&r->c, 4 * n * (size_t)r->config},
                {&r->u, 4 * n * (size_t)r->action},
                {&r->left, 4 * n},
                {&r->start, 4 * s},
                {&r->start_chi, 4 * s * (size_t)r->chi},
                {&r->key, 4 * s * (size_t)r->dim},
                {&r->plan, 4 * most * (size_t)(r->length * r->action)},
                {&r->distance, 4 * most},
                {&r->trail, sizeof *r->trail * most}};
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        bytes += part[i].bytes;
        if (!take) continue;
        void* memory = mem_alloc(part[i].bytes ? part[i].bytes : 1);
        if (!memory) return 0;
        memcpy(part[i].slot, &memory, sizeof memory);
    }
    return bytes;
}

// Episodes: every moment may begin a sequence, but for the last ones.
static void take_episodes(plan_recall* r, const firm_model* m) {
    memcpy(r->c, m->recorded_path, (size_t)(r->moments * r->config) * sizeof *r->c);
    memcpy(r->u, m->recorded, (size_t)(r->moments * r->action) * sizeof *r->u);
    for (int i = 0, s = 0; i < r->moments; i++) {
        r->left[i] = (int)m->recorded_left[i];
        if (r->left[i] == 0) continue;
        r->start[s] = i;
        memcpy(r->start_chi + s++ * r->chi, m->recorded_chi + i * r->chi,
               (size_t)r->chi * sizeof *r->start_chi);
    }
}

// Segments: chi is known of their first moments alone.
static void take_segments(plan_recall* r, const firm_model* m) {
    const int points = task_points(r->task), steps = r->task->horizon;
    memcpy(r->c, m->recorded_path, (size_t)(r->moments * r->config) * sizeof *r->c);
    memcpy(r->start_chi, m->recorded_chi, (size_t)(r->starts * r->chi) * sizeof *r->start_chi);
    for (int i = 0; i < r->moments; i++) {
        int segment = i / points, k = i % points;
        float* u = r->u + (size_t)i * (size_t)r->action;
        r->left[i] = steps - k;
        if (k == 0) r->start[segment] = i;
        if (k < steps)
            memcpy(u, m->recorded + (size_t)(segment * steps + k) * (size_t)r->action,
                   (size_t)r->action * sizeof *u);
        else
            memset(u, 0, (size_t)r->action * sizeof *u);
    }
}

static int starts_of(const firm_model* m) {
    int starts = 0;
    if (!m->recorded_left) return m->recorded_count;
    for (int i = 0; i < m->recorded_count; i++) starts += m->recorded_left[i] > 0;
    return starts;
}

static void standardise(plan_recall* r, const plan_actions* actions) {
    for (int i = 0; i < r->moments * r->action; i++) {
        int k = i % r->task->action_dim;
        r->u[i] = (r->u[i] - actions->mean[k]) / actions->deviation[k];
    }
}

firm_status plan_recall_create(const firm_model* m, const plan_actions* actions,
                               const plan_recall_size* size, plan_recall** out, firm_error* err) {
    const task_typed* task = &m->task;
    *out = NULL;
    if (!m->recorded || task->situation_dim == 0)
        return FAIL(err, FIRM_E_VALUE,
                    "plan.reach_recorded needs recorded sequences, and the model has none; train "
                    "it with train.recorded, or set plan.reach_recorded=0");
    plan_recall* r = mem_calloc(1, sizeof *r);
    if (!r) return FAIL(err, FIRM_E_MEMORY, "no memory for recorded sequences");
    const int starts = starts_of(m);
    *r = (plan_recall){.task = task,
                       .moments = m->recorded_count * (m->recorded_left ? 1 : task_points(task)),
                       .starts = starts,
                       .most = size->most < starts ? size->most : starts,
                       .length = size->length,
                       .ahead = size->ahead > task->horizon ? size->ahead : task->horizon,
                       .config = task->config_dim,
                       .action = task->controls * task->action_dim,
                       .chi = task->chi_dim,
                       .dim = task->situation_dim,
                       .aims = aims_of(task)};
    if (!layout(r, 1)) {
        plan_recall_free(r);
        return FAIL(err, FIRM_E_MEMORY, "no memory for recorded sequences");
    }
    if (m->recorded_left)
        take_episodes(r, m);
    else
        take_segments(r, m);
    standardise(r, actions);
    for (int i = 0; i < starts; i++) {
        const float* c = r->c + r->start[i] * r->config;
        task_situation(task, c, r->start_chi + i * r->chi, c, r->key + i * r->dim);
    }
    *out = r;
    return FIRM_OK;
}

void plan_recall_free(plan_recall* r) {
    if (!r) return;
    void* part[] = {r->c,   r->u,    r->left,     r->start, r->start_chi,
                    r->key, r->plan, r->distance, r->trail};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) mem_free(part[i]);
    mem_free(r);
}

size_t plan_recall_bytes(const plan_recall* r) {
    plan_recall sizes = *r;
    return sizeof *r + layout(&sizes, 0);
}

// ---- looking up ---------------------------------------------------------------------------------

// Squared, what the moments alone are apart, whatever the start led to.
static float moments_apart(const plan_recall* r, int start, const float* wanted) {
    const float* key = r->key + start * r->dim;
    float sum = 0;
    for (int j = 0; j < r->dim; j++)
        if (!(r->aims >> j & 1)) sum += (key[j] - wanted[j]) * (key[j] - wanted[j]);
    return sum;
}

// The squared distance of a place that the start led to, or `enough` if it is not below that.
static float distance_at(const plan_recall* r, const float* key, const float* wanted,
                         float enough) {
    float sum = 0;
    for (int j = 0; j < r->dim; j++) {
        sum += (key[j] - wanted[j]) * (key[j] - wanted[j]);
        if (sum >= enough) return enough;  // it only grows
    }
    return sum;
}

// Of the best of its places; likewise.
static float distance_to(const plan_recall* r, int start, const float* wanted, float enough) {
    const int first = r->start[start], left = r->left[first];
    const float *c = r->c + first * r->config, *chi = r->start_chi + start * r->chi;
    float key[TASK_MAX_SITUATION];
    for (int k = 1; k <= r->ahead && k <= left; k++) {
        task_situation(r->task, c, chi, c + k * r->config, key);
        enough = distance_at(r, key, wanted, enough);
    }
    return enough;
}

int plan_recall_follow(const plan_recall* r, int first, int later, float* u) {
    if (first >= r->moments || later >= r->left[first]) return 0;
    memcpy(u, r->u + (size_t)(first + later) * (size_t)r->action, (size_t)r->action * sizeof *u);
    return 1;
}

int plan_recall_beyond(const plan_recall* r, int first, int steps, const float* end, int later,
                       float* state) {
    if (first >= r->moments || later > r->left[first]) return 0;
    const float *from = r->c + (first + steps) * r->config,
                *to = r->c + (first + later) * r->config;
    int i = 0;
    for (; i < 2 * r->task->pairs; i += 2) {  // turned by as much as the recorded pair
        float sin = to[i] * from[i + 1] - to[i + 1] * from[i],
              cos = to[i + 1] * from[i + 1] + to[i] * from[i];
        state[i] = end[i] * cos + end[i + 1] * sin;
        state[i + 1] = end[i + 1] * cos - end[i] * sin;
    }
    for (; i < r->config; i++) state[i] = end[i] + (to[i] - from[i]);
    return 1;
}

void plan_recall_find(plan_recall* r, const float* c, const float* chi, const float* goal,
                      plan_recalled* out) {
    float wanted[TASK_MAX_SITUATION];
    int n = 0;
    task_situation(r->task, c, chi, goal, wanted);
    for (int i = 0; i < r->starts; i++) {
        const float apart = moments_apart(r, i, wanted);
        // no place makes the distance smaller, but for rounding
        if (n == r->most && (1 - 1e-5f) * apart >= r->distance[n - 1]) continue;
        float d = distance_to(r, i, wanted, n < r->most ? INFINITY : r->distance[n - 1]);
        if (!(n < r->most || d < r->distance[n - 1])) continue;
        int at = n < r->most ? n++ : n - 1;
        for (; at > 0 && r->distance[at - 1] > d; at--) {
            r->distance[at] = r->distance[at - 1];
            r->trail[at] = r->trail[at - 1];
        }
        r->distance[at] = d;
        r->trail[at] = (plan_trail){r->start[i]};
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < r->length; k++) {
            float* u = r->plan + (size_t)((i * r->length + k) * r->action);
            if (!plan_recall_follow(r, r->trail[i].first, k, u))
                memset(u, 0, (size_t)r->action * sizeof *u);
        }
    *out = (plan_recalled){
        .count = n, .length = r->length * r->action, .plan = r->plan, .trail = r->trail};
}
