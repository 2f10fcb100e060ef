// records.c - fills records and pairs from recordings and branches; afterwards nobody asks which of
// the two a sample came from.
#include "data/records.h"

#include <string.h>

#include "core/mem.h"

enum { BEFORE = RECORD_FRAMES - 1 };

// Of a branch.
static int states_of(const env_spec* spec) {
    return task_span(&spec->task) + 1;
}

// ---- scenes -------------------------------------------------------------------------------------

static int64_t branch_scenes(const branches* b) {
    return b ? (int64_t)b->anchors * b->per_anchor * states_of(b->spec) : 0;
}

int64_t scenes_count(const scenes* s) {
    int64_t n = s->e->rows;
    for (int i = 0; i < SCENE_BRANCHES; i++) n += branch_scenes(s->b[i]);
    return n;
}

int64_t scene_of_branch(const scenes* s, int which, int branch, int control) {
    int64_t n = s->e->rows;
    for (int i = 0; i < which; i++) n += branch_scenes(s->b[i]);
    return n + (int64_t)branch * states_of(s->e->spec) + control;
}

const double* scene_state(const scenes* s, int64_t scene) {
    int dim = s->e->spec->state->dim;
    if (scene < s->e->rows) return s->e->state + scene * dim;
    scene -= s->e->rows;
    for (int i = 0; i < SCENE_BRANCHES; i++) {
        int64_t n = branch_scenes(s->b[i]);
        if (scene < n) return s->b[i]->state + scene * dim;
        scene -= n;
    }
    CHECK(0, "a scene that does not exist");
    return NULL;
}

// ---- records ------------------------------------------------------------------------------------

// A future: `row` of the recording, then either the rows after it or a branch.
typedef struct future {
    const scenes* s;
    int64_t row, start;  // start: first row of the episode
    int which, branch;   // branch -1: as recorded
} future;

static int64_t future_scene(const future* f, int control) {
    if (control <= 0 || f->branch < 0) {
        int64_t row = f->row + control;
        return row > f->start ? row : f->start;
    }
    return scene_of_branch(f->s, f->which, f->branch, control);
}

static const double* future_state(const future* f, int control) {
    return scene_state(f->s, future_scene(f, control));
}

static void fill_future(const future* f, records* r, int at) {
    const env_spec* spec = f->s->e->spec;
    const int span = task_span(&spec->task), points = task_points(&spec->task);
    const int macro = spec->task.controls;
    const float* action = f->branch < 0 ? f->s->e->action + f->row * spec->task.action_dim
                                        : f->s->b[f->which]->action +
                                              (int64_t)f->branch * span * spec->task.action_dim;
    size_t numbers = (size_t)(span * spec->task.action_dim);
    memcpy(r->action + (size_t)at * numbers, action, numbers * sizeof *action);
    r->after[at] = future_scene(f, 1);
    for (int k = 0; k < points; k++) {
        int control = k * macro, point = at * points + k;
        const double* state = future_state(f, control);
        env_config(spec, state, r->config + (size_t)point * (size_t)spec->task.config_dim);
        env_chi(spec, state, future_state(f, control - 1), future_state(f, control - macro),
                r->chi + (size_t)point * (size_t)spec->task.chi_dim);
    }
    for (int c = 1; c <= span; c++)
        r->rare[at] |= (uint8_t)env_rare(spec, future_state(f, c), future_state(f, c - 1));
}

static void fill_history(const scenes* s, int64_t row, records* r, int at) {
    int dim = s->e->spec->task.action_dim;
    for (int f = 0; f < RECORD_FRAMES; f++) r->seen[at * RECORD_FRAMES + f] = row - BEFORE + f;
    memcpy(r->past + (size_t)(at * BEFORE * dim), s->e->action + (row - BEFORE) * dim,
           (size_t)(BEFORE * dim) * sizeof *r->past);
}

firm_status records_alloc(const env_spec* spec, int count, int histories, int imagined, records* r,
                          firm_error* err) {
    size_t n = (size_t)count, h = (size_t)histories;
    size_t span = (size_t)task_span(&spec->task), points = (size_t)task_points(&spec->task);
    *r = (records){.count = count, .histories = histories};
    r->history = mem_calloc(n, sizeof *r->history);
    r->seen = mem_calloc(h, RECORD_FRAMES * sizeof *r->seen);
    r->past = mem_calloc(h, BEFORE * (size_t)spec->task.action_dim * sizeof *r->past);
    r->action = mem_calloc(n, span * (size_t)spec->task.action_dim * sizeof *r->action);
    r->config = mem_calloc(n, points * (size_t)spec->task.config_dim * sizeof *r->config);
    int made = r->history && r->seen && r->past && r->action && r->config;
    if (imagined) {
        r->spread = mem_calloc(n, (size_t)spec->task.horizon * sizeof *r->spread);
        made = made && r->spread;
    } else {
        r->after = mem_calloc(n, sizeof *r->after);
        r->chi = mem_calloc(n, points * (size_t)spec->task.chi_dim * sizeof *r->chi);
        r->rare = mem_calloc(n, 1);
        made = made && r->after && r->chi && r->rare;
    }
    if (made) return FIRM_OK;
    records_free(r);
    return FAIL(err, FIRM_E_MEMORY, "no memory for %d training records", count);
}

void records_free(records* r) {
    mem_free(r->history);
    mem_free(r->seen);
    mem_free(r->past);
    mem_free(r->after);
    mem_free(r->action);
    mem_free(r->config);
    mem_free(r->chi);
    mem_free(r->rare);
    mem_free(r->spread);
    *r = (records){0};
}

static int64_t episode_start(const episodes* e, int64_t row) {
    return e->offset[episodes_of_row(e, row)];
}

firm_status records_of_rows(const scenes* s, const int64_t* rows, int count, records* r,
                            firm_error* err) {
    TRY(records_alloc(s->e->spec, count, count, 0, r, err));
    for (int i = 0; i < count; i++) {
        future f = {s, rows[i], episode_start(s->e, rows[i]), 0, -1};
        r->history[i] = i;
        fill_history(s, rows[i], r, i);
        fill_future(&f, r, i);
    }
    return FIRM_OK;
}

firm_status records_of_branches(const scenes* s, int which, records* r, firm_error* err) {
    const branches* b = s->b[which];
    TRY(records_alloc(s->e->spec, b->anchors * b->per_anchor, b->anchors, 0, r, err));
    for (int i = 0; i < b->anchors; i++) fill_history(s, b->row[i], r, i);
    for (int i = 0; i < r->count; i++) {
        int64_t row = b->row[i / b->per_anchor];
        future f = {s, row, episode_start(s->e, row), which, i};
        r->history[i] = i / b->per_anchor;
        fill_future(&f, r, i);
    }
    return FIRM_OK;
}

firm_status records_mismatch(records* r, const env_spec* spec, uint64_t seed, firm_error* err) {
    int* from = mem_alloc((size_t)r->count * sizeof *from);
    records old;
    firm_status st = from ? records_alloc(spec, r->count, r->histories, 0, &old, err)
                          : FAIL(err, FIRM_E_MEMORY, "no memory for %d records", r->count);
    if (st != FIRM_OK) {
        mem_free(from);
        return st;
    }
    size_t c = (size_t)spec->task.config_dim, x = (size_t)spec->task.chi_dim, n = (size_t)r->count;
    size_t points = (size_t)task_points(&spec->task);
    memcpy(old.after, r->after, n * sizeof *r->after);
    memcpy(old.config, r->config, n * points * c * sizeof *r->config);
    memcpy(old.chi, r->chi, n * points * x * sizeof *r->chi);
    memcpy(old.rare, r->rare, n);
    for (int i = 0; i < r->count; i++) from[i] = i;
    rng g = rng_start(seed, RNG_STREAM(RNG_BRANCH, 1) ^ 0xFFFFFFFFu);
    rng_shuffle(&g, from, r->count);
    for (size_t i = 0; i < n; i++) {
        size_t o = (size_t)from[i];
        r->after[i] = old.after[o];
        r->rare[i] = old.rare[o];
        // what holds at the start stays with the history
        for (size_t k = 1; k < points; k++) {
            memcpy(r->config + (i * points + k) * c, old.config + (o * points + k) * c,
                   c * sizeof *r->config);
            memcpy(r->chi + (i * points + k) * x, old.chi + (o * points + k) * x,
                   x * sizeof *r->chi);
        }
    }
    records_free(&old);
    mem_free(from);
    return FIRM_OK;
}

// Puts `from` behind the `count` records and `histories` histories that `to` has room for more
// than.
static void put_behind(const env_spec* spec, const records* from, int64_t first_scene, int count,
                       int histories, records* to) {
    const size_t past = (size_t)(BEFORE * spec->task.action_dim),
                 action = (size_t)(task_span(&spec->task) * spec->task.action_dim),
                 config = (size_t)(task_points(&spec->task) * spec->task.config_dim),
                 chi = (size_t)(task_points(&spec->task) * spec->task.chi_dim),
                 spread = (size_t)spec->task.horizon, n = (size_t)count, m = (size_t)from->count,
                 h = (size_t)histories;
    for (int i = 0; i < from->count; i++) to->history[count + i] = from->history[i] + histories;
    for (int i = 0; i < from->histories * RECORD_FRAMES; i++)
        to->seen[histories * RECORD_FRAMES + i] =
            from->seen[i] < 0 ? -1 : from->seen[i] + first_scene;
    memcpy(to->past + h * past, from->past, (size_t)from->histories * past * sizeof *to->past);
    memcpy(to->action + n * action, from->action, m * action * sizeof *to->action);
    memcpy(to->config + n * config, from->config, m * config * sizeof *to->config);
    if (from->spread) {
        memcpy(to->spread + n * spread, from->spread, m * spread * sizeof *to->spread);
        return;
    }
    for (int i = 0; i < from->count; i++)
        to->after[count + i] = from->after[i] < 0 ? -1 : from->after[i] + first_scene;
    memcpy(to->chi + n * chi, from->chi, m * chi * sizeof *to->chi);
    memcpy(to->rare + n, from->rare, m);
}

firm_status records_append(const env_spec* spec, const records* more, int64_t first_scene,
                           records* to, firm_error* err) {
    records sum;
    CHECK(!to->count || !to->spread == !more->spread, "imagined records among others");
    if (more->count > INT32_MAX - to->count)
        return FAIL(err, FIRM_E_VALUE, "%d records and %d more are too many; add fewer", to->count,
                    more->count);
    TRY(records_alloc(spec, to->count + more->count, to->histories + more->histories,
                      more->spread != NULL, &sum, err));
    if (to->count) put_behind(spec, to, 0, 0, 0, &sum);
    put_behind(spec, more, first_scene, to->count, to->histories, &sum);
    records_free(to);
    *to = sum;
    return FIRM_OK;
}

// ---- pairs --------------------------------------------------------------------------------------

static firm_status pairs_alloc(const env_spec* spec, int count, pairs* p, firm_error* err) {
    size_t n = (size_t)count;
    *p = (pairs){.count = count};
    p->scene = mem_calloc(n, 2 * sizeof *p->scene);
    p->config = mem_calloc(n, 2 * (size_t)spec->task.config_dim * sizeof *p->config);
    p->chi = mem_calloc(n, (size_t)spec->task.chi_dim * sizeof *p->chi);
    p->rare = mem_calloc(n, 1);
    if (p->scene && p->config && p->chi && p->rare) return FIRM_OK;
    pairs_free(p);
    return FAIL(err, FIRM_E_MEMORY, "no memory for %d pairs of frames; set train.frame_pool",
                count);
}

void pairs_free(pairs* p) {
    mem_free(p->scene);
    mem_free(p->config);
    mem_free(p->chi);
    mem_free(p->rare);
    *p = (pairs){0};
}

// The moments after `now` and `then` controls of f; one below 0 lies before its row.
static void set_pair(const future* f, int now, int then, pairs* p, int at) {
    const env_spec* spec = f->s->e->spec;
    const double *state = future_state(f, now), *before = future_state(f, now - 1);
    p->scene[2 * at] = future_scene(f, now);
    p->scene[2 * at + 1] = future_scene(f, then);
    env_config(spec, state, p->config + (size_t)(2 * at) * (size_t)spec->task.config_dim);
    env_config(spec, future_state(f, then),
               p->config + (size_t)(2 * at + 1) * (size_t)spec->task.config_dim);
    env_chi(spec, state, before, future_state(f, now - spec->task.controls),
            p->chi + (size_t)at * (size_t)spec->task.chi_dim);
    p->rare[at] = (uint8_t)env_rare(spec, state, before);
}

// Nothing can be learned from a frame about what it does not show.
static void drop_hidden(const env_spec* spec, pairs* p) {
    int kept = 0;
    size_t two = 2 * (size_t)spec->task.config_dim, chi = (size_t)spec->task.chi_dim;
    for (int i = 0; i < p->count && spec->task.ranges; i++) {
        const float* c = p->config + (size_t)i * two;
        if (!task_is_visible(&spec->task, c) ||
            !task_is_visible(&spec->task, c + spec->task.config_dim))
            continue;
        memmove(p->config + (size_t)kept * two, c, two * sizeof *c);
        memmove(p->scene + 2 * kept, p->scene + 2 * i, 2 * sizeof *p->scene);
        memmove(p->chi + (size_t)kept * chi, p->chi + (size_t)i * chi, chi * sizeof *p->chi);
        p->rare[kept++] = p->rare[i];
    }
    if (spec->task.ranges) p->count = kept;
}

static void set_row_pair(const scenes* s, pairs* p, int at, int64_t row, int lag) {
    future f = {s, row, episode_start(s->e, row), 0, -1};
    set_pair(&f, 0, -lag, p, at);
}

firm_status pairs_of_rows(const scenes* s, const data_split* split, int count, int lag, pairs* p,
                          firm_error* err) {
    const episodes* e = s->e;
    if (count > 0) {
        int64_t* rows;
        TRY(data_segments(e, split->train, split->train_count, 1, 0, count, 0, 2, &rows, err));
        firm_status st = pairs_alloc(e->spec, count, p, err);
        for (int i = 0; i < count && st == FIRM_OK; i++) set_row_pair(s, p, i, rows[i], lag);
        mem_free(rows);
        if (st == FIRM_OK) drop_hidden(e->spec, p);
        return st;
    }
    int64_t total = 0;
    for (int i = 0; i < split->train_count; i++) total += e->length[split->train[i]] - 1;
    if (total > INT32_MAX) total = INT32_MAX;
    TRY(pairs_alloc(e->spec, (int)total, p, err));
    int at = 0;
    for (int i = 0; i < split->train_count; i++)
        for (int t = 1; t < e->length[split->train[i]] && at < p->count; t++)
            set_row_pair(s, p, at++, e->offset[split->train[i]] + t, lag);
    drop_hidden(e->spec, p);
    return FIRM_OK;
}

firm_status pairs_of_branches(const scenes* s, int which, int count, int lag, pairs* p,
                              firm_error* err) {
    const branches* b = s->b[which];
    const int span = task_span(&b->spec->task);
    int total = b->anchors * b->per_anchor * span, drawn = count > 0;
    if (count == 0 || count > total) count = total;
    int* deck = mem_alloc((size_t)total * sizeof *deck);
    if (!deck) return FAIL(err, FIRM_E_MEMORY, "no memory to draw from %d states", total);
    for (int i = 0; i < total; i++) deck[i] = i;
    rng r = rng_start(0, RNG_STREAM(RNG_SEGMENT, 3 + which));
    if (drawn) rng_shuffle(&r, deck, total);
    firm_status st = pairs_alloc(s->e->spec, count, p, err);
    for (int i = 0; i < count && st == FIRM_OK; i++) {
        int branch = deck[i] / span, control = deck[i] % span + 1;
        int64_t row = b->row[branch / b->per_anchor];
        future f = {s, row, episode_start(s->e, row), which, branch};
        set_pair(&f, control, control > lag ? control - lag : 0, p, i);
    }
    mem_free(deck);
    if (st == FIRM_OK) drop_hidden(s->e->spec, p);
    return st;
}

firm_status pairs_of_records(const scenes* s, const records* r, pairs* p, firm_error* err) {
    TRY(pairs_alloc(s->e->spec, r->histories, p, err));
    for (int i = 0; i < r->histories; i++)
        set_row_pair(s, p, i, r->seen[(i + 1) * RECORD_FRAMES - 1], 1);
    return FIRM_OK;
}
