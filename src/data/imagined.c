// imagined.c - see imagined.h. A search depends on the seed and its own number alone.
#include "data/imagined.h"

#include <math.h>
#include <string.h>

#include "core/log.h"
#include "core/mem.h"

// A history of the pack that a search can start from.
typedef struct moment {
    const records* of;
    int history;
    int first, count;  // its records
} moment;

typedef struct imagine_worker {
    env* painter;  // NULL: the pack has pictures
    uint8_t* rgb[FIRM_HISTORY];
} imagine_worker;

typedef struct imagine_work {
    const data_imaginer* by;
    const pack* from;
    imagined_options opt;
    int per;  // records of a search
    moment* moment;
    int moments;
    int* turn;  // (moments) the order in which they are searched from
    imagine_worker* worker;
    int workers, first;  // the search that the pool's item 0 stands for
    records* out;
    uint8_t* made;        // (records)
    firm_status* status;  // (searches)
} imagine_work;

// ---- moments ------------------------------------------------------------------------------------

static int has_frames(const records* r, int history) {
    for (int f = 0; f < RECORD_FRAMES; f++)
        if (r->seen[history * RECORD_FRAMES + f] < 0) return 0;
    return 1;
}

// The records of a history follow each other.
static void add_moments(imagine_work* w, const records* r) {
    for (int i = 0, end; i < r->count; i = end) {
        for (end = i + 1; end < r->count && r->history[end] == r->history[i];) end++;
        if (has_frames(r, r->history[i]))
            w->moment[w->moments++] = (moment){r, r->history[i], i, end - i};
    }
}

static firm_status find_moments(imagine_work* w, firm_error* err) {
    const records *f = &w->from->set[PACK_F], *s = &w->from->set[PACK_S];
    const size_t most = (size_t)f->histories + (size_t)s->histories;
    w->moment = mem_alloc((most + 1) * sizeof *w->moment);
    w->turn = mem_alloc((most + 1) * sizeof *w->turn);
    if (!w->moment || !w->turn) return FAIL(err, FIRM_E_MEMORY, "no memory for %zu moments", most);
    add_moments(w, f);
    add_moments(w, s);
    if (w->moments == 0)
        return FAIL(err, FIRM_E_VALUE,
                    "the pack has no frames of recorded histories; make it again with stages that "
                    "have source F or S");
    for (int i = 0; i < w->moments; i++) w->turn[i] = i;
    rng g = rng_start(w->opt.seed, RNG_STREAM(RNG_ANCHOR, 2));
    rng_shuffle(&g, w->turn, w->moments);
    return FIRM_OK;
}

// What a record of the moment ends with.
static const float* end_of(const imagine_work* w, const moment* m, rng* g) {
    const task_typed* task = &w->from->spec->task;
    int record = m->first + rng_below(g, (uint32_t)m->count);
    return m->of->config + ((int64_t)(record + 1) * task_points(task) - 1) * task->config_dim;
}

// ---- one search ---------------------------------------------------------------------------------

static firm_status look(imagine_work* w, int worker, int search, const moment* m) {
    imagine_worker* k = &w->worker[worker];
    const data_imaginer* by = &w->by[worker];
    const size_t past = (size_t)((FIRM_HISTORY - 1) * w->from->spec->task.action_dim);
    const int64_t* seen = m->of->seen + m->history * RECORD_FRAMES;
    const float* actions = m->of->past + (size_t)m->history * past;
    for (int f = 0; f < FIRM_HISTORY; f++) TRY(pack_frame(w->from, k->painter, seen[f], k->rgb[f]));
    memcpy(w->out->seen + (size_t)search * RECORD_FRAMES, seen, RECORD_FRAMES * sizeof *seen);
    memcpy(w->out->past + (size_t)search * past, actions, past * sizeof *actions);
    return by->see(by->ctx, w->opt.seed + (uint64_t)search, k->rgb, actions);
}

static int finite_all(const float* x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return 0;
    return 1;
}

static firm_status expect(imagine_work* w, int worker, int search) {
    const task_typed* task = &w->from->spec->task;
    const data_imaginer* by = &w->by[worker];
    const size_t at = (size_t)search * (size_t)w->per,
                 action = (size_t)(task_span(task) * task->action_dim),
                 path = (size_t)(task_points(task) * task->config_dim),
                 spread = (size_t)task->horizon;
    const records* out = w->out;
    TRY(by->expect(by->ctx, w->per, out->action + at * action, out->config + at * path,
                   out->spread + at * spread));
    for (size_t i = at; i < at + (size_t)w->per; i++) {
        out->history[i] = search;
        w->made[i] = w->made[i] && finite_all(out->action + i * action, action) &&
                     finite_all(out->config + i * path, path) &&
                     finite_all(out->spread + i * spread, spread);
    }
    return FIRM_OK;
}

static firm_status search_one(imagine_work* w, int worker, int search) {
    const task_typed* task = &w->from->spec->task;
    const data_imaginer* by = &w->by[worker];
    const size_t at = (size_t)search * (size_t)w->per;
    rng g = rng_start(w->opt.seed, RNG_STREAM(RNG_BRANCH, search));
    const moment* m = &w->moment[w->turn[search % w->moments]];
    const moment* other = &w->moment[rng_below(&g, (uint32_t)w->moments)];
    TRY(look(w, worker, search, m));
    TRY(by->search(by->ctx, end_of(w, search % 2 ? other : m, &g), w->opt.keep,
                   w->out->action + at * (size_t)(task_span(task) * task->action_dim),
                   w->made + at));
    return expect(w, worker, search);
}

static void search_item(void* arg, int item, int worker) {
    imagine_work* w = arg;
    w->status[w->first + item] = search_one(w, worker, w->first + item);
}

// ---- all of them --------------------------------------------------------------------------------

static void close_work(imagine_work* w) {
    for (int i = 0; w->worker && i < w->workers; i++) {
        env_free(w->worker[i].painter);
        for (int f = 0; f < FIRM_HISTORY; f++) mem_free(w->worker[i].rgb[f]);
    }
    mem_free(w->worker);
    mem_free(w->moment);
    mem_free(w->turn);
    mem_free(w->made);
    mem_free(w->status);
}

static firm_status open_worker(const imagine_work* w, imagine_worker* k, firm_error* err) {
    const size_t bytes = task_frame_bytes(&w->from->spec->task);
    for (int f = 0; f < FIRM_HISTORY; f++)
        if (!(k->rgb[f] = mem_alloc(bytes)))
            return FAIL(err, FIRM_E_MEMORY, "no memory for frames");
    if (w->from->picture) return FIRM_OK;
    TRY(env_create(w->from->spec, &k->painter, err));
    return env_render_ready(&k->painter, 1, err);
}

static firm_status open_work(imagine_work* w, firm_error* err) {
    const int64_t n = (int64_t)w->opt.searches * w->per;
    TRY(find_moments(w, err));
    if (n > INT32_MAX / task_points(&w->from->spec->task))
        return FAIL(err, FIRM_E_VALUE, "%d searches with %d records each are too many; give fewer",
                    w->opt.searches, w->per);
    TRY(records_alloc(w->from->spec, (int)n, w->opt.searches, 1, w->out, err));
    w->made = mem_calloc((size_t)n, 1);
    w->status = mem_calloc((size_t)w->opt.searches, sizeof *w->status);
    w->worker = mem_calloc((size_t)w->workers, sizeof *w->worker);
    if (!w->made || !w->status || !w->worker)
        return FAIL(err, FIRM_E_MEMORY, "no memory for %d searches", w->opt.searches);
    for (int i = 0; i < w->workers; i++) TRY(open_worker(w, &w->worker[i], err));
    return FIRM_OK;
}

static firm_status run_all(imagine_work* w, pool* p, firm_error* err) {
    enum { AT_ONCE = 256 };
    const int count = w->opt.searches;
    progress bar;
    progress_begin(&bar, "imagine", count);
    for (w->first = 0; w->first < count; w->first += AT_ONCE) {
        int n = count - w->first < AT_ONCE ? count - w->first : AT_ONCE;
        pool_for(p, n, search_item, w);
        for (int i = w->first; i < w->first + n; i++)
            if (w->status[i] != FIRM_OK)
                return FAIL(err, w->status[i], "search %d could not be drawn or predicted", i);
        progress_step(&bar, w->first + n, "");
    }
    progress_end(&bar);
    return FIRM_OK;
}

// Records that could not be made are taken out, and histories without any.
static void drop_missing(imagine_work* w) {
    const task_typed* task = &w->from->spec->task;
    records* r = w->out;
    const size_t past = (size_t)((FIRM_HISTORY - 1) * task->action_dim),
                 action = (size_t)(task_span(task) * task->action_dim),
                 path = (size_t)(task_points(task) * task->config_dim),
                 spread = (size_t)task->horizon;
    size_t kept = 0, histories = 0;
    int last = -1;  // the search of the record before
    for (size_t i = 0; i < (size_t)r->count; i++) {
        if (!w->made[i]) continue;
        if (r->history[i] != last) {
            const size_t history = (size_t)(last = r->history[i]);
            memmove(r->seen + histories * RECORD_FRAMES, r->seen + history * RECORD_FRAMES,
                    RECORD_FRAMES * sizeof *r->seen);
            memmove(r->past + histories * past, r->past + history * past, past * sizeof *r->past);
            histories++;
        }
        r->history[kept] = (int)histories - 1;
        memmove(r->action + kept * action, r->action + i * action, action * sizeof *r->action);
        memmove(r->config + kept * path, r->config + i * path, path * sizeof *r->config);
        memmove(r->spread + kept * spread, r->spread + i * spread, spread * sizeof *r->spread);
        kept++;
    }
    r->count = (int)kept;
    r->histories = (int)histories;
}

static firm_status check(const data_imaginer* by, const imagined_options* opt, firm_error* err) {
    if (opt->searches < 1 || opt->keep < 2 || opt->keep > by->candidates)
        return FAIL(
            err, FIRM_E_VALUE,
            "%d searches of %d candidates, %d kept of an iteration: give at least 1 search, "
            "keep 2, and no more than there are",
            opt->searches, by->candidates, opt->keep);
    return FIRM_OK;
}

firm_status imagined_make(const data_imaginer* by, const pack* from, const imagined_options* opt,
                          pool* p, records* out, firm_error* err) {
    imagine_work w = {.by = by,
                      .from = from,
                      .opt = *opt,
                      .per = by->iterations * opt->keep + 1,
                      .workers = pool_threads(p),
                      .out = out};
    *out = (records){0};
    TRY(check(by, opt, err));
    firm_status st = open_work(&w, err);
    if (st == FIRM_OK) st = run_all(&w, p, err);
    if (st == FIRM_OK) drop_missing(&w);
    if (st == FIRM_OK && out->count == 0)
        st = FAIL(err, FIRM_E_VALUE, "the model predicts nothing that is finite");
    close_work(&w);
    if (st != FIRM_OK) records_free(out);
    return st;
}
