// trials.c - draws the start and goal pairs of an evaluation. First step of eval: trials -> arms ->
// paired.
#include "eval/trials.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/stats.h"

static const double* state_at(const episodes* e, int64_t row) {
    return e->state + row * e->spec->state->dim;
}

static void fill(const episodes* e, int64_t from, int64_t to, eval_trial* t) {
    const double *start = state_at(e, from), *goal = state_at(e, to);
    size_t bytes = sizeof(double) * (size_t)e->spec->state->dim;
    t->start = t->row = from;
    t->goal = to;
    t->hash = stats_hash(stats_hash(STATS_HASH_START, start, bytes), goal, bytes);
    t->solved = env_success(e->spec, start, goal);
}

static int by_row(const void* a, const void* b) {
    const eval_trial *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

// Episodes that trials are drawn from, and the i-th of them.
static int episodes_used(const episodes* e, const trial_options* opt) {
    if (!opt->split) return e->count;
    return opt->training ? opt->split->train_count : opt->split->valid_count;
}

static int episode_used(const trial_options* opt, int i) {
    if (!opt->split) return i;
    return opt->training ? opt->split->train[i] : opt->split->valid[i];
}

int eval_goal_visible(const episodes* e, int64_t row) {
    float c[FIRM_MAX_CONFIG];
    env_config(e->spec, state_at(e, row), c);
    return task_is_visible(&e->spec->task, c);
}

// Every row that may start a trial; the caller frees *rows.
static firm_status eligible_rows(const episodes* e, const trial_options* opt, int64_t** rows,
                                 int* count, firm_error* err) {
    const int used = episodes_used(e, opt);
    *count = 0;
    int64_t most = 0;
    for (int i = 0; i < used; i++) {
        int here = e->length[episode_used(opt, i)] - TRIAL_BEFORE - opt->offset;
        if (here > 0) most += here;
    }
    if (most > INT_MAX) most = INT_MAX;
    *rows = mem_alloc((size_t)(most ? most : 1) * sizeof **rows);
    if (!*rows)
        return FAIL(err, FIRM_E_MEMORY, "no memory to draw trials from %" PRId64 " rows", most);
    for (int i = 0; i < used; i++) {
        int episode = episode_used(opt, i);
        if (opt->taken && opt->taken[episode]) continue;
        for (int t = TRIAL_BEFORE; t + opt->offset < e->length[episode] && *count < most; t++) {
            int64_t row = e->offset[episode] + t;
            if (opt->unsolved &&
                env_success(e->spec, state_at(e, row), state_at(e, row + opt->offset)))
                continue;
            (*rows)[(*count)++] = row;
        }
    }
    return FIRM_OK;
}

static firm_status create(const episodes* data, int count, int offset, eval_trials** out,
                          firm_error* err) {
    eval_trials* t = *out = mem_calloc(1, sizeof *t);
    if (t) t->trial = mem_calloc((size_t)count, sizeof *t->trial);
    if (!t || !t->trial) {
        eval_trials_free(t);
        *out = NULL;
        return FAIL(err, FIRM_E_MEMORY, "no memory for %d trials", count);
    }
    t->data = data;
    t->count = count;
    t->offset = offset;
    return FIRM_OK;
}

static const char* kind_of(const trial_options* opt) {
    return !opt->split ? "collected" : opt->training ? "training" : "validation";
}

// The first steps of a Fisher-Yates shuffle: distinct rows. A goal that nobody can see is passed
// over, so that the draws before it stay what they are. Returns how many were found.
static int draw_rows(const episodes* data, const trial_options* opt, int64_t* rows, int eligible,
                     eval_trials* t) {
    rng r = rng_start(opt->seed, RNG_STREAM(RNG_TRIAL, 0));
    int n = 0;
    for (int i = 0; i < eligible && n < opt->count; i++) {
        int j = i + (int)rng_below(&r, (uint32_t)(eligible - i));
        int64_t row = rows[j];
        rows[j] = rows[i];
        if (!eval_goal_visible(data, row + opt->offset)) continue;
        fill(data, row, row + opt->offset, &t->trial[n]);
        t->trial[n].draw = n;
        n++;
    }
    return n;
}

static firm_status too_few(const trial_options* opt, int found, firm_error* err) {
    return FAIL(
        err, FIRM_E_VALUE,
        "%d trials asked for, but the %s episodes hold only %d%s pairs %d rows apart; ask for "
        "fewer trials, a smaller --offset or collect more episodes",
        opt->count, kind_of(opt), found, opt->unsolved ? " unsolved" : "", opt->offset);
}

firm_status eval_trials_draw(const episodes* data, const trial_options* opt, eval_trials** out,
                             firm_error* err) {
    *out = NULL;
    if (opt->count < 1 || opt->offset < 1)
        return FAIL(err, FIRM_E_USAGE, "%d trials %d rows apart asked for; give positive numbers",
                    opt->count, opt->offset);
    int64_t* rows;
    int eligible;
    TRY(eligible_rows(data, opt, &rows, &eligible, err));
    eval_trials* t = NULL;
    firm_status status = eligible < opt->count && !opt->fewer
                             ? too_few(opt, eligible, err)
                             : create(data, opt->count, opt->offset, &t, err);
    if (status == FIRM_OK) {
        t->count = draw_rows(data, opt, rows, eligible, t);
        if (t->count < opt->count && !opt->fewer) status = too_few(opt, t->count, err);
    }
    mem_free(rows);
    if (status != FIRM_OK) {
        eval_trials_free(t);
        return status;
    }
    qsort(t->trial, (size_t)t->count, sizeof *t->trial, by_row);
    *out = t;
    return FIRM_OK;
}

void eval_trials_free(eval_trials* t) {
    if (!t) return;
    mem_free(t->trial);
    mem_free(t);
}

uint64_t eval_trials_hash(const eval_trials* t) {
    uint64_t hash = STATS_HASH_START;
    for (int i = 0; i < t->count; i++)
        hash = stats_hash(hash, &t->trial[i].hash, sizeof t->trial[i].hash);
    return hash;
}

// ---- trials as a file ---------------------------------------------------------------------------

firm_status eval_trials_pack(const eval_trials* t, const trial_options* opt, uint64_t split_seed,
                             trial_set** out, firm_error* err) {
    const episodes* e = t->data;
    const size_t state = (size_t)e->spec->state->dim, action = (size_t)e->spec->task.action_dim;
    trial_set* s;
    TRY(trial_set_create(e->spec, t->count, &s, err));
    s->offset = t->offset;
    s->unsolved = opt->unsolved;
    s->training = opt->training;
    s->drawn = opt->drawn;
    s->seed = opt->seed;
    s->split_seed = split_seed;
    s->trials_hash = eval_trials_hash(t);
    s->rows->hash = e->hash;
    s->rows->seed = e->seed;
    data_action_stats(e, opt->split, s->action_mean, s->action_std);
    for (int i = 0; i < t->count; i++) {
        const eval_trial* from = &t->trial[i];
        const int64_t first = from->start - TRIAL_BEFORE;
        double* to = s->rows->state + (size_t)i * TRIAL_ROWS * state;
        s->row[i] = from->row;
        s->episode[i] = episodes_of_row(e, from->start);
        s->draw[i] = from->draw;
        memcpy(to, state_at(e, first), FIRM_HISTORY * state * sizeof *to);
        memcpy(to + FIRM_HISTORY * state, state_at(e, from->goal), state * sizeof *to);
        memcpy(s->rows->action + (size_t)i * TRIAL_ROWS * action,
               e->action + first * (int64_t)action, TRIAL_ACTIONS * action * sizeof(float));
    }
    *out = s;
    return FIRM_OK;
}

firm_status eval_trials_take(const trial_set* set, int count, eval_trials** out, firm_error* err) {
    *out = NULL;
    if (count == 0) count = set->count;
    if (count < 1 || count > set->count)
        return FAIL(err, FIRM_E_USAGE,
                    "%d trials asked for, but the file holds %d; ask for fewer, or write more with "
                    "`firm trials --trials %d`",
                    count, set->count, count);
    eval_trials* t;
    TRY(create(set->rows, count, set->offset, &t, err));
    for (int i = 0, n = 0; i < set->count; i++) {
        if (set->draw[i] >= count) continue;
        const int64_t start = (int64_t)i * TRIAL_ROWS + TRIAL_BEFORE;
        fill(set->rows, start, start + 1, &t->trial[n]);
        t->trial[n].row = set->row[i];
        t->trial[n++].draw = set->draw[i];
    }
    *out = t;
    return FIRM_OK;
}

static firm_status check_use(const char* path, const trial_set* s, int training, firm_error* err) {
    if (s->training && !training)
        return FAIL(err, FIRM_E_USAGE,
                    "%s holds moments of training episodes, which no evaluation may use; write "
                    "trials with `firm trials` without --training",
                    path);
    if (!s->training && training)
        return FAIL(err, FIRM_E_USAGE,
                    "%s holds trials of validation episodes, which nothing may be learned from; "
                    "write moments with `firm trials --training`",
                    path);
    return FIRM_OK;
}

firm_status eval_trials_read(const char* path, const env_spec* spec, int training, trial_set** out,
                             firm_error* err) {
    eval_trials* t = NULL;
    trial_set* s;
    *out = NULL;
    TRY(trial_set_read(path, spec, &s, err));
    firm_status status = check_use(path, s, training, err);
    if (status == FIRM_OK) status = eval_trials_take(s, 0, &t, err);
    int solved = 0;
    for (int i = 0; t && i < t->count; i++) solved += t->trial[i].solved;
    if (t && (eval_trials_hash(t) != s->trials_hash || (s->unsolved && solved)))
        status = FAIL(err, FIRM_E_FORMAT,
                      "the trials of %s are not those its trials_hash and unsolved tell of; run "
                      "`firm trials` again",
                      path);
    eval_trials_free(t);
    if (status == FIRM_OK)
        *out = s;
    else
        trial_set_free(s);
    return status;
}

// ---- where trials come from ---------------------------------------------------------------------

firm_status eval_fresh_episodes(const env_spec* spec, int trials, int count, uint64_t seed, pool* p,
                                episodes** out, firm_error* err) {
    int64_t wanted = count ? count : 2 * (int64_t)trials;
    if (!count && wanted < 200) wanted = 200;
    collect_options opt = {.episodes = wanted > 100000 ? 100000 : (int)wanted, .seed = seed};
    return episodes_collect(spec, &opt, p, out, err);
}

static int find_number(const char* text, const char* label, int base, uint64_t* value) {
    const char* at = text ? strstr(text, label) : NULL;
    if (!at) return 0;
    char* end;
    at += strlen(label);
    *value = strtoull(at, &end, base);
    return end != at;
}

// `what` is "data" the model was trained on, or "episodes" that it carries.
static firm_status check_apart(const char* provenance, const char* what, const episodes* data,
                               int fresh, firm_error* err) {
    uint64_t seed, hash;
    char of_seed[32], of_hash[32];
    snprintf(of_seed, sizeof of_seed, "%s_seed=", what);
    snprintf(of_hash, sizeof of_hash, "%s_hash=", what);
    if (!find_number(provenance, of_seed, 10, &seed) || seed == UINT64_MAX || seed != data->seed)
        return FIRM_OK;
    if (fresh)
        return FAIL(err, FIRM_E_USAGE,
                    "the model was trained on or carries episodes collected with seed %" PRIu64
                    "; give another --seed, or "
                    "the training file with --data, whose validation episodes were held out",
                    seed);
    if (find_number(provenance, of_hash, 16, &hash) && hash != data->hash)
        return FAIL(err, FIRM_E_USAGE,
                    "the data were collected with seed %" PRIu64
                    " like the model's training file but are not "
                    "that file, so trials may be training episodes; give the training file or data "
                    "of another "
                    "seed",
                    seed);
    return FIRM_OK;
}

firm_status eval_check_held_out(const char* provenance, const episodes* data, int fresh,
                                firm_error* err) {
    TRY(check_apart(provenance, "data", data, fresh, err));
    return check_apart(provenance, "episodes", data, fresh, err);
}
